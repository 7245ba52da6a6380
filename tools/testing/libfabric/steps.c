// SPDX-License-Identifier: GPL-2.0
/*
 * Steps of tests: what a target does, and what each of its sources does. A source tells its target
 * that it has come so far by a message with the tag GO, and waits for one likewise.
 */
#include <unistd.h>

#include "fit.h"

/* Tags, with all of the bits that there are. */
#define HIGH	BIT_ULL(61)
#define GO	(HIGH | 0x777)

const size_t sizes[SIZES] = { 0, 1, 63, 64, 65, 1024, 4095, 4096, 4097, 16385, 65539, MOST };

uint8_t *memory(size_t bytes)
{
	uint8_t *p = malloc(bytes + 1);

	CHECK(p);
	memset(p, 0xee, bytes + 1);
	return p;
}

void wait_go(struct fit *f, fi_addr_t from)
{
	int context;

	POST(f, fi_trecv(f->ep, NULL, 0, NULL, from, GO, 0, &context));
	succeeded(f, &context);
}

static void tsend(struct fit *f, fi_addr_t to, const void *at, size_t bytes, uint64_t tag)
{
	int context;

	POST(f, fi_tsend(f->ep, at, bytes, NULL, to, tag, &context));
	CHECK(succeeded(f, &context).entry.flags & FI_SEND);
}

void go(struct fit *f, fi_addr_t to)
{
	tsend(f, to, NULL, 0, GO);
}

/* --- messages of all sizes, there and back: expected ones, mostly */

static void echo(struct fit *f, fi_addr_t *sources)
{
	uint8_t *to = memory(MOST);
	struct done d;
	unsigned int i;
	int in, out;

	for (i = 0; i < SIZES; i++) {
		POST(f, fi_trecv(f->ep, to, MOST, NULL, FI_ADDR_UNSPEC, HIGH | i, 0xf000, &in));
		d = succeeded(f, &in);
		CHECK(d.entry.len == sizes[i] && d.entry.tag == (HIGH | 0x5000 | i));
		CHECK(d.entry.flags == (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA));
		CHECK(d.entry.data == DATA + i && d.source == sources[0]);
		CHECK(is_filled(to, sizes[i], i));
		POST(f, fi_tsend(f->ep, to, sizes[i], NULL, d.source, i, &out));
		succeeded(f, &out);
		memset(to, 0xee, sizes[i]);
		POST(f, fi_recv(f->ep, to, MOST, NULL, FI_ADDR_UNSPEC, &in));
		d = succeeded(f, &in);
		CHECK(d.entry.len == sizes[i] && d.entry.flags == (FI_MSG | FI_RECV));
		CHECK(is_filled(to, sizes[i], 100 + i) && d.source == sources[0]);
		POST(f, fi_senddata(f->ep, to, sizes[i], NULL, i, d.source, &out));
		succeeded(f, &out);
	}
	/* Each of them was counted: the greeting, and these. */
	CHECK(fi_cntr_read(f->received) == 1 + 2 * SIZES);
	free(to);
}

static void echoed(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint8_t *from = memory(MOST), *back = memory(MOST);
	struct done d;
	unsigned int i;
	int in, out;

	(void)n;
	for (i = 0; i < SIZES; i++) {
		fill(from, sizes[i], i);
		POST(f, fi_trecv(f->ep, back, MOST, NULL, target, i, 0, &in));
		POST(f, fi_tsenddata(f->ep, from, sizes[i], NULL, DATA + i, target,
				     HIGH | 0x5000 | i, &out));
		d = succeeded(f, &out);
		CHECK(d.entry.flags == (FI_TAGGED | FI_SEND));
		d = succeeded(f, &in);
		CHECK(d.entry.len == sizes[i] && !(d.entry.flags & FI_REMOTE_CQ_DATA));
		CHECK(is_filled(back, sizes[i], i));
		fill(from, sizes[i], 100 + i);
		POST(f, fi_recv(f->ep, back, MOST, NULL, FI_ADDR_UNSPEC, &in));
		POST(f, fi_send(f->ep, from, sizes[i], NULL, target, &out));
		succeeded(f, &out);
		d = succeeded(f, &in);
		CHECK(d.entry.data == i && d.entry.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA));
		CHECK(is_filled(back, sizes[i], 100 + i));
	}
	/* The greeting was one as well; it waits for the counter as programs do. */
	OK(fi_cntr_wait(f->sent, 1 + 2 * SIZES, SOON * 1000));
	CHECK(fi_cntr_readerr(f->sent) == 0);
	CHECK(fi_cntr_wait(f->sent, 2 + 2 * SIZES, 1) == -FI_ETIMEDOUT);
	free(from);
	free(back);
}

/* --- messages that come before their receive, of both kinds, and pieces */

static void late(struct fit *f, fi_addr_t *sources)
{
	uint8_t *to = memory(MOST);
	unsigned int i = SIZES, k;
	struct done d;
	int in;

	wait_go(f, sources[0]);
	/* The last ones first: tags say which they are. */
	while (i--) {
		struct iovec iov[3] = {
			{ .iov_base = to, .iov_len = 1 },
			{ .iov_base = to + 1, .iov_len = 70 },
			{ .iov_base = to + 71, .iov_len = MOST - 71 },
		};

		memset(to, 0xee, MOST + 1);
		POST(f, fi_trecvv(f->ep, iov, NULL, 3, sources[0], i, 0, &in));
		d = succeeded(f, &in);
		CHECK(d.entry.len == sizes[i] && d.entry.tag == i && d.source == sources[0]);
		CHECK(is_filled(to, sizes[i], i) && to[sizes[i]] == 0xee);
	}
	/* In their order: they have no tags. One buffer is too short. */
	for (i = 0; i < SIZES; i++) {
		k = sizes[i] == 16385 ? 100 : MOST;
		POST(f, fi_recv(f->ep, to, k, NULL, FI_ADDR_UNSPEC, &in));
		d = completed(f, &in);
		CHECK(d.err == (k == 100 ? FI_ETRUNC : 0));
		CHECK(d.entry.len == (k == 100 ? 100 : sizes[i]));
		CHECK(d.olen == sizes[i] - d.entry.len);
		CHECK(is_filled(to, d.entry.len, 50 + i));
	}
	free(to);
}

static void early(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint8_t *from[2 * SIZES];
	int contexts[2 * SIZES];
	unsigned int i;

	(void)n;
	for (i = 0; i < 2 * SIZES; i++) {
		size_t bytes = sizes[i % SIZES];
		struct iovec iov[2];

		from[i] = memory(bytes);
		fill(from[i], bytes, i < SIZES ? i : 50 + i - SIZES);
		iov[0] = (struct iovec) { .iov_base = from[i], .iov_len = bytes / 3 };
		iov[1] = (struct iovec) {
			.iov_base = from[i] + bytes / 3, .iov_len = bytes - bytes / 3,
		};
		if (i < SIZES)
			POST(f, fi_tsendv(f->ep, iov, NULL, 2, target, i, &contexts[i]));
		else
			POST(f, fi_send(f->ep, from[i], bytes, NULL, target, &contexts[i]));
	}
	go(f, target);
	for (i = 0; i < 2 * SIZES; i++) {
		succeeded(f, &contexts[i]);
		free(from[i]);
	}
}

/* --- a receive is for one kind of message */

static void kinds(struct fit *f, fi_addr_t *sources)
{
	char to[2][16];
	int in[2];

	/* A receive for any tag without the bits of GO, and a message without a tag. */
	POST(f, fi_trecv(f->ep, to[0], 16, NULL, FI_ADDR_UNSPEC, 0, ~GO, &in[0]));
	wait_go(f, sources[0]);
	CHECK(!is_completed(f, &in[0]));
	POST(f, fi_recv(f->ep, to[1], 16, NULL, FI_ADDR_UNSPEC, &in[1]));
	succeeded(f, &in[1]);
	CHECK(!strcmp(to[1], "plain"));
	go(f, sources[0]);
	succeeded(f, &in[0]);
	CHECK(!strcmp(to[0], "tagged"));
}

static void of_kinds(struct fit *f, fi_addr_t target, unsigned int n)
{
	int out;

	(void)n;
	POST(f, fi_send(f->ep, "plain", 6, NULL, target, &out));
	succeeded(f, &out);
	go(f, target);
	wait_go(f, target);
	tsend(f, target, "tagged", 7, 0);
}

/* --- a message is looked for, claimed, dropped */

static struct done ask(struct fit *f, uint64_t tag, uint64_t flags, void *context)
{
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = tag, .context = context };

	POST(f, fi_trecvmsg(f->ep, &msg, flags));
	return completed(f, context);
}

static void peek(struct fit *f, fi_addr_t *sources)
{
	struct iovec iov = { .iov_base = memory(MOST), .iov_len = MOST };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };
	unsigned int i;
	struct done d;
	int c[5];

	wait_go(f, sources[0]);
	CHECK(ask(f, 99, FI_PEEK, &c[0]).err == FI_ENOMSG);
	for (i = 0; i < SIZES; i++) {
		d = ask(f, i, FI_PEEK, &c[0]);
		CHECK(!d.err && d.entry.len == sizes[i] && d.entry.tag == i);
		CHECK(d.entry.data == DATA && d.source == sources[0]);
		CHECK(d.entry.flags & FI_REMOTE_CQ_DATA);
		/* It is still there. */
		d = ask(f, i, FI_PEEK | FI_CLAIM, &c[0]);
		CHECK(!d.err && d.entry.len == sizes[i]);
		/* And now for this receive alone. */
		CHECK(ask(f, i, FI_PEEK, &c[1]).err == FI_ENOMSG);
		msg.context = &c[0];
		POST(f, fi_trecvmsg(f->ep, &msg, FI_CLAIM));
		d = succeeded(f, &c[0]);
		CHECK(d.entry.len == sizes[i] && is_filled(iov.iov_base, sizes[i], i));
	}
	for (i = 0; i < SIZES; i++) {
		if (i % 2) {
			CHECK(!ask(f, 20 + i, FI_PEEK | FI_DISCARD, &c[2]).err);
		} else {
			CHECK(!ask(f, 20 + i, FI_PEEK | FI_CLAIM, &c[2]).err);
			CHECK(!ask(f, 20 + i, FI_CLAIM | FI_DISCARD, &c[2]).err);
		}
		CHECK(ask(f, 20 + i, FI_PEEK, &c[3]).err == FI_ENOMSG);
	}
	/* What is not claimed cannot be received so. */
	msg.context = &c[4];
	CHECK(fi_trecvmsg(f->ep, &msg, FI_CLAIM) == -FI_EINVAL);
	CHECK(fi_trecvmsg(f->ep, &msg, FI_DISCARD) == -FI_EBADFLAGS);
	free(iov.iov_base);
}

static void peeked(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint8_t *from[2 * SIZES];
	int contexts[2 * SIZES];
	unsigned int i;

	(void)n;
	for (i = 0; i < 2 * SIZES; i++) {
		size_t bytes = sizes[i % SIZES];

		from[i] = memory(bytes);
		fill(from[i], bytes, i % SIZES);
		POST(f, fi_tsenddata(f->ep, from[i], bytes, NULL, DATA, target,
				     i < SIZES ? i : 20 + i - SIZES, &contexts[i]));
	}
	go(f, target);
	/* Those that were dropped are over, too. */
	for (i = 0; i < 2 * SIZES; i++) {
		succeeded(f, &contexts[i]);
		free(from[i]);
	}
}

/* --- receives that name their source, of two */

static void directed(struct fit *f, fi_addr_t *sources)
{
	unsigned int i, n, seen = 0;
	uint32_t to[2][8];
	int in[2][8];
	struct done d;

	CHECK(sources[0] != sources[1]);
	/* Half of them before the messages, of the second source first. */
	for (n = 2; n--;)
		for (i = 0; i < 4; i++)
			POST(f, fi_trecv(f->ep, &to[n][i], 4, NULL, sources[n], 5, 0, &in[n][i]));
	go(f, sources[0]);
	go(f, sources[1]);
	wait_go(f, sources[0]);
	wait_go(f, sources[1]);
	for (n = 2; n--;)
		for (i = 4; i < 7; i++)
			POST(f, fi_trecv(f->ep, &to[n][i], 4, NULL, sources[n], 5, 0, &in[n][i]));
	/* In the order of each source; between them there is none. */
	for (n = 0; n < 2; n++) {
		for (i = 0; i < 7; i++) {
			d = succeeded(f, &in[n][i]);
			CHECK(d.source == sources[n] && to[n][i] == n * 100 + i);
		}
	}
	/* The last ones are for any. */
	for (i = 0; i < 2; i++) {
		POST(f, fi_trecv(f->ep, &to[0][7], 4, NULL, FI_ADDR_UNSPEC, 5, 0, &in[0][7]));
		d = succeeded(f, &in[0][7]);
		n = d.source == sources[1];
		CHECK(d.source == sources[n] && to[0][7] == n * 100 + 7);
		seen |= 1 << n;
	}
	CHECK(seen == 3);
}

static void to_directed(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint32_t i, value;

	wait_go(f, target);
	for (i = 0; i < 8; i++) {
		value = n * 100 + i;
		tsend(f, target, &value, sizeof(value), 5);
	}
	go(f, target);
}

/* --- a buffer that many messages are for */

#define MANY	40

static void multi(struct fit *f, fi_addr_t *sources)
{
	struct iovec iov = { .iov_base = memory(2 * MOST), .iov_len = 2 * MOST };
	struct fi_msg msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
	};
	size_t least = 131072, value = 0, len = sizeof(value), whole = 0;
	unsigned int i, round, seen = 0;
	int context[4];
	struct done d;

	OK(fi_setopt(&f->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	OK(fi_getopt(&f->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	CHECK(value == least);
	/* It is taken back, and posted again. */
	msg.context = &context[3];
	POST(f, fi_recvmsg(f->ep, &msg, FI_MULTI_RECV));
	OK(fi_cancel(&f->ep->fid, &context[3]));
	d = completed(f, &context[3]);
	CHECK(d.err == FI_ECANCELED && d.entry.flags & FI_MULTI_RECV);
	go(f, sources[0]);
	for (round = 0; seen < MANY; round++) {
		CHECK(round < 3);
		msg.context = &context[round];
		POST(f, fi_recvmsg(f->ep, &msg, FI_MULTI_RECV));
		do {
			unsigned int n;

			d = succeeded(f, &context[round]);
			CHECK((uint8_t *)d.entry.buf >= (uint8_t *)iov.iov_base);
			CHECK((uint8_t *)d.entry.buf + d.entry.len <=
			      (uint8_t *)iov.iov_base + iov.iov_len);
			n = d.entry.data;
			CHECK(is_filled(d.entry.buf, d.entry.len, n));
			whole += d.entry.len;
			seen++;
			if (seen == MANY)
				break;
		} while (!(d.entry.flags & FI_MULTI_RECV));
	}
	/* More than one buffer was filled, and each message came once. */
	CHECK(round >= 2);
	for (i = 0; i < MANY; i++)
		whole -= i % 2 ? 2000 * i : 130000;
	CHECK(!whole);
	/* What was posted last is there until the endpoint is closed: the memory is not freed. */
	go(f, sources[0]);
}

static void to_multi(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint8_t *from[MANY];
	int out[MANY];
	unsigned int i;

	(void)n;
	wait_go(f, target);
	for (i = 0; i < MANY; i++) {
		size_t bytes = i % 2 ? 2000 * i : 130000;

		from[i] = memory(bytes);
		fill(from[i], bytes, i);
		POST(f, fi_senddata(f->ep, from[i], bytes, NULL, i, target, &out[i]));
	}
	for (i = 0; i < MANY; i++)
		succeeded(f, &out[i]);
	wait_go(f, target);
	for (i = 0; i < MANY; i++)
		free(from[i]);
}

/* --- receives are taken back */

static void cancel(struct fit *f, fi_addr_t *sources)
{
	char to[3][8];
	int in[3];

	POST(f, fi_trecv(f->ep, to[0], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &in[0]));
	POST(f, fi_trecv(f->ep, to[1], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &in[1]));
	POST(f, fi_recv(f->ep, to[2], 8, NULL, FI_ADDR_UNSPEC, &in[2]));
	OK(fi_cancel(&f->ep->fid, &in[0]));
	OK(fi_cancel(&f->ep->fid, &in[2]));
	CHECK(completed(f, &in[0]).err == FI_ECANCELED);
	CHECK(completed(f, &in[2]).err == FI_ECANCELED);
	CHECK(fi_cancel(&f->ep->fid, &in[0]) == -FI_ENOENT);
	go(f, sources[0]);
	/* The message is for the one that was left. */
	succeeded(f, &in[1]);
	CHECK(!strcmp(to[1], "left") && to[0][0] != 'l');
}

static void to_cancel(struct fit *f, fi_addr_t target, unsigned int n)
{
	(void)n;
	wait_go(f, target);
	tsend(f, target, "left", 5, 1);
}

/* --- many short messages, more than there is room for anywhere, none lost and in their order */

#define FLOOD	6000

static void flooded(struct fit *f, fi_addr_t *sources)
{
	uint32_t to[64];
	int in[64];
	unsigned int i;

	(void)sources;
	/* They wait: here, as long as there are entries and memory, and at their source. */
	sleep(1);
	for (i = 0; i < FLOOD + 64; i++) {
		if (i >= 64) {
			succeeded(f, &in[i % 64]);
			CHECK(to[i % 64] == i - 64);
		}
		if (i < FLOOD)
			POST(f, fi_trecv(f->ep, &to[i % 64], 4, NULL, FI_ADDR_UNSPEC, 3, 0,
					 &in[i % 64]));
	}
}

static void flood(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint32_t i;

	(void)n;
	for (i = 0; i < FLOOD; i++)
		POST(f, fi_tinject(f->ep, &i, sizeof(i), target, 3));
	OK(fi_cntr_wait(f->sent, 1 + FLOOD, SOON * 1000));
}

static const struct step steps[] = {
	{ "echo", echo, echoed, 1, 0 },
	{ "late", late, early, 1, 0 },
	{ "kinds", kinds, of_kinds, 1, 0 },
	{ "peek", peek, peeked, 1, 0 },
	{ "directed", directed, to_directed, 2, 0 },
	{ "multi", multi, to_multi, 1, 0 },
	{ "cancel", cancel, to_cancel, 1, 0 },
	{ "flood", flooded, flood, 1, 0 },
	{ 0 },
};

const struct step *step_of(const char *name)
{
	const struct step *sets[] = { steps, region_steps, trigger_steps };
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(sets); n++)
		for (const struct step *s = sets[n]; s->name; s++)
			if (!strcmp(s->name, name))
				return s;
	fprintf(stderr, "there is no step %s\n", name);
	exit(2);
}
