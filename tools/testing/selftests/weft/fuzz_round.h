/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One round of fuzzing: what a seed makes of all that can be done with /dev/weftN.
 *
 * What each step of a thread begins to draw from follows from the seed, and from nothing
 * that the kernel answers: an object is chosen by its place in a table, not by what stands
 * there. With one thread the same seed then does the same; with more, each thread does. That
 * is otherwise in a guided round, which also draws from arguments that reached something new.
 */
#ifndef WEFT_FUZZ_ROUND_H
#define WEFT_FUZZ_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>

#include "fuzz_cover.h"
#include "fuzz_machine.h"

#define FZ_FILES	8
/* The last ones are those that mostly use functions of endpoints, if there are any. */
#define FZ_USERS	2
#define FZ_KEPT		3		/* objects of a kind that a file remembers */
#define FZ_MEM		0x100000UL	/* memory that is registered, and sent */
#define FZ_LIST		0x4000UL	/* memory for what a call has besides its structure */
#define FZ_CALLS	FC_KINDS	/* more than there are kinds of calls */

/* The first of these belong to any file that has objects. */
enum fz_kind { FZ_PD, FZ_MR, FZ_MW, FZ_CQ, FZ_SRQ, FZ_QP, FZ_AREA, FZ_KINDS };

/* Calls of a kind, of all processes and threads. */
struct fz_count {
	uint64_t made, succeeded;
};

/* What the kernel said of an object when it was made. It may be gone. */
struct fz_object {
	uint32_t handle;
	uint32_t number;		/* STag or QPN */
	uint64_t offset, bytes;		/* to be mapped */
	uint64_t kick_page, kick;	/* likewise, or 0 */
	uint32_t kick_value, kick_bit;
	uint32_t at[2], stride[2];	/* send and receive queue */
	uint32_t entries[2];
};

struct fz_file {
	pthread_mutex_t lock;
	int fd;				/* -1: closed */
	unsigned int port;
	struct fz_object kept[FZ_KINDS][FZ_KEPT];
};

struct fz_rng {
	uint64_t state;
};

struct fz_shared {
	struct fz_file files[FZ_FILES];
	uint8_t *mem;			/* FZ_MEM bytes */
	int event_fd;
	const struct fz_machine *machine;
	struct fz_count *counts;	/* FZ_CALLS of them, in memory that processes share */
	struct fc_cover *cover;		/* NULL: the kernel does not tell what is reached */
	bool is_guided;			/* by it: kept arguments are used again */
	/* Of a queue pair that is not to be disturbed: it is not named as a peer. */
	const uint32_t *spared;
	unsigned int spared_count;
};

/* What one thread has. */
#define FZ_MAPS	8

struct fz_map {
	uint8_t *at;			/* NULL: none */
	size_t bytes;
	enum fz_kind kind;
	struct fz_object object;
};

struct fz_thread {
	struct fz_rng rng;
	struct fz_shared *shared;
	struct fz_map maps[FZ_MAPS];
	/* Two pages to read and write, then one that is not there, and one to read only. */
	uint8_t *arg;
	const uint8_t *read_only;
	uint8_t *list;			/* FZ_LIST bytes */
	uint64_t *trace;		/* of fc_trace(), or NULL */
};

/* Draws. */
uint64_t fz_next(struct fz_rng *r);
/* 0 to @n - 1. */
uint32_t fz_below(struct fz_rng *r, uint32_t n);
/* True once in @n times. */
bool fz_once_in(struct fz_rng *r, uint32_t n);
/* A number of the kind that breaks programs. */
uint64_t fz_number(struct fz_rng *r);

/* The table of files. */
/* Opens @f anew; what it was is closed. It has no objects then. */
void fz_open(struct fz_file *f, unsigned int port, int flags);
int fz_fd(struct fz_file *f);
/* In a child: other threads of its parent may have held the locks. */
void fz_unlock(struct fz_shared *s);
struct fz_object fz_get(struct fz_file *f, enum fz_kind kind, uint32_t place);
void fz_keep(struct fz_file *f, enum fz_kind kind, uint32_t place,
	     const struct fz_object *object);
/* Any file of the table, and any object that one has told of. */
struct fz_file *fz_any_file(struct fz_thread *t);
struct fz_object fz_any(struct fz_thread *t, struct fz_file *f, enum fz_kind kind);

/* One that uses a function, mostly. */
struct fz_file *fz_user(struct fz_thread *t);

/* The signals that wake this thread wait meanwhile: what takes its time can end. */
void fz_calm(bool calm);

/*
 * Does what touches mappings. It ends where a page is missing: threads unmap what others have
 * mapped in holes of theirs.
 */
void fz_touch(struct fz_thread *t, void (*what)(struct fz_thread *t, void *arg), void *arg);

/* All of it. Does not return while anything goes on; called in a process of its own. */
struct fz_round {
	uint64_t seed;
	unsigned int steps, threads;
	bool is_guided;			/* only if there is @cover */
};

void fz_round(const struct fz_round *round, const struct fz_machine *machine,
	      struct fz_count *counts, struct fc_cover *cover, const uint32_t *spared,
	      unsigned int spared_count);

#endif
