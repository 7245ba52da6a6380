// SPDX-License-Identifier: GPL-2.0
/*
 * Windows: memory that other ranks put into, get from and calculate in, in each kind of epoch. A
 * transport that offers none makes tests that are skipped.
 */
#include "semantics.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 4096
#define ROUNDS ((brief ? 5 : 20) * times)

/* Memory of so many words at each rank, or NULL; the test is skipped then. */
static long *window(MPI_Comm comm, int words, MPI_Win *win)
{
	long *memory = NULL;
	int error, none;

	error = MPI_Win_allocate(words * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &memory,
				 win);
	none = error != MPI_SUCCESS;
	MUST(MPI_Allreduce(MPI_IN_PLACE, &none, 1, MPI_INT, MPI_SUM, comm));
	if (none) {
		char text[MPI_MAX_ERROR_STRING] = "";
		int length;

		MPI_Error_string(error, text, &length);
		skip("the transport offers no windows: MPI_Win_allocate: %s", text);
		return NULL;
	}
	MUST(MPI_Win_set_errhandler(*win, MPI_ERRORS_RETURN));
	return memory;
}

static long word(int of, int at, int round)
{
	return of * 1000000L + round * 10000L + at;
}

static void fences(MPI_Comm comm)
{
	long *out = malloc(WORDS * sizeof(*out)), *in = malloc(WORDS * sizeof(*in));
	MPI_Win win;
	long *memory = window(comm, WORDS, &win);

	for (int round = 0; memory && round < ROUNDS; round++) {
		int count = round % 4 ? 1 << round % 12 : WORDS;

		for (int at = 0; at < count; at++)
			out[at] = word(rank, at, round);
		memset(in, 0, WORDS * sizeof(*in));
		MUST(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
		MUST(MPI_Put(out, count, MPI_LONG, after(round), 0, count, MPI_LONG, win));
		MUST(MPI_Win_fence(0, win));
		for (int at = 0; at < count; at++)
			EXPECT(memory[at] == word(before(round), at, round),
			       "round %d: %ld was put at %d", round, memory[at], at);
		MUST(MPI_Get(in, count, MPI_LONG, after(1), 0, count, MPI_LONG, win));
		MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
		for (int at = 0; at < count; at++)
			EXPECT(in[at] == word((after(1) + size - round % size) % size, at, round),
			       "round %d: %ld was got at %d", round, in[at], at);
		MUST(MPI_Barrier(comm));
	}
	if (memory)
		MUST(MPI_Win_free(&win));
	free(in);
	free(out);
}

/* Two neighbours of each: one that it puts to, one that puts to it. */
static void started(MPI_Comm comm)
{
	MPI_Group all, to, from;
	MPI_Win win;
	long *memory = window(comm, WORDS, &win);
	int next = after(1), last = before(1);

	if (!memory)
		return;
	MUST(MPI_Comm_group(comm, &all));
	MUST(MPI_Group_incl(all, 1, &next, &to));
	MUST(MPI_Group_incl(all, 1, &last, &from));
	for (int round = 0; round < ROUNDS; round++) {
		long values[3] = { word(rank, 0, round), word(rank, 1, round),
				   word(rank, 2, round) };

		MUST(MPI_Win_post(from, 0, win));
		MUST(MPI_Win_start(to, 0, win));
		MUST(MPI_Put(values, 3, MPI_LONG, next, 10, 3, MPI_LONG, win));
		MUST(MPI_Win_complete(win));
		MUST(MPI_Win_wait(win));
		for (int at = 0; at < 3; at++)
			EXPECT(memory[10 + at] == word(last, at, round), "round %d: %ld was put",
			       round, memory[10 + at]);
	}
	MUST(MPI_Group_free(&from));
	MUST(MPI_Group_free(&to));
	MUST(MPI_Group_free(&all));
	MUST(MPI_Win_free(&win));
}

/* All count in the memory of rank 0, by each operation that is atomic, none waits for another. */
static void atomics(MPI_Comm comm)
{
	MPI_Win win;
	long *memory = window(comm, 4, &win), one = 1, old, seen = -1;

	if (!memory)
		return;
	memset(memory, 0, 4 * sizeof(*memory));
	MUST(MPI_Barrier(comm));
	MUST(MPI_Win_lock_all(0, win));
	for (int round = 0; round < ROUNDS; round++) {
		long was, want;

		MUST(MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win));
		MUST(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 1, MPI_SUM, win));
		MUST(MPI_Win_flush(0, win));
		EXPECT(old > seen, "a counter goes from %ld to %ld", seen, old);
		seen = old;
		MUST(MPI_Fetch_and_op(NULL, &was, MPI_LONG, 0, 2, MPI_NO_OP, win));
		MUST(MPI_Win_flush(0, win));
		do {
			old = was;
			want = old + 1;
			MUST(MPI_Compare_and_swap(&want, &old, &was, MPI_LONG, 0, 2, win));
			MUST(MPI_Win_flush(0, win));
		} while (was != old);
		MUST(MPI_Get_accumulate(&one, 1, MPI_LONG, &old, 1, MPI_LONG, 0, 3, 1, MPI_LONG,
					MPI_SUM, win));
		MUST(MPI_Win_flush(0, win));
	}
	MUST(MPI_Win_unlock_all(win));
	MUST(MPI_Barrier(comm));
	MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
	for (int at = 0; at < 4; at++) {
		long found;

		MUST(MPI_Fetch_and_op(NULL, &found, MPI_LONG, 0, at, MPI_NO_OP, win));
		MUST(MPI_Win_flush(0, win));
		EXPECT(found == (long)ROUNDS * size, "counter %d has %ld, not %ld", at, found,
		       (long)ROUNDS * size);
	}
	MUST(MPI_Win_unlock(0, win));
	MUST(MPI_Barrier(comm));
	MUST(MPI_Win_free(&win));
}

/* What is read and written under a lock is no other rank's meanwhile. */
static void locks(MPI_Comm comm)
{
	MPI_Win win;
	long *memory = window(comm, WORDS, &win), *values = malloc(WORDS * sizeof(*values)), first;
	int target = size - 1;

	if (memory) {
		memset(memory, 0, WORDS * sizeof(*memory));
		MUST(MPI_Barrier(comm));
		for (int round = 0; round < ROUNDS; round++) {
			MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
			MUST(MPI_Get(values, WORDS, MPI_LONG, target, 0, WORDS, MPI_LONG, win));
			MUST(MPI_Win_flush(target, win));
			first = values[0];
			for (int at = 0; at < WORDS; at++) {
				EXPECT(values[at] == first, "under a lock %ld stands beside %ld",
				       values[at], first);
				values[at]++;
			}
			/* Others have the time to come in between, if they can. */
			sched_yield();
			MUST(MPI_Put(values, WORDS, MPI_LONG, target, 0, WORDS, MPI_LONG, win));
			MUST(MPI_Win_unlock(target, win));
		}
		MUST(MPI_Barrier(comm));
		MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
		MUST(MPI_Get(values, 1, MPI_LONG, target, WORDS - 1, 1, MPI_LONG, win));
		MUST(MPI_Win_unlock(target, win));
		EXPECT(values[0] == (long)ROUNDS * size, "%ld rounds have been counted", values[0]);
		MUST(MPI_Barrier(comm));
		MUST(MPI_Win_free(&win));
	}
	free(values);
}

/* Into memory of the program's own, by types that do not lie in one piece. */
static void typed(MPI_Comm comm)
{
	enum { SIDE = 30 };
	long *matrix = malloc(SIDE * SIDE * sizeof(*matrix)), row[SIDE];
	MPI_Datatype column;
	MPI_Win win;
	int error, none;

	memset(matrix, 0xff, SIDE * SIDE * sizeof(*matrix));
	error = MPI_Win_create(matrix, SIDE * SIDE * sizeof(*matrix), sizeof(long), MPI_INFO_NULL,
			       comm, &win);
	none = error != MPI_SUCCESS;
	MUST(MPI_Allreduce(MPI_IN_PLACE, &none, 1, MPI_INT, MPI_SUM, comm));
	if (none) {
		skip("the transport offers no windows of memory that a program has");
		free(matrix);
		return;
	}
	for (int at = 0; at < SIDE; at++)
		row[at] = word(rank, at, 0);
	MUST(MPI_Type_vector(SIDE, 1, SIDE, MPI_LONG, &column));
	MUST(MPI_Type_commit(&column));
	MUST(MPI_Win_fence(0, win));
	MUST(MPI_Put(row, SIDE, MPI_LONG, after(1), 3, 1, column, win));
	MUST(MPI_Accumulate(row, SIDE, MPI_LONG, after(1), 5, 1, column, MPI_REPLACE, win));
	MUST(MPI_Win_fence(0, win));
	for (int at = 0; at < SIDE * SIDE; at++) {
		int in = at % SIDE == 3 || at % SIDE == 5;
		long want = in ? word(before(1), at / SIDE, 0) : -1;

		EXPECT(matrix[at] == want, "place %d of a matrix has %ld, not %ld", at, matrix[at],
		       want);
	}
	MUST(MPI_Win_free(&win));
	MUST(MPI_Type_free(&column));
	free(matrix);
}

/* Memory that comes to a window when that is there, by addresses, and is another one each time. */
static void dynamic(MPI_Comm comm)
{
	MPI_Aint *places = malloc(size * sizeof(*places)), place;
	MPI_Win win;
	int error, none;

	error = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win);
	none = error != MPI_SUCCESS;
	MUST(MPI_Allreduce(MPI_IN_PLACE, &none, 1, MPI_INT, MPI_SUM, comm));
	if (none) {
		skip("the transport offers no windows that memory is attached to");
		free(places);
		return;
	}
	MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
	for (int round = 0; round < 3; round++) {
		long *memory = calloc(WORDS, sizeof(*memory)), values[4] = { 0 }, one = 1;

		for (int at = 0; at < 4; at++)
			values[at] = word(rank, at, round);
		MUST(MPI_Win_attach(win, memory, WORDS * sizeof(*memory)));
		MUST(MPI_Get_address(memory + 10, &place));
		MUST(MPI_Allgather(&place, 1, MPI_AINT, places, 1, MPI_AINT, comm));
		MUST(MPI_Win_lock_all(0, win));
		MUST(MPI_Put(values, 4, MPI_LONG, after(1), places[after(1)], 4, MPI_LONG, win));
		MUST(MPI_Accumulate(&one, 1, MPI_LONG, 0, places[0] + 4 * (MPI_Aint)sizeof(one),
				    1, MPI_LONG, MPI_SUM, win));
		MUST(MPI_Win_flush_all(win));
		MUST(MPI_Get(values, 4, MPI_LONG, after(1), places[after(1)], 4, MPI_LONG, win));
		MUST(MPI_Win_unlock_all(win));
		MUST(MPI_Barrier(comm));
		MUST(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
		for (int at = 0; at < 4; at++) {
			EXPECT(memory[10 + at] == word(before(1), at, round),
			       "round %d: %ld was put at %d", round, memory[10 + at], at);
			EXPECT(values[at] == word(rank, at, round), "round %d: %ld was got at %d",
			       round, values[at], at);
		}
		EXPECT(memory[14] == (rank ? 0 : size), "round %d: the sum is %ld", round,
		       memory[14]);
		EXPECT(!memory[9] && !memory[15], "round %d: %ld and %ld are beside", round,
		       memory[9], memory[15]);
		MUST(MPI_Win_unlock(rank, win));
		MUST(MPI_Barrier(comm));
		MUST(MPI_Win_detach(win, memory));
		free(memory);
	}
	MUST(MPI_Win_free(&win));
	free(places);
}

const struct test window_tests[] = {
	{ "windows: put and get between fences", fences },
	{ "windows: put between start and complete, post and wait", started },
	{ "windows: counters by atomic operations", atomics },
	{ "windows: locks keep others out", locks },
	{ "windows: columns of a matrix", typed },
	{ "windows: memory that is attached and detached", dynamic },
	{ NULL, NULL },
};
