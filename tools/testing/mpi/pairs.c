// SPDX-License-Identifier: GPL-2.0
/*
 * pairs JOB...: how fast messages are between pairs of ranks, half of all with the other half.
 *
 * A job is latency:BYTES:COUNT, messages there and back in turn, or stream:BYTES:COUNT, messages in
 * one direction, up to WINDOW at a time, with an answer for each window. Rank 0 writes of each job
 * a line of JSON: how many messages all pairs have sent in one direction, and the seconds of the
 * slowest. `forever` is a job, too: messages there and back until the program is killed.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 32
/* Of a job, before it is measured. */
#define WARM 4

static int rank, size, other, sends;
static char *buffer;

static void there_and_back(long bytes, long count)
{
	for (long n = 0; n < count; n++) {
		if (sends)
			MPI_Send(buffer, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
		MPI_Recv(buffer, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (!sends)
			MPI_Send(buffer, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
	}
}

/* Receives share a buffer, as it is usual where only the time counts. */
static void one_way(long bytes, long count)
{
	MPI_Request requests[WINDOW];
	char token;

	for (long done = 0; done < count;) {
		int many = count - done < WINDOW ? count - done : WINDOW;

		for (int n = 0; n < many; n++) {
			if (sends)
				MPI_Isend(buffer, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD,
					  &requests[n]);
			else
				MPI_Irecv(buffer, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD,
					  &requests[n]);
		}
		MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
		if (sends)
			MPI_Recv(&token, 1, MPI_CHAR, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send("", 1, MPI_CHAR, other, 2, MPI_COMM_WORLD);
		done += many;
	}
}

/* Writes into what is sent, or compares what has come: of each job other bytes. */
static void contents(long bytes, int job)
{
	for (long at = 0; at < bytes; at++) {
		char want = at * 5 + at / 251 + job;

		if (sends)
			buffer[at] = want;
		else if (buffer[at] != want) {
			fprintf(stderr, "rank %d: byte %ld of %ld is another one\n", rank, at,
				bytes);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
	}
}

static void forever(void)
{
	buffer = calloc(1, 1000);
	for (long n = 0;; n++) {
		there_and_back(1000, 10);
		if (!n && !rank) {
			printf("going\n");
			fflush(stdout);
		}
	}
}

/* Does the job of this number; returns whether there is such a job. */
static int run(const char *word, int number)
{
	void (*job)(long bytes, long count);
	double seconds;
	char name[16];
	long bytes, count;

	if (sscanf(word, "%15[^:]:%ld:%ld", name, &bytes, &count) != 3 || bytes < 0 || count < 1)
		return 0;
	if (!strcmp(name, "latency"))
		job = there_and_back;
	else if (!strcmp(name, "stream"))
		job = one_way;
	else
		return 0;
	buffer = calloc(1, bytes + 1);
	if (sends)
		contents(bytes, number);
	job(bytes, WARM);
	MPI_Barrier(MPI_COMM_WORLD);
	seconds = MPI_Wtime();
	job(bytes, count);
	seconds = MPI_Wtime() - seconds;
	contents(sends ? 0 : bytes, number);
	free(buffer);
	MPI_Reduce(rank ? &seconds : MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0,
		   MPI_COMM_WORLD);
	if (!rank) {
		printf("{\"job\": \"%s\", \"bytes\": %ld, \"pairs\": %d, ", name, bytes, size / 2);
		printf("\"count\": %ld, \"seconds\": %.9f}\n", count * (size / 2), seconds);
		fflush(stdout);
	}
	return 1;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	sends = rank < size / 2;
	other = sends ? rank + size / 2 : rank - size / 2;
	if (size % 2) {
		fprintf(stderr, "pairs: %d ranks are no pairs\n", size);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int n = 1; n < argc; n++) {
		if (!strcmp(argv[n], "forever"))
			forever();
		if (!run(argv[n], n)) {
			fprintf(stderr, "pairs: no job: %s\n", argv[n]);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
	}
	MPI_Finalize();
	return 0;
}
