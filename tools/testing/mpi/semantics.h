/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of semantics share: ranks, how a test says that something is wrong, and bytes that
 * tell where they come from.
 */
#ifndef SEMANTICS_H
#define SEMANTICS_H

#include <mpi.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

/* A message up to this size is checked byte by byte everywhere. */
#define LONGEST 70000

struct test {
	const char *name;
	/* Gets a communicator of its own, with all ranks. */
	void (*run)(MPI_Comm comm);
};

/* Each ends with an entry without a name. */
extern const struct test matching_tests[], message_tests[], type_tests[], communicator_tests[],
	collective_tests[], window_tests[];

extern int rank, size;
/* How often what is done many times is done: 1, or more in long runs. */
extern int times;
/* Whether all of it is to be as little as shows anything, on slow machines. */
extern int brief;
/* What MPI_Init_thread() has granted. */
extern int threads;

/* Of the test that runs: what has failed first at this rank, and why there is nothing to test. */
extern char failure[240], reason[240];
extern atomic_int failures;

#define fail(...)                                                        \
	do {                                                             \
		if (!atomic_fetch_add(&failures, 1))                     \
			snprintf(failure, sizeof(failure), __VA_ARGS__); \
	} while (0)

/* Said by every rank. */
#define skip(...) snprintf(reason, sizeof(reason), __VA_ARGS__)

#define EXPECT(condition, ...)             \
	do {                               \
		if (!(condition))          \
			fail(__VA_ARGS__); \
	} while (0)

void failed_call(const char *call, int error);
#define MUST(call) must(#call, call)

static inline void must(const char *call, int error)
{
	if (error != MPI_SUCCESS)
		failed_call(call, error);
}

/* The bytes of a message: they depend on the sender, the number of the message and the place. */
void fill(void *buffer, size_t bytes, int from, int number);
/* Whether they are these. */
int same(const void *buffer, size_t bytes, int from, int number);
/* Numbers at random, the same at each rank that begins with the same state. */
unsigned int next_random(unsigned int *state);

static inline int after(int by)
{
	return (rank + by) % size;
}

static inline int before(int by)
{
	return (rank + size - by % size) % size;
}

#endif
