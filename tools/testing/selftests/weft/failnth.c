// SPDX-License-Identifier: GPL-2.0
/*
 * Every allocation of the driver is failed in turn, and every copy from and to
 * a user: the first of an operation, then the second, until one run of it asks
 * for no more. After each failure the error is a sensible one, and the same
 * operation succeeds at once. What was forgotten on the way is found by what
 * is left when the driver goes, and by kmemleak.
 *
 * Skipped on kernels without fault injection. Arguments choose operations: those
 * with such a word in the name. With WEFT_NTH=k/m each m-th allocation is failed,
 * beginning with the k-th: m runs, which may take place at the same time, do what
 * one does without it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"
#include "inject.h"
#include "nth.h"
#include "weft_test.h"

/* No operation asks for as much. */
#define MAX_NTH		5000
#define MOST_TASKS	64
/* New worker threads in a row, at the most, before they are taken for a fault. */
#define MOST_CHANGES	16

static unsigned int first = 1, step = 1;

static bool expected(const struct operation *op, long r)
{
	for (size_t i = 0; i < ARRAY_SIZE(op->errors); i++)
		if (op->errors[i] && r == -op->errors[i])
			return true;
	return !r;
}

/* The tasks in which an operation may fail. */
struct tasks {
	pid_t id[MOST_TASKS];
	int fail_nth[MOST_TASKS];
	size_t count;
};

/* Those of @op: false if they cannot be found, or are too many. */
static bool tasks_of(const struct operation *op, struct tasks *tasks)
{
	tasks->id[0] = gettid();
	tasks->count = op->threads ? inject_find(op->threads, tasks->id, MOST_TASKS) : 1;
	return tasks->count && tasks->count <= MOST_TASKS;
}

static bool same_tasks(const struct tasks *a, const struct tasks *b)
{
	return a->count == b->count && !memcmp(a->id, b->id, a->count * sizeof(*a->id));
}

static bool arm(struct tasks *tasks, unsigned int nth)
{
	for (size_t i = 0; i < tasks->count; i++) {
		int fd = inject_open(tasks->id[i]);

		tasks->fail_nth[i] = fd;
		/* A worker thread may have ended. */
		if (fd != -ENOENT && (fd < 0 || !inject_arm(fd, nth)))
			return false;
	}
	return true;
}

/* As inject_disarm(), of all of them: whether any has failed. */
static int disarm(struct tasks *tasks)
{
	int any = 0;

	for (size_t i = 0; i < tasks->count; i++) {
		int fd = tasks->fail_nth[i], fired = fd < 0 ? 0 : inject_disarm(fd);

		if (fd >= 0)
			close(fd);
		if (fired < 0 && fired != -ESRCH)
			return fired;
		any |= fired == 1;
	}
	return any;
}

/*
 * Whether it is to be done without a failure after the @nth was failed: the run with the next one
 * failed does most of it anyway, and an operation can ask for hundreds.
 */
static bool to_be_confirmed(unsigned int nth)
{
	return nth <= 32 || nth % 16 == 0;
}

/* Fails each thing that @op asks for, or each of them that is for this run. */
static bool fail_each(const struct operation *op)
{
	unsigned int nth, refused = 0, changes = 0;
	struct tasks tasks, then;

	for (nth = first; nth <= MAX_NTH; nth += step) {
		int fired;
		long r;

		if (!op->prepare()) {
			ksft_print_msg("%s: cannot be prepared, %u\n", op->name, nth);
			return false;
		}
		/* Which threads there are changes. */
		if (!tasks_of(op, &tasks) || !arm(&tasks, nth)) {
			ksft_print_msg("%s: fail-nth: %s\n", op->name, strerror(errno));
			return false;
		}
		r = op->run();
		fired = disarm(&tasks);
		if (!op->undo()) {
			ksft_print_msg("%s: cannot be undone, %u ended with %ld\n",
				       op->name, nth, r);
			return false;
		}
		if (fired < 0 || (!fired && r) || !expected(op, r)) {
			ksft_print_msg("%s: %u ended with %ld (%s), failed: %d\n", op->name, nth,
				       r, strerror(-r), fired);
			return false;
		}
		if (!fired && op->threads && tasks_of(op, &then) && !same_tasks(&tasks, &then)) {
			/* A worker thread that has come since may have done it. */
			if (++changes > MOST_CHANGES) {
				ksft_print_msg("%s: new threads come all the time\n", op->name);
				return false;
			}
			nth -= step;
			continue;
		}
		if (!fired)
			break;
		changes = 0;
		refused += r != 0;
		if (!to_be_confirmed(nth))
			continue;
		/* Nothing stands in the way of the next one. */
		r = op->prepare() ? op->run() : -EIO;
		if (!op->undo() || r) {
			ksft_print_msg("%s: after %u was failed: %s\n",
				       op->name, nth, strerror(-r));
			return false;
		}
	}
	ksft_print_msg("%s: %u were failed, of which %u made it fail\n",
		       op->name, (nth - first) / step, refused);
	return nth <= MAX_NTH && nth > op->least;
}

/* Whether one of the words of the command line, if there are any, is in the name. */
static bool wanted(const char *name, char **words)
{
	if (!*words)
		return true;
	for (; *words; words++)
		if (strstr(name, *words))
			return true;
	return false;
}

static unsigned int count(const struct operation *ops)
{
	unsigned int n = 0;

	while (ops[n].name)
		n++;
	return n;
}

static void run_all(const struct operation *ops, char **words)
{
	for (; ops->name; ops++) {
		if (!wanted(ops->name, words)) {
			ksft_test_result_skip("%s\n", ops->name);
			continue;
		}
		ksft_test_result(fail_each(ops), "%s, everything it asks for failed in turn\n",
				 ops->name);
	}
}

int main(int argc, char **argv)
{
	const char *lacks = inject_lacks(), *part = getenv("WEFT_NTH"), *path = getenv("WEFT_KO");
	char **words = argv + !!argc;

	ksft_print_header();
	if (lacks)
		ksft_exit_skip("%s\n", lacks);
	if (!path || !strchr(path, '/') || access(path, R_OK))
		ksft_exit_skip("WEFT_KO does not name weft.ko\n");
	if (part && (sscanf(part, "%u/%u", &first, &step) != 2 || !first || first > step))
		ksft_exit_fail_msg("WEFT_NTH=%s: k/m is meant, with k from 1 to m\n", part);
	ksft_set_plan(count(nth_unloaded) + count(nth_calls) + count(nth_clients) + 2);

	if (!nth_begin(path) || !inject_in_modules())
		ksft_exit_fail_msg("two ports and fault injection are needed\n");

	run_all(nth_unloaded, words);
	ksft_test_result(nth_all_ready(), "the links come up\n");
	run_all(nth_calls, words);
	nth_unpair();
	run_all(nth_clients, words);
	inject_reset();
	ksft_test_result(nth_reload(), "the module goes and comes back\n");
	ksft_finished();
}
