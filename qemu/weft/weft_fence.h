/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the fences of the guest's CPUs.
 */
#ifndef WEFT_FENCE_H
#define WEFT_FENCE_H

#include "system/fence.h"
#include "weft_port.h"

/* Whether a fence is for what @holder, a CPU, has stored. */
static inline bool weft_fence_is_for(const CPUState *holder,
                                     const CPUState *cpu, FenceOf of)
{
    return of == FENCE_OF_ALL || (holder == cpu) == (of == FENCE_OF_CPU);
}

/* A mode that needs to know of fences has been switched. */
void weft_fence_listen(WeftPort *s);

void weft_fence_init(WeftPort *s);
void weft_fence_exit(WeftPort *s);
void weft_fence_class_init(ObjectClass *class);

#endif /* WEFT_FENCE_H */
