// SPDX-License-Identifier: GPL-2.0
/*
 * Collectives, with results that are computed beforehand: of few and of many elements, waited for
 * and several under way at once.
 */
#include "semantics.h"

#include <stdlib.h>
#include <string.h>

static const int lengths[] = { 1, 7, 1000, 30000 };

#define LENGTHS ((int)(sizeof(lengths) / sizeof(*lengths)) - brief)

/* An element of what a rank contributes. */
static long given(int from, int at)
{
	return (from + 1) * 1000L + at * 3L;
}

static long *contribution(int count)
{
	long *values = malloc((count + 1) * sizeof(*values));

	for (int at = 0; at < count; at++)
		values[at] = given(rank, at);
	return values;
}

/* Of the first `ranks` of them. */
static long sum(int ranks, int at)
{
	long found = 0;

	for (int from = 0; from < ranks; from++)
		found += given(from, at);
	return found;
}

static void broadcast(MPI_Comm comm)
{
	for (int n = 0; n < LENGTHS; n++) {
		for (int root = 0; root < size; root++) {
			long *values = contribution(lengths[n]);

			MUST(MPI_Bcast(values, lengths[n], MPI_LONG, root, comm));
			for (int at = 0; at < lengths[n]; at++)
				EXPECT(values[at] == given(root, at),
				       "of rank %d came %ld at %d of %d", root, values[at], at,
				       lengths[n]);
			free(values);
		}
	}
}

/* Neither commutes nor is it the same from left and from right: 2x2 matrices, modulo a prime. */
static void multiply(void *left, void *into, int *count, MPI_Datatype *type)
{
	unsigned int *a = left, *b = into;

	(void)type;
	for (int n = 0; n < *count; n++, a += 4, b += 4) {
		unsigned int c[4];

		for (int at = 0; at < 4; at++)
			c[at] = (a[at & 2] * b[at & 1] + a[(at & 2) + 1] * b[2 + (at & 1)]) % 10007;
		memcpy(b, c, sizeof(c));
	}
}

static void factor(unsigned int *matrix, int of)
{
	for (int at = 0; at < 4; at++)
		matrix[at] = (of * 7 + at * 3 + 1) % 10007;
}

static void reductions(MPI_Comm comm)
{
	unsigned int mine[4], all[4], want[4];
	struct {
		double value;
		int where;
	} here, least;
	MPI_Datatype matrix;
	MPI_Op product;

	for (int n = 0; n < LENGTHS; n++) {
		long *values = contribution(lengths[n]), *found = contribution(lengths[n]);

		MUST(MPI_Allreduce(values, found, lengths[n], MPI_LONG, MPI_SUM, comm));
		for (int at = 0; at < lengths[n]; at++)
			EXPECT(found[at] == sum(size, at), "a sum is %ld at %d", found[at], at);
		MUST(MPI_Reduce(values, found, lengths[n], MPI_LONG, MPI_MAX, n % size, comm));
		for (int at = 0; at < lengths[n] && rank == n % size; at++)
			EXPECT(found[at] == given(size - 1, at), "a maximum is %ld at %d",
			       found[at], at);
		MUST(MPI_Scan(values, found, lengths[n], MPI_LONG, MPI_SUM, comm));
		for (int at = 0; at < lengths[n]; at++)
			EXPECT(found[at] == sum(rank + 1, at), "a sum so far is %ld at %d",
			       found[at], at);
		MUST(MPI_Exscan(values, found, lengths[n], MPI_LONG, MPI_SUM, comm));
		for (int at = 0; at < lengths[n] && rank; at++)
			EXPECT(found[at] == sum(rank, at), "a sum before is %ld at %d", found[at],
			       at);
		free(found);
		free(values);
	}
	here.value = (rank * 5 + 3) % (size + 2);
	here.where = rank;
	MUST(MPI_Allreduce(&here, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, comm));
	for (int from = 0; from < size; from++) {
		double other = (from * 5 + 3) % (size + 2);

		EXPECT(least.value < other || (least.value == other && least.where <= from),
		       "the least is %f of rank %d", least.value, least.where);
	}
	/* In the order of ranks, whatever the algorithm. */
	MUST(MPI_Type_contiguous(4, MPI_UNSIGNED, &matrix));
	MUST(MPI_Type_commit(&matrix));
	MUST(MPI_Op_create(multiply, 0, &product));
	factor(mine, rank);
	MUST(MPI_Allreduce(mine, all, 1, matrix, product, comm));
	factor(want, size - 1);
	for (int from = size - 2; from >= 0; from--) {
		int one = 1;

		factor(mine, from);
		multiply(mine, want, &one, &matrix);
	}
	EXPECT(!memcmp(all, want, sizeof(all)), "a product begins with %u %u, not %u %u", all[0],
	       all[1], want[0], want[1]);
	MUST(MPI_Op_free(&product));
	MUST(MPI_Type_free(&matrix));
}

static void reduced_and_scattered(MPI_Comm comm)
{
	int *counts = malloc(size * sizeof(*counts)), total = 0, first = 0;
	long *values, *found;

	for (int to = 0; to < size; to++) {
		counts[to] = 5 * to;
		first += to < rank ? counts[to] : 0;
		total += counts[to];
	}
	values = contribution(total);
	found = calloc(total + 1, sizeof(*found));
	MUST(MPI_Reduce_scatter(values, found, counts, MPI_LONG, MPI_SUM, comm));
	for (int at = 0; at < counts[rank]; at++)
		EXPECT(found[at] == sum(size, first + at), "a part of a sum is %ld at %d",
		       found[at], at);
	free(values);
	values = contribution(10 * size);
	found = realloc(found, 10 * sizeof(*found));
	MUST(MPI_Reduce_scatter_block(values, found, 10, MPI_LONG, MPI_SUM, comm));
	for (int at = 0; at < 10; at++)
		EXPECT(found[at] == sum(size, 10 * rank + at), "a block of a sum is %ld",
		       found[at]);
	free(found);
	free(values);
	free(counts);
}

static void gathers(MPI_Comm comm)
{
	int *counts = malloc(size * sizeof(*counts)), *places = malloc(size * sizeof(*places));

	for (int n = 0; n < LENGTHS; n++) {
		int length = lengths[n], total = 0, root = (n + 1) % size;
		long *values = contribution(length + size), *all, *back;

		for (int from = 0; from < size; from++) {
			counts[from] = length + from;
			places[from] = total;
			total += counts[from];
		}
		all = calloc(total, sizeof(*all));
		back = calloc(length + size, sizeof(*back));
		MUST(MPI_Allgatherv(values, counts[rank], MPI_LONG, all, counts, places, MPI_LONG,
				    comm));
		for (int from = 0; from < size; from++) {
			for (int at = 0; at < counts[from]; at++)
				EXPECT(all[places[from] + at] == given(from, at),
				       "of rank %d was gathered %ld", from, all[places[from] + at]);
		}
		MUST(MPI_Scatterv(all, counts, places, MPI_LONG, back, counts[rank], MPI_LONG, root,
				  comm));
		for (int at = 0; at < counts[rank]; at++)
			EXPECT(back[at] == given(rank, at), "%ld was scattered", back[at]);
		memset(all, 0, total * sizeof(*all));
		MUST(MPI_Gather(values, length, MPI_LONG, all, length, MPI_LONG, root, comm));
		for (int at = 0; at < length * size && rank == root; at++)
			EXPECT(all[at] == given(at / length, at % length), "rank %d has %ld", root,
			       all[at]);
		MUST(MPI_Scatter(all, length, MPI_LONG, back, length, MPI_LONG, root, comm));
		for (int at = 0; at < length; at++)
			EXPECT(back[at] == given(rank, at), "%ld was scattered back", back[at]);
		free(back);
		free(all);
		free(values);
	}
	free(places);
	free(counts);
}

/* To each its own; of different lengths, too, some of them none. */
static void all_to_all(MPI_Comm comm)
{
	int *counts = malloc(4 * size * sizeof(*counts)), *places = counts + size;
	int *in = places + size, *from_places = in + size, total = 0, coming = 0;
	long *out, *got;

	for (int n = 0; n < LENGTHS - 1; n++) {
		int length = lengths[n];

		out = malloc(size * length * sizeof(*out));
		got = calloc(size * length, sizeof(*got));
		for (int at = 0; at < size * length; at++)
			out[at] = given(rank, at);
		MUST(MPI_Alltoall(out, length, MPI_LONG, got, length, MPI_LONG, comm));
		for (int at = 0; at < size * length; at++)
			EXPECT(got[at] == given(at / length, rank * length + at % length),
			       "of rank %d came %ld", at / length, got[at]);
		free(got);
		free(out);
	}
	for (int other = 0; other < size; other++) {
		counts[other] = (rank * 3 + other * 5) % 4 * 100;
		in[other] = (other * 3 + rank * 5) % 4 * 100;
		places[other] = total;
		from_places[other] = coming;
		total += counts[other];
		coming += in[other];
	}
	out = contribution(total);
	got = calloc(coming + 1, sizeof(*got));
	for (int to = 0; to < size; to++) {
		for (int at = 0; at < counts[to]; at++)
			out[places[to] + at] = given(rank, at) + to;
	}
	MUST(MPI_Alltoallv(out, counts, places, MPI_LONG, got, in, from_places, MPI_LONG, comm));
	for (int from = 0; from < size; from++) {
		for (int at = 0; at < in[from]; at++)
			EXPECT(got[from_places[from] + at] == given(from, at) + rank,
			       "of rank %d came %ld", from, got[from_places[from] + at]);
	}
	free(got);
	free(out);
	free(counts);
}

/* Several at once, beside messages, and waited for in another order. */
static void under_way(MPI_Comm comm)
{
	enum { LENGTH = 500, AT_ONCE = 6 };
	long *values = contribution(LENGTH * size), *found[AT_ONCE];
	MPI_Request requests[AT_ONCE], barrier;
	int token = rank, got = -1;

	for (int round = 0; round < 5 * times; round++) {
		for (int n = 0; n < AT_ONCE; n++) {
			found[n] = calloc(LENGTH * size, sizeof(long));
			if (n % 3 == 0)
				MUST(MPI_Iallreduce(values, found[n], LENGTH, MPI_LONG, MPI_SUM,
						    comm, &requests[n]));
			else if (n % 3 == 1)
				MUST(MPI_Ialltoall(values, LENGTH, MPI_LONG, found[n], LENGTH,
						   MPI_LONG, comm, &requests[n]));
			else
				MUST(MPI_Iallgather(values, LENGTH, MPI_LONG, found[n], LENGTH,
						    MPI_LONG, comm, &requests[n]));
		}
		MUST(MPI_Ibarrier(comm, &barrier));
		MUST(MPI_Sendrecv(&token, 1, MPI_INT, after(1), 1, &got, 1, MPI_INT, before(1), 1,
				  comm, MPI_STATUS_IGNORE));
		EXPECT(got == before(1), "beside collectives came %d", got);
		MUST(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
		for (int n = AT_ONCE - 1; n >= 0; n--) {
			MUST(MPI_Wait(&requests[n], MPI_STATUS_IGNORE));
			for (int at = 0; at < LENGTH * (n % 3 ? size : 1); at++) {
				int from = at / LENGTH, in = at % LENGTH;
				long want =
					n % 3 == 0 ?
						sum(size, at) :
						given(from, n % 3 == 1 ? rank * LENGTH + in : in);

				EXPECT(found[n][at] == want, "collective %d has %ld at %d, not %ld",
				       n, found[n][at], at, want);
			}
			free(found[n]);
		}
	}
	free(values);
}

/*
 * No rank leaves before the last one has come: what that one has sent before, and what has been
 * received since a synchronous send of it is done, is there.
 */
static void barriers(MPI_Comm comm)
{
	for (int late = 0; late < size; late++) {
		double begin;
		MPI_Request request = MPI_REQUEST_NULL;
		int token = -1, flag;

		if (rank != late)
			MUST(MPI_Irecv(&token, 1, MPI_INT, late, 1, comm, &request));
		MUST(MPI_Barrier(comm));
		begin = MPI_Wtime();
		while (rank == late && MPI_Wtime() < begin + 0.02)
			;
		for (int to = 0; rank == late && to < size; to++) {
			if (to != late)
				MUST(MPI_Ssend(&late, 1, MPI_INT, to, 1, comm));
		}
		MUST(MPI_Barrier(comm));
		if (rank == late)
			continue;
		MUST(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
		EXPECT(flag && token == late, "a barrier is left before rank %d has come", late);
		if (!flag)
			MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
	}
}

const struct test collective_tests[] = {
	{ "barriers", barriers },
	{ "a broadcast by each rank", broadcast },
	{ "sums, maxima, sums so far, and what does not commute", reductions },
	{ "sums of which each rank has a part", reduced_and_scattered },
	{ "gathered and scattered, in equal parts and not", gathers },
	{ "all to all, in equal parts and not", all_to_all },
	{ "several collectives at once, beside messages", under_way },
	{ NULL, NULL },
};
