/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Failing the n-th allocation of a task: fail-nth of the kernel's fault
 * injection (Documentation/fault-injection), narrowed to what modules ask for.
 */
#ifndef WEFT_INJECT_H
#define WEFT_INJECT_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the kernel can do that; if not, what it lacks. */
const char *inject_lacks(void);

/*
 * Counts only what is asked for below a function of a module: slab, pages and
 * copies from and to users. False if it cannot be had.
 */
bool inject_in_modules(void);

/* Everything as it was at boot. */
void inject_reset(void);

/* fail-nth of a task, by its number; a negative errno. */
int inject_open(pid_t task);

/* Has the task's @nth call fail from now on. */
bool inject_arm(int task, unsigned int nth);

/* No more of that. 1: it has failed, 0: it never came to that; a negative errno. */
int inject_disarm(int task);

/*
 * The threads, the kernel's too, with @comm in their name: their numbers in @found, which has room
 * for @max, in ascending order; returns how many there are.
 */
size_t inject_find(const char *comm, pid_t *found, size_t max);

#endif
