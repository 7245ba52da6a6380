/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What calls of a fuzzer reach in the kernel, as kcov tells, and arguments that reached what
 * no call had reached before. Both are shared by all threads and processes of the fuzzer.
 */
#ifndef WEFT_FUZZ_COVER_H
#define WEFT_FUZZ_COVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FC_KINDS	64		/* of calls */
#define FC_BYTES	512		/* of an argument */

struct fc_cover;

/* NULL: kcov is not to be had. Ends the program if memory is not. */
struct fc_cover *fc_begin(void);

/* Begins to note what this thread reaches; NULL if that cannot be done. Ends with the thread. */
uint64_t *fc_trace(void);
/* Forgets what was noted; @trace may be NULL. */
void fc_clear(uint64_t *trace);
/* True if anything noted was reached for the first time; @trace may be NULL. */
bool fc_is_new(struct fc_cover *c, const uint64_t *trace);

/* Keeps FC_BYTES bytes of an argument, in place of the oldest of its kind if there are many. */
void fc_keep(struct fc_cover *c, unsigned int kind, const void *arg);
/* Copies a kept argument of the kind, which @number chooses; false if there is none. */
bool fc_get(struct fc_cover *c, unsigned int kind, uint64_t number, void *arg);

/* Program counters that were reached, and arguments that are kept. */
uint32_t fc_reached(const struct fc_cover *c);
uint32_t fc_kept(const struct fc_cover *c);

#endif
