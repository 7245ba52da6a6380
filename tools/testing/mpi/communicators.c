// SPDX-License-Identifier: GPL-2.0
/*
 * Communicators: the same ranks twice, the other way round, and two groups that talk to each other.
 */
#include "semantics.h"

/* Messages of one communicator are not those of another one, whatever their tags. */
static void communicators(MPI_Comm comm)
{
	int values[3], got[3] = { -1, -1, -1 }, odd, place, here, there;
	MPI_Comm comms[3] = { comm }, half, other;
	MPI_Request requests[6];

	MUST(MPI_Comm_dup(comm, &comms[1]));
	/* The same ranks the other way round. */
	MUST(MPI_Comm_split(comm, 0, size - rank, &comms[2]));
	for (int n = 0; n < 3; n++) {
		int me;

		MUST(MPI_Comm_rank(comms[n], &me));
		values[n] = 10 * rank + n;
		MUST(MPI_Irecv(&got[n], 1, MPI_INT, MPI_ANY_SOURCE, 1, comms[n], &requests[n]));
	}
	for (int n = 2; n >= 0; n--) {
		int to = n == 2 ? size - 1 - after(1) : after(1);

		MUST(MPI_Isend(&values[n], 1, MPI_INT, to, 1, comms[n], &requests[3 + n]));
	}
	MUST(MPI_Waitall(6, requests, MPI_STATUSES_IGNORE));
	for (int n = 0; n < 3; n++)
		EXPECT(got[n] == 10 * before(1) + n, "communicator %d has carried %d, not %d", n,
		       got[n], 10 * before(1) + n);
	MUST(MPI_Comm_free(&comms[1]));
	MUST(MPI_Comm_free(&comms[2]));
	if (size < 2)
		return;
	/* Even and odd ranks, and each group sends to the other one. */
	odd = rank % 2;
	MUST(MPI_Comm_split(comm, odd, rank, &half));
	MUST(MPI_Comm_rank(half, &place));
	MUST(MPI_Comm_size(half, &here));
	MUST(MPI_Intercomm_create(half, 0, comm, 1 - odd, 9, &other));
	MUST(MPI_Comm_remote_size(other, &there));
	values[0] = rank;
	MUST(MPI_Isend(values, 1, MPI_INT, place % there, 2, other, requests));
	for (int from = place; from < there; from += here) {
		MUST(MPI_Recv(got, 1, MPI_INT, from, 2, other, MPI_STATUS_IGNORE));
		EXPECT(got[0] == 2 * from + 1 - odd, "of rank %d of the other group came %d", from,
		       got[0]);
	}
	MUST(MPI_Wait(requests, MPI_STATUS_IGNORE));
	MUST(MPI_Comm_free(&other));
	MUST(MPI_Comm_free(&half));
}

const struct test communicator_tests[] = {
	{ "messages stay in their communicator", communicators },
	{ NULL, NULL },
};
