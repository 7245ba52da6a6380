// SPDX-License-Identifier: GPL-2.0
/*
 * A matching interface, as mi.h says.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "mi.h"
#include "weft_test.h"

long mi_open_as(struct mi *m, unsigned int port, struct weft_match_open at)
{
	long r;

	memset(m, 0, sizeof(*m));
	at.size = sizeof(at);
	m->at = at;
	m->fd = wt_open(port, O_RDWR | O_CLOEXEC);
	if (m->fd < 0)
		return m->fd;
	r = wt_ioctl(m->fd, WEFT_MATCH_OPEN, &m->at);
	if (r < 0) {
		close(m->fd);
		return r;
	}
	m->map = mmap(NULL, m->at.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	return m->map == MAP_FAILED ? -errno : 0;
}

long mi_open(struct mi *m, unsigned int port, unsigned int flags)
{
	return mi_open_as(m, port, (struct weft_match_open) {
		.flags = flags, .entries = 1024, .commands = 64, .events = 256,
	});
}

void mi_close(struct mi *m)
{
	if (m->map && m->map != MAP_FAILED)
		munmap(m->map, m->at.bytes);
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
	m->map = NULL;
}

void mi_kick(struct mi *m, unsigned int flags)
{
	struct weft_match_kick arg = { .size = sizeof(arg), .flags = flags };

	wt_ioctl(m->fd, WEFT_MATCH_KICK, &arg);
}

/* Waits for @count slots of a ring whose next is @next. */
static void room(struct mi *m, unsigned int consumed, uint64_t next, unsigned int count)
{
	while (next + count - *word(m, consumed) > m->at.commands)
		usleep(100);
}

/* Produces slots, as the interface says that programs do. */
static void produce(struct mi *m, unsigned int at, uint64_t produced)
{
	__atomic_store_n(word(m, at), produced, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (*word(m, WEFT_MATCH_IDLE_AT))
		mi_kick(m, 0);
}

void command(struct mi *m, struct weft_match_command c)
{
	uint64_t n = m->target % m->at.commands;

	room(m, WEFT_MATCH_TARGET_CONSUMED_AT, m->target, 1);
	memcpy(m->map + m->at.target_at + n * sizeof(c), &c, sizeof(c));
	produce(m, WEFT_MATCH_TARGET_PRODUCED_AT, ++m->target);
}

static void initiate(struct mi *m, const void *slot, size_t bytes)
{
	uint64_t n = m->initiator++ % m->at.commands;

	memcpy(m->map + m->at.initiator_at + n * sizeof(struct weft_match_command), slot, bytes);
}

static struct weft_match_command addressed(struct weft_match_command c, struct mi *to)
{
	c.hwid = to->at.hwid;
	c.endpoint = to->at.endpoint;
	c.generation = to->at.generation;
	return c;
}

/* Sends; with @in_ring the bytes are those at the address. */
void put(struct mi *m, struct mi *to, struct weft_match_command c, bool in_ring)
{
	void *bytes = (void *)(uintptr_t)c.address;

	c.op = WEFT_MATCH_PUT;
	c = addressed(c, to);
	if (in_ring)
		c.flags |= WEFT_MATCH_IN_RING;
	room(m, WEFT_MATCH_INITIATOR_CONSUMED_AT, m->initiator, 2);
	initiate(m, &c, sizeof(c));
	if (in_ring)
		initiate(m, bytes, c.length);
	produce(m, WEFT_MATCH_INITIATOR_PRODUCED_AT, m->initiator);
}

void ask(struct mi *m, struct mi *to, struct weft_match_command c, struct weft_match_more more,
	 const void *in_ring, size_t bytes)
{
	c = addressed(c, to);
	if (in_ring)
		c.flags |= WEFT_MATCH_IN_RING;
	room(m, WEFT_MATCH_INITIATOR_CONSUMED_AT, m->initiator, 3);
	initiate(m, &c, sizeof(c));
	initiate(m, &more, sizeof(more));
	if (in_ring)
		initiate(m, in_ring, bytes);
	produce(m, WEFT_MATCH_INITIATOR_PRODUCED_AT, m->initiator);
}

bool take(struct mi *m, struct weft_match_event *e)
{
	return take_late(m, e, 0);
}

bool take_late(struct mi *m, struct weft_match_event *e, unsigned int spins)
{
	uint64_t n = m->events % m->at.events;
	volatile unsigned int left = spins;

	if (__atomic_load_n(word(m, WEFT_MATCH_EVENTS_PRODUCED_AT), __ATOMIC_ACQUIRE) ==
	    m->events)
		return false;
	memcpy(e, m->map + m->at.events_at + n * sizeof(*e), sizeof(*e));
	__atomic_store_n(word(m, WEFT_MATCH_EVENTS_CONSUMED_AT), ++m->events, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	while (left)
		left--;
	if (*word(m, WEFT_MATCH_WANTS_AT))
		mi_kick(m, 0);
	return true;
}

/* The next event; kind 0 if there is none for @timeout_ms. */
struct weft_match_event next_ms(struct mi *m, int timeout_ms)
{
	struct pollfd p = { .fd = m->fd, .events = POLLIN };
	struct weft_match_event e = {};

	if (!take(m, &e) && (poll(&p, 1, timeout_ms) != 1 || !take(m, &e)))
		e.kind = 0;
	return e;
}

struct weft_match_event next(struct mi *m)
{
	return next_ms(m, SOON);
}

int result(struct mi *m, struct weft_match_command c)
{
	struct weft_match_event e;

	c.flags &= ~WEFT_MATCH_QUIET;
	command(m, c);
	e = next(m);
	return e.kind == WEFT_MATCH_COMMAND && e.context == c.context ? (int)e.status : -1;
}

int enable(struct mi *m)
{
	return result(m, (struct weft_match_command) { .op = WEFT_MATCH_ENABLE });
}

struct weft_match_command buffer(const void *at, size_t length, uint64_t bits, uint64_t context)
{
	return (struct weft_match_command) {
		.op = WEFT_MATCH_APPEND, .flags = WEFT_MATCH_ANY_SOURCE | WEFT_MATCH_QUIET,
		.address = (uintptr_t)at, .length = length, .bits = bits, .context = context,
	};
}

struct weft_match_command overflow(const void *at, size_t length, uint64_t context)
{
	struct weft_match_command c = buffer(at, length, 0, context);

	c.flags |= WEFT_MATCH_OVERFLOW | WEFT_MATCH_PERSISTENT | WEFT_MATCH_MANAGE_LOCAL;
	c.ignore = ~0ULL;
	c.min_free = WEFT_MATCH_EAGER;
	return c;
}

struct weft_match_command message(const void *at, size_t length, uint64_t bits,
				  uint64_t context)
{
	return (struct weft_match_command) {
		.address = (uintptr_t)at, .length = length, .bits = bits, .context = context,
		.ignore = context + 1000,
	};
}

struct weft_match_command requests(const void *at, size_t length, uint64_t context)
{
	struct weft_match_command c = overflow(at, length, context);

	c.flags ^= WEFT_MATCH_OVERFLOW | WEFT_MATCH_REQUESTS;
	return c;
}

struct weft_match_command region(const void *at, size_t length, uint64_t bits, uint64_t context)
{
	struct weft_match_command c = buffer(at, length, bits, context);

	c.flags |= WEFT_MATCH_PERSISTENT | WEFT_MATCH_READABLE;
	return c;
}

void fill(uint8_t *at, size_t bytes, unsigned int seed)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		at[i] = seed + i * 7 + (i >> 9);
}
