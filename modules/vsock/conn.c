// SPDX-License-Identifier: GPL-2.0
/*
 * A connection: how it begins, at either end, what changes its state, and how it ends.
 */
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include "vsock.h"

static void vs_conn_put(struct conn *conn)
{
	if (!refcount_dec_and_test(&conn->users))
		return;
	if (conn->port)
		vs_put_port(conn->port);
	put_cred(conn->cred);
	sock_put(conn->sk);
	kfree(conn);
}

static void vs_conn_kick(struct conn *conn)
{
	refcount_inc(&conn->users);
	if (!queue_work(vs_queue, &conn->work))
		vs_conn_put(conn);
}

/* What its socket calls. It does so no more once that is closed, which sk does. */
static void vs_notify(void *context, unsigned int events)
{
	struct conn *conn = context;

	if (!events)
		vs_conn_kick(conn);
	if (events & EPOLLIN)
		conn->sk->sk_data_ready(conn->sk);
	if (events & EPOLLOUT)
		conn->sk->sk_write_space(conn->sk);
}

/* With sk locked: no more comes, or goes, as @down says. */
void vs_ended(struct sock *sk, int down, int err)
{
	struct vsock_sock *vsk = vsock_sk(sk);
	bool new = (vsk->peer_shutdown & down) != down || (err && !sk->sk_err);

	WRITE_ONCE(vsk->peer_shutdown, vsk->peer_shutdown | down);
	if (err && new) {
		sk->sk_err = err;
		sk_error_report(sk);
	}
	if (new)
		sk->sk_state_change(sk);
}

/* With sk locked: it is connected. */
static void vs_join(struct sock *sk)
{
	sk->sk_state = TCP_ESTABLISHED;
	vsock_insert_connected(vsock_sk(sk));
}

/* With sk locked: connect() has failed. */
static void vs_failed(struct sock *sk, int err)
{
	vs_leave(vsock_sk(sk));
	sk->sk_state = TCP_CLOSE;
	sk->sk_err = err;
	sk_error_report(sk);
}

/* With sk locked: takes over the state of its socket. */
static void vs_look(struct conn *conn)
{
	struct weft_sock_info info;
	struct sock *sk = conn->sk;

	weft_query_socket(conn->socket, &info);
	if (sk->sk_state == TCP_SYN_SENT) {
		if (info.state == WEFT_SOCK_CONNECTING)
			return;
		if (info.state == WEFT_SOCK_ENDED) {
			vs_failed(sk, info.error ?: ECONNRESET);
			return;
		}
		vs_join(sk);
		sk->sk_socket->state = SS_CONNECTED;
		sk->sk_state_change(sk);
	}
	if (sk->sk_state != TCP_ESTABLISHED)
		return;
	if (conn->finish && weft_socket_finish(conn->socket) != -EAGAIN)
		conn->finish = false;
	if (info.state == WEFT_SOCK_ENDED) {
		vs_ended(sk, SHUTDOWN_MASK, ECONNRESET);
	} else if (info.state == WEFT_SOCK_PEER_CLOSED) {
		sock_set_flag(sk, SOCK_DONE);
		if (weft_socket_readable(conn->socket, 1, false) <= 0)
			sk->sk_state = TCP_CLOSING;
		vs_ended(sk, SHUTDOWN_MASK, 0);
	} else {
		/* A link that was quiesced goes on. */
		sk->sk_data_ready(sk);
		sk->sk_write_space(sk);
	}
}

static struct weft_socket *vs_ask(struct vport *port, struct conn *conn)
{
	struct weft_notifier notifier = { .notify = vs_notify, .context = conn };

	return weft_socket_connect(port->port, &conn->to, &notifier);
}

/* As vs_ask(), and waits for a link, and for a function that is being replaced. */
static struct weft_socket *vs_ask_patiently(struct conn *conn)
{
	unsigned long end = jiffies + msecs_to_jiffies(LINK_MS);
	const struct cred *own = override_creds(conn->cred);
	struct weft_socket *made = vs_ask(conn->port, conn);

	while (made == ERR_PTR(-EAGAIN) && time_before(jiffies, end)) {
		msleep(AGAIN_MS);
		made = vs_ask(conn->port, conn);
	}
	revert_creds(own);
	return made;
}

static void vs_conn_work(struct work_struct *work)
{
	struct conn *conn = container_of(work, struct conn, work);
	struct vsock_sock *vsk = vsock_sk(conn->sk);
	struct weft_socket *made = NULL;

	if (conn->port) {
		made = vs_ask_patiently(conn);
		vs_put_port(conn->port);
		conn->port = NULL;
	}
	lock_sock(conn->sk);
	/* It may have given up, or have another connection by now. */
	if (vsk->transport == &vs_transport && vsk->trans &&
	    ((struct weft_vsock *)vsk->trans)->conn == conn) {
		if (made && !IS_ERR(made)) {
			conn->socket = made;
			made = NULL;
		}
		if (conn->socket)
			vs_look(conn);
		else if (IS_ERR(made) && conn->sk->sk_state == TCP_SYN_SENT)
			vs_failed(conn->sk, -PTR_ERR(made));
	}
	release_sock(conn->sk);
	if (!IS_ERR_OR_NULL(made))
		weft_socket_close(made);
	vs_conn_put(conn);
}

static struct conn *vs_conn_new(struct sock *sk)
{
	struct conn *conn = kzalloc_obj(*conn, GFP_KERNEL_ACCOUNT);

	if (!conn)
		return NULL;
	sock_hold(sk);
	conn->sk = sk;
	refcount_set(&conn->users, 1);
	INIT_WORK(&conn->work, vs_conn_work);
	return conn;
}

/* With the socket locked: it has no connection any more. */
void vs_leave(struct vsock_sock *vsk)
{
	struct weft_vsock *ws = vsk->trans;
	struct conn *conn = ws->conn;

	if (!conn)
		return;
	ws->conn = NULL;
	if (conn->socket)
		weft_socket_close(conn->socket);
	conn->socket = NULL;
	vs_conn_put(conn);
}

/* ---- the end that connects ------------------------------------------------------ */

static u32 vs_half(u64 size)
{
	size = max_t(u64, min_t(u64, size, BUFFER_WHOLE), size / 4);
	return PAGE_ALIGN(clamp_t(u64, size, BUFFER_MIN, BUFFER_MAX / 4));
}

/* With the socket locked. */
int vs_connect(struct vsock_sock *vsk)
{
	struct conn *conn = vs_conn_new(sk_vsock(vsk));
	struct weft_socket *socket;
	struct vport *port;
	int err = 0;

	if (!conn)
		return -ENOMEM;
	/* Of a connect() that has failed, or timed out. */
	vs_leave(vsk);
	conn->to = (struct weft_socket_destination){
		.data = (u64)vsk->remote_addr.svm_port << 32 | vsk->local_addr.svm_port,
		.link = WEFT_CLIENT_ANY_LINK,
		.service = SERVICE,
		.bytes = vs_half(vsk->buffer_size),
	};
	port = vs_get_host(vsk->remote_addr.svm_cid, &conn->to.peer);
	if (!port) {
		vs_conn_put(conn);
		return -EHOSTUNREACH;
	}
	/* From here on the work item may run: it finds no port, and waits for the lock. */
	socket = vs_ask(port, conn);
	if (!IS_ERR(socket)) {
		conn->socket = socket;
		vs_put_port(port);
	} else if (PTR_ERR(socket) == -EHOSTUNREACH || PTR_ERR(socket) == -EAGAIN) {
		/* A link can be made to lead there, or the function moves: that takes time. */
		conn->to.timeout_ms = LINK_MS;
		conn->cred = get_current_cred();
		conn->port = port;
		vs_conn_kick(conn);
	} else {
		vs_put_port(port);
		err = PTR_ERR(socket);
	}
	if (err)
		vs_conn_put(conn);
	else
		((struct weft_vsock *)vsk->trans)->conn = conn;
	return err;
}

/* ---- the end that is connected to --------------------------------------------- */

/* With both sockets locked. */
static bool vs_accept_child(struct sock *listener, struct sock *child, struct vport *port,
			    const struct weft_socket_request *request)
{
	struct weft_notifier notifier = { .notify = vs_notify };
	struct vsock_sock *vsk = vsock_sk(child);
	struct weft_socket *socket;
	const struct cred *own;
	struct conn *conn;

	/* It looks at remote_addr, and may find another transport than this one. */
	if (vsock_assign_transport(vsk, vsock_sk(listener)) || vsk->transport != &vs_transport)
		return false;
	conn = vs_conn_new(child);
	if (!conn)
		return false;
	notifier.context = conn;
	/* It counts for the user that listens. */
	own = override_creds(vsock_sk(listener)->owner);
	socket = weft_socket_accept(port->listener, request, &notifier);
	revert_creds(own);
	if (IS_ERR(socket)) {
		vs_conn_put(conn);
		return false;
	}
	conn->socket = socket;
	((struct weft_vsock *)vsk->trans)->conn = conn;
	vs_join(child);
	vsock_enqueue_accept(listener, child);
	return true;
}

/* With the socket that listens locked. */
static bool vs_accept(struct sock *listener, struct vport *port, const struct sockaddr_vm *local,
		      const struct weft_socket_request *request)
{
	struct sock *child;
	bool good;

	if (listener->sk_state != TCP_LISTEN || listener->sk_shutdown ||
	    listener->sk_type != SOCK_STREAM || sk_acceptq_is_full(listener) ||
	    !vs_is_alone(request->peer))
		return false;
	child = vsock_create_connected(listener);
	if (!child)
		return false;
	lock_sock_nested(child, SINGLE_DEPTH_NESTING);
	vsock_sk(child)->local_addr = *local;
	vsock_addr_init(&vsock_sk(child)->remote_addr, vs_cid_of(request->peer),
			lower_32_bits(request->data));
	good = vs_accept_child(listener, child, port, request);
	release_sock(child);
	if (good)
		listener->sk_data_ready(listener);
	else
		sock_put(child);
	return good;
}

/* Answers the requests that wait. */
void vs_port_work(struct work_struct *work)
{
	struct vport *port = container_of(work, struct vport, accepting);
	struct weft_socket_request request;

	while (!weft_socket_oldest(port->listener, &request)) {
		struct weft_port_attr own;
		struct sockaddr_vm local;
		struct sock *listener;
		bool good = false;

		weft_query_port(port->port, &own);
		vsock_addr_init(&local, vs_cid_of(own.hwid), upper_32_bits(request.data));
		listener = vsock_find_bound_socket(&local);
		if (listener) {
			lock_sock(listener);
			good = vs_accept(listener, port, &local, &request);
			release_sock(listener);
			sock_put(listener);
		}
		if (!good)
			weft_socket_refuse(port->listener, &request);
	}
}
