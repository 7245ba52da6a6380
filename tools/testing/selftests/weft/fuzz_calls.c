// SPDX-License-Identifier: GPL-2.0
/*
 * Ioctls of /dev/weftN, as a fuzzer makes them: first one that could be meant, then
 * something in it is changed, or its size, or where it lies. How many of each succeed is
 * counted: what the machine offers has to be reached.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>

#include "fuzz_calls.h"
#include "weft_test.h"

/* One domain of a file, mostly: what is in different ones cannot meet. */
static uint32_t a_pd(struct fz_thread *t, struct fz_file *f)
{
	return fz_once_in(&t->rng, 8) ? fz_any(t, f, FZ_PD).handle :
					fz_get(f, FZ_PD, 0).handle;
}

uint32_t fz_entries(struct fz_rng *r)
{
	return fz_once_in(r, 64) ? 16u << fz_below(r, 13) : 16u << fz_below(r, 3);
}

static void none(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)t, (void)f, (void)a;
}

static void link_(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->link.link = fz_below(&t->rng, 2);
}

static void mr(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
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

static void mw(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	a->mw.pd = a_pd(t, f);
}

static void cq(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->cq.entries = fz_entries(&t->rng);
	a->cq.event_fd = fz_once_in(&t->rng, 4) ? t->shared->event_fd : -1;
}

static void srq(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	a->srq.pd = a_pd(t, f);
	a->srq.entries = fz_entries(&t->rng);
	a->srq.sges = 1 + fz_below(&t->rng, 16);
}

static void qp(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	struct fz_rng *r = &t->rng;

	a->qp.pd = a_pd(t, f);
	a->qp.send_cq = fz_any(t, f, FZ_CQ).handle;
	a->qp.recv_cq = fz_once_in(r, 2) ? a->qp.send_cq : fz_any(t, f, FZ_CQ).handle;
	a->qp.send_entries = fz_entries(r);
	a->qp.send_sges = 1 + fz_below(r, 16);
	a->qp.inline_bytes = fz_below(r, 257);
	a->qp.protocol = fz_once_in(r, 4) ? fz_below(r, 8) : 0;
	if (fz_once_in(r, 4)) {
		a->qp.srq = fz_any(t, f, FZ_SRQ).handle;
	} else {
		a->qp.recv_entries = fz_entries(r);
		a->qp.recv_sges = 1 + fz_below(r, 16);
	}
}

static void modify(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	struct fz_rng *r = &t->rng;

	a->modify.qp = fz_any(t, f, FZ_QP).handle;
	a->modify.mask = 1 + fz_below(r, 7);
	a->modify.state = fz_below(r, 6);
	a->modify.access = fz_below(r, 8) << 1;
	a->modify.link = fz_once_in(r, 2) ? 0 : WEFT_ANY_LINK;
	a->modify.peer_qpn = fz_any(t, fz_any_file(t), FZ_QP).number;
}

static void query(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	a->query.qp = fz_any(t, f, FZ_QP).handle;
}

static void destroy(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	a->destroy.handle = fz_any(t, f, fz_below(&t->rng, FZ_KINDS)).handle;
}

static void kick(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	a->kick.qp = fz_once_in(&t->rng, 4) ? 0 : fz_any(t, f, FZ_QP).handle;
	a->kick.budget = fz_below(&t->rng, 128);
}

static void arm(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	a->arm.cq = fz_any(t, f, FZ_CQ).handle;
	a->arm.consumed = fz_below(&t->rng, 4);
}

static void wait_(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	struct fz_rng *r = &t->rng;

	a->wait.cq = fz_any(t, f, FZ_CQ).handle;
	a->wait.consumed = fz_below(r, 4);
	a->wait.qp = fz_once_in(r, 4) ? 0 : fz_any(t, f, FZ_QP).handle;
	a->wait.budget = fz_below(r, 128);
	a->wait.timeout_ms = fz_below(r, 20);
}

#define NAMES		4
/* A member of an argument, of four bytes. */
#define AT(member) offsetof(union fz_arg, member)

static const struct call {
	unsigned long cmd;
	const char *name;
	uint32_t size;
	uint32_t weight;
	/* Of what it makes; the others have FZ_KINDS. */
	enum fz_kind makes;
	void (*mean)(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
	/* Whether it did what is meant, where returning 0 is not all. */
	bool (*is_good)(const union fz_arg *a);
	/* Members that name what there is at the moment; the rest is 0. */
	uint16_t names[NAMES];
	enum fz_need needs;
	bool is_slow;
} calls[] = {
	{ .cmd = WEFT_PORT_INFO, .name = "PORT_INFO", .size = sizeof(struct weft_port_info),
	  .weight = 1, .makes = FZ_KINDS, .mean = none },
	{ .cmd = WEFT_LINK_INFO, .name = "LINK_INFO", .size = sizeof(struct weft_link_info),
	  .weight = 1, .makes = FZ_KINDS, .mean = link_ },
	{ .cmd = WEFT_CHAN_LISTEN, .name = "CHAN_LISTEN", .size = sizeof(struct weft_chan_listen),
	  .weight = 2, .makes = FZ_KINDS, .mean = fz_listen },
	{ .cmd = WEFT_CHAN_CONNECT, .name = "CHAN_CONNECT",
	  .size = sizeof(struct weft_chan_connect),
	  .weight = 3, .makes = FZ_KINDS, .mean = fz_channel },
	{ .cmd = WEFT_CHAN_ACCEPT, .name = "CHAN_ACCEPT", .size = sizeof(struct weft_chan_accept),
	  .weight = 4, .makes = FZ_KINDS, .mean = fz_accept,
	  .names = { AT(accept.listen_fd) } },
	{ .cmd = WEFT_CHAN_INFO, .name = "CHAN_INFO", .size = sizeof(struct weft_chan_info),
	  .weight = 1, .makes = FZ_KINDS, .mean = none },
	{ .cmd = WEFT_CHAN_KICK, .name = "CHAN_KICK", .size = sizeof(struct weft_chan_kick),
	  .weight = 1, .makes = FZ_KINDS, .mean = none },
	{ .cmd = WEFT_SOCK_LISTEN, .name = "SOCK_LISTEN", .size = sizeof(struct weft_sock_listen),
	  .weight = 2, .makes = FZ_KINDS, .mean = fz_listen },
	{ .cmd = WEFT_SOCK_CONNECT, .name = "SOCK_CONNECT",
	  .size = sizeof(struct weft_sock_connect),
	  .weight = 3, .makes = FZ_KINDS, .mean = fz_sock_connect },
	{ .cmd = WEFT_SOCK_ACCEPT, .name = "SOCK_ACCEPT", .size = sizeof(struct weft_sock_accept),
	  .weight = 4, .makes = FZ_KINDS, .mean = fz_accept,
	  .names = { AT(sock_accept.listen_fd) } },
	{ .cmd = WEFT_SOCK_INFO, .name = "SOCK_INFO", .size = sizeof(struct weft_sock_info),
	  .weight = 1, .makes = FZ_KINDS, .mean = none },
	{ .cmd = WEFT_SOCK_SHUTDOWN, .name = "SOCK_SHUTDOWN",
	  .size = sizeof(struct weft_sock_shutdown),
	  .weight = 2, .makes = FZ_KINDS, .mean = fz_sock_shutdown },
	{ .cmd = WEFT_MATCH_OPEN, .name = "MATCH_OPEN", .size = sizeof(struct weft_match_open),
	  .weight = 2, .makes = FZ_KINDS, .mean = fz_match },
	{ .cmd = WEFT_MATCH_KICK, .name = "MATCH_KICK", .size = sizeof(struct weft_match_kick),
	  .weight = 2, .makes = FZ_KINDS, .mean = none },
	{ .cmd = WEFT_LIMITS, .name = "LIMITS", .size = sizeof(struct weft_limits),
	  .weight = 1, .makes = FZ_KINDS, .mean = none },
	{ .cmd = WEFT_PD_ALLOC, .name = "PD_ALLOC", .size = sizeof(struct weft_pd_alloc),
	  .weight = 2, .makes = FZ_PD, .mean = none },
	{ .cmd = WEFT_MR_REG, .name = "MR_REG", .size = sizeof(struct weft_mr_reg),
	  .weight = 6, .makes = FZ_MR, .mean = mr, .names = { AT(mr.pd) } },
	{ .cmd = WEFT_MW_ALLOC, .name = "MW_ALLOC", .size = sizeof(struct weft_mw_alloc),
	  .weight = 3, .makes = FZ_MW, .mean = mw, .names = { AT(mw.pd) } },
	{ .cmd = WEFT_CQ_CREATE, .name = "CQ_CREATE", .size = sizeof(struct weft_cq_create),
	  .weight = 3, .makes = FZ_CQ, .mean = cq },
	{ .cmd = WEFT_SRQ_CREATE, .name = "SRQ_CREATE", .size = sizeof(struct weft_srq_create),
	  .weight = 3, .makes = FZ_SRQ, .mean = srq, .names = { AT(srq.pd) } },
	{ .cmd = WEFT_QP_CREATE, .name = "QP_CREATE", .size = sizeof(struct weft_qp_create),
	  .weight = 6, .makes = FZ_QP, .mean = qp,
	  .names = { AT(qp.pd), AT(qp.send_cq), AT(qp.recv_cq), AT(qp.srq) } },
	{ .cmd = WEFT_QP_MODIFY, .name = "QP_MODIFY", .size = sizeof(struct weft_qp_modify),
	  .weight = 16, .makes = FZ_KINDS, .mean = modify,
	  .names = { AT(modify.qp), AT(modify.peer_qpn) } },
	{ .cmd = WEFT_QP_QUERY, .name = "QP_QUERY", .size = sizeof(struct weft_qp_query),
	  .weight = 2, .makes = FZ_KINDS, .mean = query, .names = { AT(query.qp) } },
	{ .cmd = WEFT_DESTROY, .name = "DESTROY", .size = sizeof(struct weft_destroy),
	  .weight = 6, .makes = FZ_KINDS, .mean = destroy,
	  .names = { AT(destroy.handle) } },
	{ .cmd = WEFT_KICK, .name = "KICK", .size = sizeof(struct weft_kick),
	  .weight = 24, .makes = FZ_KINDS, .mean = kick, .names = { AT(kick.qp) } },
	{ .cmd = WEFT_CQ_ARM, .name = "CQ_ARM", .size = sizeof(struct weft_cq_arm),
	  .weight = 3, .makes = FZ_KINDS, .mean = arm, .names = { AT(arm.cq) } },
	{ .cmd = WEFT_CQ_WAIT, .name = "CQ_WAIT", .size = sizeof(struct weft_cq_wait),
	  .weight = 6, .makes = FZ_KINDS, .mean = wait_,
	  .names = { AT(wait.cq), AT(wait.qp) } },
	{ .cmd = WEFT_VF_MIGRATE, .name = "VF_MIGRATE, to look",
	  .size = sizeof(struct weft_vf_migrate),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_migrate_dry,
	  .is_good = fz_migrated_dry, .names = { AT(migrate.target_fd) }, .needs = FZ_VFS },
	{ .cmd = WEFT_VF_MIGRATE, .name = "VF_MIGRATE", .size = sizeof(struct weft_vf_migrate),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_migrate,
	  .is_good = fz_migrated, .names = { AT(migrate.target_fd) }, .needs = FZ_VFS,
	  .is_slow = true },
	{ .cmd = WEFT_VF_MIGRATE, .name = "VF_MIGRATE, live",
	  .size = sizeof(struct weft_vf_migrate),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_migrate_live,
	  .is_good = fz_migrated_live, .names = { AT(migrate.target_fd) }, .needs = FZ_VFS,
	  .is_slow = true },
	{ .cmd = WEFT_FABRIC_NODES, .name = "FABRIC_NODES",
	  .size = sizeof(struct weft_fabric_nodes),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_nodes, .needs = FZ_FABRIC },
	{ .cmd = WEFT_FABRIC_ROUTES, .name = "FABRIC_ROUTES",
	  .size = sizeof(struct weft_fabric_routes),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_routes, .needs = FZ_FABRIC },
	{ .cmd = WEFT_FABRIC_ASSIGNMENTS, .name = "FABRIC_ASSIGNMENTS, to read",
	  .size = sizeof(struct weft_fabric_assignments),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_read,
	  .is_good = fz_was_read,
	  .names = { AT(assignments.text), AT(assignments.text) + 4 }, .needs = FZ_FABRIC },
	{ .cmd = WEFT_FABRIC_ASSIGNMENTS, .name = "FABRIC_ASSIGNMENTS, to replace",
	  .size = sizeof(struct weft_fabric_assignments),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_replace,
	  .is_good = fz_was_replaced,
	  .names = { AT(assignments.text), AT(assignments.text) + 4,
		     AT(assignments.bytes), AT(assignments.version) }, .needs = FZ_MASTER },
	{ .cmd = WEFT_FABRIC_ASSIGNMENT, .name = "FABRIC_ASSIGNMENT",
	  .size = sizeof(struct weft_fabric_assignment),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_assignment, .needs = FZ_MASTER },
	{ .cmd = WEFT_FABRIC_COMPONENT, .name = "FABRIC_COMPONENT",
	  .size = sizeof(struct weft_fabric_component),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_component, .needs = FZ_MASTER },
	{ .cmd = WEFT_FABRIC_VH, .name = "FABRIC_VH", .size = sizeof(struct weft_fabric_vh),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_vh, .needs = FZ_FABRIC },
	{ .cmd = WEFT_FABRIC_SLOT, .name = "FABRIC_SLOT", .size = sizeof(struct weft_fabric_slot),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_slot, .needs = FZ_SLOTS },
	{ .cmd = WEFT_FABRIC_ANNOUNCE, .name = "FABRIC_ANNOUNCE",
	  .size = sizeof(struct weft_fabric_announce),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_announce, .needs = FZ_SLOTS },
	{ .cmd = WEFT_EP_OPEN, .name = "EP_OPEN", .size = sizeof(struct weft_ep_open),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_ep_open,
	  .needs = FZ_FUNCTIONS, .is_slow = true },
	{ .cmd = WEFT_EP_QUERY, .name = "EP_QUERY", .size = sizeof(struct weft_ep_query),
	  .weight = 1, .makes = FZ_KINDS, .mean = none, .needs = FZ_FUNCTIONS },
	{ .cmd = WEFT_EP_AREA, .name = "EP_AREA", .size = sizeof(struct weft_ep_area),
	  .weight = 2, .makes = FZ_AREA, .mean = fz_ep_area, .needs = FZ_FUNCTIONS },
	{ .cmd = WEFT_EP_FREE, .name = "EP_FREE", .size = sizeof(struct weft_ep_free),
	  .weight = 1, .makes = FZ_KINDS, .mean = fz_ep_free,
	  .names = { AT(free.area) }, .needs = FZ_FUNCTIONS },
	{ .cmd = WEFT_EP_SUBMIT, .name = "EP_SUBMIT", .size = sizeof(struct weft_ep_submit),
	  .weight = 3, .makes = FZ_KINDS, .mean = fz_ep_submit,
	  .names = { AT(submit.work), AT(submit.work) + 4 }, .needs = FZ_FUNCTIONS },
	{ .cmd = WEFT_EP_REAP, .name = "EP_REAP", .size = sizeof(struct weft_ep_reap),
	  .weight = 3, .makes = FZ_KINDS, .mean = fz_ep_reap,
	  .names = { AT(reap.done), AT(reap.done) + 4 }, .needs = FZ_FUNCTIONS },
};

#define CALLS (sizeof(calls) / sizeof(*calls))

static_assert(CALLS <= FZ_CALLS, "counts have room for each");
static_assert(FC_BYTES <= WT_PAGE, "an argument has so many bytes");

static void count(const struct fz_shared *s, const struct call *c, bool is_good)
{
	struct fz_count *all = &s->counts[c - calls];

	__atomic_add_fetch(&all->made, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&all->succeeded, is_good, __ATOMIC_RELAXED);
}

/* What the machine has to have for the call; NULL: it has it. */
static const char *lacks(const struct fz_machine *m, enum fz_need need)
{
	switch (need) {
	case FZ_VFS:
		return m->vfs < 2 ? "no two virtual functions" : NULL;
	case FZ_FABRIC:
		return m->has_fabric ? NULL : "no manager of a fabric";
	case FZ_MASTER:
		return m->master < 0 ? "no port is master of a fabric" : NULL;
	case FZ_SLOTS:
		return m->slot_count ? NULL : "no port of a switch, at the master";
	case FZ_FUNCTIONS:
		return m->given_count ? NULL : "no function of an endpoint";
	default:
		return NULL;
	}
}

bool fz_tell(const struct fz_machine *m, const struct fz_count *counts, bool is_whole)
{
	bool good = true;

	for (size_t i = 0; i < CALLS; i++) {
		const char *lack = lacks(m, calls[i].needs);

		printf("# %s: %llu calls, %llu succeeded%s%s\n", calls[i].name,
		       (unsigned long long)counts[i].made,
		       (unsigned long long)counts[i].succeeded, lack ? ": " : "",
		       lack ? lack : "");
		if (lack ? is_whole : !counts[i].succeeded)
			good = false;
	}
	return good;
}

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
static bool is_spared(const struct fz_shared *s, unsigned long cmd, const union fz_arg *a)
{
	if (cmd != WEFT_QP_MODIFY)
		return false;
	for (unsigned int i = 0; i < s->spared_count; i++)
		if (a->modify.peer_qpn == s->spared[i])
			return true;
	return false;
}

static void keep(struct fz_file *f, enum fz_kind kind, uint32_t place, const union fz_arg *a)
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
	case FZ_AREA:
		o.handle = a->area.area;
		o.offset = a->area.offset;
		o.bytes = a->area.bytes;
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

static void spoil(struct fz_rng *r, union fz_arg *a, uint32_t size)
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

/*
 * In place of @a an argument of the kind that has reached something new, if there is one. Half
 * of the times it names what @a does: what it named itself may be gone.
 */
static void recall(struct fz_thread *t, const struct call *c, union fz_arg *a)
{
	const union fz_arg meant = *a;

	if (!fc_get(t->shared->cover, c - calls, fz_next(&t->rng), a->bytes) ||
	    fz_once_in(&t->rng, 2))
		return;
	for (int n = 0; n < NAMES && c->names[n]; n++)
		memcpy(a->bytes + c->names[n], meant.bytes + c->names[n], 4);
}

/* Where the argument lies; @size bytes of it are there. */
static void *place(struct fz_thread *t, const union fz_arg *a, uint32_t size)
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
	struct fz_file *f = c->needs == FZ_FUNCTIONS ? fz_user(t) : fz_any_file(t);
	uint32_t where = fz_below(&t->rng, FZ_KEPT);
	union fz_arg a = { .size = c->size };
	unsigned long cmd = c->cmd;
	uint32_t there = c->size;
	bool is_calm, is_usual, is_good;
	void *at;

	c->mean(t, f, &a);
	if (t->shared->is_guided && fz_once_in(&t->rng, 2))
		recall(t, c, &a);
	for (uint32_t n = fz_below(&t->rng, 8); n >= 5; n--)
		spoil(&t->rng, &a, c->size);
	if (fz_once_in(&t->rng, 64))
		cmd = fz_once_in(&t->rng, 2) ? fz_number(&t->rng) :
			_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + fz_below(&t->rng, 64));
	/* Another call could wait for ever. */
	is_calm = c->is_slow && !fz_once_in(&t->rng, 4) && cmd == c->cmd;
	if (a.size > there && a.size < WT_PAGE)
		there = a.size;
	at = place(t, &a, there);
	if (is_spared(t->shared, cmd, &a))
		return;
	is_usual = cmd == c->cmd && at == t->arg + 2 * WT_PAGE - there;
	if (is_calm)
		fz_calm(true);
	fc_clear(t->trace);
	is_good = ioctl(fz_fd(f), cmd, at) == 0 && is_usual;
	if (t->trace && fc_is_new(t->shared->cover, t->trace) && is_usual)
		fc_keep(t->shared->cover, c - calls, a.bytes);
	if (is_calm)
		fz_calm(false);
	if (is_good) {
		memcpy(&a, at, c->size);
		keep(f, c->makes, where, &a);
	}
	count(t->shared, c, is_good && (!c->is_good || c->is_good(&a)));
}

/* The kind of ioctl that has succeeded as such, else the first. */
static const struct call *kind_of(unsigned long cmd, const union fz_arg *a)
{
	const struct call *first = NULL;

	for (size_t i = 0; i < CALLS; i++) {
		if (calls[i].cmd != cmd)
			continue;
		if (!calls[i].is_good || calls[i].is_good(a))
			return &calls[i];
		if (!first)
			first = &calls[i];
	}
	return first;
}

long fz_do(struct fz_thread *t, struct fz_file *f, unsigned long cmd, union fz_arg *a)
{
	const struct call *c = kind_of(cmd, a);
	long r;

	a->size = c->size;
	r = wt_ioctl(fz_fd(f), cmd, a);
	c = kind_of(cmd, a);
	count(t->shared, c, !r && (!c->is_good || c->is_good(a)));
	return r;
}

void fz_make(struct fz_thread *t, struct fz_file *f, enum fz_kind kind, uint32_t where)
{
	for (size_t i = 0; i < CALLS; i++) {
		union fz_arg a = { .size = calls[i].size };

		if (calls[i].makes != kind)
			continue;
		calls[i].mean(t, f, &a);
		if (!fz_do(t, f, calls[i].cmd, &a))
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
			union fz_arg a = { .modify = {
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
