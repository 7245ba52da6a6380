/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What bindgen reads for src/abi.rs: the user interface of the driver.
 */
#include "../../include/uapi/linux/weft.h"

/* bindgen does not see through _IO(). */
#define WEFT_CONST(name) const __u32 IOCTL_##name = name

WEFT_CONST(WEFT_PORT_INFO);
WEFT_CONST(WEFT_LINK_INFO);
WEFT_CONST(WEFT_CHAN_LISTEN);
WEFT_CONST(WEFT_CHAN_CONNECT);
WEFT_CONST(WEFT_CHAN_ACCEPT);
WEFT_CONST(WEFT_CHAN_INFO);
WEFT_CONST(WEFT_CHAN_KICK);
