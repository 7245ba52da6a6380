/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads, besides what the kernel crate has.
 */
#include <linux/weft.h>
#include "weft_regs.h"
#include "shim.h"
#include "weft_trace.h"

/* bindgen does not see through _IO(). */
#define WEFT_CONST(name) const __u32 WEFT_CONST_HELPER_##name = name

WEFT_CONST(WEFT_PORT_INFO);
WEFT_CONST(WEFT_LINK_INFO);
WEFT_CONST(WEFT_CHAN_LISTEN);
WEFT_CONST(WEFT_CHAN_CONNECT);
WEFT_CONST(WEFT_CHAN_ACCEPT);
WEFT_CONST(WEFT_CHAN_INFO);
WEFT_CONST(WEFT_CHAN_KICK);
