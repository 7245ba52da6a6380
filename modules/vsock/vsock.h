/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AF_VSOCK over the ports of weft.ko: stream sockets between hosts of a fabric. A client of
 * include/linux/weft_client.h; see Documentation/vsock.rst.
 *
 * A connection is a socket of Weft. Its request carries both ports of AF_VSOCK, so that the
 * other end knows before it accepts which socket is meant.
 *
 * What is sent and received is copied by the caller, between its memory and that of the
 * link: nothing lies in a buffer here, and no work item moves it. A work item deals with
 * what changes the state of a socket; it takes the lock of the socket, which notifications
 * cannot. That lock is never taken with vs_lock held.
 *
 *   sock.c     what AF_VSOCK calls
 *   conn.c     a connection: how it begins, at either end, and how it ends
 *   ports.c    ports and hosts; the module
 */
#ifndef WEFT_VSOCK_H
#define WEFT_VSOCK_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/weft_client.h>
#include <linux/workqueue.h>
#include <net/af_vsock.h>

/* Of the services of the kernel: include/uapi/linux/weft.h. */
#define SERVICE		0xffff0001U
#define BACKLOG		512
/*
 * Bytes of a half for a buffer size: that, up to BUFFER_WHOLE; then a quarter, so that the
 * usual 256 KiB leave room for others in an arena.
 */
#define BUFFER_MIN	(16U << 10)
#define BUFFER_WHOLE	(64U << 10)
#define BUFFER_MAX	(4U << 20)
/* CIDs below that are reserved, or likely to be those of virtual machines. */
#define CID_BASE	4096U
#define MAX_HOSTS	256
/* How long to wait for a link that leads to the host, if there is none yet, */
#define LINK_MS		2000
/* and after how long to ask again while the function is replaced by another one. */
#define AGAIN_MS	20

struct vport {
	struct list_head list;
	struct weft_port *port;
	struct weft_socket_listener *listener;
	struct work_struct accepting;
	/* Of the list, and of calls that use the port. */
	refcount_t users;
};

struct conn {
	struct work_struct work;
	/* Of the socket that has it, and of the work item while that is queued. */
	refcount_t users;
	struct sock *sk;
	/* With sk locked. NULL before there is a link, and when sk has left it. */
	struct weft_socket *socket;
	/* shutdown() could not tell the peer: the work item tries again. */
	bool finish;

	/* Until there is a link: the work item waits for one, for the user that connects. */
	struct vport *port;
	struct weft_socket_destination to;
	const struct cred *cred;
};

/* vsk->trans */
struct weft_vsock {
	struct conn *conn;
};

extern struct workqueue_struct *vs_queue;
extern const struct vsock_transport vs_transport;

/* ports.c */
u32 vs_cid_of(u64 hwid);
struct vport *vs_get_host(u32 cid, u64 *hwid);
bool vs_is_alone(u64 hwid);
void vs_put_port(struct vport *port);
u32 vs_local_cid(void);
bool vs_has_cid(struct vsock_sock *vsk, u32 cid);

/* conn.c */
void vs_port_work(struct work_struct *work);
int vs_connect(struct vsock_sock *vsk);
void vs_leave(struct vsock_sock *vsk);
void vs_ended(struct sock *sk, int down, int err);

/*
 * With the socket locked. While it connects there is none: the answer is the work item's, and
 * poll() may look before that has run.
 */
static inline struct weft_socket *vs_socket(struct vsock_sock *vsk)
{
	struct conn *conn = ((struct weft_vsock *)vsk->trans)->conn;

	return conn && sk_vsock(vsk)->sk_state != TCP_SYN_SENT ? conn->socket : NULL;
}

#endif /* WEFT_VSOCK_H */
