/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A matching interface, in as few lines as the user interface allows.
 */
#ifndef WEFT_MI_H
#define WEFT_MI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/weft.h>

#define SOON	15000	/* ms that anything takes at most, also on a busy machine */

/* An interface: what its program has of it. */
struct mi {
	int fd;
	struct weft_match_open at;
	uint8_t *map;
	uint64_t target, initiator, events;
};

/* A word of the mapping. */
static inline volatile uint64_t *word(struct mi *m, unsigned int at)
{
	return (volatile uint64_t *)(m->map + at);
}

/* Opens and maps an interface of a port; 0 or a negative errno. */
long mi_open_as(struct mi *m, unsigned int port, struct weft_match_open at);
/* The same, as large as tests need one mostly. */
long mi_open(struct mi *m, unsigned int port, unsigned int flags);
void mi_close(struct mi *m);
/* WEFT_MATCH_KICK. */
void mi_kick(struct mi *m, unsigned int flags);

/* Puts a command into the ring of lists; waits for a slot. */
void command(struct mi *m, struct weft_match_command c);
/* Sends; with @in_ring the bytes are those at the address. Waits for slots. */
void put(struct mi *m, struct mi *to, struct weft_match_command c, bool in_ring);
/* The same of a command that has more: its op is set. With @in_ring so many bytes go with it. */
void ask(struct mi *m, struct mi *to, struct weft_match_command c, struct weft_match_more more,
	 const void *in_ring, size_t bytes);
/* Takes the next event, if there is one. */
bool take(struct mi *m, struct weft_match_event *e);
/* The same, of a program that is interrupted before it looks whether the interface wants room. */
bool take_late(struct mi *m, struct weft_match_event *e, unsigned int spins);
/* The next event; kind 0 if there is none for @timeout_ms, or for SOON. */
struct weft_match_event next_ms(struct mi *m, int timeout_ms);
struct weft_match_event next(struct mi *m);
/*
 * The status of a command, whose event is waited for; -1 if the next event is another one. Memory
 * for gets, atomic operations and puts at an offset is in a list only then: before, they end with
 * ENOENT.
 */
int result(struct mi *m, struct weft_match_command c);
int enable(struct mi *m);

/* Commands: a use-once buffer for messages of any source, overflow memory, and a message. */
struct weft_match_command buffer(const void *at, size_t length, uint64_t bits, uint64_t context);
struct weft_match_command overflow(const void *at, size_t length, uint64_t context);
struct weft_match_command message(const void *at, size_t length, uint64_t bits,
				  uint64_t context);

/* Memory for messages that the program matches. */
struct weft_match_command requests(const void *at, size_t length, uint64_t context);
/* A buffer that stays, and may be read. */
struct weft_match_command region(const void *at, size_t length, uint64_t bits, uint64_t context);

/* Bytes that are different for each @seed. */
void fill(uint8_t *at, size_t bytes, unsigned int seed);

#endif
