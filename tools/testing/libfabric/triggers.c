// SPDX-License-Identifier: GPL-2.0
/*
 * Steps of tests: operations that wait for a counter, deferred work, and fences.
 */
#include <rdma/fi_trigger.h>
#include <sched.h>

#include "fit.h"

#define TAG	0x55
#define PAYLOAD	100
/* A place in a region that says that all before it is there. */
#define FLAG	MOST

/* Waits for a byte that another writes, and calls nothing of libfabric meanwhile. */
static void look_for(volatile uint8_t *at, uint8_t value)
{
	double since = now();

	while (*at != value) {
		CHECK(now() - since < SOON);
		sched_yield();
	}
}

static struct fid_cntr *counter(struct fit *f)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;

	OK(fi_cntr_open(f->domain, &attr, &cntr, NULL));
	return cntr;
}

static struct fi_triggered_context waits_for(struct fid_cntr *cntr, size_t threshold)
{
	struct fi_triggered_context context = { .event_type = FI_TRIGGER_THRESHOLD };

	context.trigger.threshold.cntr = cntr;
	context.trigger.threshold.threshold = threshold;
	return context;
}

/* --- a message that a message triggers, while its program calls nothing; more in their order */

static void trigger(struct fit *f, fi_addr_t *sources)
{
	uint8_t at[3 * PAYLOAD], one = 1;
	unsigned int i;
	int in[3], c;

	for (i = 0; i < 3; i++)
		POST(f, fi_trecv(f->ep, at + i * PAYLOAD, PAYLOAD, NULL, sources[0], TAG + i, 0,
				 &in[i]));
	wait_go(f, sources[0]);
	/* It is counted by the source, which reads no queue. */
	POST(f, fi_send(f->ep, NULL, 0, NULL, sources[0], &c));
	succeeded(f, &c);
	for (i = 0; i < 2; i++) {
		CHECK(succeeded(f, &in[i]).entry.len == PAYLOAD);
		CHECK(is_filled(at + i * PAYLOAD, PAYLOAD, i));
	}
	CHECK(!is_completed(f, &in[2]));
	POST(f, fi_write(f->ep, &one, 1, NULL, sources[0], 0, KEY, &c));
	succeeded(f, &c);
	succeeded(f, &in[2]);
}

static void to_trigger(struct fit *f, fi_addr_t target, unsigned int n)
{
	struct fi_triggered_context contexts[4], cancelled;
	uint8_t *at = memory(3 * PAYLOAD);
	volatile uint8_t flag = 0;
	size_t base = fi_cntr_read(f->received), i;
	struct fid_mr *mr = region(f, (void *)&flag, 1, ALL, KEY);
	struct fid_cntr *other = counter(f);
	struct fi_msg_tagged msg = { .addr = target, .iov_count = 1 };
	struct iovec iov;
	int in;

	(void)n;
	for (i = 0; i < 3; i++)
		fill(at + i * PAYLOAD, PAYLOAD, i);
	/* Two that a message begins, and one that this program does. */
	for (i = 3; i-- > 0;) {
		iov = (struct iovec) { at + i * PAYLOAD, PAYLOAD };
		contexts[i] = i == 2 ? waits_for(other, 7) : waits_for(f->received, base + 1);
		msg.msg_iov = &iov;
		msg.tag = TAG + i;
		msg.context = &contexts[i];
		POST(f, fi_tsendmsg(f->ep, &msg, FI_TRIGGER | FI_COMPLETION));
	}
	/* One that is taken back. */
	cancelled = waits_for(other, 7);
	msg.context = &cancelled;
	POST(f, fi_tsendmsg(f->ep, &msg, FI_TRIGGER | FI_COMPLETION));
	OK(fi_cancel(&f->ep->fid, &cancelled));
	CHECK(failed(f, &cancelled) == FI_ECANCELED);
	CHECK(fi_cancel(&f->ep->fid, &cancelled) == -FI_ENOENT);
	/* A counter of nothing, and an event of another kind. */
	contexts[3] = waits_for(NULL, 1);
	msg.context = &contexts[3];
	CHECK(fi_tsendmsg(f->ep, &msg, FI_TRIGGER) == -FI_EINVAL);
	contexts[3].event_type = FI_TRIGGER_XPU;
	CHECK(fi_tsendmsg(f->ep, &msg, FI_TRIGGER) == -FI_ENOSYS);
	POST(f, fi_recv(f->ep, NULL, 0, NULL, target, &in));
	go(f, target);
	look_for(&flag, 1);
	succeeded(f, &in);
	succeeded(f, &contexts[0]);
	succeeded(f, &contexts[1]);
	/* It is set past the threshold. */
	OK(fi_cntr_set(other, 100));
	succeeded(f, &contexts[2]);
	closed(mr);
	OK(fi_close(&other->fid));
	free(at);
}

/* --- deferred work: a chain of it, which one message begins, while its program calls nothing */

static void deferred(struct fit *f, fi_addr_t *sources)
{
	uint8_t *at = memory(MOST), to[PAYLOAD];
	struct fid_mr *mr = region(f, at, MOST, ALL, KEY);
	uint8_t one = 1;
	int in, c;

	POST(f, fi_trecv(f->ep, to, PAYLOAD, NULL, sources[0], TAG, 0, &in));
	go(f, sources[0]);
	wait_go(f, sources[0]);
	POST(f, fi_send(f->ep, NULL, 0, NULL, sources[0], &c));
	succeeded(f, &c);
	/* The last of the chain; what it says was written here and read back. */
	CHECK(succeeded(f, &in).entry.len == PAYLOAD);
	CHECK(is_filled(to, PAYLOAD, 9) && is_filled(at, MOST, 9));
	POST(f, fi_write(f->ep, &one, 1, NULL, sources[0], 0, KEY, &c));
	succeeded(f, &c);
	wait_go(f, sources[0]);
	closed(mr);
	free(at);
}

static void queue(struct fit *f, struct fi_deferred_work *work, struct fid_cntr *cntr,
		  uint64_t threshold, struct fid_cntr *completion)
{
	work->triggering_cntr = cntr;
	work->threshold = threshold;
	work->completion_cntr = completion;
	OK(fi_control(&f->domain->fid, FI_QUEUE_WORK, work));
}

static void to_deferred(struct fit *f, fi_addr_t target, unsigned int n)
{
	struct fid_cntr *written = counter(f), *read = counter(f), *last = counter(f);
	uint8_t *from = memory(MOST), *back = memory(MOST);
	struct fi_deferred_work work = { 0 }, other;
	volatile uint8_t flag = 0;
	struct fid_mr *mr = region(f, (void *)&flag, 1, ALL, KEY);
	struct iovec iov = { from, MOST };
	struct fi_rma_iov there = { 0, MOST, KEY };
	struct fi_op_cntr add = { last, 5 };
	struct fi_op_rma rma = {
		.ep = f->ep,
		.msg = { .msg_iov = &iov, .iov_count = 1, .addr = target, .rma_iov = &there,
			 .rma_iov_count = 1, .context = &work },
	};
	struct fi_op_tagged tagged = {
		.ep = f->ep,
		.msg = { .msg_iov = &iov, .iov_count = 1, .addr = target, .tag = TAG,
			 .context = &work },
	};
	size_t base;
	int in;

	(void)n;
	fill(from, MOST, 9);
	wait_go(f, target);
	base = fi_cntr_read(f->received);
	/* What the last one says is what was read. All is kept: this memory is used again. */
	iov = (struct iovec) { back, PAYLOAD };
	work.op_type = FI_OP_TSEND;
	work.op.tagged = &tagged;
	queue(f, &work, read, 1, last);
	iov = (struct iovec) { back, MOST };
	work.op_type = FI_OP_READ;
	work.op.rma = &rma;
	queue(f, &work, written, 1, read);
	iov.iov_base = from;
	work.op_type = FI_OP_WRITE;
	queue(f, &work, f->received, base + 1, written);
	work.op_type = FI_OP_CNTR_ADD;
	work.op.cntr = &add;
	queue(f, &work, read, 1, NULL);
	/* Some that are taken back: one, and those of a counter. */
	other = work;
	queue(f, &other, written, 1000, NULL);
	OK(fi_control(&f->domain->fid, FI_CANCEL_WORK, &other));
	CHECK(fi_control(&f->domain->fid, FI_CANCEL_WORK, &other) == -FI_ENOENT);
	queue(f, &other, last, 1000, NULL);
	OK(fi_control(&f->domain->fid, FI_FLUSH_WORK, &other));
	POST(f, fi_recv(f->ep, NULL, 0, NULL, target, &in));
	go(f, target);
	look_for(&flag, 1);
	succeeded(f, &in);
	OK(fi_cntr_wait(last, 6, SOON * 1000));
	CHECK(is_filled(back, MOST, 9));
	/* None of it was told of, or counted elsewhere. */
	CHECK(!is_completed(f, &work) && !fi_cntr_read(f->accessed));
	CHECK(fi_cntr_read(written) == 1 && fi_cntr_read(read) == 1);
	/* All that wait. */
	queue(f, &other, written, 1000, NULL);
	CHECK(fi_close(&last->fid) == -FI_EBUSY);
	OK(fi_control(&f->domain->fid, FI_FLUSH_WORK, NULL));
	OK(fi_close(&written->fid));
	OK(fi_close(&read->fid));
	/* One that fails counts as such, and is told of. */
	there.key = KEY + 1;
	work.op_type = FI_OP_WRITE;
	work.op.rma = &rma;
	queue(f, &work, last, 6, last);
	CHECK(failed(f, &work) == FI_ENOKEY);
	CHECK(fi_cntr_readerr(last) == 1 && fi_cntr_read(last) == 6);
	/* What it cannot be. */
	rma.flags = FI_INJECT;
	CHECK(fi_control(&f->domain->fid, FI_QUEUE_WORK, &work) == -FI_ENOSYS);
	work.triggering_cntr = NULL;
	CHECK(fi_control(&f->domain->fid, FI_QUEUE_WORK, &work) == -FI_EINVAL);
	go(f, target);
	closed(mr);
	OK(fi_close(&last->fid));
	free(from);
	free(back);
}

/* --- a flag behind a fence: what was written before, and is pulled, is there with it */

static void fence(struct fit *f, fi_addr_t *sources)
{
	volatile uint8_t *at = memory(MOST + 1);
	struct fid_mr *mr = region(f, (void *)at, MOST + 1, ALL, KEY);
	unsigned int i;

	for (i = 1; i <= 8; i++) {
		go(f, sources[0]);
		look_for(at + FLAG, i);
		CHECK(is_filled((void *)at, MOST, i));
	}
	wait_go(f, sources[0]);
	closed(mr);
	free((void *)at);
}

static void to_fence(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint8_t *from = memory(MOST), flag;
	struct iovec iov = { &flag, 1 };
	struct fi_rma_iov there = { FLAG, 1, KEY };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = target, .rma_iov = &there,
		.rma_iov_count = 1,
	};
	unsigned int i;
	int c, fenced;

	(void)n;
	for (i = 1; i <= 8; i++) {
		wait_go(f, target);
		fill(from, MOST, i);
		flag = i;
		msg.context = &fenced;
		POST(f, fi_write(f->ep, from, MOST, NULL, target, 0, KEY, &c));
		POST(f, fi_writemsg(f->ep, &msg, FI_FENCE | FI_COMPLETION));
		if (i % 2) {
			succeeded(f, &c);
			succeeded(f, &fenced);
		} else {
			succeeded(f, &fenced);
			CHECK(is_completed(f, &c));
		}
	}
	go(f, target);
	free(from);
}

const struct step trigger_steps[] = {
	{ "trigger", trigger, to_trigger, 1, FI_TRIGGER },
	{ "deferred", deferred, to_deferred, 1, FI_TRIGGER },
	{ "fence", fence, to_fence, 1, 0 },
	{ 0 },
};
