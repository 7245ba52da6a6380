// SPDX-License-Identifier: GPL-2.0
/*
 * Everything that /dev/weftN takes, more or less right, from several threads, while a
 * queue pair of another process must notice nothing. What the kernel thinks of it is in
 * its log.
 *
 * By default so many steps as take half a minute in a slow guest, always of the same
 * seeds. In the environment: WEFT_FUZZ_SECONDS goes on for so long with others, from
 * WEFT_FUZZ_SEED on (1000), in rounds of WEFT_FUZZ_STEPS for each of WEFT_FUZZ_THREADS.
 * Each round's seed is printed, and told to the kernel's log, before it begins.
 *
 * Where the kernel has kcov the calls in all rounds note which program counters they reach,
 * and arguments that reach new ones are kept. Those of WEFT_FUZZ_SECONDS are then guided:
 * half of the calls have a kept argument, which is spoilt further as often as any. What a
 * guided round does depends on the rounds before it, so the seed alone does not repeat it.
 * The fixed rounds are never guided: they draw the same on every kernel. With
 * WEFT_FUZZ_GUIDED=0 no round is.
 *
 * Calls of each kind are counted: of those that the machine has the hardware for some have
 * to succeed. With WEFT_FUZZ_WHOLE=1 it has to have it for all: two virtual functions, and
 * a function of a shared endpoint that a port is given by its fabric, whose master it is.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "kselftest.h"
#include "ends.h"
#include "fuzz_calls.h"
#include "fuzz_cover.h"
#include "weft_test.h"

/* Generous: a round is a few seconds. */
#define PATIENCE_MS	600000
#define MEMORY		(256 << 10)
/* A fifth of what the fixed rounds reach, and more than the module's C has. */
#define LEAST_REACHED	1000

/* Of a fixed size, so that what is found here is found again. */
static const struct fz_round some[] = {
	{ 1, 4000, 1, false }, { 2, 4000, 1, false }, { 3, 2000, 4, false }, { 4, 2000, 4, false },
};

struct pair {
	struct we_end a, b;
	struct fz_machine machine;
	struct fz_count *counts;
	struct fc_cover *cover;		/* NULL: no kcov */
	unsigned int messages;
	uint64_t arena_free[2];
	bool broken;
};

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static uint64_t arena_free(unsigned int port)
{
	int fd = wt_open(port, 0);
	struct weft_link_info i = wt_link_info(fd, 0);

	close(fd);
	return i.arena_free;
}

static void tell(const struct fz_round *r)
{
	char text[96];
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	int n = snprintf(text, sizeof(text), "fuzz: seed %llu, %u steps, threads %u%s\n",
			 (unsigned long long)r->seed, r->steps, r->threads,
			 r->is_guided ? ", guided" : "");

	ksft_print_msg("%s", text);
	fflush(stdout);
	if (fd < 0)
		return;
	if (write(fd, text, n) != n)
		ksft_print_msg("the kernel's log takes no messages\n");
	close(fd);
}

/* Where a process is that does not end. */
static void show(pid_t pid)
{
	char command[96];

	snprintf(command, sizeof(command), "cat /proc/%d/task/*/stack | sed 's/^/# /'", pid);
	if (system(command))
		ksft_print_msg("process %d: no stack to be had\n", pid);
}

static bool begin(struct pair *p)
{
	p->broken = false;
	return we_begin(&p->a, 0, MEMORY) && we_begin(&p->b, 1, MEMORY) &&
	       we_join(&p->a, &p->b);
}

static bool exchange(struct pair *p)
{
	if (we_exchange(&p->a, &p->b, p->messages++))
		return true;
	/* What is wrong once stays so: another pair is made for the next round. */
	we_tell(&p->a, "sender");
	we_tell(&p->b, "receiver");
	p->broken = true;
	return false;
}

/* One round in a process of its own, beside traffic that is not to be disturbed. */
static bool fuzz(struct pair *p, const struct fz_round *r)
{
	int64_t until = wt_now_ms() + PATIENCE_MS;
	uint32_t spared[2];
	bool good = true;
	int status;
	pid_t pid;

	if (p->broken) {
		we_end(&p->a);
		we_end(&p->b);
		if (!begin(p))
			ksft_exit_fail_msg("no other queue pair between ports 0 and 1\n");
	}
	spared[0] = p->a.qpn;
	spared[1] = p->b.qpn;
	tell(r);
	pid = fork();
	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fz_round(r, &p->machine, p->counts, p->cover, spared, 2);
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		good = good && exchange(p);
		if (wt_now_ms() > until) {
			ksft_print_msg("seed %llu: does not end\n", (unsigned long long)r->seed);
			show(pid);
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return false;
		}
		usleep(2000);
	}
	if (status) {
		ksft_print_msg("seed %llu: ended with status %#x\n",
			       (unsigned long long)r->seed, status);
		good = false;
	}
	good = fm_restore(&p->machine) && good && exchange(p);
	/* An area is free again when the peer has confirmed that it closed. */
	for (unsigned int port = 0; port < 2; port++) {
		int64_t end = wt_now_ms() + 30000;

		while (arena_free(port) != p->arena_free[port] && wt_now_ms() < end)
			usleep(10000);
	}
	for (unsigned int port = 0; port < 2; port++) {
		uint64_t now = arena_free(port);

		if (now == p->arena_free[port])
			continue;
		ksft_print_msg("seed %llu: port %u has %llu bytes of its arena free, not %llu\n",
			       (unsigned long long)r->seed, port, (unsigned long long)now,
			       (unsigned long long)p->arena_free[port]);
		good = false;
	}
	return good;
}

static void tell_cover(const struct pair *p)
{
	if (p->cover)
		ksft_print_msg("coverage: %u program counters reached, %u arguments kept\n",
			       fc_reached(p->cover), fc_kept(p->cover));
}

static bool fuzz_on(struct pair *p, uint64_t seconds)
{
	int64_t until = wt_now_ms() + seconds * 1000;
	struct fz_round r = {
		.seed = number("WEFT_FUZZ_SEED", 1000),
		.steps = number("WEFT_FUZZ_STEPS", 4000),
		.threads = number("WEFT_FUZZ_THREADS", 4),
		.is_guided = p->cover && number("WEFT_FUZZ_GUIDED", 1),
	};
	bool good = true;
	unsigned int rounds = 0;

	tell_cover(p);
	while (wt_now_ms() < until) {
		good = fuzz(p, &r) && good;
		r.seed++;
		rounds++;
	}
	ksft_print_msg("%u rounds\n", rounds);
	return good;
}

int main(void)
{
	const size_t count = sizeof(some) / sizeof(*some);
	uint64_t seconds = number("WEFT_FUZZ_SECONDS", 0);
	struct pair p = { 0 };

	ksft_print_header();
	ksft_set_plan(count + !!seconds + 2);
	if (!wt_wait_ready(60000) || !begin(&p))
		ksft_exit_fail_msg("no queue pair between ports 0 and 1\n");
	if (!fm_learn(&p.machine))
		ksft_exit_fail_msg("the fabric has no master\n");
	p.counts = mmap(NULL, FZ_CALLS * sizeof(*p.counts), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p.counts == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	p.cover = fc_begin();
	for (unsigned int port = 0; port < 2; port++)
		p.arena_free[port] = arena_free(port);
	for (size_t i = 0; i < count; i++)
		ksft_test_result(fuzz(&p, &some[i]), "seed %llu, threads %u\n",
				 (unsigned long long)some[i].seed, some[i].threads);
	if (seconds)
		ksft_test_result(fuzz_on(&p, seconds), "%llu seconds\n",
				 (unsigned long long)seconds);
	ksft_print_msg("%u messages beside it\n", p.messages);
	ksft_test_result(fz_tell(&p.machine, p.counts, number("WEFT_FUZZ_WHOLE", 0)),
			 "each call that can succeed has done so\n");
	tell_cover(&p);
	if (p.cover)
		ksft_test_result(fc_reached(p.cover) >= LEAST_REACHED, "calls reach the module\n");
	else
		ksft_test_result_skip("calls reach the module: no kcov\n");
	we_end(&p.a);
	we_end(&p.b);
	ksft_finished();
}
