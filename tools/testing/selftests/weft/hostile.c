// SPDX-License-Identifier: GPL-2.0
/*
 * A peer whose kernel does what it likes: port 1's window is mapped from sysfs, beside the
 * driver, and all that can be reached through it is written, with garbage and with
 * messages that are as right as an enemy who knows all numbers can make them. What port 0
 * has not granted must not change.
 *
 * The window is one into the whole arena of port 0: both ports are in this machine, but
 * nothing of port 0 is known to the writer that another host could not know.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "weft_test.h"

#define BYTES		(256 << 10)
#define PAGE		4096UL
/* Generous: guests are slow when others run. */
#define PATIENCE_S	120

/* Of Documentation/queues.rst: a cell, and where the receive FIFO begins. */
#define CELL		128
#define HEAD		64
#define RX_AT		4096
#define PHASE		(1ULL << 63)

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* What a peer may do with a piece of memory of the victim's. */
enum grant { NOTHING, LOCAL, READ, DOMAIN, GRANTS };

FIXTURE(hostile) {
	struct we_end a, b;
	struct we_end other;		/* of another domain and file */
	volatile uint64_t *window;
	size_t window_bytes;
	uint8_t *canary[GRANTS];
	uint32_t stag[GRANTS];
};

static bool map_window(FIXTURE_DATA(hostile) *self, size_t bytes)
{
	char name[32], path[96];
	void *at;
	int fd;

	if (!wt_pci_name(1, name, sizeof(name)))
		return false;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource2", name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	/* Link 0 has the first slot. */
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	self->window = at == MAP_FAILED ? NULL : at;
	self->window_bytes = bytes;
	return self->window;
}

static bool make_canaries(FIXTURE_DATA(hostile) *self)
{
	static const uint32_t access[GRANTS] = {
		[LOCAL] = WEFT_ACCESS_LOCAL_WRITE,
		[READ] = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ,
		[DOMAIN] = WEFT_ACCESS_LOCAL_WRITE | WE_REMOTE,
	};

	for (int i = 0; i < GRANTS; i++) {
		struct we_end *owner = i == DOMAIN ? &self->other : &self->a;
		uint32_t mr;

		self->canary[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (self->canary[i] == MAP_FAILED)
			return false;
		memset(self->canary[i], 0x40 + i, BYTES);
		if (i != NOTHING && we_register(owner, self->canary[i], BYTES, access[i], &mr,
						&self->stag[i]))
			return false;
	}
	return true;
}

static bool begin(FIXTURE_DATA(hostile) *self)
{
	return we_begin(&self->a, 0, BYTES) && we_begin(&self->b, 1, BYTES) &&
	       we_begin(&self->other, 0, PAGE) && we_join(&self->a, &self->b) &&
	       make_canaries(self);
}

static void finish(FIXTURE_DATA(hostile) *self)
{
	for (int i = 0; i < GRANTS; i++)
		munmap(self->canary[i], BYTES);
	we_end(&self->a);
	we_end(&self->b);
	we_end(&self->other);
}

FIXTURE_SETUP(hostile)
{
	uint64_t arena;
	uint32_t kind;
	int fd;

	ASSERT_TRUE(wt_wait_ready(10000));
	ASSERT_TRUE(begin(self));
	fd = wt_open(0, 0);
	ASSERT_GE(fd, 0);
	kind = wt_port_info(fd).kind;
	arena = wt_link_info(fd, 0).arena_bytes;
	close(fd);
	if (kind != WEFT_PORT_WEFT)
		SKIP(return, "the window of other ports is not known");
	if (!map_window(self, arena))
		SKIP(return, "the kernel lets nobody map a BAR: boot it with iomem=relaxed");
}

FIXTURE_TEARDOWN(hostile)
{
	if (self->window)
		munmap((void *)self->window, self->window_bytes);
	finish(self);
}

static bool is_whole(FIXTURE_DATA(hostile) *self)
{
	for (int i = 0; i < GRANTS; i++) {
		for (size_t n = 0; n < BYTES; n++) {
			if (self->canary[i][n] == 0x40 + i)
				continue;
			printf("# memory %d has changed at %zu\n", i, n);
			return false;
		}
	}
	return true;
}

static void store(FIXTURE_DATA(hostile) *self, size_t at, uint64_t word)
{
	if (at + 8 <= self->window_bytes)
		self->window[at / 8] = word;
}

/* The cell that the victim looks at next: the first that nothing was written to. */
static unsigned int next_cell(FIXTURE_DATA(hostile) *self)
{
	unsigned int n = 0;

	while (n < 256 && self->window[(RX_AT + n * CELL + HEAD) / 8] & PHASE)
		n++;
	return n;
}

/*
 * A message to the victim's queue pair, in the place of cell number @n: WRITE of 64 bytes,
 * or FETCH_ADD, to what @stag names.
 */
static void forge(FIXTURE_DATA(hostile) *self, unsigned int n, uint8_t op, uint16_t psn,
		  uint32_t stag, uint64_t to)
{
	size_t at = RX_AT + (size_t)n * CELL;
	uint64_t head = self->a.qpn | (op == 3 ? 64ULL << 24 : 0) | (uint64_t)op << 32 |
			(uint64_t)psn << 47 | PHASE;

	for (size_t i = 0; i < 8; i++)
		store(self, at + i * 8, 0xeeeeeeeeeeeeeeeeULL);
	store(self, at + HEAD + 8, stag);
	store(self, at + HEAD + 16, to);
	store(self, at + HEAD + 24, 64);
	store(self, at + HEAD + 32, 1);
	__asm__ volatile("sfence" ::: "memory");
	store(self, at + HEAD, head);
	__asm__ volatile("sfence" ::: "memory");
}

/* A message in the place of cell number @n that there is not: it ends the trunk when it is taken. */
static void forge_last(FIXTURE_DATA(hostile) *self, unsigned int n)
{
	store(self, RX_AT + (size_t)n * CELL + HEAD, self->a.qpn | 0xffULL << 32 | PHASE);
	__asm__ volatile("sfence" ::: "memory");
}

static bool await_error(struct we_end *e)
{
	time_t until = time(NULL) + PATIENCE_S;

	while (we_state(e) != WEFT_QP_ERR) {
		if (time(NULL) > until)
			return false;
		we_kick(e);
	}
	return true;
}

/* The session ends, and the next one is as good as any. */
static void recover(struct __test_metadata *_metadata, FIXTURE_DATA(hostile) *self)
{
	char name[32], path[96];
	struct we_end a, b;

	ASSERT_TRUE(wt_pci_name(1, name, sizeof(name)));
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", name);
	ASSERT_EQ(0, wt_write(path, "1"));
	ASSERT_TRUE(wt_wait_ready(60000));
	ASSERT_TRUE(we_begin(&a, 0, BYTES));
	ASSERT_TRUE(we_begin(&b, 1, BYTES));
	ASSERT_TRUE(we_join(&a, &b));
	for (unsigned int n = 0; n < 10; n++)
		ASSERT_TRUE(we_exchange(&a, &b, n));
	we_end(&a);
	we_end(&b);
	EXPECT_TRUE(is_whole(self));
}

/* The forger knows QPN, STags and TOs; one message it may send shows that it works. */
TEST_F_TIMEOUT(hostile, M_5_forged_messages_reach_what_was_granted, 300)
{
	struct we_end *a = &self->a;
	time_t until = time(NULL) + PATIENCE_S;

	memset(a->mem, 0, a->bytes);
	forge(self, next_cell(self), 3, 0, a->stag, WE_BASE + 128);
	while (a->mem[128 + 63] != 0xee && time(NULL) < until)
		we_kick(a);
	EXPECT_EQ(0xee, a->mem[128]);
	EXPECT_EQ(0xee, a->mem[128 + 63]);
	EXPECT_EQ(0, a->mem[127]);
	EXPECT_EQ(0, a->mem[128 + 64]);
	EXPECT_EQ(WEFT_QP_RTS, we_state(a));
	recover(_metadata, self);
}

TEST_F_TIMEOUT(hostile, M_5_forged_messages_reach_nothing_else, 300)
{
	static const struct {
		enum grant what;
		uint8_t op;
		uint32_t stag;
		int64_t to;
	} forged[] = {
		{ LOCAL, 3, 0, 0 }, { LOCAL, 7, 0, 0 }, { READ, 3, 0, 0 }, { READ, 7, 0, 64 },
		{ DOMAIN, 3, 0, 0 }, { DOMAIN, 7, 0, 0 }, { DOMAIN, 3, 1, 0 },
		{ READ, 3, 0, -64 }, { READ, 3, 0, BYTES - 63 }, { LOCAL, 3, 0, BYTES },
	};

	for (size_t i = 0; i < sizeof(forged) / sizeof(*forged); i++) {
		unsigned int n = next_cell(self);

		forge(self, n, forged[i].op, 0, self->stag[forged[i].what] ^ forged[i].stag,
		      WE_BASE + forged[i].to);
		/* Refused, it ends nothing but itself; what is behind it shows that it was taken. */
		forge_last(self, n + 1);
		ASSERT_TRUE(await_error(&self->a)) TH_LOG("forged message %zu", i);
		EXPECT_TRUE(is_whole(self)) TH_LOG("forged message %zu", i);
		recover(_metadata, self);
		finish(self);
		ASSERT_TRUE(begin(self));
	}
}

static void garbage(FIXTURE_DATA(hostile) *self, uint64_t seed)
{
	uint64_t state = seed;

	/* From the end, so that what makes it all valid comes last; each byte of it. */
	for (size_t at = self->window_bytes; at >= 8; at -= 8)
		store(self, at - 8, next_random(&state));
	/* Heads that count as come, wherever the victim looks. */
	for (unsigned int n = 0; n < 32; n++)
		store(self, RX_AT + n * CELL + HEAD, next_random(&state) | PHASE);
}

/* Every byte that the window reaches: rings, counts, memory for data, areas of channels. */
TEST_F_TIMEOUT(hostile, M_5_garbage_everywhere, 600)
{
	struct wt_chan c, d;

	for (uint64_t seed = 1; seed <= 4; seed++) {
		ASSERT_TRUE(wt_pair(&c, &d, 16, 4096));
		garbage(self, seed);
		ASSERT_TRUE(await_error(&self->a)) TH_LOG("seed %llu", (unsigned long long)seed);
		EXPECT_TRUE(is_whole(self)) TH_LOG("seed %llu", (unsigned long long)seed);
		/* And again, while it is being torn down. */
		garbage(self, seed + 100);
		wt_close(&c);
		wt_close(&d);
		recover(_metadata, self);
		finish(self);
		ASSERT_TRUE(begin(self));
	}
}

/* Heads that are nearly right, in rings that still work, while messages go on. */
TEST_F_TIMEOUT(hostile, M_5_garbage_in_the_rings, 600)
{
	for (uint64_t seed = 1; seed <= 24; seed++) {
		time_t until = time(NULL) + PATIENCE_S;
		uint64_t state = seed;

		for (unsigned int n = next_cell(self); we_state(&self->a) != WEFT_QP_ERR; n++) {
			uint64_t word = next_random(&state);
			unsigned int cell = n % 256;

			ASSERT_LT(time(NULL), until) TH_LOG("seed %llu",
							    (unsigned long long)seed);
			for (unsigned int i = 0; i < 16; i++)
				if (i != 8)
					store(self, RX_AT + cell * CELL + i * 8,
					      next_random(&state) >> (word & 63));
			store(self, RX_AT + cell * CELL + HEAD,
			      self->a.qpn | (word & 0x7f) << 24 | (word >> 8 & 0x1f) << 32 |
			      (uint64_t)cell << 47 | PHASE);
			we_kick(&self->a);
		}
		EXPECT_TRUE(is_whole(self)) TH_LOG("seed %llu", (unsigned long long)seed);
		recover(_metadata, self);
		finish(self);
		ASSERT_TRUE(begin(self));
	}
}

TEST_HARNESS_MAIN
