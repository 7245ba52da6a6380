// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <linux/kcov.h>

#include "fuzz_cover.h"

#define KCOV		"/sys/kernel/debug/kcov"
/* Program counters that a call may leave. Most leave some hundreds. */
#define TRACE		(64 << 10)
/* Many times as many as the module has, and how far one may be from its place. */
#define SEEN		(256u << 10)
#define FAR		64
#define ROOM		64		/* arguments of a kind */
#define WORDS		(FC_BYTES / 8)

/*
 * There are no locks: a process that is killed would hold them for ever. An argument that is
 * half of one and half of another is as good as any.
 */
struct fc_cover {
	uint32_t reached;
	/* Low halves of program counters, which have the upper one in common. 0: free. */
	uint32_t seen[SEEN];
	uint32_t kept[FC_KINDS];	/* how many so far */
	uint64_t args[FC_KINDS][ROOM][WORDS];
};

struct fc_cover *fc_begin(void)
{
	struct fc_cover *c;

	if (access(KCOV, R_OK | W_OK))
		return NULL;
	c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED)
		abort();
	return c;
}

uint64_t *fc_trace(void)
{
	int fd = open(KCOV, O_RDWR | O_CLOEXEC);
	uint64_t *trace = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (!ioctl(fd, KCOV_INIT_TRACE, TRACE))
		trace = mmap(NULL, TRACE * sizeof(*trace), PROT_READ | PROT_WRITE, MAP_SHARED,
			     fd, 0);
	if (trace != MAP_FAILED && ioctl(fd, KCOV_ENABLE, KCOV_TRACE_PC)) {
		munmap(trace, TRACE * sizeof(*trace));
		trace = MAP_FAILED;
	}
	/* The thread and the mapping have their own references. */
	close(fd);
	return trace == MAP_FAILED ? NULL : trace;
}

void fc_clear(uint64_t *trace)
{
	if (trace)
		__atomic_store_n(trace, 0, __ATOMIC_RELAXED);
}

/* Notes a program counter; true if it was not there. Without room all are taken for known. */
static bool note(struct fc_cover *c, uint32_t pc)
{
	uint32_t at = (pc * 0x9e3779b1u >> 8) % SEEN;

	for (int n = 0; n < FAR; n++, at = (at + 1) % SEEN) {
		uint32_t is = __atomic_load_n(&c->seen[at], __ATOMIC_RELAXED);

		if (!is && __atomic_compare_exchange_n(&c->seen[at], &is, pc, false,
						       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			__atomic_add_fetch(&c->reached, 1, __ATOMIC_RELAXED);
			return true;
		}
		if (is == pc)
			return false;
	}
	return false;
}

bool fc_is_new(struct fc_cover *c, const uint64_t *trace)
{
	uint64_t count = trace ? __atomic_load_n(trace, __ATOMIC_RELAXED) : 0;
	bool is_new = false;

	for (uint64_t n = 1; n <= count && n < TRACE; n++)
		if (note(c, trace[n]))
			is_new = true;
	return is_new;
}

void fc_keep(struct fc_cover *c, unsigned int kind, const void *arg)
{
	uint32_t place = __atomic_fetch_add(&c->kept[kind], 1, __ATOMIC_RELAXED) % ROOM;
	uint64_t words[WORDS];

	memcpy(words, arg, sizeof(words));
	for (int n = 0; n < WORDS; n++)
		__atomic_store_n(&c->args[kind][place][n], words[n], __ATOMIC_RELAXED);
}

bool fc_get(struct fc_cover *c, unsigned int kind, uint64_t number, void *arg)
{
	uint32_t count = __atomic_load_n(&c->kept[kind], __ATOMIC_RELAXED), place;
	uint64_t words[WORDS];

	if (!count)
		return false;
	place = number % (count < ROOM ? count : ROOM);
	for (int n = 0; n < WORDS; n++)
		words[n] = __atomic_load_n(&c->args[kind][place][n], __ATOMIC_RELAXED);
	memcpy(arg, words, sizeof(words));
	return true;
}

uint32_t fc_reached(const struct fc_cover *c)
{
	return __atomic_load_n(&c->reached, __ATOMIC_RELAXED);
}

uint32_t fc_kept(const struct fc_cover *c)
{
	uint32_t all = 0;

	for (int kind = 0; kind < FC_KINDS; kind++) {
		uint32_t count = __atomic_load_n(&c->kept[kind], __ATOMIC_RELAXED);

		all += count < ROOM ? count : ROOM;
	}
	return all;
}
