/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AF_VSOCK over the ports of weft.ko: stream sockets between hosts of a fabric. A client of
 * include/linux/weft_client.h; see Documentation/vsock.rst.
 *
 * A connection is a channel. The end that connects sends INIT with the two ports; the other
 * one answers OK, or REFUSED. Then messages of DATA travel both ways, and the last cell says
 * that an end will send no more.
 *
 * What comes is moved by a work item from the channel to a buffer of the socket, so that it
 * can be counted and looked at; what is sent goes to the channel at once. The lock of a socket
 * is never taken in notifications, nor with vs_lock held.
 *
 *   sock.c     what AF_VSOCK calls
 *   connect.c  how a connection begins, at either end
 *   conn.c     a connection: its channel, its buffer, its end
 *   ports.c    ports and hosts; the module
 */
#ifndef WEFT_VSOCK_H
#define WEFT_VSOCK_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/weft_client.h>
#include <linux/workqueue.h>
#include <net/af_vsock.h>

/* Of the services of the kernel: include/uapi/linux/weft.h. */
#define SERVICE		0xffff0001U
#define BACKLOG		64
/*
 * A message has CHUNK bytes at most, so that the bulk ring has room for one whenever a cell is
 * free: 15 others, the end of the ring that one did not fit into, and itself.
 */
#define CELLS		16
#define CHUNK		2048
#define BULK		(36 << 10)
#define BUFFER_MIN	(16U << 10)
#define BUFFER_MAX	(256U << 10)
/* CIDs below that are reserved, or likely to be those of virtual machines. */
#define CID_BASE	4096U
#define MAX_HOSTS	256
#define CONNECT_MS	2000

enum tag { INIT = 1, OK, REFUSED, DATA };

struct init {
	__le32 from;
	__le32 to;
};

struct vport {
	struct list_head list;
	struct weft_port *port;
	struct weft_listener *listener;
	struct work_struct accepting;
};

enum state {
	/* A channel that was accepted; INIT has not come. */
	NEW,
	/* To be connected, by the work item. */
	CONNECTING,
	/* INIT was sent. */
	WAITING,
	/* A socket has it. */
	JOINED,
};

struct conn {
	struct list_head list;
	struct work_struct work;
	/*
	 * NULL before it is connected, and when the port has gone. Changed with the work item
	 * off, or by it.
	 */
	struct weft_channel *channel;
	struct weft_port *port;
	u64 peer;
	enum state state;
	/* It is to be freed. */
	bool over;
	struct sockaddr_vm local, remote;

	/* Of sk. */
	spinlock_t lock;
	/* No reference: release() takes it away. */
	struct sock *sk;

	/* shutdown() has found no room: the work item tries again. */
	bool finish;
	/* What has come: written by the work item, read with the socket locked. */
	u8 *buffer;
	u32 size, head, tail;
	/* For messages that are sent, with the socket locked. */
	u8 *bounce;
};

/* vsk->trans */
struct weft_vsock {
	struct conn *conn;
};

extern struct workqueue_struct *vs_queue;
extern struct mutex vs_lock;
/* Both with the lock held. */
extern struct list_head vs_ports;
extern struct list_head vs_conns;
extern struct work_struct vs_reaping;
extern const struct vsock_transport vs_transport;

/* ports.c */
u32 vs_cid_of(u64 hwid);
struct vport *vs_find_host(u32 cid, u64 *hwid);
u32 vs_local_cid(void);
bool vs_has_cid(struct vsock_sock *vsk, u32 cid);

/* conn.c */
struct sock *vs_sock_of(struct conn *conn);
struct conn *vs_conn_new(struct weft_port *port, enum state state, u64 size, gfp_t gfp);
void vs_conn_free(struct conn *conn);
void vs_conn_over(struct conn *conn);
void vs_reap(struct work_struct *work);
int vs_say(struct conn *conn, enum tag tag, const void *payload, size_t bytes);
void vs_tell(struct conn *conn, int down, int err);
void vs_join(struct conn *conn, struct sock *sk);

/* connect.c */
int vs_accept(struct conn *conn, const struct weft_message *message);
void vs_port_work(struct work_struct *work);
bool vs_answered(struct conn *conn, int err);
int vs_ask(struct conn *conn);
int vs_connect(struct vsock_sock *vsk);

/* What a channel calls, and a listener. */
static inline void vs_kick(void *work, unsigned int events)
{
	queue_work(vs_queue, work);
}

static inline u32 vs_filled(const struct conn *conn)
{
	/* What is counted is in the buffer; pairs with receive(). */
	return smp_load_acquire(&conn->head) - READ_ONCE(conn->tail);
}

/* With the socket locked: it may have been closed, or have another connection by now. */
static inline bool vs_owns(struct sock *sk, struct conn *conn)
{
	struct vsock_sock *vsk = vsock_sk(sk);

	return vsk->transport == &vs_transport && vsk->trans &&
	       ((struct weft_vsock *)vsk->trans)->conn == conn;
}

#endif /* WEFT_VSOCK_H */
