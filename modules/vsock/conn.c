// SPDX-License-Identifier: GPL-2.0
/*
 * A connection: its channel, its buffer, and how it ends.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include "vsock.h"

struct sock *vs_sock_of(struct conn *conn)
{
	struct sock *sk;

	spin_lock_bh(&conn->lock);
	sk = conn->sk;
	if (sk)
		sock_hold(sk);
	spin_unlock_bh(&conn->lock);
	return sk;
}

static void vs_conn_work(struct work_struct *work);

struct conn *vs_conn_new(struct weft_port *port, enum state state, u64 size, gfp_t gfp)
{
	struct conn *conn = kzalloc(sizeof(*conn), gfp);

	if (!conn)
		return NULL;
	conn->size = roundup_pow_of_two(clamp_t(u64, size, BUFFER_MIN, BUFFER_MAX));
	conn->buffer = kvmalloc(conn->size, gfp);
	conn->bounce = kmalloc(CHUNK, gfp);
	if (!conn->buffer || !conn->bounce) {
		kvfree(conn->buffer);
		kfree(conn->bounce);
		kfree(conn);
		return NULL;
	}
	conn->port = port;
	conn->state = state;
	spin_lock_init(&conn->lock);
	/* A notification may come before the function returns that makes the channel. */
	INIT_WORK(&conn->work, vs_conn_work);
	return conn;
}

/* With its work item off, and no socket. */
void vs_conn_free(struct conn *conn)
{
	if (conn->channel)
		weft_channel_close(conn->channel);
	kvfree(conn->buffer);
	kfree(conn->bounce);
	kfree(conn);
}

void vs_conn_over(struct conn *conn)
{
	WRITE_ONCE(conn->over, true);
	queue_work(vs_queue, &vs_reaping);
}

/* Frees the connections that are over: their work items cannot. */
void vs_reap(struct work_struct *work)
{
	struct conn *conn, *next;
	LIST_HEAD(over);

	mutex_lock(&vs_lock);
	list_for_each_entry_safe(conn, next, &vs_conns, list)
		if (READ_ONCE(conn->over))
			list_move(&conn->list, &over);
	mutex_unlock(&vs_lock);
	list_for_each_entry_safe(conn, next, &over, list) {
		disable_work_sync(&conn->work);
		vs_conn_free(conn);
	}
}

/* Sends a message of the handshake; there is room, as nothing else was sent. */
int vs_say(struct conn *conn, enum tag tag, const void *payload, size_t bytes)
{
	struct kvec piece = { .iov_base = (void *)payload, .iov_len = bytes };

	return weft_channel_send(conn->channel, &piece, 1, tag, 0);
}

/* Tells the socket that the peer sends no more, or is gone: after what came before that. */
void vs_tell(struct conn *conn, int down, int err)
{
	struct sock *sk = vs_sock_of(conn);
	struct vsock_sock *vsk;

	if (!sk)
		return;
	lock_sock(sk);
	if (!vs_owns(sk, conn))
		goto out;
	vsk = vsock_sk(sk);
	WRITE_ONCE(vsk->peer_shutdown, vsk->peer_shutdown | down);
	if (vsk->peer_shutdown == SHUTDOWN_MASK) {
		sock_set_flag(sk, SOCK_DONE);
		if (vsock_stream_has_data(vsk) <= 0)
			sk->sk_state = TCP_CLOSING;
	}
	if (err) {
		sk->sk_err = err;
		sk_error_report(sk);
	}
	sk->sk_state_change(sk);
out:
	release_sock(sk);
	sock_put(sk);
}

/* With the socket locked. */
void vs_join(struct conn *conn, struct sock *sk)
{
	struct weft_vsock *ws = vsock_sk(sk)->trans;

	ws->conn = conn;
	spin_lock_bh(&conn->lock);
	conn->sk = sk;
	spin_unlock_bh(&conn->lock);
	sk->sk_state = TCP_ESTABLISHED;
	vsock_insert_connected(vsock_sk(sk));
}

/* ---- what comes --------------------------------------------------------------- */

/* Copies a message behind what is in the buffer, which has room for it. */
static int read(struct conn *conn, u32 bytes)
{
	u32 at = conn->head & (conn->size - 1);
	u8 piece[64];
	u32 done, n;
	int err = 0;

	if (bytes <= conn->size - at)
		return weft_channel_read(conn->channel, 0, conn->buffer + at, bytes);
	/* The end of the buffer need not be where a part of a message may begin. */
	for (done = 0; !err && done < bytes; done += sizeof(piece)) {
		u32 part = min_t(u32, bytes - done, sizeof(piece));

		err = weft_channel_read(conn->channel, done, piece, part);
		for (n = 0; n < part; n++)
			conn->buffer[(at + done + n) & (conn->size - 1)] = piece[n];
	}
	return err;
}

/* Moves what has come to the buffer. -EAGAIN: all of it, or there is no room. */
static int receive(struct conn *conn)
{
	struct weft_message message;
	int err;

	for (;;) {
		err = weft_channel_next(conn->channel, &message);
		if (err)
			return err;
		if (conn->state == NEW) {
			err = vs_accept(conn, &message);
			if (err)
				return err;
			continue;
		}
		if (conn->state == WAITING) {
			err = message.tag == OK ? 0 : ECONNREFUSED;
			weft_channel_consume(conn->channel);
			if (!vs_answered(conn, err) || err)
				return -ECONNREFUSED;
			conn->state = JOINED;
			continue;
		}
		if (message.tag != DATA || message.bytes > CHUNK)
			return -EPROTO;
		/* What was read may be overwritten; pairs with weft_vsock_dequeue(). */
		if (conn->size - (conn->head - smp_load_acquire(&conn->tail)) < message.bytes)
			return -EAGAIN;
		err = read(conn, message.bytes);
		if (!err)
			err = weft_channel_consume(conn->channel);
		if (err)
			return err;
		/* Pairs with vs_filled(). */
		smp_store_release(&conn->head, conn->head + message.bytes);
	}
}

static void vs_conn_work(struct work_struct *work)
{
	struct conn *conn = container_of(work, struct conn, work);
	struct sock *sk;
	u32 before;
	int err = 0;

	if (READ_ONCE(conn->over))
		return;
	if (conn->state == CONNECTING) {
		err = vs_ask(conn);
		if (err) {
			vs_answered(conn, -err);
			return;
		}
	}
	if (!conn->channel)
		return;
	before = conn->head;
	err = receive(conn);
	if (READ_ONCE(conn->finish) && weft_channel_finish(conn->channel) != -EAGAIN)
		WRITE_ONCE(conn->finish, false);
	sk = vs_sock_of(conn);
	if (sk) {
		lock_sock(sk);
		if (vs_owns(sk, conn) && conn->state == JOINED) {
			if (conn->head != before)
				vsock_data_ready(sk);
			sk->sk_write_space(sk);
		}
		release_sock(sk);
		sock_put(sk);
	}
	switch (conn->state) {
	case NEW:
		if (err != -EAGAIN)
			vs_conn_over(conn);
		break;
	case WAITING:
		if (err != -EAGAIN)
			vs_answered(conn, err == -ECONNREFUSED ? ECONNREFUSED : ECONNRESET);
		break;
	case JOINED:
		if (err == -ENODATA)
			vs_tell(conn, SEND_SHUTDOWN, 0);
		else if (err == -EPIPE)
			vs_tell(conn, SHUTDOWN_MASK, 0);
		else if (err != -EAGAIN)
			vs_tell(conn, SHUTDOWN_MASK, ECONNRESET);
		break;
	default:
		break;
	}
}
