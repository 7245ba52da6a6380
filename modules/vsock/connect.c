// SPDX-License-Identifier: GPL-2.0
/*
 * How a connection begins, at the end that is connected to and at the one that connects.
 */
#include <linux/err.h>
#include <linux/slab.h>
#include "vsock.h"

/* ---- the end that is connected to --------------------------------------------- */

static bool accept_child(struct sock *listener, struct conn *conn)
{
	struct vsock_sock *vchild;
	struct sock *child;
	bool good = false;

	if (listener->sk_state != TCP_LISTEN || listener->sk_shutdown ||
	    listener->sk_type != SOCK_STREAM || sk_acceptq_is_full(listener))
		return false;
	child = vsock_create_connected(listener);
	if (!child)
		return false;
	lock_sock_nested(child, SINGLE_DEPTH_NESTING);
	vchild = vsock_sk(child);
	vchild->local_addr = conn->local;
	vchild->remote_addr = conn->remote;
	/* It looks at remote_addr, and may find another transport than this one. */
	if (!vsock_assign_transport(vchild, vsock_sk(listener)) &&
	    vchild->transport == &vs_transport && !vs_say(conn, OK, NULL, 0)) {
		vs_join(conn, child);
		vsock_enqueue_accept(listener, child);
		good = true;
	}
	release_sock(child);
	if (good)
		listener->sk_data_ready(listener);
	else
		sock_put(child);
	return good;
}

/* INIT has come, or something else. */
int vs_accept(struct conn *conn, const struct weft_message *message)
{
	struct weft_channel_attr attr;
	struct weft_port_attr own;
	struct sock *listener;
	struct init init;
	bool good = false;
	int err;

	if (message->tag != INIT || message->bytes != sizeof(init))
		return -EPROTO;
	err = weft_channel_read(conn->channel, 0, &init, sizeof(init));
	if (err)
		return err;
	err = weft_channel_consume(conn->channel);
	if (err)
		return err;
	weft_query_channel(conn->channel, &attr);
	mutex_lock(&vs_lock);
	own.hwid = 0;
	if (conn->port)
		weft_query_port(conn->port, &own);
	mutex_unlock(&vs_lock);
	vsock_addr_init(&conn->local, vs_cid_of(own.hwid), le32_to_cpu(init.to));
	vsock_addr_init(&conn->remote, vs_cid_of(attr.peer), le32_to_cpu(init.from));
	listener = vsock_find_bound_socket(&conn->local);
	if (listener) {
		lock_sock(listener);
		good = accept_child(listener, conn);
		release_sock(listener);
		sock_put(listener);
	}
	if (!good) {
		vs_say(conn, REFUSED, NULL, 0);
		return -ECONNREFUSED;
	}
	conn->state = JOINED;
	return 0;
}

/* Accepts the channels that wait. */
void vs_port_work(struct work_struct *work)
{
	struct vport *port = container_of(work, struct vport, accepting);

	for (;;) {
		struct conn *conn = vs_conn_new(port->port, NEW, BUFFER_MAX, GFP_KERNEL_ACCOUNT);
		struct weft_notifier notifier = { .notify = vs_kick };
		struct weft_channel_attr attr;
		struct weft_channel *channel;

		if (!conn)
			return;
		disable_work(&conn->work);
		notifier.context = &conn->work;
		channel = weft_accept(port->listener, &notifier);
		if (IS_ERR(channel)) {
			vs_conn_free(conn);
			if (PTR_ERR(channel) == -ECONNABORTED)
				continue;
			return;
		}
		conn->channel = channel;
		weft_query_channel(channel, &attr);
		if (attr.cells != CELLS || attr.bulk != BULK) {
			vs_conn_free(conn);
			continue;
		}
		mutex_lock(&vs_lock);
		list_add(&conn->list, &vs_conns);
		mutex_unlock(&vs_lock);
		enable_and_queue_work(vs_queue, &conn->work);
	}
}

/* ---- the end that connects ------------------------------------------------------ */

/* The socket learns how its connect() has ended, if it still waits for that. */
bool vs_answered(struct conn *conn, int err)
{
	struct sock *sk = vs_sock_of(conn);
	bool wanted;

	if (!sk)
		return false;
	lock_sock(sk);
	/* It may have timed out since. */
	wanted = sk->sk_state == TCP_SYN_SENT && vs_owns(sk, conn);
	if (wanted && !err) {
		vs_join(conn, sk);
		sk->sk_socket->state = SS_CONNECTED;
		sk->sk_state_change(sk);
	} else if (wanted) {
		sk->sk_state = TCP_CLOSE;
		sk->sk_err = err;
		sk_error_report(sk);
	}
	release_sock(sk);
	sock_put(sk);
	return wanted;
}

int vs_ask(struct conn *conn)
{
	struct weft_destination to = {
		.peer = conn->peer,
		.link = WEFT_CLIENT_ANY_LINK,
		.service = SERVICE,
		.cells = CELLS,
		.bulk = BULK,
		.timeout_ms = CONNECT_MS,
	};
	struct weft_notifier notifier = { .notify = vs_kick, .context = &conn->work };
	struct init init = {
		.from = cpu_to_le32(conn->local.svm_port),
		.to = cpu_to_le32(conn->remote.svm_port),
	};
	struct weft_channel *channel = weft_connect(conn->port, &to, &notifier);

	if (IS_ERR(channel))
		return PTR_ERR(channel);
	conn->channel = channel;
	conn->state = WAITING;
	return vs_say(conn, INIT, &init, sizeof(init));
}

int vs_connect(struct vsock_sock *vsk)
{
	struct weft_vsock *ws = vsk->trans;
	struct conn *conn = vs_conn_new(NULL, CONNECTING, vsk->buffer_size, GFP_KERNEL_ACCOUNT);
	struct vport *port;

	if (!conn)
		return -ENOMEM;
	conn->local = vsk->local_addr;
	conn->remote = vsk->remote_addr;
	conn->sk = sk_vsock(vsk);
	mutex_lock(&vs_lock);
	port = vs_find_host(vsk->remote_addr.svm_cid, &conn->peer);
	if (port) {
		conn->port = port->port;
		list_add(&conn->list, &vs_conns);
		ws->conn = conn;
		queue_work(vs_queue, &conn->work);
	}
	mutex_unlock(&vs_lock);
	if (port)
		return 0;
	conn->sk = NULL;
	vs_conn_free(conn);
	return -EHOSTUNREACH;
}
