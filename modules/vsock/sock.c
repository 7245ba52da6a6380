// SPDX-License-Identifier: GPL-2.0
/*
 * What AF_VSOCK calls: the life of a socket, and its data.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include "vsock.h"

/* ---- the life of a socket -------------------------------------------------------- */

static int weft_vsock_init_sock(struct vsock_sock *vsk, struct vsock_sock *psk)
{
	struct weft_vsock *ws = kzalloc_obj(*ws, GFP_KERNEL);

	vsk->trans = ws;
	return ws ? 0 : -ENOMEM;
}

/* The socket has no connection any more. */
static void leave(struct weft_vsock *ws)
{
	struct conn *conn = ws->conn;

	if (!conn)
		return;
	spin_lock_bh(&conn->lock);
	conn->sk = NULL;
	spin_unlock_bh(&conn->lock);
	ws->conn = NULL;
	vs_conn_over(conn);
}

static int weft_vsock_cancel(struct vsock_sock *vsk)
{
	leave(vsk->trans);
	return 0;
}

static int weft_vsock_shutdown(struct vsock_sock *vsk, int mode)
{
	struct conn *conn = ((struct weft_vsock *)vsk->trans)->conn;

	if (conn && conn->channel && (mode & SEND_SHUTDOWN) &&
	    weft_channel_finish(conn->channel) == -EAGAIN) {
		WRITE_ONCE(conn->finish, true);
		vs_kick(&conn->work, 0);
	}
	/* The core has just cleared it; without it recv() would say ENOTCONN and not 0. */
	if (vsk->peer_shutdown == SHUTDOWN_MASK)
		sock_set_flag(sk_vsock(vsk), SOCK_DONE);
	return 0;
}

static void weft_vsock_release(struct vsock_sock *vsk)
{
	/* What was sent stays at the peer, to be read. */
	leave(vsk->trans);
	vsock_remove_sock(vsk);
}

static void weft_vsock_destruct(struct vsock_sock *vsk)
{
	kfree(vsk->trans);
	vsk->trans = NULL;
}

/* ---- data: all of it with the socket locked ---------------------------------------- */

static ssize_t weft_vsock_enqueue(struct vsock_sock *vsk, struct msghdr *msg, size_t len)
{
	struct conn *conn = ((struct weft_vsock *)vsk->trans)->conn;
	size_t sent = 0;
	int err = 0;

	if (!conn || !conn->channel)
		return -ECONNRESET;
	while (sent < len) {
		size_t part = min_t(size_t, len - sent, CHUNK);
		int room = weft_channel_room(conn->channel);

		if (room <= 0) {
			err = room ?: -EAGAIN;
			break;
		}
		if (memcpy_from_msg(conn->bounce, msg, part)) {
			err = -EFAULT;
			break;
		}
		err = vs_say(conn, DATA, conn->bounce, part);
		if (err) {
			/* Quiesced just now. What was taken of the message is put back. */
			iov_iter_revert(&msg->msg_iter, part);
			break;
		}
		sent += part;
	}
	return sent ?: err == -EAGAIN ? 0 : err;
}

static ssize_t weft_vsock_dequeue(struct vsock_sock *vsk, struct msghdr *msg, size_t len,
				  int flags)
{
	struct conn *conn = ((struct weft_vsock *)vsk->trans)->conn;
	u32 got = 0, part, at;

	if (!conn)
		return 0;
	for (len = min_t(size_t, len, vs_filled(conn)); got < len; got += part) {
		at = (conn->tail + got) & (conn->size - 1);
		part = min_t(u32, len - got, conn->size - at);
		if (memcpy_to_msg(msg, conn->buffer + at, part))
			return -EFAULT;
	}
	if (!(flags & MSG_PEEK)) {
		/* Pairs with receive(), which finds room again. */
		smp_store_release(&conn->tail, conn->tail + got);
		vs_kick(&conn->work, 0);
	}
	return got;
}

static s64 weft_vsock_has_data(struct vsock_sock *vsk)
{
	struct conn *conn = ((struct weft_vsock *)vsk->trans)->conn;

	return conn ? vs_filled(conn) : 0;
}

static s64 weft_vsock_has_space(struct vsock_sock *vsk)
{
	struct conn *conn = ((struct weft_vsock *)vsk->trans)->conn;
	int room = conn && conn->channel ? weft_channel_room(conn->channel) : 0;

	/* What is wrong with the channel is told by the work item. */
	return room > 0 ? (s64)room * CHUNK : 0;
}

static u64 weft_vsock_rcvhiwat(struct vsock_sock *vsk)
{
	struct conn *conn = ((struct weft_vsock *)vsk->trans)->conn;

	return conn ? conn->size : vsk->buffer_size;
}

static bool weft_vsock_is_active(struct vsock_sock *vsk)
{
	return ((struct weft_vsock *)vsk->trans)->conn;
}

static bool weft_vsock_allow(struct vsock_sock *vsk, u32 cid, u32 port)
{
	/* vsock_find_bound_socket() knows no namespaces. */
	return vsock_net_mode_global(vsk);
}

/* ---- notifications: those that have nothing to do ------------------------------------ */

static int weft_vsock_poll_in(struct vsock_sock *vsk, size_t target, bool *ready)
{
	*ready = weft_vsock_has_data(vsk) >= max_t(s64, target, 1);
	return 0;
}

static int weft_vsock_poll_out(struct vsock_sock *vsk, size_t target, bool *ready)
{
	*ready = weft_vsock_has_space(vsk) > 0;
	return 0;
}

static int weft_vsock_recv(struct vsock_sock *vsk, size_t target,
			   struct vsock_transport_recv_notify_data *data)
{
	return 0;
}

static int weft_vsock_recv_post(struct vsock_sock *vsk, size_t target, ssize_t copied, bool read,
				struct vsock_transport_recv_notify_data *data)
{
	return 0;
}

static int weft_vsock_send(struct vsock_sock *vsk, struct vsock_transport_send_notify_data *data)
{
	return 0;
}

static int weft_vsock_send_post(struct vsock_sock *vsk, ssize_t written,
				struct vsock_transport_send_notify_data *data)
{
	return 0;
}

static void weft_vsock_buffer_size(struct vsock_sock *vsk, u64 *size)
{
	*size = clamp_t(u64, *size, BUFFER_MIN, BUFFER_MAX);
}

const struct vsock_transport vs_transport = {
	.module = THIS_MODULE,
	.init = weft_vsock_init_sock,
	.destruct = weft_vsock_destruct,
	.release = weft_vsock_release,
	.connect = vs_connect,
	.cancel_pkt = weft_vsock_cancel,
	.shutdown = weft_vsock_shutdown,
	.stream_enqueue = weft_vsock_enqueue,
	.stream_dequeue = weft_vsock_dequeue,
	.stream_has_data = weft_vsock_has_data,
	.stream_has_space = weft_vsock_has_space,
	.stream_rcvhiwat = weft_vsock_rcvhiwat,
	.stream_is_active = weft_vsock_is_active,
	.stream_allow = weft_vsock_allow,
	.get_local_cid = vs_local_cid,
	.has_remote_cid = vs_has_cid,
	.notify_poll_in = weft_vsock_poll_in,
	.notify_poll_out = weft_vsock_poll_out,
	.notify_recv_init = weft_vsock_recv,
	.notify_recv_pre_block = weft_vsock_recv,
	.notify_recv_pre_dequeue = weft_vsock_recv,
	.notify_recv_post_dequeue = weft_vsock_recv_post,
	.notify_send_init = weft_vsock_send,
	.notify_send_pre_block = weft_vsock_send,
	.notify_send_pre_enqueue = weft_vsock_send,
	.notify_send_post_enqueue = weft_vsock_send_post,
	.notify_buffer_size = weft_vsock_buffer_size,
};
