/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: faults, traced and adversarial mode: the hooks, and what the
 * fabric wants.
 */
#ifndef WEFT_MODE_H
#define WEFT_MODE_H

#include "weft_hook.h"
#include "weft_port.h"

/* weft_fault.c */
extern const WeftHooks weft_fault_hooks;
bool weft_fault_message(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                        Error **errp);
void weft_fault_clear(WeftPort *ep);
void weft_fault_poisoned(WeftPort *s, unsigned link, uint64_t offset);

/* weft_trace.c */
extern const WeftHooks weft_trace_hooks;
void weft_trace_wanted(WeftPort *ep, bool traced);
bool weft_trace_message(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                        Error **errp);
void weft_trace_burst(WeftPort *s, int via, uint64_t tlps, uint64_t bytes,
                      bool write);

/* weft_adversary.c */
extern const WeftHooks weft_adversary_hooks;
bool weft_adversary_check(WeftPort *s, Error **errp);
void weft_adversary_wanted(WeftPort *ep, bool adversarial, uint64_t seed);
bool weft_adversary_message(WeftPort *ep, const struct weft_fab_msg *m,
                            int *fds, Error **errp);
uint32_t weft_adversary_below(WeftPort *s, uint32_t limit);

/* weft_posted.c */
extern const WeftHooks weft_posted_hooks;

/* weft_late.c */
extern const WeftHooks weft_late_hooks;

#endif /* WEFT_MODE_H */
