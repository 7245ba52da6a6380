// SPDX-License-Identifier: GPL-2.0
/*
 * Which message a receive gets: order between two ranks, wildcards, probes, cancelled receives.
 */
#include "semantics.h"

#include <stdlib.h>
#include <string.h>

/* The number of a message and its size stand in front of it. */
struct head {
	int number;
	int bytes;
};

#define COUNT (brief ? 10 : 20)
#define TAGS 5
/* Messages that no receive waits for, and receives that no message has come for. */
#define DEEP ((brief ? 200 : 1000) * times)
/* More than there are places for in the driver, which are 64, and than the provider offers, 256. */
#define SENDS 400
#define STORM ((brief ? 60 : 300) * times)

static const int sizes[] = { 8, 64, 100, 192, 193, 4096, 4097, 20000, LONGEST };

#define SIZES ((int)(sizeof(sizes) / sizeof(*sizes)))

/* A message in memory of its own. */
static char *made(int number, int bytes)
{
	struct head head = { number, bytes };
	char *message = malloc(bytes);

	memcpy(message, &head, sizeof(head));
	fill(message + sizeof(head), bytes - sizeof(head), rank, number);
	return message;
}

/* Its number, or -1 if it is not what that rank has sent. */
static int number_of(const char *message, const MPI_Status *status)
{
	struct head head;
	int bytes;

	MPI_Get_count(status, MPI_BYTE, &bytes);
	if (bytes < (int)sizeof(head))
		return -1;
	memcpy(&head, message, sizeof(head));
	if (head.bytes != bytes ||
	    !same(message + sizeof(head), bytes - sizeof(head), status->MPI_SOURCE, head.number))
		return -1;
	return head.number;
}

/* Waits for messages to be sent, and frees them. */
static void finish(MPI_Request *requests, char **messages, int count)
{
	MUST(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
	for (int n = 0; n < count; n++)
		free(messages[n]);
	free(messages);
	free(requests);
}

static void any_source_any_tag(MPI_Comm comm)
{
	int total = COUNT * times * size, *next = calloc(size, sizeof(*next));
	MPI_Request *requests = malloc(total * sizeof(*requests));
	char **messages = malloc(total * sizeof(*messages)), *buffer = malloc(LONGEST);

	for (int n = 0; n < total; n++) {
		int number = n / size, to = after(n % size), bytes = sizes[(number + to) % SIZES];

		messages[n] = made(number, bytes);
		MUST(MPI_Isend(messages[n], bytes, MPI_BYTE, to, number % TAGS, comm,
			       &requests[n]));
	}
	for (int n = 0; n < total; n++) {
		MPI_Status status;
		int number;

		MUST(MPI_Recv(buffer, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
			      &status));
		number = number_of(buffer, &status);
		EXPECT(number == next[status.MPI_SOURCE], "of rank %d came message %d, not %d",
		       status.MPI_SOURCE, number, next[status.MPI_SOURCE]);
		EXPECT(status.MPI_TAG == number % TAGS, "message %d has the tag %d", number,
		       status.MPI_TAG);
		next[status.MPI_SOURCE] = number + 1;
	}
	finish(requests, messages, total);
	free(buffer);
	free(next);
}

/*
 * Long: none is over before it is received. One behind them is received first, from another rank if
 * there are three.
 */
static void sends_first(MPI_Comm comm)
{
	MPI_Request *requests = malloc(SENDS * sizeof(*requests));
	char **messages = malloc(SENDS * sizeof(*messages)), *buffer = malloc(LONGEST);
	int last = -1;

	for (int n = 0; n < SENDS; n++) {
		messages[n] = made(n, 5000);
		MUST(MPI_Isend(messages[n], 5000, MPI_BYTE, after(1), 0, comm, &requests[n]));
	}
	MUST(MPI_Sendrecv(&rank, 1, MPI_INT, after(2), 1, &last, 1, MPI_INT, before(2), 1, comm,
			  MPI_STATUS_IGNORE));
	EXPECT(last == before(2), "rank %d has sent %d", before(2), last);
	for (int n = 0; n < SENDS; n++) {
		MPI_Status status;
		int number;

		MUST(MPI_Recv(buffer, LONGEST, MPI_BYTE, before(1), 0, comm, &status));
		number = number_of(buffer, &status);
		EXPECT(number == n, "message %d came as number %d", number, n);
	}
	finish(requests, messages, SENDS);
	free(buffer);
}

/* The last tag first: of each the messages come as they were sent. */
static void tags_in_turn(MPI_Comm comm)
{
	int total = COUNT * times;
	MPI_Request *requests = malloc(total * sizeof(*requests));
	char **messages = malloc(total * sizeof(*messages)), *buffer = malloc(LONGEST);

	for (int n = 0; n < total; n++) {
		messages[n] = made(n, sizes[n % SIZES]);
		MUST(MPI_Isend(messages[n], sizes[n % SIZES], MPI_BYTE, after(1), n % TAGS, comm,
			       &requests[n]));
	}
	for (int tag = TAGS - 1; tag >= 0; tag--) {
		for (int n = tag; n < total; n += TAGS) {
			int from = n % 2 ? before(1) : MPI_ANY_SOURCE, number;
			MPI_Status status;

			MUST(MPI_Recv(buffer, LONGEST, MPI_BYTE, from, tag, comm, &status));
			number = number_of(buffer, &status);
			EXPECT(number == n && status.MPI_TAG == tag,
			       "with tag %d came message %d, not %d", tag, number, n);
		}
	}
	finish(requests, messages, total);
	free(buffer);
}

/* Of the receives that a message fits it gets the one that was posted first. */
static void posted_in_turn(MPI_Comm comm)
{
	static const int tags[] = { 5, 5, 9, 9, 5 }, gets[] = { 0, 1, 2, 4, 3 };
	const int from[] = { MPI_ANY_SOURCE, before(1), MPI_ANY_SOURCE, before(1), before(1) };
	const int tag[] = { 5, MPI_ANY_TAG, MPI_ANY_TAG, 5, 9 };
	MPI_Request requests[5];
	int got[5];

	for (int n = 0; n < 5; n++)
		MUST(MPI_Irecv(&got[n], 1, MPI_INT, from[n], tag[n], comm, &requests[n]));
	MUST(MPI_Barrier(comm));
	for (int n = 0; n < 5; n++)
		MUST(MPI_Send(&n, 1, MPI_INT, after(1), tags[n], comm));
	MUST(MPI_Waitall(5, requests, MPI_STATUSES_IGNORE));
	for (int n = 0; n < 5; n++)
		EXPECT(got[gets[n]] == n, "receive %d has message %d, not %d", gets[n],
		       got[gets[n]], n);
}

static void unexpected(MPI_Comm comm)
{
	MPI_Request *requests = malloc(DEEP * sizeof(*requests));
	int *values = malloc(DEEP * sizeof(*values));

	for (int n = 0; n < DEEP; n++) {
		values[n] = rank * DEEP + n;
		MUST(MPI_Isend(&values[n], 1, MPI_INT, after(1), n, comm, &requests[n]));
	}
	MUST(MPI_Barrier(comm));
	for (int n = DEEP - 1; n >= 0; n--) {
		int value = -1;

		MUST(MPI_Recv(&value, 1, MPI_INT, n % 2 ? before(1) : MPI_ANY_SOURCE, n, comm,
			      MPI_STATUS_IGNORE));
		EXPECT(value == before(1) * DEEP + n, "with tag %d came %d", n, value);
	}
	MUST(MPI_Waitall(DEEP, requests, MPI_STATUSES_IGNORE));
	free(values);
	free(requests);
}

static void expected(MPI_Comm comm)
{
	MPI_Request *requests = malloc(DEEP * sizeof(*requests));
	int *values = malloc(DEEP * sizeof(*values));

	for (int n = 0; n < DEEP; n++)
		MUST(MPI_Irecv(&values[n], 1, MPI_INT, n % 3 ? before(1) : MPI_ANY_SOURCE, n, comm,
			       &requests[n]));
	MUST(MPI_Barrier(comm));
	for (int n = DEEP - 1; n >= 0; n--) {
		int value = rank * DEEP + n;

		MUST(MPI_Send(&value, 1, MPI_INT, after(1), n, comm));
	}
	MUST(MPI_Waitall(DEEP, requests, MPI_STATUSES_IGNORE));
	for (int n = 0; n < DEEP; n++)
		EXPECT(values[n] == before(1) * DEEP + n, "the receive with tag %d has %d", n,
		       values[n]);
	free(values);
	free(requests);
}

static void probes(MPI_Comm comm)
{
	char *message, *buffer = malloc(LONGEST);
	MPI_Request request;
	MPI_Status status;
	int flag = 1, bytes, right;

	MUST(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status));
	EXPECT(!flag, "a probe finds a message before there is one");
	MUST(MPI_Barrier(comm));
	for (int n = 0; n < SIZES; n++) {
		message = made(n, sizes[n]);
		MUST(MPI_Isend(message, sizes[n], MPI_BYTE, after(1), 40 + n, comm, &request));
		/* It stays where it is. */
		for (int time = 0; time < 3; time++) {
			if (time == 1)
				MUST(MPI_Iprobe(before(1), 40 + n, comm, &flag, &status));
			else
				MUST(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
			MPI_Get_count(&status, MPI_BYTE, &bytes);
			EXPECT(flag || time != 1, "a second probe does not find message %d", n);
			right = status.MPI_SOURCE == before(1) && bytes == sizes[n];
			EXPECT(right && status.MPI_TAG == 40 + n,
			       "probed: rank %d, tag %d, %d bytes, not %d, %d, %d",
			       status.MPI_SOURCE, status.MPI_TAG, bytes, before(1), 40 + n,
			       sizes[n]);
		}
		MUST(MPI_Recv(buffer, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm,
			      &status));
		EXPECT(number_of(buffer, &status) == n, "what was probed is not what came");
		MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
		free(message);
	}
	free(buffer);
}

/* What a probe has taken out no other probe and no receive gets. */
static void matched_probes(MPI_Comm comm)
{
	char *messages[SIZES], *buffer = malloc(LONGEST);
	MPI_Request requests[SIZES], receive;
	MPI_Message taken, none;
	MPI_Status status;
	int flag, bytes;

	for (int n = 0; n < SIZES; n++) {
		messages[n] = made(n, sizes[n]);
		MUST(MPI_Isend(messages[n], sizes[n], MPI_BYTE, after(1), 7, comm, &requests[n]));
	}
	for (int n = 0; n + 1 < SIZES; n += 2) {
		if (n % 4) {
			MUST(MPI_Mprobe(MPI_ANY_SOURCE, 7, comm, &taken, &status));
		} else {
			do {
				MUST(MPI_Improbe(before(1), MPI_ANY_TAG, comm, &flag, &taken,
						 &status));
			} while (!flag);
		}
		MPI_Get_count(&status, MPI_BYTE, &bytes);
		EXPECT(bytes == sizes[n], "probed: %d bytes, not %d", bytes, sizes[n]);
		MUST(MPI_Recv(buffer, LONGEST, MPI_BYTE, before(1), 7, comm, &status));
		EXPECT(number_of(buffer, &status) == n + 1, "a receive got message %d, not %d",
		       number_of(buffer, &status), n + 1);
		memset(buffer, 0, LONGEST);
		if (n % 4) {
			MUST(MPI_Mrecv(buffer, bytes, MPI_BYTE, &taken, &status));
		} else {
			MUST(MPI_Imrecv(buffer, bytes, MPI_BYTE, &taken, &receive));
			MUST(MPI_Wait(&receive, &status));
		}
		EXPECT(taken == MPI_MESSAGE_NULL, "a message can be received once more");
		EXPECT(number_of(buffer, &status) == n, "the message probed is another one");
	}
	if (SIZES % 2)
		MUST(MPI_Recv(buffer, LONGEST, MPI_BYTE, before(1), 7, comm, &status));
	MUST(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &none, MPI_STATUS_IGNORE));
	EXPECT(!flag, "there is a message more than was sent");
	MUST(MPI_Mprobe(MPI_PROC_NULL, 1, comm, &none, MPI_STATUS_IGNORE));
	EXPECT(none == MPI_MESSAGE_NO_PROC, "MPI_PROC_NULL has sent something");
	MUST(MPI_Waitall(SIZES, requests, MPI_STATUSES_IGNORE));
	for (int n = 0; n < SIZES; n++)
		free(messages[n]);
	free(buffer);
}

static void cancels(MPI_Comm comm)
{
	int first = -1, second = -1, flag, value = rank;
	MPI_Request one, other;
	MPI_Status status;

	for (int n = 0; n < COUNT * times; n++) {
		int from = n % 2 ? before(1) : MPI_ANY_SOURCE, tag = n % 3 ? 3 : MPI_ANY_TAG;

		first = -1;
		second = -1;
		MUST(MPI_Irecv(&first, 1, MPI_INT, from, tag, comm, &one));
		MUST(MPI_Irecv(&second, 1, MPI_INT, before(1), 3, comm, &other));
		MUST(MPI_Cancel(&one));
		MUST(MPI_Wait(&one, &status));
		MUST(MPI_Test_cancelled(&status, &flag));
		EXPECT(flag, "a receive that no message has come for is not cancelled");
		MUST(MPI_Barrier(comm));
		value = rank * 1000 + n;
		MUST(MPI_Send(&value, 1, MPI_INT, after(1), 3, comm));
		MUST(MPI_Wait(&other, MPI_STATUS_IGNORE));
		EXPECT(second == before(1) * 1000 + n && first == -1,
		       "receives have %d and, cancelled, %d", second, first);
		/* One that has its message, which is what this wait says, is too late to cancel. */
		MUST(MPI_Irecv(&first, 1, MPI_INT, before(1), 4, comm, &one));
		MUST(MPI_Send(&value, 1, MPI_INT, after(1), 4, comm));
		MUST(MPI_Barrier(comm));
		do {
			MUST(MPI_Request_get_status(one, &flag, MPI_STATUS_IGNORE));
		} while (!flag);
		MUST(MPI_Cancel(&one));
		MUST(MPI_Wait(&one, &status));
		MUST(MPI_Test_cancelled(&status, &flag));
		EXPECT(!flag && first == before(1) * 1000 + n, "a message is lost: %d, %d", flag,
		       first);
	}
}

/* Each to each at random, received as it comes, some of it only after a probe. */
static void storm(MPI_Comm comm)
{
	unsigned int state = 4711 + 17 * rank;
	MPI_Request *requests = malloc(STORM * sizeof(*requests));
	char **messages = malloc(STORM * sizeof(*messages)), *buffer = malloc(LONGEST);
	int *counts = calloc(size, sizeof(*counts)), *next = calloc(size, sizeof(*next)), left;

	for (int n = 0; n < STORM; n++) {
		int to = next_random(&state) % size, bytes = sizes[next_random(&state) % SIZES];

		messages[n] = made(counts[to]++, bytes);
		MUST(MPI_Isend(messages[n], bytes, MPI_BYTE, to, next_random(&state) % TAGS, comm,
			       &requests[n]));
		/* What has come meanwhile is received at once, at times. */
		if (next_random(&state) % 4 == 0) {
			MPI_Message message;
			MPI_Status status;
			int flag;

			MUST(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message,
					 &status));
			if (!flag)
				continue;
			MUST(MPI_Mrecv(buffer, LONGEST, MPI_BYTE, &message, &status));
			EXPECT(number_of(buffer, &status) == next[status.MPI_SOURCE]++,
			       "of rank %d came another one", status.MPI_SOURCE);
		}
	}
	/* How many each of the others has for this rank. */
	MUST(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, counts, 1, MPI_INT, comm));
	left = 0;
	for (int from = 0; from < size; from++)
		left += counts[from] - next[from];
	while (left-- > 0) {
		MPI_Status status;

		MUST(MPI_Recv(buffer, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
			      &status));
		EXPECT(number_of(buffer, &status) == next[status.MPI_SOURCE]++,
		       "of rank %d came another one", status.MPI_SOURCE);
	}
	finish(requests, messages, STORM);
	free(next);
	free(counts);
	free(buffer);
}

const struct test matching_tests[] = {
	{ "messages of all ranks, by any source and any tag, are in order", any_source_any_tag },
	{ "long messages, many of them, wait for receives, and others to other ranks do not",
	  sends_first },
	{ "messages of a tag are in order, whichever tag is received first", tags_in_turn },
	{ "a message gets the receive that was posted first", posted_in_turn },
	{ "many messages that no receive waits for, last tag first", unexpected },
	{ "many receives that no message has come for, last tag first", expected },
	{ "a probe tells source, tag and size, and leaves the message", probes },
	{ "a message that a probe has taken goes to its own receive alone", matched_probes },
	{ "a cancelled receive takes no message, one with a message is not cancelled", cancels },
	{ "messages at random between all ranks, probed and not", storm },
	{ NULL, NULL },
};
