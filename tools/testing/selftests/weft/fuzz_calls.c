// SPDX-License-Identifier: GPL-2.0
/*
 * Ioctls of /dev/weftN, as a fuzzer makes them: first one that could be meant, then
 * something in it is changed, or its size, or where it lies.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>

#include "fuzz_round.h"
#include "weft_test.h"

union arg {
	uint32_t size;
	uint32_t words[WT_PAGE / 4];
	uint8_t bytes[WT_PAGE];
	struct weft_port_info port;
	struct weft_link_info link;
	struct weft_chan_listen listen;
	struct weft_chan_connect connect;
	struct weft_chan_accept accept;
	struct weft_chan_info chan;
	struct weft_limits limits;
	struct weft_pd_alloc pd;
	struct weft_mr_reg mr;
	struct weft_mw_alloc mw;
	struct weft_cq_create cq;
	struct weft_srq_create srq;
	struct weft_qp_create qp;
	struct weft_qp_modify modify;
	struct weft_qp_query query;
	struct weft_destroy destroy;
	struct weft_kick kick;
	struct weft_cq_arm arm;
};

/* One domain of a file, mostly: what is in different ones cannot meet. */
static uint32_t a_pd(struct fz_thread *t, struct fz_file *f)
{
	return fz_once_in(&t->rng, 8) ? fz_any(t, f, FZ_PD).handle :
					fz_get(f, FZ_PD, 0).handle;
}

/* Few, mostly: memory of the machine is not what is tried here. */
static uint32_t entries(struct fz_rng *r)
{
	return fz_once_in(r, 64) ? 16u << fz_below(r, 13) : 16u << fz_below(r, 3);
}

static void none(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	(void)t, (void)f, (void)a;
}

static void link_(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	(void)f;
	a->link.link = fz_below(&t->rng, 2);
}

static void listen_(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	(void)f;
	a->listen.service = 1 + fz_below(&t->rng, 4);
	a->listen.backlog = 1 + fz_below(&t->rng, 64);
}

static void connect_(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	struct fz_rng *r = &t->rng;

	(void)f;
	a->connect.link = fz_once_in(r, 2) ? 0 : WEFT_ANY_LINK;
	a->connect.service = 1 + fz_below(r, 4);
	a->connect.cells = entries(r);
	a->connect.bulk = WT_PAGE << fz_below(r, 4);
	a->connect.timeout_ms = 1 + fz_below(r, 20);
}

static void accept_(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	(void)f;
	a->accept.listen_fd = fz_fd(fz_any_file(t));
}

static void mr(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	struct fz_rng *r = &t->rng;
	uint32_t at = fz_below(r, FZ_MEM);

	a->mr.addr = (uintptr_t)t->shared->mem + at;
	a->mr.length = 1 + fz_below(r, FZ_MEM - at);
	a->mr.base = fz_once_in(r, 2) ? 0 : fz_number(r);
	a->mr.pd = a_pd(t, f);
	a->mr.access = fz_once_in(r, 2) ? 0x1f : fz_next(r) & 0x1f;
	a->mr.key = fz_below(r, 256);
}

static void mw(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	a->mw.pd = a_pd(t, f);
}

static void cq(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	(void)f;
	a->cq.entries = entries(&t->rng);
	a->cq.event_fd = fz_once_in(&t->rng, 4) ? t->shared->event_fd : -1;
}

static void srq(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	a->srq.pd = a_pd(t, f);
	a->srq.entries = entries(&t->rng);
	a->srq.sges = 1 + fz_below(&t->rng, 16);
}

static void qp(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	struct fz_rng *r = &t->rng;

	a->qp.pd = a_pd(t, f);
	a->qp.send_cq = fz_any(t, f, FZ_CQ).handle;
	a->qp.recv_cq = fz_once_in(r, 2) ? a->qp.send_cq : fz_any(t, f, FZ_CQ).handle;
	a->qp.send_entries = entries(r);
	a->qp.send_sges = 1 + fz_below(r, 16);
	a->qp.inline_bytes = fz_below(r, 257);
	a->qp.protocol = fz_once_in(r, 4) ? fz_below(r, 8) : 0;
	if (fz_once_in(r, 4)) {
		a->qp.srq = fz_any(t, f, FZ_SRQ).handle;
	} else {
		a->qp.recv_entries = entries(r);
		a->qp.recv_sges = 1 + fz_below(r, 16);
	}
}

static void modify(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	struct fz_rng *r = &t->rng;

	a->modify.qp = fz_any(t, f, FZ_QP).handle;
	a->modify.mask = 1 + fz_below(r, 7);
	a->modify.state = fz_below(r, 6);
	a->modify.access = fz_below(r, 8) << 1;
	a->modify.link = fz_once_in(r, 2) ? 0 : WEFT_ANY_LINK;
	a->modify.peer_qpn = fz_any(t, fz_any_file(t), FZ_QP).number;
}

static void query(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	a->query.qp = fz_any(t, f, FZ_QP).handle;
}

static void destroy(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	a->destroy.handle = fz_any(t, f, fz_below(&t->rng, FZ_KINDS)).handle;
}

static void kick(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	a->kick.qp = fz_once_in(&t->rng, 4) ? 0 : fz_any(t, f, FZ_QP).handle;
	a->kick.budget = fz_below(&t->rng, 128);
}

static void arm(struct fz_thread *t, struct fz_file *f, union arg *a)
{
	a->arm.cq = fz_any(t, f, FZ_CQ).handle;
	a->arm.consumed = fz_below(&t->rng, 4);
}

/* What makes an object says so by its kind; the others have FZ_KINDS. */
static const struct call {
	unsigned long cmd;
	uint32_t size;
	uint32_t weight;
	enum fz_kind makes;
	void (*mean)(struct fz_thread *t, struct fz_file *f, union arg *a);
} calls[] = {
	{ WEFT_PORT_INFO, sizeof(struct weft_port_info), 1, FZ_KINDS, none },
	{ WEFT_LINK_INFO, sizeof(struct weft_link_info), 1, FZ_KINDS, link_ },
	{ WEFT_CHAN_LISTEN, sizeof(struct weft_chan_listen), 2, FZ_KINDS, listen_ },
	{ WEFT_CHAN_CONNECT, sizeof(struct weft_chan_connect), 3, FZ_KINDS, connect_ },
	{ WEFT_CHAN_ACCEPT, sizeof(struct weft_chan_accept), 4, FZ_KINDS, accept_ },
	{ WEFT_CHAN_INFO, sizeof(struct weft_chan_info), 1, FZ_KINDS, none },
	{ WEFT_CHAN_KICK, sizeof(struct weft_chan_kick), 1, FZ_KINDS, none },
	{ WEFT_LIMITS, sizeof(struct weft_limits), 1, FZ_KINDS, none },
	{ WEFT_PD_ALLOC, sizeof(struct weft_pd_alloc), 2, FZ_PD, none },
	{ WEFT_MR_REG, sizeof(struct weft_mr_reg), 6, FZ_MR, mr },
	{ WEFT_MW_ALLOC, sizeof(struct weft_mw_alloc), 3, FZ_MW, mw },
	{ WEFT_CQ_CREATE, sizeof(struct weft_cq_create), 3, FZ_CQ, cq },
	{ WEFT_SRQ_CREATE, sizeof(struct weft_srq_create), 3, FZ_SRQ, srq },
	{ WEFT_QP_CREATE, sizeof(struct weft_qp_create), 6, FZ_QP, qp },
	{ WEFT_QP_MODIFY, sizeof(struct weft_qp_modify), 16, FZ_KINDS, modify },
	{ WEFT_QP_QUERY, sizeof(struct weft_qp_query), 2, FZ_KINDS, query },
	{ WEFT_DESTROY, sizeof(struct weft_destroy), 6, FZ_KINDS, destroy },
	{ WEFT_KICK, sizeof(struct weft_kick), 24, FZ_KINDS, kick },
	{ WEFT_CQ_ARM, sizeof(struct weft_cq_arm), 3, FZ_KINDS, arm },
	{ WEFT_VF_MIGRATE, sizeof(struct weft_vf_migrate), 1, FZ_KINDS, none },
	{ WEFT_FABRIC_NODES, sizeof(struct weft_fabric_nodes), 1, FZ_KINDS, none },
	{ WEFT_FABRIC_ROUTES, sizeof(struct weft_fabric_routes), 1, FZ_KINDS, none },
	{ WEFT_FABRIC_ASSIGNMENTS, sizeof(struct weft_fabric_assignments), 1, FZ_KINDS, none },
	{ WEFT_FABRIC_ASSIGNMENT, sizeof(struct weft_fabric_assignment), 1, FZ_KINDS, none },
	{ WEFT_FABRIC_COMPONENT, sizeof(struct weft_fabric_component), 1, FZ_KINDS, none },
	{ WEFT_FABRIC_VH, sizeof(struct weft_fabric_vh), 1, FZ_KINDS, none },
	{ WEFT_EP_OPEN, sizeof(struct weft_ep_open), 1, FZ_KINDS, none },
	{ WEFT_EP_QUERY, sizeof(struct weft_ep_query), 1, FZ_KINDS, none },
	{ WEFT_EP_AREA, sizeof(struct weft_ep_area), 1, FZ_KINDS, none },
	{ WEFT_EP_FREE, sizeof(struct weft_ep_free), 1, FZ_KINDS, none },
	{ WEFT_EP_SUBMIT, sizeof(struct weft_ep_submit), 1, FZ_KINDS, none },
	{ WEFT_EP_REAP, sizeof(struct weft_ep_reap), 1, FZ_KINDS, none },
};

#define CALLS (sizeof(calls) / sizeof(*calls))

static const struct call *any_call(struct fz_rng *r)
{
	uint32_t all = 0, n;

	for (size_t i = 0; i < CALLS; i++)
		all += calls[i].weight;
	n = fz_below(r, all);
	for (size_t i = 0; i < CALLS; i++) {
		if (n < calls[i].weight)
			return &calls[i];
		n -= calls[i].weight;
	}
	return &calls[0];
}

/* Whether a call names an object that is to be left alone. */
static bool is_spared(const struct fz_shared *s, unsigned long cmd, const union arg *a)
{
	if (cmd != WEFT_QP_MODIFY)
		return false;
	for (unsigned int i = 0; i < s->spared_count; i++)
		if (a->modify.peer_qpn == s->spared[i])
			return true;
	return false;
}

static void keep(struct fz_file *f, enum fz_kind kind, uint32_t place, const union arg *a)
{
	struct fz_object o = { 0 };

	switch (kind) {
	case FZ_PD:
		o.handle = a->pd.pd;
		break;
	case FZ_MR:
		o.handle = a->mr.mr;
		o.number = a->mr.stag;
		o.offset = a->mr.base;
		o.bytes = a->mr.length;
		break;
	case FZ_MW:
		o.handle = a->mw.mw;
		o.number = a->mw.stag;
		break;
	case FZ_CQ:
		o.handle = a->cq.cq;
		o.offset = a->cq.ring_offset;
		o.bytes = a->cq.ring_bytes;
		o.entries[0] = a->cq.entries;
		break;
	case FZ_SRQ:
		o.handle = a->srq.srq;
		o.offset = a->srq.ring_offset;
		o.bytes = a->srq.ring_bytes;
		o.stride[1] = a->srq.stride;
		o.entries[1] = a->srq.entries;
		break;
	case FZ_QP:
		o = (struct fz_object) {
			.handle = a->qp.qp,
			.number = a->qp.qpn,
			.offset = a->qp.ring_offset,
			.bytes = a->qp.ring_bytes,
			.kick_page = a->qp.kick_page_offset,
			.kick = a->qp.kick_offset,
			.kick_value = a->qp.kick_value,
			.kick_bit = a->qp.kick_bit,
			.at = { a->qp.send_at, a->qp.recv_at },
			.stride = { a->qp.send_stride, a->qp.recv_stride },
			.entries = { a->qp.send_entries, a->qp.recv_entries },
		};
		break;
	default:
		return;
	}
	fz_keep(f, kind, place, &o);
}

static void spoil(struct fz_rng *r, union arg *a, uint32_t size)
{
	uint32_t at = fz_below(r, size);

	switch (fz_below(r, 8)) {
	case 0:
		a->size = fz_number(r);
		break;
	case 1:
		/* Longer, and zero behind; or not. */
		a->size = size + 8 * fz_below(r, 8);
		a->bytes[size + fz_below(r, 64)] = fz_below(r, 2);
		break;
	case 2:
		a->bytes[at] ^= 1u << fz_below(r, 8);
		break;
	case 3:
		for (uint32_t i = at; i < size; i++)
			a->bytes[i] = fz_next(r);
		break;
	default: {
		uint64_t number = fz_number(r);
		uint32_t bytes = fz_once_in(r, 2) ? 4 : 8;

		at &= ~(bytes - 1);
		memcpy(a->bytes + at, &number, bytes);
		break;
	}
	}
}

/* Where the argument lies; @size bytes of it are there. */
static void *place(struct fz_thread *t, const union arg *a, uint32_t size)
{
	uint32_t how = fz_below(&t->rng, 64);
	uint64_t number = fz_number(&t->rng);

	switch (how) {
	case 0:
		return (void *)(uintptr_t)number;
	case 1:
		return (void *)t->read_only;
	case 2:
		/* Not all of it. */
		return t->arg + 2 * WT_PAGE - (size / 2 & ~3u);
	case 3:
		size += 1;
		break;
	}
	/* Up to the page that is not there. */
	memcpy(t->arg + 2 * WT_PAGE - size, a, size);
	return t->arg + 2 * WT_PAGE - size;
}

void fz_call(struct fz_thread *t)
{
	const struct call *c = any_call(&t->rng);
	struct fz_file *f = fz_any_file(t);
	uint32_t where = fz_below(&t->rng, FZ_KEPT);
	union arg a = { .size = c->size };
	unsigned long cmd = c->cmd;
	uint32_t there = c->size;
	void *at;

	c->mean(t, f, &a);
	for (uint32_t n = fz_below(&t->rng, 8); n >= 5; n--)
		spoil(&t->rng, &a, c->size);
	if (fz_once_in(&t->rng, 64))
		cmd = fz_once_in(&t->rng, 2) ? fz_number(&t->rng) :
			_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + fz_below(&t->rng, 32));
	if (a.size > there && a.size < WT_PAGE)
		there = a.size;
	at = place(t, &a, there);
	if (is_spared(t->shared, cmd, &a))
		return;
	if (ioctl(fz_fd(f), cmd, at) == 0 && c->makes != FZ_KINDS && cmd == c->cmd &&
	    at == t->arg + 2 * WT_PAGE - there) {
		memcpy(&a, at, c->size);
		keep(f, c->makes, where, &a);
	}
}

void fz_make(struct fz_thread *t, struct fz_file *f, enum fz_kind kind, uint32_t where)
{
	for (size_t i = 0; i < CALLS; i++) {
		union arg a = { .size = calls[i].size };

		if (calls[i].makes != kind)
			continue;
		calls[i].mean(t, f, &a);
		if (!wt_ioctl(fz_fd(f), calls[i].cmd, &a))
			keep(f, kind, where, &a);
		return;
	}
}

void fz_connect(struct fz_thread *t, struct fz_file *const files[2],
		const struct fz_object ends[2])
{
	static const uint32_t states[] = {
		WEFT_QP_RESET, WEFT_QP_INIT, WEFT_QP_RTR, WEFT_QP_RTS,
	};

	for (int s = 0; s < 4; s++) {
		for (int i = 0; i < 2; i++) {
			union arg a = { .modify = {
				.size = sizeof(a.modify), .qp = ends[i].handle,
				.mask = WEFT_QP_STATE | WEFT_QP_ACCESS,
				.state = states[s], .access = 0xe,
				.peer_qpn = ends[!i].number,
			} };

			if (states[s] == WEFT_QP_RTR)
				a.modify.mask |= WEFT_QP_PATH;
			if (!is_spared(t->shared, WEFT_QP_MODIFY, &a))
				wt_ioctl(fz_fd(files[i]), WEFT_QP_MODIFY, &a);
		}
	}
}

void fz_kick(struct fz_file *f, const struct fz_object *qp)
{
	struct weft_kick kick = { .size = sizeof(kick), .qp = qp->handle };

	wt_ioctl(fz_fd(f), WEFT_KICK, &kick);
}
