/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: RAM of a host, and apertures as pieces of it.
 */
#ifndef WEFT_APERTURE_H
#define WEFT_APERTURE_H

#include "weft_port.h"

/* weft_ram.c */
bool weft_ram_open(WeftRam *ram, int fd, Error **errp);
void weft_ram_close(WeftRam *ram);
void *weft_map_sealed(int fd, uint64_t least, uint64_t *size, Error **errp);

/* weft_aperture.c */
bool weft_aperture_append(WeftAperture *ap, uint64_t offset, uint64_t len,
                          unsigned limit);
void weft_aperture_close(WeftAperture *ap);
const WeftSegment *weft_aperture_find(const WeftAperture *ap, uint64_t pos);
uint64_t weft_aperture_bytes(const WeftAperture *ap);

#endif /* WEFT_APERTURE_H */
