// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs between two ports that are joined: what each operation does, what
 * is refused, and what a message costs on the wire.
 *
 * Both ends are here, and neither sleeps: completions are waited for by WEFT_KICK
 * of either end in turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/pci_regs.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "weft_test.h"

#define ENTRIES		64
#define SGES		4
#define INLINE		64
#define CQES		256
#define BYTES		(4 << 20)
/* Generous: guests are slow when others run. */
#define PATIENCE_S	60

#define ALL_REMOTE	(WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE | \
			 WEFT_ACCESS_REMOTE_ATOMIC)

struct end {
	int fd;
	uint32_t pd, cq, qp, qpn;
	uint32_t send_stride, recv_stride;
	uint8_t *cq_mem, *qp_mem;
	size_t cq_bytes, qp_bytes;
	volatile struct weft_queue_ctl *sq, *rq;
	uint64_t posted, recvs, consumed;
	uint8_t *mem;
	uint32_t mr, stag;
	/* How to ring, if that can be done. */
	uint64_t bits_at, bell_at;
	uint32_t bell_value, bit;
	uint64_t *bits;
	volatile uint32_t *bell;
};

static bool memory(struct end *e)
{
	struct weft_mr_reg reg = {
		.size = sizeof(reg), .length = BYTES, .pd = e->pd, .key = 0x5a,
		.access = WEFT_ACCESS_LOCAL_WRITE | ALL_REMOTE,
	};

	e->mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (e->mem == MAP_FAILED)
		return false;
	reg.addr = (uintptr_t)e->mem;
	/* A TO that is no address, to be told from one. */
	reg.base = 0x100000;
	if (wt_ioctl(e->fd, WEFT_MR_REG, &reg))
		return false;
	e->mr = reg.mr;
	e->stag = reg.stag;
	return true;
}

#define BASE 0x100000ULL

static bool queues(struct end *e, uint32_t protocol)
{
	struct weft_cq_create cq = {
		.size = sizeof(cq), .entries = CQES, .event_fd = -1,
	};
	struct weft_qp_create qp = {
		.size = sizeof(qp), .pd = e->pd, .send_entries = ENTRIES,
		.recv_entries = ENTRIES, .protocol = protocol, .send_sges = SGES, .recv_sges = SGES,
		.inline_bytes = INLINE,
	};

	if (wt_ioctl(e->fd, WEFT_CQ_CREATE, &cq))
		return false;
	e->cq = cq.cq;
	e->cq_bytes = cq.ring_bytes;
	e->cq_mem = mmap(NULL, cq.ring_bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED, e->fd, cq.ring_offset);
	qp.send_cq = cq.cq;
	qp.recv_cq = cq.cq;
	if (wt_ioctl(e->fd, WEFT_QP_CREATE, &qp))
		return false;
	e->qp = qp.qp;
	e->qpn = qp.qpn;
	e->send_stride = qp.send_stride;
	e->recv_stride = qp.recv_stride;
	e->qp_bytes = qp.ring_bytes;
	e->qp_mem = mmap(NULL, qp.ring_bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED, e->fd, qp.ring_offset);
	if (e->cq_mem == MAP_FAILED || e->qp_mem == MAP_FAILED)
		return false;
	e->bits_at = qp.kick_page_offset;
	e->bell_at = qp.kick_offset;
	e->bell_value = qp.kick_value;
	e->bit = qp.kick_bit;
	e->sq = (void *)(e->qp_mem + qp.send_at);
	e->rq = (void *)(e->qp_mem + qp.recv_at);
	return true;
}

static bool begin(struct end *e, unsigned int port, uint32_t protocol)
{
	struct weft_pd_alloc pd = { .size = sizeof(pd) };

	memset(e, 0, sizeof(*e));
	e->fd = wt_open(port, 0);
	if (e->fd < 0 || wt_ioctl(e->fd, WEFT_PD_ALLOC, &pd))
		return false;
	e->pd = pd.pd;
	return memory(e) && queues(e, protocol);
}

static void end(struct end *e)
{
	if (e->cq_mem)
		munmap(e->cq_mem, e->cq_bytes);
	if (e->qp_mem)
		munmap(e->qp_mem, e->qp_bytes);
	close(e->fd);
	munmap(e->mem, BYTES);
}

static long modify(struct end *e, uint32_t mask, uint32_t state, uint32_t peer)
{
	struct weft_qp_modify m = {
		.size = sizeof(m), .qp = e->qp, .mask = mask, .state = state,
		.access = ALL_REMOTE, .peer_qpn = peer,
	};

	wt_way(e->fd, &m.peer, &m.link);
	return wt_ioctl(e->fd, WEFT_QP_MODIFY, &m);
}

static void kick(struct end *e)
{
	struct weft_kick k = { .size = sizeof(k), .qp = e->qp };

	wt_ioctl(e->fd, WEFT_KICK, &k);
}

static bool join(struct end *a, struct end *b)
{
	struct end *ends[] = { a, b };

	for (int i = 0; i < 2; i++) {
		if (modify(ends[i], WEFT_QP_STATE | WEFT_QP_ACCESS,
			   WEFT_QP_INIT, 0) ||
		    modify(ends[i], WEFT_QP_STATE | WEFT_QP_PATH, WEFT_QP_RTR,
			   ends[!i]->qpn))
			return false;
	}
	if (modify(a, WEFT_QP_STATE, WEFT_QP_RTS, 0) ||
	    modify(b, WEFT_QP_STATE, WEFT_QP_RTS, 0))
		return false;
	/* They join now; that is not to be counted as what is tested. */
	for (int i = 0; i < 8; i++) {
		kick(a);
		kick(b);
	}
	return true;
}

static struct weft_qp_query query(struct end *e)
{
	struct weft_qp_query q = { .size = sizeof(q), .qp = e->qp };

	if (wt_ioctl(e->fd, WEFT_QP_QUERY, &q))
		q.state = ~0u;
	return q;
}

static void post_send(struct end *e, const struct weft_send_wqe *wqe,
		      const void *tail, size_t bytes)
{
	uint8_t *at = (uint8_t *)e->sq + WEFT_QUEUE_ENTRIES_AT +
		      (e->posted % ENTRIES) * e->send_stride;

	memcpy(at, wqe, sizeof(*wqe));
	memcpy(at + sizeof(*wqe), tail, bytes);
	e->posted++;
	__atomic_store_n(&e->sq->posted, e->posted, __ATOMIC_RELEASE);
}

static void post_recv(struct end *e, uint64_t id, uint64_t to, uint32_t length)
{
	uint8_t *at = (uint8_t *)e->rq + WEFT_QUEUE_ENTRIES_AT +
		      (e->recvs % ENTRIES) * e->recv_stride;
	struct weft_recv_wqe wqe = { .wr_id = id, .count = 1 };
	struct weft_sge sge = { .to = to, .length = length, .stag = e->stag };

	memcpy(at, &wqe, sizeof(wqe));
	memcpy(at + sizeof(wqe), &sge, sizeof(sge));
	e->recvs++;
	__atomic_store_n(&e->rq->posted, e->recvs, __ATOMIC_RELEASE);
}

/* A signalled request with a list of one element. */
static void post(struct end *e, uint64_t id, uint8_t opcode, uint64_t from,
		 uint32_t length, uint64_t to, uint32_t stag)
{
	struct weft_send_wqe wqe = {
		.wr_id = id, .opcode = opcode, .flags = WEFT_WR_SIGNALED,
		.count = 1, .remote_to = to, .remote_stag = stag,
	};
	struct weft_sge sge = { .to = from, .length = length, .stag = e->stag };

	post_send(e, &wqe, &sge, sizeof(sge));
}

/* The next completion, if it is there. */
static bool poll_cq(struct end *e, struct weft_cqe *out)
{
	const volatile struct weft_cqe *cqe =
		(void *)(e->cq_mem + WEFT_CQ_ENTRIES_AT +
			 (e->consumed % CQES) * sizeof(*cqe));
	uint32_t phase = e->consumed / CQES % 2 ? 0 : WEFT_CQE_PHASE;
	uint32_t valid = __atomic_load_n(&cqe->valid, __ATOMIC_ACQUIRE);

	if (valid != ((e->consumed & ~WEFT_CQE_PHASE) | phase))
		return false;
	memcpy(out, (const void *)cqe, sizeof(*out));
	e->consumed++;
	__atomic_store_n(&((volatile struct weft_cq_ctl *)e->cq_mem)->consumed,
			 e->consumed, __ATOMIC_RELEASE);
	return true;
}

/* Waits for a completion of @e; both ends are run. */
static bool await(struct end *e, struct end *other, struct weft_cqe *out)
{
	time_t until = time(NULL) + PATIENCE_S;

	memset(out, 0xee, sizeof(*out));
	do {
		kick(e);
		if (poll_cq(e, out))
			return true;
		kick(other);
	} while (time(NULL) < until);
	return false;
}

static bool map_bell(struct end *e)
{
	void *bits = mmap(NULL, WT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd,
			  e->bits_at);
	void *bell = mmap(NULL, WT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd,
			  e->bell_at);

	e->bits = bits;
	e->bell = bell;
	return bits != MAP_FAILED && bell != MAP_FAILED;
}

static void unmap_bell(struct end *e)
{
	munmap(e->bits, WT_PAGE);
	munmap((void *)e->bell, WT_PAGE);
}

static void ring(struct end *e)
{
	__atomic_fetch_or(&e->bits[e->bit / 64], 1ULL << e->bit % 64, __ATOMIC_RELEASE);
	*e->bell = e->bell_value;
}

/* Waits for a completion of @e; no program runs an engine. */
static bool await_quietly(struct end *e, struct weft_cqe *out)
{
	time_t until = time(NULL) + PATIENCE_S;

	do {
		if (poll_cq(e, out))
			return true;
		sched_yield();
	} while (time(NULL) < until);
	return false;
}

/* Not periodic: a part that comes to the place of another one shows. */
static void fill(uint8_t *at, size_t bytes, unsigned int seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (i * 31 + seed) ^ (i >> 8) ^ (i >> 16) * 7;
}

FIXTURE(qp) {
	struct end a, b;
};

FIXTURE_VARIANT(qp) {
	uint32_t protocol;
	bool loopback;
};

/* All that is tested is tested in each protocol. */
FIXTURE_VARIANT_ADD(qp, Q_3_push_wqe_push_data_push_cqe)
{
	.protocol = 0,
};

FIXTURE_VARIANT_ADD(qp, Q_3_pull_wqe_push_data_push_cqe)
{
	.protocol = WEFT_PULL_WQE,
};

FIXTURE_VARIANT_ADD(qp, Q_3_push_wqe_pull_data_push_cqe)
{
	.protocol = WEFT_PULL_DATA,
};

FIXTURE_VARIANT_ADD(qp, Q_3_pull_wqe_pull_data_push_cqe)
{
	.protocol = WEFT_PULL_WQE | WEFT_PULL_DATA,
};

FIXTURE_VARIANT_ADD(qp, Q_3_push_wqe_push_data_pull_cqe)
{
	.protocol = WEFT_PULL_CQE,
};

FIXTURE_VARIANT_ADD(qp, Q_3_pull_wqe_push_data_pull_cqe)
{
	.protocol = WEFT_PULL_WQE | WEFT_PULL_CQE,
};

FIXTURE_VARIANT_ADD(qp, Q_3_push_wqe_pull_data_pull_cqe)
{
	.protocol = WEFT_PULL_DATA | WEFT_PULL_CQE,
};

FIXTURE_VARIANT_ADD(qp, Q_3_pull_wqe_pull_data_pull_cqe)
{
	.protocol = WEFT_PULL_WQE | WEFT_PULL_DATA | WEFT_PULL_CQE,
};

FIXTURE_VARIANT_ADD(qp, loopback)
{
	.loopback = true,
};

FIXTURE_VARIANT_ADD(qp, loopback_pull)
{
	.protocol = WEFT_PULL_WQE | WEFT_PULL_DATA | WEFT_PULL_CQE,
	.loopback = true,
};

FIXTURE_SETUP(qp)
{
	wt_loopback = variant->loopback;
	ASSERT_TRUE(wt_wait_ready(60000));
	ASSERT_TRUE(begin(&self->a, 0, variant->protocol));
	ASSERT_TRUE(begin(&self->b, 1, variant->protocol));
	ASSERT_TRUE(join(&self->a, &self->b));
}

FIXTURE_TEARDOWN(qp)
{
	end(&self->a);
	end(&self->b);
}

/*
 * Sizes that go in a cell, in the eager ring, and by memory that is lent: in segments of 64 KiB, of
 * which the last may be too short for the DMA engine.
 */
static const uint32_t sizes[] = {
	0, 1, 8, 63, 64, 65, 1000, 4096, 16384, 16385, (64 << 10) + 1001, 100000, 1 << 20, 3 << 20,
};

TEST_F_TIMEOUT(qp, send_and_receive, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_cqe cqe;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint32_t len = sizes[i];

		fill(a->mem + 3, len, i);
		memset(b->mem, 0, BYTES);
		post_recv(b, 100 + i, BASE + 5, len + 1);
		post(a, i, WEFT_OP_SEND, BASE + 3, len, 0, 0);
		ASSERT_TRUE(await(b, a, &cqe)) TH_LOG("%u bytes", len);
		EXPECT_EQ(100 + i, cqe.wr_id);
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status) TH_LOG("%u bytes", len);
		EXPECT_EQ(WEFT_OP_RECV, cqe.opcode);
		EXPECT_EQ(len, cqe.byte_len);
		EXPECT_EQ(b->qpn, cqe.qpn);
		EXPECT_EQ(0, memcmp(a->mem + 3, b->mem + 5, len));
		EXPECT_EQ(0, b->mem[4]);
		EXPECT_EQ(0, b->mem[5 + len]);
		ASSERT_TRUE(await(a, b, &cqe));
		EXPECT_EQ(i, cqe.wr_id);
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	}
}

TEST_F_TIMEOUT(qp, write_and_read, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_cqe cqe;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint32_t len = sizes[i];

		fill(a->mem, len, i);
		memset(b->mem, 0, BYTES);
		post(a, 1, WEFT_OP_WRITE, BASE, len, BASE + 77, b->stag);
		ASSERT_TRUE(await(a, b, &cqe)) TH_LOG("write %u bytes", len);
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status) TH_LOG("%u bytes", len);
		EXPECT_EQ(0, memcmp(a->mem, b->mem + 77, len));
		EXPECT_EQ(0, b->mem[77 + len]);
		memset(a->mem, 0, BYTES);
		post(a, 2, WEFT_OP_READ, BASE + 9, len, BASE + 77, b->stag);
		ASSERT_TRUE(await(a, b, &cqe)) TH_LOG("read %u bytes", len);
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status) TH_LOG("%u bytes", len);
		EXPECT_EQ(len, cqe.byte_len);
		EXPECT_EQ(0, memcmp(a->mem + 9, b->mem + 77, len));
		EXPECT_EQ(0, a->mem[9 + len]);
	}
}

TEST_F_TIMEOUT(qp, write_with_immediate_and_inline, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_send_wqe wqe = {
		.wr_id = 7, .opcode = WEFT_OP_WRITE_IMM, .count = 5, .imm = 0xabcdef01,
		.flags = WEFT_WR_SIGNALED | WEFT_WR_INLINE,
		.remote_to = BASE + 1, .remote_stag = b->stag,
	};
	struct weft_cqe cqe;

	post_recv(b, 8, BASE, 0);
	post_send(a, &wqe, "hello", 5);
	ASSERT_TRUE(await(b, a, &cqe));
	EXPECT_EQ(WEFT_OP_RECV_WRITE_IMM, cqe.opcode);
	EXPECT_EQ(8, cqe.wr_id);
	EXPECT_EQ(5, cqe.byte_len);
	EXPECT_EQ(WEFT_WC_FLAG_IMM, cqe.flags);
	EXPECT_EQ(0xabcdef01, cqe.imm);
	EXPECT_EQ(0, memcmp(b->mem + 1, "hello", 5));
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(7, cqe.wr_id);
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
}

TEST_F_TIMEOUT(qp, read_of_unknown_size, 300)
{
	struct end *a = &self->a, *b = &self->b;
	uint64_t from = BASE + BYTES - 300000;
	struct weft_cqe cqe;

	fill(b->mem, BYTES, 3);
	post(a, 1, WEFT_OP_READ_ALL, BASE, BYTES, from, b->stag);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	EXPECT_EQ(300000, cqe.byte_len);
	EXPECT_EQ(0, memcmp(a->mem, b->mem + BYTES - 300000, 300000));
	/* A list that is too short ends it before anything moves. */
	memset(a->mem, 0, BYTES);
	post(a, 2, WEFT_OP_READ_ALL, BASE, 299999, from, b->stag);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(WEFT_WC_LOCAL_LENGTH, cqe.status);
	EXPECT_EQ(0, a->mem[0]);
}

TEST_F_TIMEOUT(qp, atomics, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_sge sge = { .to = BASE, .length = 8, .stag = a->stag };
	struct weft_send_wqe wqe = {
		.opcode = WEFT_OP_FETCH_ADD, .flags = WEFT_WR_SIGNALED,
		.count = 1, .remote_to = BASE + 64, .remote_stag = b->stag,
		.arg0 = 5,
	};
	uint64_t *mine = (void *)a->mem, *theirs = (void *)(b->mem + 64);
	struct weft_cqe cqe;

	*theirs = 37;
	post_send(a, &wqe, &sge, sizeof(sge));
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	EXPECT_EQ(37, *mine);
	EXPECT_EQ(42, *theirs);
	wqe.opcode = WEFT_OP_CMP_SWAP;
	wqe.arg0 = 42;
	wqe.arg1 = 1000;
	post_send(a, &wqe, &sge, sizeof(sge));
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(42, *mine);
	EXPECT_EQ(1000, *theirs);
	post_send(a, &wqe, &sge, sizeof(sge));
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	EXPECT_EQ(1000, *mine);
	EXPECT_EQ(1000, *theirs);
}

/* More than fit into any ring, in both directions, in order. */
TEST_F_TIMEOUT(qp, many_in_order, 300)
{
	struct end *a = &self->a, *b = &self->b;
	const unsigned int count = 2000;
	unsigned int sent = 0, done = 0, got = 0, given = 0;
	time_t until = time(NULL) + PATIENCE_S;
	struct weft_cqe cqe;

	while ((got < count || done < count) && time(NULL) < until) {
		/* Fewer receive requests than sends: some find none. */
		while (given < count && given - got < 20) {
			post_recv(b, given, BASE + given % 64 * 4096, 4096);
			given++;
		}
		while (sent < count && sent - done < ENTRIES) {
			uint32_t len = sent % 3 ? 8 : 200;

			memset(a->mem + sent % 64 * 4096, sent, len);
			post(a, sent, WEFT_OP_SEND, BASE + sent % 64 * 4096,
			     len, 0, 0);
			sent++;
		}
		kick(a);
		kick(b);
		while (poll_cq(a, &cqe)) {
			ASSERT_EQ(WEFT_WC_SUCCESS, cqe.status);
			ASSERT_EQ(done, cqe.wr_id);
			done++;
		}
		while (poll_cq(b, &cqe)) {
			uint32_t len = got % 3 ? 8 : 200;

			ASSERT_EQ(WEFT_WC_SUCCESS, cqe.status);
			ASSERT_EQ(got, cqe.wr_id);
			ASSERT_EQ(len, cqe.byte_len);
			ASSERT_EQ((uint8_t)got, b->mem[got % 64 * 4096]);
			ASSERT_EQ((uint8_t)got, b->mem[got % 64 * 4096 + len - 1]);
			got++;
		}
	}
	EXPECT_EQ(count, got);
	EXPECT_EQ(count, done);
}

/* A send that finds no receive request waits for one, and disturbs no other. */
TEST_F_TIMEOUT(qp, no_receive_request, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_cqe cqe;

	fill(a->mem, 4096, 9);
	for (int i = 0; i < 3; i++)
		post(a, i, WEFT_OP_SEND, BASE + i, 100, 0, 0);
	for (int i = 0; i < 20; i++) {
		kick(a);
		kick(b);
	}
	EXPECT_FALSE(poll_cq(a, &cqe));
	EXPECT_EQ(WEFT_QP_RTS, query(a).state);
	for (int i = 0; i < 3; i++)
		post_recv(b, 10 + i, BASE + i * 4096, 4096);
	/* One that completes with success has arrived before. */
	for (int i = 0; i < 3; i++) {
		ASSERT_TRUE(await(a, b, &cqe));
		EXPECT_EQ(i, cqe.wr_id);
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
		ASSERT_TRUE(poll_cq(b, &cqe)) TH_LOG("send %d", i);
		EXPECT_EQ(10 + i, cqe.wr_id);
		EXPECT_EQ(0, memcmp(a->mem + i, b->mem + i * 4096, 100));
	}
}

/* What stands behind such a send is dropped, too, and sent again with it. */
TEST_F_TIMEOUT(qp, read_behind_no_receive_request, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_cqe cqe;

	fill(b->mem, 200000, 4);
	memset(a->mem, 0, BYTES);
	post(a, 1, WEFT_OP_SEND, BASE, 100, 0, 0);
	post(a, 2, WEFT_OP_READ, BASE + 4096, 200000, BASE, b->stag);
	for (int i = 0; i < 20; i++) {
		kick(a);
		kick(b);
	}
	EXPECT_FALSE(poll_cq(a, &cqe));
	fill(b->mem, 200000, 5);
	post_recv(b, 3, BASE + (1 << 20), 100);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(1, cqe.wr_id);
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(2, cqe.wr_id);
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	EXPECT_EQ(200000, cqe.byte_len);
	EXPECT_EQ(0, memcmp(a->mem + 4096, b->mem, 200000));
}

/*
 * The second port masters the bus no more, which the driver is not told of, unlike of a
 * reset: its memory is out of reach, and the session ends. Then it does again.
 */
static bool lose_link(void)
{
	int64_t end = wt_now_ms() + 30000;
	char name[32], path[80];
	uint16_t before, without;
	bool lost = false;
	int cfg;

	if (!wt_pci_name(1, name, sizeof(name)))
		return false;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", name);
	cfg = open(path, O_RDWR | O_CLOEXEC);
	if (cfg < 0)
		return false;
	if (pread(cfg, &before, 2, PCI_COMMAND) == 2) {
		without = before & ~PCI_COMMAND_MASTER;
		if (pwrite(cfg, &without, 2, PCI_COMMAND) == 2) {
			while (!lost && wt_now_ms() < end)
				lost = !wt_wait_ready(0);
			if (pwrite(cfg, &before, 2, PCI_COMMAND) != 2)
				lost = false;
		}
	}
	close(cfg);
	return lost && wt_wait_ready(60000);
}

/* A link that goes down ends everything, each request with one completion. */
TEST_F_TIMEOUT(qp, link_goes_down, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_cqe cqe;

	if (variant->loopback)
		SKIP(return, "there is no link in hardware");
	for (int i = 0; i < 5; i++)
		post(a, i, WEFT_OP_SEND, BASE, i == 4 ? 1 << 20 : 100, 0, 0);
	for (int i = 0; i < 3; i++)
		post_recv(a, 10 + i, BASE, 100);
	for (int i = 0; i < 20; i++) {
		kick(a);
		kick(b);
	}
	ASSERT_TRUE(lose_link());
	EXPECT_EQ(WEFT_QP_ERR, query(a).state);
	EXPECT_EQ(WEFT_QP_ERR, query(b).state);
	for (int i = 0; i < 5; i++) {
		ASSERT_TRUE(poll_cq(a, &cqe)) TH_LOG("send %d", i);
		EXPECT_EQ(i, cqe.wr_id);
		/* What was not sent yet is flushed. */
		EXPECT_TRUE(cqe.status == WEFT_WC_LINK ||
			    cqe.status == WEFT_WC_PEER ||
			    (i && variant->protocol & WEFT_PULL_DATA &&
			     cqe.status == WEFT_WC_FLUSHED));
	}
	for (int i = 0; i < 3; i++) {
		ASSERT_TRUE(poll_cq(a, &cqe)) TH_LOG("recv %d", i);
		EXPECT_EQ(10 + i, cqe.wr_id);
		EXPECT_EQ(WEFT_WC_FLUSHED, cqe.status);
	}
	EXPECT_FALSE(poll_cq(a, &cqe));
	EXPECT_FALSE(poll_cq(b, &cqe));
	/* So is what is posted from now on, whether by a call or by the doorbell. */
	ASSERT_TRUE(map_bell(a));
	for (int i = 0; i < 2; i++) {
		post(a, 30, WEFT_OP_SEND, BASE, 100, 0, 0);
		post_recv(a, 31, BASE, 100);
		if (i)
			ring(a);
		else
			kick(a);
		for (unsigned int id = 30; id <= 31; id++) {
			ASSERT_TRUE(await_quietly(a, &cqe)) TH_LOG("%d: %u", i, id);
			EXPECT_EQ(id, cqe.wr_id);
			EXPECT_EQ(WEFT_WC_FLUSHED, cqe.status);
		}
	}
	unmap_bell(a);
	/* And the next session is as good as the first. */
	ASSERT_EQ(-ECONNRESET, modify(a, WEFT_QP_STATE, WEFT_QP_RTS, 0));
	ASSERT_EQ(0, modify(a, WEFT_QP_STATE, WEFT_QP_RESET, 0));
	ASSERT_EQ(0, modify(b, WEFT_QP_STATE, WEFT_QP_RESET, 0));
	ASSERT_TRUE(join(a, b));
	fill(a->mem, 1 << 20, 6);
	post_recv(b, 20, BASE, 1 << 20);
	post(a, 21, WEFT_OP_SEND, BASE, 1 << 20, 0, 0);
	ASSERT_TRUE(await(b, a, &cqe));
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	EXPECT_EQ(0, memcmp(a->mem, b->mem, 1 << 20));
}

/* The peer's STag, its bounds and its rights are checked there. */
TEST_F_TIMEOUT(qp, remote_access, 300)
{
	struct end *a = &self->a, *b = &self->b;
	static const struct {
		int64_t to;
		uint32_t length, stag;
		uint8_t opcode;
	} bad[] = {
		{ .to = -1, .length = 8, .opcode = WEFT_OP_WRITE },
		{ .to = BYTES - 7, .length = 8, .opcode = WEFT_OP_WRITE },
		{ .to = BYTES, .length = 65536, .opcode = WEFT_OP_WRITE },
		{ .to = 0, .length = 8, .stag = 1, .opcode = WEFT_OP_WRITE },
		{ .to = 0, .length = 8, .stag = 0x100, .opcode = WEFT_OP_WRITE },
		{ .to = BYTES - 7, .length = 8, .opcode = WEFT_OP_READ },
		{ .to = 0, .length = 8, .stag = 1, .opcode = WEFT_OP_READ },
		{ .to = BYTES, .length = 8, .opcode = WEFT_OP_FETCH_ADD },
		{ .to = 0, .length = 8, .stag = 1, .opcode = WEFT_OP_READ_ALL },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct weft_cqe cqe;

		fill(a->mem, 65536, i);
		memset(b->mem, 0x11, BYTES);
		post(a, i, bad[i].opcode, BASE, bad[i].length, BASE + bad[i].to,
		     b->stag ^ bad[i].stag);
		post(a, 99, WEFT_OP_WRITE, BASE, 8, BASE, b->stag);
		ASSERT_TRUE(await(a, b, &cqe)) TH_LOG("case %zu", i);
		EXPECT_EQ(i, cqe.wr_id);
		EXPECT_EQ(WEFT_WC_REMOTE_ACCESS, cqe.status) TH_LOG("case %zu", i);
		ASSERT_TRUE(await(a, b, &cqe)) TH_LOG("case %zu", i);
		EXPECT_EQ(99, cqe.wr_id);
		EXPECT_EQ(WEFT_WC_FLUSHED, cqe.status);
		EXPECT_EQ(WEFT_QP_ERR, query(a).state);
		for (size_t n = 0; n < BYTES; n += 4096)
			ASSERT_EQ(0x11, b->mem[n]);
		/* And again, from the beginning. */
		for (int n = 0; n < 20; n++) {
			kick(b);
			kick(a);
		}
		EXPECT_EQ(WEFT_QP_ERR, query(b).state);
		ASSERT_EQ(0, modify(a, WEFT_QP_STATE, WEFT_QP_RESET, 0));
		ASSERT_EQ(0, modify(b, WEFT_QP_STATE, WEFT_QP_RESET, 0));
		ASSERT_TRUE(join(a, b)) TH_LOG("case %zu", i);
	}
}

/* A list that is refused here, and a request that makes no sense. */
TEST_F_TIMEOUT(qp, local_errors, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_send_wqe wqe = { .wr_id = 3, .opcode = 200 };
	struct weft_cqe cqe;

	post(a, 1, WEFT_OP_WRITE, BASE, 8, BASE, b->stag);
	post(a, 2, WEFT_OP_WRITE, BASE + BYTES, 8, BASE, b->stag);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(1, cqe.wr_id);
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(2, cqe.wr_id);
	EXPECT_EQ(WEFT_WC_LOCAL_PROT, cqe.status);
	for (int n = 0; n < 20; n++) {
		kick(a);
		kick(b);
	}
	ASSERT_EQ(0, modify(a, WEFT_QP_STATE, WEFT_QP_RESET, 0));
	ASSERT_EQ(0, modify(b, WEFT_QP_STATE, WEFT_QP_RESET, 0));
	ASSERT_TRUE(join(a, b));
	post_send(a, &wqe, NULL, 0);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(3, cqe.wr_id);
	EXPECT_EQ(WEFT_WC_LOCAL_REQUEST, cqe.status);
	EXPECT_EQ(200, cqe.opcode);
}

/* A window: bound, used, taken back; the region's own STag is of no use to it. */
TEST_F_TIMEOUT(qp, memory_window, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_mw_alloc mw = { .size = sizeof(mw), .pd = b->pd };
	struct weft_mr_reg reg = {
		.size = sizeof(reg), .addr = (uintptr_t)b->mem, .length = 65536,
		.base = BASE, .pd = b->pd, .key = 1,
		.access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_MW_BIND,
	};
	struct weft_send_wqe wqe = {
		.wr_id = 1, .opcode = WEFT_OP_BIND_MW, .flags = WEFT_WR_SIGNALED,
		.count = 1, .imm = 0x77, .access = WEFT_ACCESS_REMOTE_WRITE,
		.arg0 = BASE + 4096, .arg1 = 4096,
	};
	struct weft_sge sge = { 0 };
	struct weft_cqe cqe;
	uint32_t stag;

	ASSERT_EQ(0, wt_ioctl(b->fd, WEFT_MR_REG, &reg));
	ASSERT_EQ(0, wt_ioctl(b->fd, WEFT_MW_ALLOC, &mw));
	stag = (mw.stag & ~WEFT_STAG_KEY) | 0x77;
	wqe.remote_stag = mw.stag;
	sge.stag = reg.stag;
	post_send(b, &wqe, &sge, sizeof(sge));
	ASSERT_TRUE(await(b, a, &cqe));
	EXPECT_EQ(WEFT_OP_BIND_MW, cqe.opcode);
	ASSERT_EQ(WEFT_WC_SUCCESS, cqe.status);
	fill(a->mem, 4096, 1);
	memset(b->mem, 0, 65536);
	post(a, 2, WEFT_OP_WRITE, BASE, 4096, BASE + 4096, stag);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	EXPECT_EQ(0, memcmp(a->mem, b->mem + 4096, 4096));
	wqe.wr_id = 3;
	wqe.opcode = WEFT_OP_LOCAL_INV;
	wqe.count = 0;
	wqe.imm = 0;
	wqe.access = 0;
	wqe.arg0 = 0;
	wqe.arg1 = 0;
	wqe.remote_stag = stag;
	post_send(b, &wqe, NULL, 0);
	ASSERT_TRUE(await(b, a, &cqe));
	EXPECT_EQ(WEFT_OP_LOCAL_INV, cqe.opcode);
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	EXPECT_EQ(stag, cqe.imm);
	memset(b->mem, 0, 65536);
	post(a, 4, WEFT_OP_WRITE, BASE, 8, BASE + 4096, stag);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(WEFT_WC_REMOTE_ACCESS, cqe.status);
	EXPECT_EQ(0, b->mem[4096]);
}

/* One end is destroyed: the other hears of it. */
TEST_F_TIMEOUT(qp, the_peer_goes, 300)
{
	struct end *a = &self->a, *b = &self->b;
	struct weft_destroy d = { .size = sizeof(d), .handle = b->qp };
	struct weft_cqe cqe;

	post(a, 1, WEFT_OP_SEND, BASE, 8, 0, 0);
	post_recv(a, 2, BASE, 8);
	kick(a);
	ASSERT_EQ(0, wt_ioctl(b->fd, WEFT_DESTROY, &d));
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(1, cqe.wr_id);
	EXPECT_EQ(WEFT_WC_PEER, cqe.status);
	ASSERT_TRUE(await(a, b, &cqe));
	EXPECT_EQ(2, cqe.wr_id);
	EXPECT_EQ(WEFT_WC_FLUSHED, cqe.status);
	EXPECT_EQ(WEFT_QP_ERR, query(a).state);
	EXPECT_EQ(WEFT_WC_PEER, query(a).why);
}

/* Who hears late that he was left says so late: that is none of the next peer's business. */
TEST_F_TIMEOUT(qp, a_late_goodbye, 300)
{
	struct end *a = &self->a, c[2];
	struct weft_cqe cqe;

	for (int i = 0; i < 2; i++)
		ASSERT_TRUE(begin(&c[i], 1, variant->protocol));
	for (int i = 0; i < 32; i++) {
		struct end *next = &c[i % 2];

		ASSERT_EQ(0, modify(a, WEFT_QP_STATE, WEFT_QP_RESET, 0));
		ASSERT_EQ(0, modify(next, WEFT_QP_STATE, WEFT_QP_RESET, 0));
		/* The last one hears of it after this one has joined. */
		ASSERT_EQ(0, modify(a, WEFT_QP_STATE | WEFT_QP_ACCESS,
				    WEFT_QP_INIT, 0));
		ASSERT_EQ(0, modify(a, WEFT_QP_STATE | WEFT_QP_PATH,
				    WEFT_QP_RTR, next->qpn));
		ASSERT_EQ(0, modify(next, WEFT_QP_STATE | WEFT_QP_ACCESS,
				    WEFT_QP_INIT, 0));
		ASSERT_EQ(0, modify(next, WEFT_QP_STATE | WEFT_QP_PATH,
				    WEFT_QP_RTR, a->qpn));
		kick(next);
		ASSERT_EQ(0, modify(a, WEFT_QP_STATE, WEFT_QP_RTS, 0));
		for (int n = 0; n < 4; n++) {
			kick(a);
			kick(next);
		}
		post(a, i, WEFT_OP_WRITE, BASE, 64, BASE, next->stag);
		ASSERT_TRUE(await(a, next, &cqe)) TH_LOG("round %d", i);
		EXPECT_EQ(i, cqe.wr_id);
		ASSERT_EQ(WEFT_WC_SUCCESS, cqe.status) TH_LOG("round %d", i);
	}
	for (int i = 0; i < 2; i++)
		end(&c[i]);
}

/*
 * One that names a queue pair that does not name it gets nowhere, and disturbs no other:
 * not by sending, and not by going away.
 */
TEST_F_TIMEOUT(qp, M_5_a_stranger, 300)
{
	struct end *a = &self->a, *b = &self->b, stranger;
	struct weft_cqe cqe;

	ASSERT_TRUE(begin(&stranger, 0, variant->protocol));
	ASSERT_EQ(0, modify(&stranger, WEFT_QP_STATE | WEFT_QP_ACCESS,
			    WEFT_QP_INIT, 0));
	ASSERT_EQ(0, modify(&stranger, WEFT_QP_STATE | WEFT_QP_PATH,
			    WEFT_QP_RTR, b->qpn));
	/* He may have been told already. */
	modify(&stranger, WEFT_QP_STATE, WEFT_QP_RTS, 0);
	memset(b->mem, 0x22, BYTES);
	post_recv(b, 1, BASE, 4096);
	post(&stranger, 2, WEFT_OP_SEND, BASE, 64, 0, 0);
	post(&stranger, 3, WEFT_OP_WRITE, BASE, 64, BASE, b->stag);
	ASSERT_TRUE(await(&stranger, b, &cqe));
	EXPECT_EQ(2, cqe.wr_id);
	EXPECT_TRUE(cqe.status == WEFT_WC_PEER || cqe.status == WEFT_WC_FLUSHED);
	EXPECT_EQ(WEFT_QP_ERR, query(&stranger).state);
	EXPECT_EQ(WEFT_WC_PEER, query(&stranger).why);
	end(&stranger);
	for (int i = 0; i < 20; i++) {
		kick(b);
		kick(a);
	}
	EXPECT_FALSE(poll_cq(b, &cqe));
	for (size_t n = 0; n < 8192; n++)
		ASSERT_EQ(0x22, b->mem[n]);
	EXPECT_EQ(WEFT_QP_RTS, query(b).state);
	fill(a->mem, 64, 1);
	post(a, 4, WEFT_OP_SEND, BASE, 64, 0, 0);
	ASSERT_TRUE(await(b, a, &cqe));
	EXPECT_EQ(1, cqe.wr_id);
	EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	EXPECT_EQ(0, memcmp(a->mem, b->mem, 64));
}

/* Ends that did not agree find out, and nothing moves. */
TEST_F_TIMEOUT(qp, ends_that_do_not_agree, 300)
{
	struct end *a = &self->a, c;
	struct weft_cqe cqe;

	for (uint32_t other = 0; other < 8; other++) {
		if (other == variant->protocol)
			continue;
		ASSERT_TRUE(begin(&c, 1, other));
		ASSERT_EQ(0, modify(a, WEFT_QP_STATE, WEFT_QP_RESET, 0));
		ASSERT_EQ(0, modify(a, WEFT_QP_STATE | WEFT_QP_ACCESS,
				    WEFT_QP_INIT, 0));
		ASSERT_EQ(0, modify(a, WEFT_QP_STATE | WEFT_QP_PATH,
				    WEFT_QP_RTR, c.qpn));
		modify(a, WEFT_QP_STATE, WEFT_QP_RTS, 0);
		ASSERT_EQ(0, modify(&c, WEFT_QP_STATE | WEFT_QP_ACCESS,
				    WEFT_QP_INIT, 0));
		ASSERT_EQ(0, modify(&c, WEFT_QP_STATE | WEFT_QP_PATH,
				    WEFT_QP_RTR, a->qpn));
		modify(&c, WEFT_QP_STATE, WEFT_QP_RTS, 0);
		memset(c.mem, 0x33, 4096);
		post(a, other, WEFT_OP_WRITE, BASE, 64, BASE, c.stag);
		ASSERT_TRUE(await(a, &c, &cqe)) TH_LOG("and %u", other);
		EXPECT_EQ(other, cqe.wr_id);
		EXPECT_NE(WEFT_WC_SUCCESS, cqe.status) TH_LOG("and %u", other);
		for (int i = 0; i < 20; i++) {
			kick(&c);
			kick(a);
		}
		EXPECT_EQ(WEFT_QP_ERR, query(a).state);
		EXPECT_EQ(WEFT_QP_ERR, query(&c).state);
		EXPECT_TRUE(query(a).why == WEFT_WC_PROTOCOL ||
			    query(&c).why == WEFT_WC_PROTOCOL);
		EXPECT_EQ(0x33, c.mem[0]);
		end(&c);
	}
}

/* Interrupts that @port has taken because neighbours rang. */
static unsigned long wakes(unsigned int port)
{
	FILE *file = fopen("/proc/interrupts", "r");
	unsigned long sum = 0;
	char line[512], name[32];

	if (!file || !wt_pci_name(port, name, sizeof(name)))
		return 0;
	while (fgets(line, sizeof(line), file)) {
		char *word = strchr(line, ':');
		char *end;

		if (!word || !strstr(line, name) || !strstr(line, "wake"))
			continue;
		/* A number a processor. */
		for (word++;; word = end) {
			unsigned long n = strtoul(word, &end, 10);

			if (end == word || (*end != ' ' && *end != '\n'))
				break;
			sum += n;
		}
	}
	fclose(file);
	return sum;
}

/* By doorbell: no program runs the engine of the receiving end, and no clock does. */
TEST_F_TIMEOUT(qp, asleep, 300)
{
	struct end *a = &self->a, *b = &self->b;
	time_t until = time(NULL) + PATIENCE_S;
	struct weft_cqe cqe;
	unsigned long before;

	/* Who has called the engine while connecting is waited for, for 12 jiffies. */
	usleep(200000);
	before = wakes(1);
	for (int i = 0; i < 10; i++) {
		bool came = false;

		post_recv(b, i, BASE, 64);
		usleep(20000);
		post(a, i, WEFT_OP_SEND, BASE, 64, 0, 0);
		kick(a);
		while (!came && time(NULL) < until)
			came = poll_cq(b, &cqe);
		ASSERT_TRUE(came);
		for (came = false; !came && time(NULL) < until;)
			came = poll_cq(a, &cqe);
		ASSERT_TRUE(came);
	}
	/* But for some before which it had no time to fall asleep. A loopback has no interrupt. */
	if (!variant->loopback)
		EXPECT_LE(5, wakes(1) - before);
}

/* A queue pair and its peer in one host are two. */
TEST_F(qp, its_own_peer)
{
	struct weft_port_info port = wt_port_info(self->a.fd);
	struct end c;

	if (!variant->loopback)
		SKIP(return, "it has a peer in another host");
	ASSERT_TRUE(begin(&c, 0, variant->protocol));
	ASSERT_EQ(0, modify(&c, WEFT_QP_STATE, WEFT_QP_INIT, 0));
	EXPECT_EQ(-EINVAL, modify(&c, WEFT_QP_STATE | WEFT_QP_PATH, WEFT_QP_RTR, c.qpn));
	EXPECT_EQ(WEFT_QP_INIT, query(&c).state);
	EXPECT_NE(0, port.hwid);
	for (__u32 link = port.links - 2; link < port.links; link++) {
		struct weft_link_info info = wt_link_info(self->a.fd, link);

		EXPECT_EQ(WEFT_ROLE_LOOPBACK, info.role);
		EXPECT_EQ(port.hwid, info.peer_hwid);
		EXPECT_EQ(WEFT_LINK_READY, info.state);
	}
	end(&c);
}

/* By the doorbell page: both ends post and ring by stores, and call nothing. */
TEST_F_TIMEOUT(qp, kick_page, 300)
{
	struct weft_limits limits = { .size = sizeof(limits) };
	struct end *a = &self->a, *b = &self->b;
	struct weft_cqe cqe;

	ASSERT_EQ(0, wt_ioctl(a->fd, WEFT_LIMITS, &limits));
	EXPECT_NE(0, limits.engine & WEFT_ENGINE_KICK_PAGE);
	ASSERT_NE(0, a->bits_at);
	ASSERT_NE(0, a->bell_at);
	ASSERT_TRUE(map_bell(a));
	ASSERT_TRUE(map_bell(b));
	for (int i = 0; i < 50; i++) {
		/* At once, and after all have gone to sleep. */
		if (i % 10 == 0)
			usleep(20000);
		post_recv(b, i, BASE, 64);
		post(a, i, WEFT_OP_SEND, BASE, 64, 0, 0);
		ring(a);
		ASSERT_TRUE(await_quietly(b, &cqe)) TH_LOG("message %d", i);
		EXPECT_EQ(i, cqe.wr_id);
		ASSERT_TRUE(await_quietly(a, &cqe)) TH_LOG("message %d", i);
		EXPECT_EQ(i, cqe.wr_id);
		post_recv(a, i, BASE, 64);
		post(b, i, WEFT_OP_SEND, BASE, 64, 0, 0);
		ring(b);
		ASSERT_TRUE(await_quietly(a, &cqe)) TH_LOG("answer %d", i);
		ASSERT_TRUE(await_quietly(b, &cqe)) TH_LOG("answer %d", i);
	}
	unmap_bell(a);
	unmap_bell(b);
}

struct waiter {
	int fd;
	short got;
};

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;
	struct pollfd p = { .fd = w->fd, .events = POLLIN };

	w->got = poll(&p, 1, PATIENCE_S * 1000) == 1 ? p.revents : 0;
	return NULL;
}

/* The port goes: what sleeps wakes up, and what rings is not killed. */
TEST_F_TIMEOUT(qp, the_port_goes, 300)
{
	struct end *a = &self->a;
	struct waiter w = { .fd = a->fd };
	pthread_t thread;
	char name[32];

	if (variant->protocol)
		SKIP(return, "it is the same file");
	ASSERT_TRUE(wt_pci_name(0, name, sizeof(name)));
	ASSERT_TRUE(map_bell(a));
	ring(a);
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_thread, &w));
	usleep(100000);
	ASSERT_EQ(0, wt_write(WT_DRIVER "unbind", name));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(POLLHUP | POLLERR, w.got & (POLLHUP | POLLERR));
	for (int i = 0; i < 2; i++)
		ring(a);
	ASSERT_TRUE(wt_bind_again(name));
	ring(a);
	unmap_bell(a);
}

/* Who sets all bits of his page, and stores anything in the other, reaches no other file. */
TEST_F_TIMEOUT(qp, kick_page_is_of_one_file, 300)
{
	struct end *a = &self->a, *b = &self->b, c, d;
	uint64_t denied;
	struct weft_cqe cqe;

	if (variant->protocol)
		SKIP(return, "it is the same page");
	ASSERT_TRUE(begin(&c, 0, 0));
	ASSERT_TRUE(begin(&d, 1, 0));
	ASSERT_TRUE(join(&c, &d));
	ASSERT_TRUE(map_bell(a));
	ASSERT_TRUE(map_bell(&c));
	post(&c, 7, WEFT_OP_WRITE, BASE, 64, BASE, d.stag);
	post(a, 1, WEFT_OP_WRITE, BASE, 64, BASE, b->stag);
	memset(a->bits, 0xff, WT_PAGE);
	denied = wt_attr_u64(0, "counters/doorbells_denied");
	for (unsigned int n = 0; n < 64; n++)
		if (n != a->bell_value)
			*a->bell = n;
	for (unsigned int n = 1; n < WT_PAGE / 4; n++)
		a->bell[n] = a->bell_value;
	/* Only the one doorbell can be rung, and only at the page's start. */
	EXPECT_LE(63, wt_attr_u64(0, "counters/doorbells_denied") - denied);
	/* Of its own bits it may have been found already: they are looked at now and then. */
	ring(a);
	ASSERT_TRUE(await_quietly(a, &cqe));
	EXPECT_EQ(1, cqe.wr_id);
	EXPECT_EQ(0, c.sq->taken);
	EXPECT_FALSE(poll_cq(&c, &cqe));
	ring(&c);
	ASSERT_TRUE(await_quietly(&c, &cqe));
	EXPECT_EQ(7, cqe.wr_id);
	unmap_bell(a);
	unmap_bell(&c);
	/* One page each, and nothing behind them. */
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 2 * WT_PAGE, PROT_READ, MAP_SHARED, a->fd, a->bits_at));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 2 * WT_PAGE, PROT_READ, MAP_SHARED, a->fd, a->bell_at));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, WT_PAGE, PROT_READ, MAP_SHARED, a->fd,
				   a->bell_at + WT_PAGE));
	end(&c);
	end(&d);
}

static uint64_t count(unsigned int port, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "counters/%s", name);
	return wt_attr_u64(port, path);
}

static uint64_t both(const char *name)
{
	return count(0, name) + count(1, name);
}

/* Microseconds since some time. */
static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

#define BATCH 16
#define BATCHES 16
/*
 * From the first of these messages the driver sees that both ends poll. It has seen it behind 8
 * mostly, on a busy machine and after a pause behind 20 at times.
 */
#define SEEN 48
/* Who does not come back for some jiffies is not taken for one who polls. */
#define PROMPT_US 4000

/*
 * What each operation reads over the bridge, from the end that asks and from the
 * other one: the latter pulls requests and what is sent and written, the former
 * completions and what is read. No read but those that were agreed on.
 */
TEST_F_TIMEOUT(qp, reads_over_the_bridge, 300)
{
	struct end *a = &self->a, *b = &self->b;
	bool wqe = variant->protocol & WEFT_PULL_WQE;
	bool data = variant->protocol & WEFT_PULL_DATA;
	bool cqe = variant->protocol & WEFT_PULL_CQE;
	static const struct {
		uint8_t opcode;
		uint32_t length;
		/* Data go to the peer, or come from it. */
		bool to, from;
	} ops[] = {
		{ WEFT_OP_SEND, 64, true, false },
		{ WEFT_OP_SEND, 100000, true, false },
		{ WEFT_OP_WRITE, 1000, true, false },
		{ WEFT_OP_WRITE, 0, false, false },
		{ WEFT_OP_READ, 1000, false, true },
		{ WEFT_OP_READ, 100000, false, true },
		{ WEFT_OP_FETCH_ADD, 8, false, false },
	};

	if (variant->loopback)
		SKIP(return, "there is no link in hardware");
	if (!getenv("WEFT_TRACED"))
		SKIP(return, "the ports are not in traced mode");
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		uint64_t asks = count(0, "tx_reads"), does = count(1, "tx_reads");
		uint64_t bytes = count(0, "tx_read_bytes") + count(1, "tx_read_bytes");
		uint8_t opcode = ops[i].opcode;
		struct weft_cqe done;

		post_recv(b, 1, BASE, BYTES);
		post(a, 2, opcode, BASE, ops[i].length, BASE, b->stag);
		ASSERT_TRUE(await(a, b, &done)) TH_LOG("operation %zu", i);
		ASSERT_EQ(WEFT_WC_SUCCESS, done.status) TH_LOG("operation %zu", i);
		asks = count(0, "tx_reads") - asks;
		does = count(1, "tx_reads") - does;
		bytes = count(0, "tx_read_bytes") + count(1, "tx_read_bytes") - bytes;
		/* VALUE is a cell, which is pushed; who has pulled data knows it. */
		EXPECT_EQ((cqe && opcode != WEFT_OP_FETCH_ADD &&
			   !(data && ops[i].from)) || (data && ops[i].from),
			  asks > 0) TH_LOG("operation %zu: %llu", i, (long long)asks);
		EXPECT_EQ(wqe || (data && ops[i].to), does > 0)
			TH_LOG("operation %zu: %llu", i, (long long)does);
		if (data && (ops[i].to || ops[i].from)) {
			EXPECT_LE(ops[i].length, bytes);
		} else {
			EXPECT_GE(4096, bytes);
		}
	}
}

/*
 * 64 bytes and its completion: 3 posted TLPs and no read; and while both ends
 * poll, no doorbell and no interrupt. A batch in which the host did not let them
 * poll is not counted; the driver has more to tell the peer then.
 */
TEST_F_TIMEOUT(qp, cost_of_a_message, 300)
{
	struct end *a = &self->a, *b = &self->b;
	uint64_t reads, writes = 0;
	unsigned int prompt = 0, batches = 0;
	struct weft_cqe cqe;

	if (variant->loopback)
		SKIP(return, "there is no link in hardware");
	if (variant->protocol)
		SKIP(return, "it costs more if something is pulled");
	if (!getenv("WEFT_TRACED"))
		SKIP(return, "the ports are not in traced mode");
	reads = both("tx_reads");
	for (; prompt < BATCHES && batches < 8 * BATCHES; batches++) {
		uint64_t wrote = both("tx_writes"), irqs = 0, bells = 0;
		/*
		 * Of all of the batch: the interrupt of a message, or of a doorbell that
		 * was rung before the driver saw that they poll, may be taken after the
		 * port has counted what it is for.
		 */
		uint64_t causes = both("rx_messages") + both("tx_doorbells");
		int64_t longest = 0, last = now_us();

		for (int i = 0; i < SEEN + BATCH; i++) {
			if (i == SEEN) {
				irqs = both("interrupts");
				bells = both("tx_doorbells");
			}
			post_recv(b, i, BASE, 64);
			post(a, i, WEFT_OP_SEND, BASE, 64, 0, 0);
			ASSERT_TRUE(await(b, a, &cqe));
			ASSERT_EQ(WEFT_WC_SUCCESS, cqe.status);
			ASSERT_TRUE(await(a, b, &cqe));
			ASSERT_EQ(WEFT_WC_SUCCESS, cqe.status);
			if (now_us() - last > longest)
				longest = now_us() - last;
			last = now_us();
		}
		wrote = both("tx_writes") - wrote;
		bells = both("tx_doorbells") - bells;
		irqs = both("interrupts") - irqs;
		causes = both("rx_messages") + both("tx_doorbells") - causes;
		/* Nor has the driver been left alone before all was read. */
		if (longest > PROMPT_US || now_us() - last > PROMPT_US)
			continue;
		prompt++;
		writes += wrote;
		/* Neighbours tell each other now and then that they live. */
		EXPECT_GE(causes, irqs);
		EXPECT_EQ(0, bells);
	}
	EXPECT_EQ(0, both("tx_reads") - reads);
	TH_LOG("%u of %u batches were prompt", prompt, batches);
	if (!prompt)
		SKIP(return, "the host is too busy for any batch to be prompt");
	/*
	 * And credit, seldom. A word closes its line by the fence behind it, and
	 * so costs a write of its own; where the port is not told of fences (KVM)
	 * words in a row share one.
	 */
	EXPECT_LE(writes, (3 * (SEEN + BATCH) + (SEEN + BATCH) / 8) * prompt);
	EXPECT_GE(writes, 2 * (SEEN + BATCH) * prompt);
}

/* What stands around the payload of a TLP on the wire. */
#define AROUND		24
/* Device Control of the PCI Express capability, and the payload in it. */
#define DEVCTL		8
#define PAYLOAD		0x00e0

/* Payload of a port's TLPs, as firmware and kernel have set it; 0 if that is not known. */
static uint32_t payload(unsigned int port)
{
	char name[32], path[80];
	uint16_t control = 0;
	uint8_t at = 0, id = 0;
	int fd;

	if (!wt_pci_name(port, name, sizeof(name)))
		return 0;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", name);
	fd = open(path, O_RDONLY);
	pread(fd, &at, 1, 0x34);
	while (at && pread(fd, &id, 1, at) == 1 && id != 0x10)
		pread(fd, &at, 1, at + 1);
	if (!at || pread(fd, &control, 2, at + DEVCTL) != 2)
		at = 0;
	close(fd);
	return at ? 128 << ((control & PAYLOAD) >> 5) : 0;
}

/* All bytes that the two ports have put on the wire, those of the DMA engine among them. */
static uint64_t wire(void)
{
	return both("tx_write_bytes") + both("tx_read_bytes") +
	       AROUND * (both("tx_writes") + both("tx_reads") + both("tx_doorbells"));
}

/* Long writes, at whatever addresses, go by DMA: what stands around them is little. */
TEST_F_TIMEOUT(qp, wire_efficiency_of_long_writes, 300)
{
	static const uint32_t from[] = { 0, 1, 77, 4095 }, to[] = { 0, 8, 4093, 2049 };
	struct end *a = &self->a, *b = &self->b;
	const uint32_t len = 1 << 20;
	uint64_t before, bytes, moved;
	struct weft_cqe cqe;
	uint32_t p;

	if (variant->loopback)
		SKIP(return, "there is no link in hardware");
	if (variant->protocol)
		SKIP(return, "it costs more if something is pulled");
	if (!getenv("WEFT_TRACED"))
		SKIP(return, "the ports are not in traced mode");
	p = payload(0);
	/* Ports and their slots carry 256 at least: something has negotiated that. */
	ASSERT_LE(256, p);
	ASSERT_EQ(p, payload(1));
	TH_LOG("Max_Payload_Size is %u", p);
	for (int i = 0; i < 16; i++) {
		uint32_t at = from[i % 4], there = to[i / 4];

		fill(a->mem, len + 4096, i);
		memset(b->mem, 0, len + 4096);
		before = wire();
		moved = both("dma_bytes");
		post(a, i, WEFT_OP_WRITE, BASE + at, len, BASE + there, b->stag);
		ASSERT_TRUE(await(a, b, &cqe));
		ASSERT_EQ(WEFT_WC_SUCCESS, cqe.status);
		bytes = wire() - before;
		EXPECT_LE(len, both("dma_bytes") - moved);
		EXPECT_EQ(0, memcmp(a->mem + at, b->mem + there, len));
		/* len / bytes >= 0.95 * p / (p + AROUND) */
		EXPECT_GE(100ULL * len * (p + AROUND), 95ULL * p * bytes) {
			TH_LOG("from %u to %u: %llu bytes", at, there,
			       (unsigned long long)bytes);
		}
	}
}

/* How a transfer is cut short; each at many points of its way. */
enum cut { CLOSE, DESTROY, ERROR, PEER_DESTROYS, DEREGISTER, LINK, CUTS };

static long drop(struct end *e, uint32_t handle)
{
	struct weft_destroy d = { .size = sizeof(d), .handle = handle };

	return wt_ioctl(e->fd, WEFT_DESTROY, &d);
}

static bool cut_short(struct end *c, struct end *d, enum cut how)
{
	switch (how) {
	case CLOSE:
		/* Mappings hold a file as well. */
		munmap(c->cq_mem, c->cq_bytes);
		munmap(c->qp_mem, c->qp_bytes);
		c->cq_mem = NULL;
		c->qp_mem = NULL;
		if (close(c->fd))
			return false;
		c->fd = -1;
		return true;
	case DESTROY:
		return !drop(c, c->qp) && !drop(c, c->mr);
	case ERROR:
		return !modify(c, WEFT_QP_STATE, WEFT_QP_ERR, 0);
	case PEER_DESTROYS:
		return !drop(d, d->qp) && !drop(d, d->mr);
	case DEREGISTER:
		return !drop(c, c->mr);
	case LINK:
		return lose_link();
	default:
		return false;
	}
}

/*
 * A write and a read of 1 MiB are on their way when something happens to them. Nothing
 * hangs, and what others send arrives as it was.
 */
TEST_F_TIMEOUT(qp, bulk_is_cut_short, 600)
{
	const uint32_t len = 1 << 20;
	struct weft_cqe cqe;

	if (variant->loopback)
		SKIP(return, "there is no link in hardware");
	if (variant->protocol)
		SKIP(return, "what is pulled is not moved by DMA");
	for (unsigned int n = 0; n < 4 * CUTS; n++) {
		enum cut how = n % CUTS;
		struct end c, d, e, f;

		ASSERT_TRUE(begin(&c, 0, variant->protocol));
		ASSERT_TRUE(begin(&d, 1, variant->protocol));
		ASSERT_TRUE(join(&c, &d));
		memset(c.mem, 0xc5, len);
		memset(d.mem, 0xd7, len);
		post(&c, 1, WEFT_OP_WRITE, BASE + 5, len, BASE + 9, d.stag);
		post(&d, 2, WEFT_OP_READ, BASE + 2 * len, len, BASE + 3, c.stag);
		for (unsigned int k = 0; k < n / CUTS * 4; k++) {
			kick(&c);
			kick(&d);
		}
		ASSERT_TRUE(cut_short(&c, &d, how)) TH_LOG("round %u", n);
		/* Others use the same memory between the hosts then. */
		ASSERT_TRUE(begin(&e, 0, variant->protocol));
		ASSERT_TRUE(begin(&f, 1, variant->protocol));
		ASSERT_TRUE(join(&e, &f));
		for (int i = 0; i < 4; i++) {
			fill(e.mem, len, n + i);
			memset(f.mem, 0, len);
			post(&e, i, WEFT_OP_WRITE, BASE, len - i, BASE + i, f.stag);
			ASSERT_TRUE(await(&e, &f, &cqe)) TH_LOG("round %u", n);
			ASSERT_EQ(WEFT_WC_SUCCESS, cqe.status) TH_LOG("round %u", n);
			ASSERT_EQ(0, memcmp(e.mem, f.mem + i, len - i)) {
				TH_LOG("round %u", n);
			}
		}
		if (how == LINK) {
			EXPECT_EQ(WEFT_QP_ERR, query(&c).state);
			EXPECT_EQ(WEFT_QP_ERR, query(&d).state);
		}
		end(&c);
		end(&d);
		end(&e);
		end(&f);
	}
}

TEST_HARNESS_MAIN
