/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interfaces of the network, as "ip link" makes, raises and removes them. Each returns 0 or a
 * negative errno.
 */
#ifndef WEFT_RTNL_H
#define WEFT_RTNL_H

#include <stdbool.h>

/* Of the type "weft", of the port that /dev/@port is of. */
long rtnl_add(const char *name, const char *port);
long rtnl_raise(const char *name);
long rtnl_remove(const char *name);

#endif
