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
#define PHASE		0x8000000000000000ULL

/* What a peer may do with a piece of memory of the victim's. */
enum grant { NOTHING, LOCAL, READ, DOMAIN, GRANTS };

struct hostile {
	struct we_end a, b;
	struct we_end other;		/* of another domain and file */
	volatile uint64_t *window;
	size_t window_bytes;
	uint8_t *canary[GRANTS];
	uint32_t stag[GRANTS];
};

FIXTURE(hostile) {
	struct hostile h;
};

static bool map_window(struct hostile *h, size_t bytes)
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
	h->window = at == MAP_FAILED ? NULL : at;
	h->window_bytes = bytes;
	return h->window;
}

static bool make_canaries(struct hostile *h)
{
	static const uint32_t access[GRANTS] = {
		[LOCAL] = WEFT_ACCESS_LOCAL_WRITE,
		[READ] = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ,
		[DOMAIN] = WEFT_ACCESS_LOCAL_WRITE | WE_REMOTE,
	};

	for (int i = 0; i < GRANTS; i++) {
		struct we_end *owner = i == DOMAIN ? &h->other : &h->a;
		uint32_t mr;

		h->canary[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (h->canary[i] == MAP_FAILED)
			return false;
		memset(h->canary[i], 0x40 + i, BYTES);
		if (i != NOTHING && we_register(owner, h->canary[i], BYTES, access[i], &mr,
						&h->stag[i]))
			return false;
	}
	return true;
}

static bool begin(struct hostile *h)
{
	return we_begin(&h->a, 0, BYTES) && we_begin(&h->b, 1, BYTES) &&
	       we_begin(&h->other, 0, PAGE) && we_join(&h->a, &h->b) &&
	       /* They have joined, and say nothing more then. */
	       we_exchange(&h->a, &h->b, 0) && make_canaries(h);
}

static void finish(struct hostile *h)
{
	for (int i = 0; i < GRANTS; i++)
		munmap(h->canary[i], BYTES);
	we_end(&h->a);
	we_end(&h->b);
	we_end(&h->other);
}

/* Another session of the link begins, in whose FIFOs nothing has been. */
static bool begin_anew(void)
{
	char name[32], path[96];

	if (!wt_pci_name(1, name, sizeof(name)))
		return false;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", name);
	return !wt_write(path, "1") && wt_wait_ready(60000);
}

FIXTURE_SETUP(hostile)
{
	uint64_t arena;
	uint32_t kind;
	int fd;

	ASSERT_TRUE(wt_wait_ready(60000));
	ASSERT_TRUE(begin_anew());
	ASSERT_TRUE(begin(&self->h));
	fd = wt_open(0, 0);
	ASSERT_GE(fd, 0);
	kind = wt_port_info(fd).kind;
	arena = wt_link_info(fd, 0).arena_bytes;
	close(fd);
	if (kind != WEFT_PORT_WEFT)
		SKIP(return, "the window of other ports is not known");
	if (!map_window(&self->h, arena))
		SKIP(return, "the kernel lets no program map a BAR: boot it with iomem=relaxed");
}

FIXTURE_TEARDOWN(hostile)
{
	if (self->h.window)
		munmap((void *)self->h.window, self->h.window_bytes);
	finish(&self->h);
}

static bool is_whole(struct hostile *h)
{
	for (int i = 0; i < GRANTS; i++) {
		for (size_t n = 0; n < BYTES; n++) {
			if (h->canary[i][n] == 0x40 + i)
				continue;
			printf("# memory %d has changed at %zu\n", i, n);
			return false;
		}
	}
	return true;
}

static void store(struct hostile *h, size_t at, uint64_t word)
{
	if (at + 8 <= h->window_bytes)
		h->window[at / 8] = word;
}

/* The cell that the victim looks at next: the first that nothing was written to. */
static unsigned int next_cell(struct hostile *h)
{
	unsigned int n = 0;

	while (n < 256 && h->window[(RX_AT + n * CELL + HEAD) / 8] & PHASE)
		n++;
	return n;
}

/*
 * A message to the victim's queue pair, in the place of cell number @n: WRITE of 64 bytes,
 * or FETCH_ADD, to what @stag names.
 */
static void forge(struct hostile *h, unsigned int n, uint8_t op, uint16_t psn,
		  uint32_t stag, uint64_t to)
{
	size_t at = RX_AT + (size_t)n * CELL;
	uint64_t head = h->a.qpn | (op == 3 ? 64ULL << 24 : 0) | (uint64_t)op << 32 |
			(uint64_t)psn << 47 | PHASE;

	for (size_t i = 0; i < 8; i++)
		store(h, at + i * 8, 0xeeeeeeeeeeeeeeeeULL);
	store(h, at + HEAD + 8, stag);
	store(h, at + HEAD + 16, to);
	store(h, at + HEAD + 24, 64);
	store(h, at + HEAD + 32, 1);
	__asm__ volatile("sfence" ::: "memory");
	store(h, at + HEAD, head);
	__asm__ volatile("sfence" ::: "memory");
}

/* In the place of cell number @n what is no message: it ends the trunk when it is taken. */
static void forge_last(struct hostile *h, unsigned int n)
{
	store(h, RX_AT + (size_t)n * CELL + HEAD, h->a.qpn | 0xffULL << 32 | PHASE);
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
static void recover(struct __test_metadata *_metadata, struct hostile *h)
{
	struct we_end a, b;

	ASSERT_TRUE(begin_anew());
	ASSERT_TRUE(we_begin(&a, 0, BYTES));
	ASSERT_TRUE(we_begin(&b, 1, BYTES));
	ASSERT_TRUE(we_join(&a, &b));
	for (unsigned int n = 0; n < 10; n++)
		ASSERT_TRUE(we_exchange(&a, &b, n));
	we_end(&a);
	we_end(&b);
	EXPECT_TRUE(is_whole(h));
}

/* The forger knows QPN, STags and TOs; one message it may send shows that it works. */
TEST_F_TIMEOUT(hostile, M_5_forged_messages_reach_what_was_granted, 300)
{
	struct we_end *a = &self->h.a;
	time_t until = time(NULL) + PATIENCE_S;

	memset(a->mem, 0, a->bytes);
	forge(&self->h, next_cell(&self->h), 3, 0, a->stag, WE_BASE + 128);
	while (a->mem[128 + 63] != 0xee && time(NULL) < until)
		we_kick(a);
	EXPECT_EQ(0xee, a->mem[128]);
	EXPECT_EQ(0xee, a->mem[128 + 63]);
	EXPECT_EQ(0, a->mem[127]);
	EXPECT_EQ(0, a->mem[128 + 64]);
	EXPECT_EQ(WEFT_QP_RTS, we_state(a));
	recover(_metadata, &self->h);
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
		unsigned int n = next_cell(&self->h);

		forge(&self->h, n, forged[i].op, 0, self->h.stag[forged[i].what] ^ forged[i].stag,
		      WE_BASE + forged[i].to);
		/* Refused, it ends nothing but itself; what is behind it shows that. */
		forge_last(&self->h, n + 1);
		ASSERT_TRUE(await_error(&self->h.a)) TH_LOG("forged message %zu", i);
		EXPECT_TRUE(is_whole(&self->h)) TH_LOG("forged message %zu", i);
		recover(_metadata, &self->h);
		finish(&self->h);
		ASSERT_TRUE(begin(&self->h));
	}
}

static void garbage(struct hostile *h, uint64_t seed)
{
	uint64_t state = seed;

	/* From the end, so that what makes it all valid comes last; each byte of it. */
	for (size_t at = h->window_bytes; at >= 8; at -= 8)
		store(h, at - 8, wt_random(&state));
	/* Heads that count as come, wherever the victim looks. */
	for (unsigned int n = 0; n < 32; n++)
		store(h, RX_AT + n * CELL + HEAD, wt_random(&state) | PHASE);
}

/* Every byte that the window reaches: rings, counts, memory for data, areas of channels. */
TEST_F_TIMEOUT(hostile, M_5_garbage_everywhere, 600)
{
	struct wt_chan c, d;

	for (uint64_t seed = 1; seed <= 4; seed++) {
		ASSERT_TRUE(wt_pair(&c, &d, 16, 4096));
		garbage(&self->h, seed);
		ASSERT_TRUE(await_error(&self->h.a)) TH_LOG("seed %llu", (unsigned long long)seed);
		EXPECT_TRUE(is_whole(&self->h)) TH_LOG("seed %llu", (unsigned long long)seed);
		/* And again, while it is being torn down. */
		garbage(&self->h, seed + 100);
		wt_close(&c);
		wt_close(&d);
		recover(_metadata, &self->h);
		finish(&self->h);
		ASSERT_TRUE(begin(&self->h));
	}
}

/* Heads that are nearly right, in rings that still work, while messages go on. */
TEST_F_TIMEOUT(hostile, M_5_garbage_in_the_rings, 600)
{
	for (uint64_t seed = 1; seed <= 24; seed++) {
		time_t until = time(NULL) + PATIENCE_S;
		uint64_t state = seed;
		unsigned int n;

		for (n = next_cell(&self->h); we_state(&self->h.a) != WEFT_QP_ERR; n++) {
			uint64_t word = wt_random(&state);
			unsigned int cell = n % 256;

			ASSERT_LT(time(NULL), until) TH_LOG("seed %llu",
							    (unsigned long long)seed);
			for (unsigned int i = 0; i < 16; i++)
				if (i != 8)
					store(&self->h, RX_AT + cell * CELL + i * 8,
					      wt_random(&state) >> (word & 63));
			store(&self->h, RX_AT + cell * CELL + HEAD,
			      self->h.a.qpn | (word & 0x7f) << 24 | (word >> 8 & 0x1f) << 32 |
			      (uint64_t)cell << 47 | PHASE);
			we_kick(&self->h.a);
		}
		EXPECT_TRUE(is_whole(&self->h)) TH_LOG("seed %llu", (unsigned long long)seed);
		recover(_metadata, &self->h);
		finish(&self->h);
		ASSERT_TRUE(begin(&self->h));
	}
}

TEST_HARNESS_MAIN
