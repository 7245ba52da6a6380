/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The two ends of a queue pair between ports 0 and 1, for programs that test something
 * else than queue pairs. Neither sleeps: completions are waited for by WEFT_KICK of
 * either end in turn.
 */
#ifndef WEFT_ENDS_H
#define WEFT_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/weft.h>

/* TO of the first byte of a region: one that is no address, to be told from one. */
#define WE_BASE		0x100000ULL

#define WE_ENTRIES	64
#define WE_CQES		256
#define WE_SGES		4

#define WE_REMOTE	(WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE | \
			 WEFT_ACCESS_REMOTE_ATOMIC)

struct we_end {
	int fd;
	uint32_t pd, cq, qp, qpn;
	uint32_t send_stride, recv_stride;
	uint8_t *cq_mem, *qp_mem;
	size_t cq_bytes, qp_bytes;
	uint64_t cq_offset, qp_offset;
	volatile struct weft_queue_ctl *sq, *rq;
	uint64_t posted, recvs, consumed;
	/* Of each work queue, and of the completion queue. */
	uint32_t entries, cqes;
	uint8_t *mem;
	size_t bytes;
	uint32_t mr, stag;
};

/* A file of @port with a PD, a CQ, a QP in RESET, and @bytes registered for everything. */
bool we_begin(struct we_end *e, unsigned int port, size_t bytes);
bool we_begin_with(struct we_end *e, unsigned int port, size_t bytes, uint32_t entries,
		   uint32_t cqes);
void we_end(struct we_end *e);

/*
 * Makes @e what @from is in the process that sent @fd, its file. The memory that @from has
 * registered is not mapped here.
 */
bool we_adopt(struct we_end *e, const struct we_end *from, int fd);

/* Registers memory for @e's domain; *@mr gets the handle, *@stag the STag. */
long we_register(struct we_end *e, void *at, size_t bytes, uint32_t access,
		 uint32_t *mr, uint32_t *stag);
long we_destroy(struct we_end *e, uint32_t handle);

/* Brings both to RTS. */
bool we_join(struct we_end *a, struct we_end *b);
long we_modify(struct we_end *e, uint32_t mask, uint32_t state, uint32_t peer_qpn);
/* WEFT_QP_*, or ~0 if that cannot be known. */
uint32_t we_state(struct we_end *e);
/* Prints how it stands, as a comment. */
void we_tell(struct we_end *e, const char *name);
void we_kick(struct we_end *e);

/* A signalled request with a list of one element, of the end's own region. */
void we_post(struct we_end *e, uint64_t id, uint8_t opcode, uint64_t at, uint32_t length,
	     uint64_t remote_to, uint32_t remote_stag);
void we_post_wqe(struct we_end *e, const struct weft_send_wqe *wqe, const struct weft_sge *sges);
void we_post_recv(struct we_end *e, uint64_t id, uint64_t at, uint32_t length);

/* The next completion, if it is there. */
bool we_poll(struct we_end *e, struct weft_cqe *out);
/* Waits for a completion of @e; both ends are run, @other unless it is NULL. */
bool we_await(struct we_end *e, struct we_end *other, struct weft_cqe *out);

/*
 * Message number @n, of a length that follows from it, from @a to @b; false if anything
 * of it is not as it should be.
 */
bool we_exchange(struct we_end *a, struct we_end *b, unsigned int n);

#endif
