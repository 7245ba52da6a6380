// SPDX-License-Identifier: GPL-2.0
/*
 * Messages between matching interfaces of hosts, for tests of the lab:
 *
 *	matcher serve PORT BYTES COUNT	says its address, and receives so many messages, 0: until it
 *					is killed
 *	matcher mute PORT		says its address, and has no room for events
 *	matcher sum PORT		says its address, and has an integer that others change
 *	matcher send PORT HWID ENDPOINT GENERATION BYTES COUNT
 *					sends so many messages, 0: until one fails; says how many
 *					have arrived, and the first error
 *	matcher add PORT HWID ENDPOINT GENERATION COUNT
 *					adds 1 so many times, 0: until that fails; says how often it
 *					has not, and the first error
 *	matcher read PORT HWID ENDPOINT GENERATION SECONDS
 *					gets the integer again and again, at least once; says how
 *					often, the first error, and what it was in the end
 *
 * What a message has tells which one it is: a target that finds other bytes ends with 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mi.h"
#include "weft_test.h"

#define BUFFERS		8
#define TAG		7
#define WAIT_MS		30000

static void append(struct mi *m, uint8_t *memory, size_t bytes, unsigned int n)
{
	command(m, buffer(memory + n * bytes, bytes, TAG, n));
}

static int serve(unsigned int port, size_t bytes, unsigned int count)
{
	uint8_t *memory = malloc(BUFFERS * bytes + 1), *want = malloc(bytes + 1);
	struct weft_match_event e;
	struct mi m;
	unsigned int n;

	if (!memory || !want || mi_open(&m, port, 0))
		return 2;
	for (n = 0; n < BUFFERS; n++)
		append(&m, memory, bytes, n);
	if (enable(&m))
		return 2;
	printf("%llu %u %u\n", m.at.hwid, m.at.endpoint, m.at.generation);
	fflush(stdout);
	for (n = 0; !count || n < count; n++) {
		e = next_ms(&m, -1);
		if (e.kind != WEFT_MATCH_RECEIVED)
			return 3;
		/* One that has failed has no bytes. */
		fill(want, e.stored, e.data);
		if (memcmp(want, memory + e.context * bytes, e.stored))
			return 1;
		append(&m, memory, bytes, e.context);
	}
	return 0;
}

/* Takes messages, and can say nothing of them: their source has no answer. */
static int mute(unsigned int port)
{
	struct weft_match_open few = { .entries = 16, .commands = 16, .events = 4 };
	uint8_t *memory = malloc(WEFT_MATCH_EAGER);
	unsigned int n;
	struct mi m;

	if (!memory || mi_open_as(&m, port, few) || enable(&m))
		return 2;
	append(&m, memory, WEFT_MATCH_EAGER, 0);
	/* A step begins when there are two places. */
	for (n = 0; n < 3; n++)
		command(&m, (struct weft_match_command) {
			.op = WEFT_MATCH_SEARCH, .flags = WEFT_MATCH_ANY_SOURCE,
		});
	while (*word(&m, WEFT_MATCH_EVENTS_PRODUCED_AT) != m.events + 3)
		usleep(1000);
	printf("%llu %u %u\n", m.at.hwid, m.at.endpoint, m.at.generation);
	fflush(stdout);
	for (;;)
		pause();
}

static struct mi named(char **argv)
{
	return (struct mi) {
		.at = {
			.hwid = strtoull(argv[0], NULL, 0),
			.endpoint = strtoul(argv[1], NULL, 0),
			.generation = strtoul(argv[2], NULL, 0),
		},
	};
}

static int sum(unsigned int port)
{
	static uint64_t number;
	struct weft_match_command c = region(&number, sizeof(number), TAG, 0);
	struct mi m;

	c.flags |= WEFT_MATCH_SILENT;
	if (mi_open(&m, port, 0))
		return 2;
	command(&m, c);
	if (enable(&m))
		return 2;
	printf("%llu %u %u\n", m.at.hwid, m.at.endpoint, m.at.generation);
	fflush(stdout);
	for (;;)
		pause();
}

static int add(char **argv)
{
	struct mi m, to = named(argv + 1);
	unsigned int count = strtoul(argv[4], NULL, 0), n, added = 0, error = 0;
	struct weft_match_more more = { .operation = WEFT_MATCH_SUM, .integer = 8 };
	uint64_t one = 1, was = 0, last = 0;
	struct weft_match_event e;

	more.result = (uintptr_t)&was;
	if (mi_open(&m, strtoul(argv[0], NULL, 0), 0))
		return 2;
	for (n = 0; (!count || n < count) && !error; n++) {
		struct weft_match_command c = message(&one, sizeof(one), TAG, n);

		c.op = WEFT_MATCH_FETCH;
		ask(&m, &to, c, more, &one, sizeof(one));
		e = next_ms(&m, WAIT_MS);
		if (e.kind != WEFT_MATCH_SENT)
			return 3;
		error = e.status;
		if (error)
			break;
		/* No other adds. */
		if (n && was != last + 1)
			return 1;
		last = was;
		added++;
	}
	printf("%u %u\n", added, error);
	return 0;
}

static int read_(char **argv)
{
	const int64_t until = wt_now_ms() + 1000 * strtoul(argv[4], NULL, 0);
	struct mi m, to = named(argv + 1);
	unsigned int n = 0, error = 0;
	struct weft_match_event e;
	uint64_t number = 0;

	if (mi_open(&m, strtoul(argv[0], NULL, 0), 0))
		return 2;
	do {
		struct weft_match_command c = message(&number, sizeof(number), TAG, n);

		c.op = WEFT_MATCH_GET;
		c.flags = WEFT_MATCH_RETRY;
		ask(&m, &to, c, (struct weft_match_more) {}, NULL, 0);
		e = next_ms(&m, WAIT_MS);
		if (e.kind != WEFT_MATCH_SENT)
			return 3;
		error = e.status;
		n += !error;
	} while (!error && wt_now_ms() < until);
	printf("%u %u %llu\n", n, error, (unsigned long long)number);
	return 0;
}

static int send_(char **argv)
{
	struct mi m, to = named(argv + 1);
	size_t bytes = strtoul(argv[4], NULL, 0);
	unsigned int count = strtoul(argv[5], NULL, 0), sent, arrived = 0, error = 0;
	uint8_t *memory = malloc(bytes + 1);
	struct weft_match_event e;

	if (!memory || mi_open(&m, strtoul(argv[0], NULL, 0), 0))
		return 2;
	for (sent = 0; (!count || sent < count) && !error; sent++) {
		struct weft_match_command c = message(memory, bytes, TAG, sent);

		fill(memory, bytes, sent);
		c.ignore = sent;
		put(&m, &to, c, bytes <= WEFT_MATCH_INLINE);
		e = next_ms(&m, WAIT_MS);
		if (e.kind != WEFT_MATCH_SENT)
			return 3;
		arrived += !e.status && e.stored == bytes;
		error = e.status;
	}
	printf("%u %u\n", arrived, error);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "serve"))
		return serve(strtoul(argv[2], NULL, 0), strtoul(argv[3], NULL, 0),
			     strtoul(argv[4], NULL, 0));
	if (argc == 3 && !strcmp(argv[1], "mute"))
		return mute(strtoul(argv[2], NULL, 0));
	if (argc == 8 && !strcmp(argv[1], "send"))
		return send_(argv + 2);
	if (argc == 3 && !strcmp(argv[1], "sum"))
		return sum(strtoul(argv[2], NULL, 0));
	if (argc == 7 && !strcmp(argv[1], "add"))
		return add(argv + 2);
	if (argc == 7 && !strcmp(argv[1], "read"))
		return read_(argv + 2);
	return 2;
}
