// SPDX-License-Identifier: GPL-2.0
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
 * is never taken in notifications, nor with weft_vsock_lock held.
 */
#include <linux/err.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
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

static struct workqueue_struct *weft_vsock_queue;
static const struct vsock_transport weft_vsock_transport;
static DEFINE_MUTEX(weft_vsock_lock);
/* Both with the lock held. */
static LIST_HEAD(weft_vsock_ports);
static LIST_HEAD(weft_vsock_conns);
static void reap(struct work_struct *work);
static DECLARE_WORK(weft_vsock_reaping, reap);

static void kick(void *work)
{
	queue_work(weft_vsock_queue, work);
}

/* ---- addresses -------------------------------------------------------------- */

/* VMADDR_CID_ANY: the host has none. */
static u32 cid_of(u64 hwid)
{
	u32 cid = (u32)hwid + CID_BASE;

	return hwid && cid >= CID_BASE ? cid : VMADDR_CID_ANY;
}

/* Returns the port by which the host of a CID is reached, and its hardware id. Lock held. */
static struct vport *find_host(u32 cid, u64 *hwid)
{
	struct weft_port_attr attr;
	struct vport *port;
	size_t count, n;
	u64 *hosts;

	hosts = kmalloc_array(MAX_HOSTS, sizeof(*hosts), GFP_KERNEL);
	if (!hosts)
		return NULL;
	list_for_each_entry(port, &weft_vsock_ports, list) {
		weft_query_port(port->port, &attr);
		*hwid = attr.hwid;
		if (cid_of(attr.hwid) == cid)
			goto found;
		count = min_t(size_t, weft_query_hosts(port->port, hosts, MAX_HOSTS), MAX_HOSTS);
		for (n = 0; n < count; n++) {
			*hwid = hosts[n];
			if (cid_of(hosts[n]) == cid)
				goto found;
		}
	}
	port = NULL;
found:
	kfree(hosts);
	return port;
}

static u32 weft_vsock_local_cid(void)
{
	u32 cid = VMADDR_CID_ANY;
	struct weft_port_attr attr;
	struct vport *port;

	mutex_lock(&weft_vsock_lock);
	port = list_first_entry_or_null(&weft_vsock_ports, struct vport, list);
	if (port) {
		weft_query_port(port->port, &attr);
		cid = cid_of(attr.hwid);
	}
	mutex_unlock(&weft_vsock_lock);
	return cid;
}

static bool weft_vsock_has_cid(struct vsock_sock *vsk, u32 cid)
{
	bool found;
	u64 hwid;

	mutex_lock(&weft_vsock_lock);
	found = find_host(cid, &hwid);
	mutex_unlock(&weft_vsock_lock);
	return found;
}

/* ---- connections ------------------------------------------------------------ */

static u32 filled(const struct conn *conn)
{
	/* What is counted is in the buffer; pairs with receive(). */
	return smp_load_acquire(&conn->head) - READ_ONCE(conn->tail);
}

/* With the socket locked: it may have been closed, or have another connection by now. */
static bool owns(struct sock *sk, struct conn *conn)
{
	struct vsock_sock *vsk = vsock_sk(sk);

	return vsk->transport == &weft_vsock_transport && vsk->trans &&
	       ((struct weft_vsock *)vsk->trans)->conn == conn;
}

static struct sock *sock_of(struct conn *conn)
{
	struct sock *sk;

	spin_lock_bh(&conn->lock);
	sk = conn->sk;
	if (sk)
		sock_hold(sk);
	spin_unlock_bh(&conn->lock);
	return sk;
}

static void conn_work(struct work_struct *work);

static struct conn *conn_new(struct weft_port *port, enum state state, u64 size, gfp_t gfp)
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
	INIT_WORK(&conn->work, conn_work);
	return conn;
}

/* With its work item off, and no socket. */
static void conn_free(struct conn *conn)
{
	if (conn->channel)
		weft_channel_close(conn->channel);
	kvfree(conn->buffer);
	kfree(conn->bounce);
	kfree(conn);
}

static void conn_over(struct conn *conn)
{
	WRITE_ONCE(conn->over, true);
	queue_work(weft_vsock_queue, &weft_vsock_reaping);
}

/* Frees the connections that are over: their work items cannot. */
static void reap(struct work_struct *work)
{
	struct conn *conn, *next;
	LIST_HEAD(over);

	mutex_lock(&weft_vsock_lock);
	list_for_each_entry_safe(conn, next, &weft_vsock_conns, list)
		if (READ_ONCE(conn->over))
			list_move(&conn->list, &over);
	mutex_unlock(&weft_vsock_lock);
	list_for_each_entry_safe(conn, next, &over, list) {
		disable_work_sync(&conn->work);
		conn_free(conn);
	}
}

/* Sends a message of the handshake; there is room, as nothing else was sent. */
static int say(struct conn *conn, enum tag tag, const void *payload, size_t bytes)
{
	struct kvec piece = { .iov_base = (void *)payload, .iov_len = bytes };

	return weft_channel_send(conn->channel, &piece, 1, tag, 0);
}

/* Tells the socket that the peer sends no more, or is gone: after what came before that. */
static void tell(struct conn *conn, int down, int err)
{
	struct sock *sk = sock_of(conn);
	struct vsock_sock *vsk;

	if (!sk)
		return;
	lock_sock(sk);
	if (!owns(sk, conn))
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
static void join(struct conn *conn, struct sock *sk)
{
	struct weft_vsock *ws = vsock_sk(sk)->trans;

	ws->conn = conn;
	spin_lock_bh(&conn->lock);
	conn->sk = sk;
	spin_unlock_bh(&conn->lock);
	sk->sk_state = TCP_ESTABLISHED;
	vsock_insert_connected(vsock_sk(sk));
}

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
	    vchild->transport == &weft_vsock_transport && !say(conn, OK, NULL, 0)) {
		join(conn, child);
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
static int accept(struct conn *conn, const struct weft_message *message)
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
	mutex_lock(&weft_vsock_lock);
	own.hwid = 0;
	if (conn->port)
		weft_query_port(conn->port, &own);
	mutex_unlock(&weft_vsock_lock);
	vsock_addr_init(&conn->local, cid_of(own.hwid), le32_to_cpu(init.to));
	vsock_addr_init(&conn->remote, cid_of(attr.peer), le32_to_cpu(init.from));
	listener = vsock_find_bound_socket(&conn->local);
	if (listener) {
		lock_sock(listener);
		good = accept_child(listener, conn);
		release_sock(listener);
		sock_put(listener);
	}
	if (!good) {
		say(conn, REFUSED, NULL, 0);
		return -ECONNREFUSED;
	}
	conn->state = JOINED;
	return 0;
}

/* Accepts the channels that wait. */
static void port_work(struct work_struct *work)
{
	struct vport *port = container_of(work, struct vport, accepting);

	for (;;) {
		struct conn *conn = conn_new(port->port, NEW, BUFFER_MAX, GFP_KERNEL_ACCOUNT);
		struct weft_notifier notifier = { .notify = kick };
		struct weft_channel_attr attr;
		struct weft_channel *channel;

		if (!conn)
			return;
		disable_work(&conn->work);
		notifier.context = &conn->work;
		channel = weft_accept(port->listener, &notifier);
		if (IS_ERR(channel)) {
			conn_free(conn);
			if (PTR_ERR(channel) == -ECONNABORTED)
				continue;
			return;
		}
		conn->channel = channel;
		weft_query_channel(channel, &attr);
		if (attr.cells != CELLS || attr.bulk != BULK) {
			conn_free(conn);
			continue;
		}
		mutex_lock(&weft_vsock_lock);
		list_add(&conn->list, &weft_vsock_conns);
		mutex_unlock(&weft_vsock_lock);
		enable_and_queue_work(weft_vsock_queue, &conn->work);
	}
}

/* ---- the end that connects ------------------------------------------------------ */

/* The socket learns how its connect() has ended, if it still waits for that. */
static bool answered(struct conn *conn, int err)
{
	struct sock *sk = sock_of(conn);
	bool wanted;

	if (!sk)
		return false;
	lock_sock(sk);
	/* It may have timed out since. */
	wanted = sk->sk_state == TCP_SYN_SENT && owns(sk, conn);
	if (wanted && !err) {
		join(conn, sk);
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

static int connect(struct conn *conn)
{
	struct weft_destination to = {
		.peer = conn->peer,
		.link = WEFT_CLIENT_ANY_LINK,
		.service = SERVICE,
		.cells = CELLS,
		.bulk = BULK,
		.timeout_ms = CONNECT_MS,
	};
	struct weft_notifier notifier = { .notify = kick, .context = &conn->work };
	struct init init = {
		.from = cpu_to_le32(conn->local.svm_port),
		.to = cpu_to_le32(conn->remote.svm_port),
	};
	struct weft_channel *channel = weft_connect(conn->port, &to, &notifier);

	if (IS_ERR(channel))
		return PTR_ERR(channel);
	conn->channel = channel;
	conn->state = WAITING;
	return say(conn, INIT, &init, sizeof(init));
}

static int weft_vsock_connect(struct vsock_sock *vsk)
{
	struct weft_vsock *ws = vsk->trans;
	struct conn *conn = conn_new(NULL, CONNECTING, vsk->buffer_size, GFP_KERNEL_ACCOUNT);
	struct vport *port;

	if (!conn)
		return -ENOMEM;
	conn->local = vsk->local_addr;
	conn->remote = vsk->remote_addr;
	conn->sk = sk_vsock(vsk);
	mutex_lock(&weft_vsock_lock);
	port = find_host(vsk->remote_addr.svm_cid, &conn->peer);
	if (port) {
		conn->port = port->port;
		list_add(&conn->list, &weft_vsock_conns);
		ws->conn = conn;
		queue_work(weft_vsock_queue, &conn->work);
	}
	mutex_unlock(&weft_vsock_lock);
	if (port)
		return 0;
	conn->sk = NULL;
	conn_free(conn);
	return -EHOSTUNREACH;
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
			err = accept(conn, &message);
			if (err)
				return err;
			continue;
		}
		if (conn->state == WAITING) {
			err = message.tag == OK ? 0 : ECONNREFUSED;
			weft_channel_consume(conn->channel);
			if (!answered(conn, err) || err)
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
		/* Pairs with filled(). */
		smp_store_release(&conn->head, conn->head + message.bytes);
	}
}

static void conn_work(struct work_struct *work)
{
	struct conn *conn = container_of(work, struct conn, work);
	struct sock *sk;
	u32 before;
	int err = 0;

	if (READ_ONCE(conn->over))
		return;
	if (conn->state == CONNECTING) {
		err = connect(conn);
		if (err) {
			answered(conn, -err);
			return;
		}
	}
	if (!conn->channel)
		return;
	before = conn->head;
	err = receive(conn);
	if (READ_ONCE(conn->finish) && weft_channel_finish(conn->channel) != -EAGAIN)
		WRITE_ONCE(conn->finish, false);
	sk = sock_of(conn);
	if (sk) {
		lock_sock(sk);
		if (owns(sk, conn) && conn->state == JOINED) {
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
			conn_over(conn);
		break;
	case WAITING:
		if (err != -EAGAIN)
			answered(conn, err == -ECONNREFUSED ? ECONNREFUSED : ECONNRESET);
		break;
	case JOINED:
		if (err == -ENODATA)
			tell(conn, SEND_SHUTDOWN, 0);
		else if (err == -EPIPE)
			tell(conn, SHUTDOWN_MASK, 0);
		else if (err != -EAGAIN)
			tell(conn, SHUTDOWN_MASK, ECONNRESET);
		break;
	default:
		break;
	}
}

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
	conn_over(conn);
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
		kick(&conn->work);
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
		err = say(conn, DATA, conn->bounce, part);
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
	for (len = min_t(size_t, len, filled(conn)); got < len; got += part) {
		at = (conn->tail + got) & (conn->size - 1);
		part = min_t(u32, len - got, conn->size - at);
		if (memcpy_to_msg(msg, conn->buffer + at, part))
			return -EFAULT;
	}
	if (!(flags & MSG_PEEK)) {
		/* Pairs with receive(), which finds room again. */
		smp_store_release(&conn->tail, conn->tail + got);
		kick(&conn->work);
	}
	return got;
}

static s64 weft_vsock_has_data(struct vsock_sock *vsk)
{
	struct conn *conn = ((struct weft_vsock *)vsk->trans)->conn;

	return conn ? filled(conn) : 0;
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

static const struct vsock_transport weft_vsock_transport = {
	.module = THIS_MODULE,
	.init = weft_vsock_init_sock,
	.destruct = weft_vsock_destruct,
	.release = weft_vsock_release,
	.connect = weft_vsock_connect,
	.cancel_pkt = weft_vsock_cancel,
	.shutdown = weft_vsock_shutdown,
	.stream_enqueue = weft_vsock_enqueue,
	.stream_dequeue = weft_vsock_dequeue,
	.stream_has_data = weft_vsock_has_data,
	.stream_has_space = weft_vsock_has_space,
	.stream_rcvhiwat = weft_vsock_rcvhiwat,
	.stream_is_active = weft_vsock_is_active,
	.stream_allow = weft_vsock_allow,
	.get_local_cid = weft_vsock_local_cid,
	.has_remote_cid = weft_vsock_has_cid,
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

/* ---- ports ----------------------------------------------------------------------------- */

static void add(struct weft_client *client, struct weft_port *at)
{
	struct vport *port = kzalloc(sizeof(*port), GFP_KERNEL);
	struct weft_notifier notifier;

	if (!port)
		return;
	port->port = at;
	INIT_WORK(&port->accepting, port_work);
	disable_work(&port->accepting);
	notifier = (struct weft_notifier){ .notify = kick, .context = &port->accepting };
	port->listener = weft_listen(at, SERVICE, BACKLOG, &notifier);
	if (IS_ERR(port->listener)) {
		pr_err("cannot listen: %pe\n", port->listener);
		kfree(port);
		return;
	}
	mutex_lock(&weft_vsock_lock);
	list_add_tail(&port->list, &weft_vsock_ports);
	mutex_unlock(&weft_vsock_lock);
	enable_and_queue_work(weft_vsock_queue, &port->accepting);
}

/* Takes its channel from a connection: the port goes. Its work item is off. */
static void cut(struct conn *conn)
{
	struct sock *sk = sock_of(conn);
	struct weft_channel *channel;

	if (conn->state == CONNECTING || conn->state == WAITING)
		answered(conn, ENETDOWN);
	else
		tell(conn, SHUTDOWN_MASK, ECONNRESET);
	if (sk)
		lock_sock(sk);
	channel = conn->channel;
	conn->channel = NULL;
	conn->port = NULL;
	if (sk) {
		release_sock(sk);
		sock_put(sk);
	}
	if (channel)
		weft_channel_close(channel);
}

static void remove(struct weft_client *client, struct weft_port *at)
{
	struct vport *port = NULL, *each;
	struct conn *conn, *next;
	LIST_HEAD(gone);

	mutex_lock(&weft_vsock_lock);
	list_for_each_entry(each, &weft_vsock_ports, list)
		if (each->port == at)
			port = each;
	if (port)
		list_del(&port->list);
	mutex_unlock(&weft_vsock_lock);
	if (!port)
		return;
	disable_work_sync(&port->accepting);
	weft_listener_close(port->listener);
	kfree(port);
	/* What is over meanwhile stays here, where it is found. */
	mutex_lock(&weft_vsock_lock);
	list_for_each_entry_safe(conn, next, &weft_vsock_conns, list)
		if (conn->port == at)
			list_move(&conn->list, &gone);
	mutex_unlock(&weft_vsock_lock);
	list_for_each_entry(conn, &gone, list) {
		disable_work_sync(&conn->work);
		cut(conn);
		if (conn->state == NEW)
			WRITE_ONCE(conn->over, true);
	}
	mutex_lock(&weft_vsock_lock);
	list_splice(&gone, &weft_vsock_conns);
	mutex_unlock(&weft_vsock_lock);
	queue_work(weft_vsock_queue, &weft_vsock_reaping);
	flush_work(&weft_vsock_reaping);
}

static struct weft_client weft_vsock_client = {
	.name = "weft_vsock",
	.add = add,
	.remove = remove,
};

static int __init weft_vsock_init(void)
{
	int err;

	weft_vsock_queue = alloc_workqueue("weft_vsock", WQ_UNBOUND, 0);
	if (!weft_vsock_queue)
		return -ENOMEM;
	weft_register_client(&weft_vsock_client);
	err = vsock_core_register(&weft_vsock_transport, VSOCK_TRANSPORT_F_G2H);
	if (err) {
		weft_unregister_client(&weft_vsock_client);
		destroy_workqueue(weft_vsock_queue);
	}
	return err;
}

/* There is no socket any more: each has a reference to the module. */
static void __exit weft_vsock_exit(void)
{
	vsock_core_unregister(&weft_vsock_transport);
	weft_unregister_client(&weft_vsock_client);
	flush_work(&weft_vsock_reaping);
	reap(NULL);
	destroy_workqueue(weft_vsock_queue);
}

module_init(weft_vsock_init);
module_exit(weft_vsock_exit);
MODULE_DESCRIPTION("AF_VSOCK between hosts that are joined by Weft");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("WEFT");
/* No MODULE_ALIAS_NETPROTO(PF_VSOCK): any socket(AF_VSOCK) would load it. */
