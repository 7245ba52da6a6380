// SPDX-License-Identifier: GPL-2.0
/*
 * What AF_VSOCK calls: the life of a socket, and its data.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <net/busy_poll.h>
#include "vsock.h"

/* ---- the life of a socket -------------------------------------------------------- */

static int weft_vsock_init_sock(struct vsock_sock *vsk, struct vsock_sock *psk)
{
	struct weft_vsock *ws = kzalloc_obj(*ws, GFP_KERNEL);

	vsk->trans = ws;
	return ws ? 0 : -ENOMEM;
}

static int weft_vsock_cancel(struct vsock_sock *vsk)
{
	vs_leave(vsk);
	return 0;
}

static int weft_vsock_shutdown(struct vsock_sock *vsk, int mode)
{
	struct conn *conn = ((struct weft_vsock *)vsk->trans)->conn;

	if (conn && conn->socket && (mode & SEND_SHUTDOWN) &&
	    weft_socket_finish(conn->socket) == -EAGAIN)
		conn->finish = true;
	/* The core has just cleared it; without it recv() would say ENOTCONN and not 0. */
	if (vsk->peer_shutdown == SHUTDOWN_MASK)
		sock_set_flag(sk_vsock(vsk), SOCK_DONE);
	return 0;
}

static void weft_vsock_release(struct vsock_sock *vsk)
{
	/* What was sent stays at the peer, to be read. */
	vs_leave(vsk);
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
	struct weft_socket *socket = vs_socket(vsk);
	ssize_t sent;

	if (!socket)
		return -ECONNRESET;
	sent = weft_socket_send(socket, &msg->msg_iter, len);
	return sent == -EAGAIN ? 0 : sent;
}

/* As weft_socket_readable(); takes over the end of the stream, if it is before @want bytes. */
static ssize_t readable(struct vsock_sock *vsk, size_t want, bool arms)
{
	struct weft_socket *socket = vs_socket(vsk);
	ssize_t got = socket ? weft_socket_readable(socket, want, arms) : -ENOTCONN;

	if (got >= 0 && (size_t)got < want)
		vs_ended(sk_vsock(vsk), SEND_SHUTDOWN, 0);
	else if (got < 0 && got != -EAGAIN && got != -ENOTCONN)
		vs_ended(sk_vsock(vsk), SHUTDOWN_MASK, ECONNRESET);
	return got;
}

static ssize_t weft_vsock_dequeue(struct vsock_sock *vsk, struct msghdr *msg, size_t len,
				  int flags)
{
	struct weft_socket *socket = vs_socket(vsk);
	ssize_t got;

	if (!socket)
		return 0;
	got = weft_socket_receive(socket, &msg->msg_iter, len,
				  flags & MSG_PEEK ? WEFT_SOCKET_PEEK : 0);
	/* An edge of epoll comes with all that comes, also if this call was not the last one. */
	if (!(flags & MSG_PEEK) && waitqueue_active(sk_sleep(sk_vsock(vsk))))
		readable(vsk, SIZE_MAX, true);
	return got == -EAGAIN ? 0 : got;
}

/* SO_BUSY_POLL: a call that may sleep looks for so long without having the peer ring. */
static void spin(struct vsock_sock *vsk)
{
	struct sock *sk = sk_vsock(vsk);
	unsigned long start = busy_loop_current_time();

	if (!sk_can_busy_loop(sk) || !sk->sk_socket || !sk->sk_socket->file ||
	    (sk->sk_socket->file->f_flags & O_NONBLOCK))
		return;
	while (readable(vsk, 1, false) == -EAGAIN && !need_resched() &&
	       !sk_busy_loop_timeout(sk, start))
		cpu_relax();
}

static s64 weft_vsock_has_data(struct vsock_sock *vsk)
{
	spin(vsk);
	return max_t(s64, readable(vsk, 1, true), 0);
}

static s64 weft_vsock_has_space(struct vsock_sock *vsk)
{
	struct weft_socket *socket = vs_socket(vsk);
	ssize_t room = socket ? weft_socket_writable(socket, true) : -ENOTCONN;

	if (room == -EPIPE)
		vs_ended(sk_vsock(vsk), RCV_SHUTDOWN, 0);
	else if (room < 0 && room != -EAGAIN && room != -ENOTCONN)
		vs_ended(sk_vsock(vsk), SHUTDOWN_MASK, ECONNRESET);
	return max_t(s64, room, 0);
}

static u64 weft_vsock_rcvhiwat(struct vsock_sock *vsk)
{
	/* What a call waits for need not be there at once: it takes what there is meanwhile. */
	return U64_MAX;
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
	struct weft_socket *socket = vs_socket(vsk);
	struct weft_sock_info info;
	ssize_t got;

	if (socket && target > 1) {
		/* More than that need not come before some of it is read. */
		weft_query_socket(socket, &info);
		target = min_t(size_t, target, info.bytes / 2);
	}
	got = readable(vsk, max_t(size_t, target, 1), true);
	/* Behind what has come, the end may have. */
	if (got > 0)
		readable(vsk, SIZE_MAX, false);
	*ready = got >= 0;
	return 0;
}

static int weft_vsock_poll_out(struct vsock_sock *vsk, size_t target, bool *ready)
{
	*ready = weft_vsock_has_space(vsk) > 0 || (vsk->peer_shutdown & RCV_SHUTDOWN);
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
