// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>

#include "ends.h"
#include "weft_test.h"

#define INLINE		64
/* Generous: guests are slow when others run. */
#define PATIENCE_S	30

long we_register(struct we_end *e, void *at, size_t bytes, uint32_t access,
		 uint32_t *mr, uint32_t *stag)
{
	struct weft_mr_reg reg = {
		.size = sizeof(reg), .addr = (uintptr_t)at, .length = bytes,
		.base = WE_BASE, .pd = e->pd, .key = 0x5a, .access = access,
	};
	long r = wt_ioctl(e->fd, WEFT_MR_REG, &reg);

	*mr = reg.mr;
	*stag = reg.stag;
	return r;
}

long we_destroy(struct we_end *e, uint32_t handle)
{
	struct weft_destroy d = { .size = sizeof(d), .handle = handle };

	return wt_ioctl(e->fd, WEFT_DESTROY, &d);
}

static bool memory(struct we_end *e, size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (mem == MAP_FAILED)
		return false;
	e->mem = mem;
	e->bytes = bytes;
	return !we_register(e, mem, bytes, WEFT_ACCESS_LOCAL_WRITE | WE_REMOTE,
			    &e->mr, &e->stag);
}

static void *map(struct we_end *e, uint64_t offset, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, offset);

	return at == MAP_FAILED ? NULL : at;
}

static bool queues(struct we_end *e)
{
	struct weft_cq_create cq = {
		.size = sizeof(cq), .entries = e->cqes, .event_fd = -1,
	};
	struct weft_qp_create qp = {
		.size = sizeof(qp), .pd = e->pd, .send_entries = e->entries,
		.recv_entries = e->entries, .send_sges = WE_SGES, .recv_sges = WE_SGES,
		.inline_bytes = INLINE,
	};

	if (wt_ioctl(e->fd, WEFT_CQ_CREATE, &cq))
		return false;
	e->cq = cq.cq;
	e->cq_bytes = cq.ring_bytes;
	e->cq_offset = cq.ring_offset;
	e->cq_mem = map(e, cq.ring_offset, cq.ring_bytes);
	qp.send_cq = cq.cq;
	qp.recv_cq = cq.cq;
	if (wt_ioctl(e->fd, WEFT_QP_CREATE, &qp))
		return false;
	e->qp = qp.qp;
	e->qpn = qp.qpn;
	e->send_stride = qp.send_stride;
	e->recv_stride = qp.recv_stride;
	e->qp_bytes = qp.ring_bytes;
	e->qp_offset = qp.ring_offset;
	e->qp_mem = map(e, qp.ring_offset, qp.ring_bytes);
	if (!e->cq_mem || !e->qp_mem)
		return false;
	e->sq = (void *)(e->qp_mem + qp.send_at);
	e->rq = (void *)(e->qp_mem + qp.recv_at);
	return true;
}

bool we_begin(struct we_end *e, unsigned int port, size_t bytes)
{
	return we_begin_with(e, port, bytes, WE_ENTRIES, WE_CQES);
}

bool we_begin_with(struct we_end *e, unsigned int port, size_t bytes, uint32_t entries,
		   uint32_t cqes)
{
	struct weft_pd_alloc pd = { .size = sizeof(pd) };

	memset(e, 0, sizeof(*e));
	e->entries = entries;
	e->cqes = cqes;
	e->fd = wt_open(port, 0);
	if (e->fd < 0 || wt_ioctl(e->fd, WEFT_PD_ALLOC, &pd))
		return false;
	e->pd = pd.pd;
	return memory(e, bytes) && queues(e);
}

bool we_adopt(struct we_end *e, const struct we_end *from, int fd)
{
	*e = *from;
	e->fd = fd;
	e->mem = NULL;
	e->cq_mem = map(e, e->cq_offset, e->cq_bytes);
	e->qp_mem = map(e, e->qp_offset, e->qp_bytes);
	if (!e->cq_mem || !e->qp_mem)
		return false;
	e->sq = (void *)(e->qp_mem + ((uint8_t *)from->sq - from->qp_mem));
	e->rq = (void *)(e->qp_mem + ((uint8_t *)from->rq - from->qp_mem));
	return true;
}

void we_end(struct we_end *e)
{
	if (e->cq_mem)
		munmap(e->cq_mem, e->cq_bytes);
	if (e->qp_mem)
		munmap(e->qp_mem, e->qp_bytes);
	if (e->fd >= 0)
		close(e->fd);
	if (e->mem)
		munmap(e->mem, e->bytes);
	memset(e, 0, sizeof(*e));
	e->fd = -1;
}

long we_modify(struct we_end *e, uint32_t mask, uint32_t state, uint32_t peer_qpn)
{
	struct weft_qp_modify m = {
		.size = sizeof(m), .qp = e->qp, .mask = mask, .state = state,
		.access = WE_REMOTE, .link = 0, .peer_qpn = peer_qpn,
	};

	return wt_ioctl(e->fd, WEFT_QP_MODIFY, &m);
}

bool we_join(struct we_end *a, struct we_end *b)
{
	struct we_end *ends[] = { a, b };

	for (int i = 0; i < 2; i++) {
		if (we_modify(ends[i], WEFT_QP_STATE | WEFT_QP_ACCESS, WEFT_QP_INIT, 0) ||
		    we_modify(ends[i], WEFT_QP_STATE | WEFT_QP_PATH, WEFT_QP_RTR,
			      ends[!i]->qpn))
			return false;
	}
	return !we_modify(a, WEFT_QP_STATE, WEFT_QP_RTS, 0) &&
	       !we_modify(b, WEFT_QP_STATE, WEFT_QP_RTS, 0);
}

uint32_t we_state(struct we_end *e)
{
	struct weft_qp_query q = { .size = sizeof(q), .qp = e->qp };

	return wt_ioctl(e->fd, WEFT_QP_QUERY, &q) ? ~0u : q.state;
}

void we_kick(struct we_end *e)
{
	struct weft_kick k = { .size = sizeof(k), .qp = e->qp };

	wt_ioctl(e->fd, WEFT_KICK, &k);
}

void we_post_wqe(struct we_end *e, const struct weft_send_wqe *wqe, const struct weft_sge *sges)
{
	uint8_t *entry = (uint8_t *)e->sq + WEFT_QUEUE_ENTRIES_AT +
			 (e->posted % e->entries) * e->send_stride;

	memcpy(entry, wqe, sizeof(*wqe));
	memcpy(entry + sizeof(*wqe), sges, wqe->count * sizeof(*sges));
	e->posted++;
	__atomic_store_n(&e->sq->posted, e->posted, __ATOMIC_RELEASE);
}

void we_post(struct we_end *e, uint64_t id, uint8_t opcode, uint64_t at, uint32_t length,
	     uint64_t remote_to, uint32_t remote_stag)
{
	struct weft_send_wqe wqe = {
		.wr_id = id, .opcode = opcode, .flags = WEFT_WR_SIGNALED,
		.count = 1, .remote_to = remote_to, .remote_stag = remote_stag,
	};
	struct weft_sge sge = { .to = WE_BASE + at, .length = length, .stag = e->stag };

	we_post_wqe(e, &wqe, &sge);
}

void we_post_recv(struct we_end *e, uint64_t id, uint64_t at, uint32_t length)
{
	uint8_t *entry = (uint8_t *)e->rq + WEFT_QUEUE_ENTRIES_AT +
			 (e->recvs % e->entries) * e->recv_stride;
	struct weft_recv_wqe wqe = { .wr_id = id, .count = 1 };
	struct weft_sge sge = { .to = WE_BASE + at, .length = length, .stag = e->stag };

	memcpy(entry, &wqe, sizeof(wqe));
	memcpy(entry + sizeof(wqe), &sge, sizeof(sge));
	e->recvs++;
	__atomic_store_n(&e->rq->posted, e->recvs, __ATOMIC_RELEASE);
}

bool we_poll(struct we_end *e, struct weft_cqe *out)
{
	const volatile struct weft_cqe *cqe =
		(void *)(e->cq_mem + WEFT_CQ_ENTRIES_AT +
			 (e->consumed % e->cqes) * sizeof(*cqe));
	uint32_t phase = e->consumed / e->cqes % 2 ? 0 : WEFT_CQE_PHASE;
	uint32_t valid = __atomic_load_n(&cqe->valid, __ATOMIC_ACQUIRE);

	if (valid != ((e->consumed & ~WEFT_CQE_PHASE) | phase))
		return false;
	memcpy(out, (const void *)cqe, sizeof(*out));
	e->consumed++;
	__atomic_store_n(&((volatile struct weft_cq_ctl *)e->cq_mem)->consumed,
			 e->consumed, __ATOMIC_RELEASE);
	return true;
}

bool we_await(struct we_end *e, struct we_end *other, struct weft_cqe *out)
{
	time_t until = time(NULL) + PATIENCE_S;

	memset(out, 0xee, sizeof(*out));
	do {
		we_kick(e);
		if (we_poll(e, out))
			return true;
		if (other)
			we_kick(other);
	} while (time(NULL) < until);
	return false;
}

void we_tell(struct we_end *e, const char *name)
{
	struct weft_qp_query q = { .size = sizeof(q), .qp = e->qp };
	struct weft_kick k = { .size = sizeof(k), .qp = e->qp };
	long queried = wt_ioctl(e->fd, WEFT_QP_QUERY, &q);

	printf("# %s: query %ld, state %u, why %u, link %d, sent %llu, received %llu\n", name,
	       queried, q.state, q.why, q.link, (unsigned long long)q.sent,
	       (unsigned long long)q.received);
	printf("# %s: posted %llu, of which %llu are taken; for receiving %llu, %llu; kick %ld\n",
	       name, (unsigned long long)e->posted, (unsigned long long)e->sq->taken,
	       (unsigned long long)e->recvs, (unsigned long long)e->rq->taken,
	       wt_ioctl(e->fd, WEFT_KICK, &k));
}

static void fill(uint8_t *at, size_t bytes, unsigned int seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (i * 31 + seed) ^ (i >> 8);
}

static bool came(struct we_end *e, struct we_end *other, uint64_t id, uint32_t length,
		 const char *what)
{
	struct weft_cqe cqe;

	if (!we_await(e, other, &cqe)) {
		printf("# %s %llu: no completion\n", what, (unsigned long long)id);
		return false;
	}
	if (cqe.wr_id == id && cqe.status == WEFT_WC_SUCCESS && cqe.byte_len == length)
		return true;
	printf("# %s %llu: %llu completed with status %u, %u bytes\n", what,
	       (unsigned long long)id, (unsigned long long)cqe.wr_id, cqe.status,
	       cqe.byte_len);
	return false;
}

bool we_exchange(struct we_end *a, struct we_end *b, unsigned int n)
{
	/* In a cell, in the eager ring, in memory that is lent. */
	static const uint32_t lengths[] = { 8, 64, 200, 4096, 100000 };
	uint32_t length = lengths[n % 5];

	if (length > a->bytes || length > b->bytes)
		length = 64;
	fill(a->mem, length, n);
	memset(b->mem, 0, length);
	we_post_recv(b, n, 0, length);
	we_post(a, n, WEFT_OP_SEND, 0, length, 0, 0);
	if (!came(b, a, n, length, "receive") || !came(a, b, n, length, "send"))
		return false;
	if (!memcmp(a->mem, b->mem, length))
		return true;
	printf("# message %u: %u bytes did not arrive as they were\n", n, length);
	return false;
}
