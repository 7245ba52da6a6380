// SPDX-License-Identifier: GPL-2.0
/*
 * semantics [-b] [-x TIMES] [-n TEST]... [TEST...]: what MPI promises to programs, tried over
 * whatever carries it, briefly or many times. Tests are named by a part of their names: those that
 * are wanted, or not (-n).
 *
 * Every rank runs every test; rank 0 says as TAP what has come of it. A test that does not end
 * within its time ends the job with an error.
 */
#include "semantics.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds of a test; they are as many times as long as the tests. */
#define LIMIT 120
#define TEXT ((int)sizeof(failure))

int rank, size, times = 1, threads, brief;

char failure[240], reason[240];
atomic_int failures;

static char hangs[240];

void failed_call(const char *call, int error)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;

	MPI_Error_string(error, text, &length);
	fail("%s: %s", call, text);
}

static unsigned char byte_at(size_t at, int from, int number)
{
	return at * 7 + (at >> 8) * 13 + from * 31 + number * 101 + 1;
}

void fill(void *buffer, size_t bytes, int from, int number)
{
	unsigned char *to = buffer;

	for (size_t at = 0; at < bytes; at++)
		to[at] = byte_at(at, from, number);
}

int same(const void *buffer, size_t bytes, int from, int number)
{
	const unsigned char *found = buffer;

	for (size_t at = 0; at < bytes; at++) {
		if (found[at] != byte_at(at, from, number))
			return 0;
	}
	return 1;
}

unsigned int next_random(unsigned int *state)
{
	/* xorshift; a state of 0 would stay. */
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void hung(int signal)
{
	(void)signal;
	if (write(STDERR_FILENO, hangs, strlen(hangs)) < 0)
		_exit(2);
	_exit(3);
}

/* Runs a test at all ranks; returns whether it has failed anywhere. */
static int run(const struct test *test, int number, MPI_Comm control)
{
	char *texts = NULL;
	int failed, skipped;
	MPI_Comm comm;

	failures = 0;
	failure[0] = '\0';
	reason[0] = '\0';
	snprintf(hangs, sizeof(hangs), "# rank %d: %s does not end\n", rank, test->name);
	alarm(LIMIT * times);
	MPI_Comm_dup(control, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	test->run(comm);
	MPI_Comm_free(&comm);
	failed = failures > 0;
	skipped = reason[0] != '\0';
	MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, control);
	MPI_Allreduce(MPI_IN_PLACE, &skipped, 1, MPI_INT, MPI_SUM, control);
	if (!rank)
		texts = calloc(size, TEXT);
	MPI_Gather(failure, TEXT, MPI_CHAR, texts, TEXT, MPI_CHAR, 0, control);
	alarm(0);
	if (skipped && skipped != size)
		failed++;
	if (rank)
		return failed;
	for (int from = 0; from < size; from++) {
		if (texts[from * TEXT])
			printf("# rank %d: %s\n", from, texts + from * TEXT);
	}
	free(texts);
	printf("%s %d - %s", failed ? "not ok" : "ok", number, test->name);
	printf(skipped && !failed ? " # SKIP %s\n" : "\n", reason);
	fflush(stdout);
	return failed;
}

static int named(const struct test *test, char **names)
{
	for (; *names; names++) {
		if (strstr(test->name, *names))
			return 1;
	}
	return 0;
}

static const struct test *const all[] = {
	matching_tests,	    message_tests,    type_tests,
	communicator_tests, collective_tests, window_tests,
};

int main(int argc, char **argv)
{
	int option, number = 0, failed = 0, unwanted = 0;
	char **without = calloc(argc + 1, sizeof(*without)), **names;
	MPI_Comm control;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
	while ((option = getopt(argc, argv, "bx:n:")) != -1) {
		if (option == 'x')
			times = atoi(optarg);
		else if (option == 'b')
			brief = 1;
		else if (option == 'n')
			without[unwanted++] = optarg;
		else
			times = 0;
	}
	if (times < 1) {
		fprintf(stderr, "usage: semantics [-b] [-x TIMES] [-n TEST]... [TEST...]\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	names = argv + optind;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_dup(MPI_COMM_WORLD, &control);
	signal(SIGALRM, hung);
	for (size_t group = 0; group < sizeof(all) / sizeof(*all); group++) {
		for (const struct test *test = all[group]; test->name; test++) {
			if ((!*names || named(test, names)) && !named(test, without))
				failed += run(test, ++number, control) > 0;
		}
	}
	if (!rank)
		printf("1..%d\n", number);
	MPI_Comm_free(&control);
	free(without);
	MPI_Finalize();
	return failed || !number;
}
