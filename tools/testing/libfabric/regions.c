// SPDX-License-Identifier: GPL-2.0
/*
 * Steps of tests: regions of a target that its sources write, read and change.
 */
#include <unistd.h>

#include "fit.h"

#define READ_ONLY	0x12
/* The longest that there is. */
#define LAST_KEY	((1ULL << 56) - 1)
/* Where in the region; what is before it stays as it is. */
#define AT		32

/* --- bytes of all sizes, with data and without, in pieces, and where they must not go */

static void rma(struct fit *f, fi_addr_t *sources)
{
	uint8_t *at = memory(AT + MOST), *only = memory(100);
	struct fid_mr *mr, *read_only, *none;
	struct done d;
	unsigned int i;

	fill(only, 100, 7);
	mr = region(f, at, AT + MOST, ALL, KEY);
	read_only = region(f, only, 100, FI_REMOTE_READ, READ_ONLY);
	CHECK(fi_mr_reg(f->domain, at, 1, ALL, 0, KEY, 0, &none, NULL) == -FI_ENOKEY);
	CHECK(fi_mr_reg(f->domain, at, 1, ALL, 0, LAST_KEY + 1, 0, &none, NULL) ==
	      -FI_EKEYREJECTED);
	closed(region(f, at, 1, ALL, LAST_KEY));
	go(f, sources[0]);
	for (i = 0; i < SIZES; i++) {
		d = succeeded(f, NULL);
		CHECK(d.entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
		CHECK(d.entry.len == sizes[i] && d.entry.data == DATA + i);
		CHECK(d.source == sources[0] && is_filled(at + AT, sizes[i], 200 + i));
		go(f, sources[0]);
	}
	wait_go(f, sources[0]);
	for (i = 0; i < AT; i++)
		CHECK(at[i] == 0xee);
	CHECK(at[AT + MOST] == 0xee && is_filled(only, 100, 7));
	closed(mr);
	closed(read_only);
	memset(at, 0x55, AT + MOST);
	go(f, sources[0]);
	wait_go(f, sources[0]);
	/* There was no region any more. */
	for (i = 0; i < AT + MOST; i++)
		CHECK(at[i] == 0x55);
	/* Nothing else was told of: none of it was asked for. */
	CHECK(!is_completed(f, NULL) && !fi_cntr_read(f->reached));
	free(at);
	free(only);
}

/* One access beyond each end, and where it may not be. */
static void refused(struct fit *f, fi_addr_t target, uint8_t *buf)
{
	int c;

	POST(f, fi_write(f->ep, buf, 8, NULL, target, AT + MOST - 4, KEY, &c));
	CHECK(failed(f, &c) == FI_EACCES);
	POST(f, fi_read(f->ep, buf, 8, NULL, target, AT + MOST - 4, KEY, &c));
	CHECK(failed(f, &c) == FI_EACCES);
	POST(f, fi_write(f->ep, buf, 5000, NULL, target, UINT64_MAX - 100, KEY, &c));
	CHECK(failed(f, &c) == FI_EACCES);
	POST(f, fi_write(f->ep, buf, 8, NULL, target, 0, READ_ONLY, &c));
	CHECK(failed(f, &c) == FI_EACCES);
	POST(f, fi_write(f->ep, buf, 8, NULL, target, 0, KEY + 100, &c));
	CHECK(failed(f, &c) == FI_ENOKEY);
	POST(f, fi_read(f->ep, buf, 8, NULL, target, 0, LAST_KEY, &c));
	CHECK(failed(f, &c) == FI_ENOKEY);
	CHECK(fi_write(f->ep, buf, 8, NULL, target, 0, LAST_KEY + 1, &c) == -FI_ENOKEY);
}

static void in_pieces(struct fit *f, fi_addr_t target, uint8_t *buf, uint8_t *back)
{
	struct iovec out[3] = {
		{ .iov_base = buf, .iov_len = 1 }, { .iov_base = buf + 1, .iov_len = 0 },
		{ .iov_base = buf + 1, .iov_len = 99999 },
	};
	struct iovec in[2] = {
		{ .iov_base = back, .iov_len = 777 },
		{ .iov_base = back + 777, .iov_len = 100000 - 777 },
	};
	struct fi_rma_iov place = { .addr = AT + 5, .len = 100000, .key = KEY };
	struct fi_msg_rma msg = {
		.msg_iov = out, .iov_count = 3, .addr = target, .rma_iov = &place,
		.rma_iov_count = 1,
	};
	int c;

	fill(buf, 100000, 90);
	memset(back, 0, 100000);
	msg.context = &c;
	POST(f, fi_writemsg(f->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
	succeeded(f, &c);
	msg.msg_iov = in;
	msg.iov_count = 2;
	POST(f, fi_readmsg(f->ep, &msg, FI_COMPLETION));
	succeeded(f, &c);
	CHECK(is_filled(back, 100000, 90));
	POST(f, fi_writev(f->ep, out, NULL, 2, target, AT, KEY, &c));
	succeeded(f, &c);
	POST(f, fi_readv(f->ep, in, NULL, 1, target, AT + 5, KEY, &c));
	succeeded(f, &c);
	CHECK(is_filled(back, 777, 90));
	place.len--;
	CHECK(fi_readmsg(f->ep, &msg, 0) == -FI_EINVAL);
	msg.rma_iov_count = 2;
	CHECK(fi_readmsg(f->ep, &msg, 0) == -FI_EINVAL);
}

static void to_rma(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint8_t *buf = memory(MOST), *back = memory(MOST);
	uint64_t count = 0;
	struct done d;
	unsigned int i;
	int c;

	(void)n;
	wait_go(f, target);
	for (i = 0; i < SIZES; i++) {
		fill(buf, sizes[i], i);
		memset(back, 0xee, MOST);
		POST(f, fi_write(f->ep, buf, sizes[i], NULL, target, AT, KEY, &c));
		d = succeeded(f, &c);
		CHECK(d.entry.flags == (FI_RMA | FI_WRITE));
		/* It is there when it is over. */
		POST(f, fi_read(f->ep, back, sizes[i], NULL, target, AT, KEY, &c));
		d = succeeded(f, &c);
		CHECK(d.entry.flags == (FI_RMA | FI_READ));
		CHECK(is_filled(back, sizes[i], i) && back[sizes[i]] == 0xee);
		fill(buf, sizes[i], 200 + i);
		POST(f, fi_writedata(f->ep, buf, sizes[i], NULL, DATA + i, target, AT, KEY, &c));
		succeeded(f, &c);
		wait_go(f, target);
	}
	count += 3 * SIZES;
	/* What is injected is the program's at once; of it there is no completion. */
	for (i = 0; i < 1024; i += 64) {
		fill(buf, i, 50 + i);
		POST(f, fi_inject_write(f->ep, buf, i, target, AT + 2048, KEY));
		memset(buf, 0, i);
		count++;
		OK(fi_cntr_wait(f->accessed, count, SOON * 1000));
		POST(f, fi_read(f->ep, back, i, NULL, target, AT + 2048, KEY, &c));
		succeeded(f, &c);
		count++;
		CHECK(is_filled(back, i, 50 + i));
	}
	CHECK(fi_inject_write(f->ep, buf, 1025, target, AT, KEY) == -FI_EINVAL);
	in_pieces(f, target, buf, back);
	POST(f, fi_read(f->ep, back, 100, NULL, target, 0, READ_ONLY, &c));
	succeeded(f, &c);
	CHECK(is_filled(back, 100, 7));
	CHECK(!fi_cntr_readerr(f->accessed));
	refused(f, target, buf);
	CHECK(fi_cntr_readerr(f->accessed) == 6);
	go(f, target);
	wait_go(f, target);
	POST(f, fi_write(f->ep, buf, 4000, NULL, target, AT, KEY, &c));
	CHECK(failed(f, &c) == FI_ENOKEY);
	go(f, target);
	free(buf);
	free(back);
}

/* --- many at once: in the order in which they are begun, as far as that is promised */

#define TIMES	2000

static void order(struct fit *f, fi_addr_t *sources)
{
	uint64_t *at = calloc(TIMES, sizeof(*at));
	struct fid_mr *mr;
	unsigned int i;

	CHECK(at);
	mr = region(f, at, TIMES * sizeof(*at), ALL, KEY);
	go(f, sources[0]);
	wait_go(f, sources[0]);
	for (i = 1; i < TIMES; i++)
		CHECK(at[i] == i);
	closed(mr);
	free(at);
}

static void to_order(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint64_t back[TIMES / 100] = { 0 };
	int c[TIMES / 100];
	uint64_t i, value;

	(void)n;
	wait_go(f, target);
	for (i = 0; i < TIMES; i++) {
		POST(f, fi_inject_write(f->ep, &i, sizeof(i), target, i * sizeof(i), KEY));
		/* The first word is written again and again, and read behind that. */
		value = i + 1;
		POST(f, fi_inject_write(f->ep, &value, sizeof(value), target, 0, KEY));
		if (i % 100 == 99)
			POST(f, fi_read(f->ep, &back[i / 100], sizeof(value), NULL, target, 0, KEY,
					&c[i / 100]));
	}
	for (i = 0; i < TIMES / 100; i++) {
		succeeded(f, &c[i]);
		/* What was written later may be there, what was written before has to be. */
		CHECK(back[i] >= i * 100 + 100 && back[i] <= TIMES);
	}
	OK(fi_cntr_wait(f->accessed, 2 * TIMES + TIMES / 100, SOON * 1000));
	go(f, target);
}

/* --- a target that looks at no queue */

#define PASSIVE	3000

static void passive(struct fit *f, fi_addr_t *sources)
{
	volatile uint8_t *at = calloc(PASSIVE + 1, 1);
	double since = now();
	struct fid_mr *mr;
	unsigned int i;

	CHECK(at);
	mr = region(f, (void *)at, PASSIVE + 1, ALL, KEY);
	go(f, sources[0]);
	while (at[PASSIVE] != 0x77) {
		CHECK(now() - since < SOON);
		usleep(1000);
	}
	for (i = 0; i < PASSIVE; i++)
		CHECK(at[i] == (uint8_t)(i + 1));
	wait_go(f, sources[0]);
	closed(mr);
	free((void *)at);
}

static void to_passive(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint8_t value;
	unsigned int i;

	(void)n;
	wait_go(f, target);
	/* More than the target's event ring has room for. */
	for (i = 0; i < PASSIVE; i++) {
		value = i + 1;
		POST(f, fi_inject_write(f->ep, &value, 1, target, i, KEY));
	}
	value = 0x77;
	POST(f, fi_inject_write(f->ep, &value, 1, target, PASSIVE, KEY));
	go(f, target);
}

/* --- counters of what others do */

static void counted(struct fit *f, fi_addr_t *sources)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	uint8_t *at = memory(MOST);
	struct fid_cntr *written;
	struct fid_mr *mr;

	OK(fi_cntr_open(f->domain, &attr, &written, NULL));
	mr = region(f, at, MOST, ALL, KEY);
	OK(fi_mr_bind(mr, &written->fid, FI_REMOTE_WRITE));
	OK(fi_mr_enable(mr));
	memset(at, 0, 64);
	go(f, sources[0]);
	/* Five that change it; and two that read it, and two that are told what there was. */
	OK(fi_cntr_wait(written, 5, SOON * 1000));
	OK(fi_cntr_wait(f->reached, 9, SOON * 1000));
	wait_go(f, sources[0]);
	CHECK(fi_cntr_read(written) == 5 && fi_cntr_read(f->reached) == 9);
	CHECK(!fi_cntr_readerr(written) && !fi_cntr_readerr(f->reached));
	CHECK(fi_close(&written->fid) == -FI_EBUSY);
	closed(mr);
	OK(fi_close(&written->fid));
	free(at);
}

static void to_counted(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint8_t *buf = memory(MOST);
	uint64_t one = 1, was;
	int c;

	(void)n;
	wait_go(f, target);
	POST(f, fi_write(f->ep, buf, 8, NULL, target, 64, KEY, &c));
	succeeded(f, &c);
	POST(f, fi_write(f->ep, buf, 4000, NULL, target, 64, KEY, &c));
	succeeded(f, &c);
	POST(f, fi_write(f->ep, buf, MOST - 64, NULL, target, 64, KEY, &c));
	succeeded(f, &c);
	POST(f, fi_read(f->ep, buf, 8, NULL, target, 64, KEY, &c));
	succeeded(f, &c);
	POST(f, fi_read(f->ep, buf, MOST, NULL, target, 0, KEY, &c));
	succeeded(f, &c);
	POST(f, fi_inject_atomic(f->ep, &one, 1, target, 0, KEY, FI_UINT64, FI_SUM));
	POST(f, fi_atomic(f->ep, &one, 1, NULL, target, 0, KEY, FI_UINT64, FI_SUM, &c));
	succeeded(f, &c);
	POST(f, fi_fetch_atomic(f->ep, &one, 1, NULL, &was, NULL, target, 0, KEY, FI_UINT64, FI_SUM,
				&c));
	succeeded(f, &c);
	CHECK(was == 2);
	POST(f, fi_fetch_atomic(f->ep, NULL, 1, NULL, &was, NULL, target, 0, KEY, FI_UINT64,
				FI_ATOMIC_READ, &c));
	succeeded(f, &c);
	CHECK(was == 3);
	go(f, target);
	free(buf);
}

const struct step region_steps[] = {
	{ "rma", rma, to_rma, 1, 0 },
	{ "order", order, to_order, 1, 0 },
	{ "passive", passive, to_passive, 1, 0 },
	{ "counted", counted, to_counted, 1, FI_RMA_EVENT },
	{ "atomic", atomic, to_atomic, 1, 0 },
	{ "contend", contend, to_contend, 2, 0 },
	{ 0 },
};
