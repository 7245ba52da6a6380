// SPDX-License-Identifier: GPL-2.0
/*
 * What a message carries, and when a send and a receive are done: sizes, modes of sending,
 * requests, threads.
 */
#include "semantics.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (brief ? 1 << 20 : 4 << 20)
#define ROUNDS ((brief ? 3 : 10) * times)
#define UPDATES ((brief ? 100 : 1000) * times)
/* Of these most are longer than what goes with an envelope. */
#define LONGEST_UPDATE 8192

static void one_size(MPI_Comm comm, int bytes, int to, int from)
{
	char *out = malloc(bytes + 1), *in = calloc(1, bytes + 1);
	MPI_Request request;
	MPI_Status status;
	int count;

	fill(out, bytes, rank, bytes);
	/* What lies behind is not written. */
	in[bytes] = 'b';
	MUST(MPI_Irecv(in, bytes, MPI_BYTE, from, 2, comm, &request));
	MUST(MPI_Send(out, bytes, MPI_BYTE, to, 2, comm));
	MUST(MPI_Wait(&request, &status));
	MPI_Get_count(&status, MPI_BYTE, &count);
	EXPECT(count == bytes, "of %d bytes %d came", bytes, count);
	EXPECT(same(in, bytes, from, bytes), "%d bytes are other ones", bytes);
	EXPECT(in[bytes] == 'b', "%d bytes, and something behind them", bytes);
	free(out);
	free(in);
}

static void all_sizes(MPI_Comm comm)
{
	one_size(comm, 0, after(1), before(1));
	for (int bytes = 1; bytes <= LARGE * times; bytes *= 2) {
		for (int by = -1; by <= 1; by++)
			one_size(comm, bytes + by, after(1), before(1));
	}
	/* To every other rank, this one included. */
	for (int by = 0; by < size; by++) {
		one_size(comm, 0, after(by), before(by));
		one_size(comm, 100, after(by), before(by));
		one_size(comm, LONGEST, after(by), before(by));
	}
}

/* A message as large as the largest, which nothing waits for when it is sent. */
static void large_unexpected(MPI_Comm comm)
{
	char *out = malloc(LARGE), *in = malloc(LARGE);
	MPI_Request request;

	fill(out, LARGE, rank, 1);
	MUST(MPI_Isend(out, LARGE, MPI_BYTE, after(1), 1, comm, &request));
	MUST(MPI_Barrier(comm));
	MUST(MPI_Recv(in, LARGE, MPI_BYTE, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE));
	MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
	EXPECT(same(in, LARGE, before(1), 1), "%d bytes are other ones", LARGE);
	free(in);
	free(out);
}

/* A synchronous send is not done before its receive has begun, whatever its size. */
static void synchronous(MPI_Comm comm)
{
	static const int sizes[] = { 0, 8, 1000, LONGEST };
	char *out = malloc(LONGEST), *in = malloc(LONGEST);

	for (int n = 0; n < 4; n++) {
		MPI_Request send, go;
		int flag, token = n, got = -1;

		fill(out, sizes[n], rank, n);
		MUST(MPI_Irecv(&got, 1, MPI_INT, before(1), 2, comm, &go));
		MUST(MPI_Issend(out, sizes[n], MPI_BYTE, after(1), 1, comm, &send));
		for (int time = 0; time < 1000; time++) {
			MUST(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
			EXPECT(!flag, "a send of %d bytes is done without a receive", sizes[n]);
			if (flag)
				break;
		}
		/* The receiver may begin. */
		MUST(MPI_Send(&token, 1, MPI_INT, after(1), 2, comm));
		MUST(MPI_Wait(&go, MPI_STATUS_IGNORE));
		EXPECT(got == n, "a message overtook another one");
		MUST(MPI_Recv(in, LONGEST, MPI_BYTE, before(1), 1, comm, MPI_STATUS_IGNORE));
		EXPECT(same(in, sizes[n], before(1), n), "%d bytes are other ones", sizes[n]);
		MUST(MPI_Wait(&send, MPI_STATUS_IGNORE));
	}
	free(in);
	free(out);
}

static void buffered_and_ready(MPI_Comm comm)
{
	int room = 4 * (LONGEST + MPI_BSEND_OVERHEAD);
	char *memory = malloc(room), *out = malloc(LONGEST), *in = malloc(LONGEST);
	MPI_Request request;

	MUST(MPI_Buffer_attach(memory, room));
	for (int n = 0; n < 4; n++) {
		fill(out, LONGEST, rank, n);
		MUST(MPI_Bsend(out, LONGEST, MPI_BYTE, after(1), 1, comm));
		/* It is the sender's again. */
		memset(out, 0, LONGEST);
	}
	for (int n = 0; n < 4; n++) {
		MUST(MPI_Recv(in, LONGEST, MPI_BYTE, before(1), 1, comm, MPI_STATUS_IGNORE));
		EXPECT(same(in, LONGEST, before(1), n), "buffered message %d is another one", n);
	}
	MUST(MPI_Buffer_detach(&memory, &room));
	MUST(MPI_Irecv(in, LONGEST, MPI_BYTE, before(1), 3, comm, &request));
	MUST(MPI_Barrier(comm));
	fill(out, LONGEST, rank, 9);
	MUST(MPI_Rsend(out, LONGEST, MPI_BYTE, after(1), 3, comm));
	MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
	EXPECT(same(in, LONGEST, before(1), 9), "a message to a ready receive is another one");
	free(in);
	free(out);
	free(memory);
}

static void exchanges(MPI_Comm comm)
{
	char *buffer = malloc(LONGEST);
	MPI_Status status;
	int count;

	for (int by = 0; by < size; by++) {
		fill(buffer, LONGEST, rank, by);
		MUST(MPI_Sendrecv_replace(buffer, LONGEST, MPI_BYTE, after(by), 5, before(by), 5,
					  comm, &status));
		EXPECT(same(buffer, LONGEST, before(by), by), "what rank %d has exchanged is wrong",
		       before(by));
	}
	MUST(MPI_Sendrecv(buffer, 8, MPI_BYTE, MPI_PROC_NULL, 1, buffer, 8, MPI_BYTE, MPI_PROC_NULL,
			  1, comm, &status));
	MPI_Get_count(&status, MPI_BYTE, &count);
	EXPECT(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && !count,
	       "MPI_PROC_NULL has sent %d bytes", count);
	free(buffer);
}

/* A receive too short is an error of that receive, and no message after it is touched. */
static void short_receives(MPI_Comm comm, int behind)
{
	static const int sizes[] = { 200, 20000, LONGEST };
	char *out = malloc(LONGEST), *in = malloc(LONGEST);

	for (int n = 0; n < 3; n++) {
		MPI_Request requests[2];
		MPI_Status status;
		int error, class, written = 0;

		fill(out, sizes[n], rank, n);
		MUST(MPI_Isend(out, sizes[n], MPI_BYTE, after(1), 1, comm, &requests[0]));
		MUST(MPI_Isend(out, 50, MPI_BYTE, after(1), 1, comm, &requests[1]));
		memset(in, 'b', LONGEST);
		error = MPI_Recv(in, 100, MPI_BYTE, before(1), 1, comm, &status);
		MPI_Error_class(error, &class);
		EXPECT(class == MPI_ERR_TRUNCATE, "%d bytes, received into 100, give error %d",
		       sizes[n], error);
		for (int at = 100; at < LONGEST; at++)
			written += in[at] != 'b';
		EXPECT(!behind || !written,
		       "of %d bytes received into 100 some, %d, lie behind those", sizes[n],
		       written);
		MUST(MPI_Recv(in, 50, MPI_BYTE, before(1), 1, comm, &status));
		EXPECT(same(in, 50, before(1), n), "the message behind one too long is wrong");
		MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
	}
	free(in);
	free(out);
}

static void truncated(MPI_Comm comm)
{
	short_receives(comm, 0);
}

static void not_behind(MPI_Comm comm)
{
	short_receives(comm, 1);
}

/* Requests that are made once and started again and again. */
static void persistent(MPI_Comm comm)
{
	static const int sizes[] = { 0, 64, 5000, LONGEST };
	MPI_Request requests[8];
	char *out[4], *in[4];

	for (int n = 0; n < 4; n++) {
		out[n] = malloc(LONGEST);
		in[n] = malloc(LONGEST);
		MUST(MPI_Recv_init(in[n], LONGEST, MPI_BYTE, n % 2 ? MPI_ANY_SOURCE : before(1), n,
				   comm, &requests[n]));
		MUST((n == 1 ? MPI_Ssend_init : MPI_Send_init)(out[n], sizes[n], MPI_BYTE, after(1),
							       n, comm, &requests[4 + n]));
	}
	for (int round = 0; round < ROUNDS; round++) {
		MPI_Status statuses[8];

		for (int n = 0; n < 4; n++)
			fill(out[n], sizes[n], rank, 10 * round + n);
		if (round % 2) {
			MUST(MPI_Startall(8, requests));
		} else {
			for (int n = 7; n >= 0; n--)
				MUST(MPI_Start(&requests[n]));
		}
		MUST(MPI_Waitall(8, requests, statuses));
		for (int n = 0; n < 4; n++) {
			int count;

			MPI_Get_count(&statuses[n], MPI_BYTE, &count);
			EXPECT(count == sizes[n], "in round %d receive %d has %d bytes", round, n,
			       count);
			EXPECT(same(in[n], sizes[n], before(1), 10 * round + n),
			       "in round %d receive %d has another message", round, n);
		}
	}
	for (int n = 0; n < 8; n++)
		MUST(MPI_Request_free(&requests[n]));
	for (int n = 0; n < 4; n++) {
		free(out[n]);
		free(in[n]);
	}
}

/* Any, some and all of requests; each is told of once. */
static void completions(MPI_Comm comm)
{
	enum { MANY = 60 };
	MPI_Request sends[MANY], receives[MANY];
	int out[MANY], in[MANY], told[MANY] = { 0 }, done = 0;

	for (int n = 0; n < MANY; n++)
		MUST(MPI_Irecv(&in[n], 1, MPI_INT, before(1), n, comm, &receives[n]));
	for (int n = MANY - 1; n >= 0; n--) {
		out[n] = rank * MANY + n;
		MUST(MPI_Isend(&out[n], 1, MPI_INT, after(1), n, comm, &sends[n]));
	}
	while (done < MANY) {
		int which[MANY], count = 0, flag = 1;
		MPI_Status statuses[MANY];

		if (done % 3 == 0) {
			MUST(MPI_Waitany(MANY, receives, which, statuses));
			count = 1;
		} else if (done % 3 == 1) {
			MUST(MPI_Testany(MANY, receives, which, &flag, statuses));
			count = flag;
		} else {
			MUST(MPI_Waitsome(MANY, receives, &count, which, statuses));
		}
		for (int n = 0; n < count; n++) {
			EXPECT(statuses[n].MPI_TAG == which[n], "request %d has tag %d", which[n],
			       statuses[n].MPI_TAG);
			EXPECT(!told[which[n]]++, "request %d is done twice", which[n]);
			EXPECT(in[which[n]] == before(1) * MANY + which[n], "request %d has %d",
			       which[n], in[which[n]]);
		}
		done += count;
	}
	MUST(MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE));
}

struct thread {
	pthread_t id;
	MPI_Comm comm;
	int number;
};

static void *talk(void *of)
{
	struct thread *thread = of;
	char *out = malloc(LONGEST), *in = malloc(LONGEST);

	for (int round = 0; round < 5 * ROUNDS; round++) {
		int bytes = round % 5 ? 8 << round % 5 * 2 : LONGEST,
		    number = 100 * thread->number + round;

		fill(out, bytes, rank, number);
		MUST(MPI_Sendrecv(out, bytes, MPI_BYTE, after(1), thread->number, in, LONGEST,
				  MPI_BYTE, before(1), thread->number, thread->comm,
				  MPI_STATUS_IGNORE));
		EXPECT(same(in, bytes, before(1), number), "thread %d has another message",
		       thread->number);
	}
	free(in);
	free(out);
	return NULL;
}

/* Two in a communicator of both, by tags, and one in another. */
static void threaded(MPI_Comm comm)
{
	struct thread all[3];
	MPI_Comm other;

	if (threads != MPI_THREAD_MULTIPLE) {
		skip("MPI grants no MPI_THREAD_MULTIPLE");
		return;
	}
	MUST(MPI_Comm_dup(comm, &other));
	for (int n = 0; n < 3; n++) {
		all[n].comm = n < 2 ? comm : other;
		all[n].number = n;
		if (pthread_create(&all[n].id, NULL, talk, &all[n]))
			MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int n = 0; n < 3; n++)
		pthread_join(all[n].id, NULL);
	MUST(MPI_Comm_free(&other));
}

/* Its own memory for one send and one receive, which are begun again as soon as they are done. */
static void reused(MPI_Comm comm)
{
	enum { UPDATE, FINISHED };
	unsigned int state = 99 + 13 * rank;
	char *out = malloc(LONGEST_UPDATE), *in = malloc(LONGEST_UPDATE);
	int *counts = calloc(size, sizeof(*counts)), *next = calloc(size, sizeof(*next));
	MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
	int sent = 0, left = size;

	while (left > 0 || sent < UPDATES + size) {
		MPI_Status status;
		int done, bytes;

		if (receive == MPI_REQUEST_NULL && left > 0)
			MUST(MPI_Irecv(in, LONGEST_UPDATE, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG,
				       comm, &receive));
		MUST(MPI_Test(&receive, &done, &status));
		if (left > 0 && done && status.MPI_TAG == FINISHED) {
			left--;
		} else if (left > 0 && done) {
			int from = status.MPI_SOURCE, number = next[from]++;

			MPI_Get_count(&status, MPI_BYTE, &bytes);
			EXPECT(same(in, bytes, from, number),
			       "of rank %d, message %d of %d bytes is another one", from, number,
			       bytes);
			memset(in, 0, LONGEST_UPDATE);
		}
		MUST(MPI_Test(&send, &done, MPI_STATUS_IGNORE));
		if (!done || sent == UPDATES + size)
			continue;
		if (sent < UPDATES) {
			int to = next_random(&state) % size;

			bytes = 8 * (1 + next_random(&state) % (LONGEST_UPDATE / 8));
			fill(out, bytes, rank, counts[to]++);
			MUST(MPI_Isend(out, bytes, MPI_BYTE, to, UPDATE, comm, &send));
		} else {
			MUST(MPI_Isend(out, 0, MPI_BYTE, sent - UPDATES, FINISHED, comm, &send));
		}
		sent++;
	}
	MUST(MPI_Wait(&send, MPI_STATUS_IGNORE));
	/* How many each of the others has sent to this rank. */
	MUST(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, counts, 1, MPI_INT, comm));
	for (int from = 0; from < size; from++)
		EXPECT(counts[from] == next[from], "of rank %d came %d messages of %d", from,
		       next[from], counts[from]);
	free(next);
	free(counts);
	free(in);
	free(out);
}

const struct test message_tests[] = {
	{ "messages of no byte up to the largest, to every rank and to oneself", all_sizes },
	{ "a large message that no receive waits for", large_unexpected },
	{ "a synchronous send waits for its receive", synchronous },
	{ "buffered and ready sends", buffered_and_ready },
	{ "sends and receives in one, also with no process", exchanges },
	{ "a receive that is too short is an error, and the next message is whole", truncated },
	{ "nothing is written behind a receive that is too short", not_behind },
	{ "persistent requests", persistent },
	{ "any, some and all of many requests", completions },
	{ "memory of messages is used again as soon as they are done", reused },
	{ "three threads of each rank at once", threaded },
	{ NULL, NULL },
};
