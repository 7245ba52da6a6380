// SPDX-License-Identifier: GPL-2.0
/*
 * A client of weft.ko in the kernel: sends back every message that comes to a service of any
 * port of this host. "weftctl ping" on another host, or with this host's own hardware id,
 * meets it:
 *
 *	insmod weft_echo.ko
 *
 * With peer=HWID it also connects to that host, which may have this module or a "weftctl
 * ping --serve", sends count messages, none longer than bytes, and compares what comes back.
 * How far it is stands in /sys/module/weft_echo/parameters: echoed, wrong, error.
 *
 * See Documentation/kernel-clients.rst.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/weft_client.h>
#include <linux/workqueue.h>

#define CELLS		64
#define BULK		(256 << 10)
#define BACKLOG		16
#define TIMEOUT_MS	5000

static unsigned int service = 7002;
module_param(service, uint, 0444);
MODULE_PARM_DESC(service, "what to listen on, and to connect to");

static ulong peer;
module_param(peer, ulong, 0444);
MODULE_PARM_DESC(peer, "hardware id of a host to send messages to");

static ulong count = 1000;
module_param(count, ulong, 0444);
MODULE_PARM_DESC(count, "how many messages are sent to it; 0: until they are not answered any more");

static uint bytes = 4096;
module_param(bytes, uint, 0444);
MODULE_PARM_DESC(bytes, "bytes of the longest message");

static ulong echoed;
module_param(echoed, ulong, 0444);
MODULE_PARM_DESC(echoed, "messages that came back from the peer as they were");

static ulong wrong;
module_param(wrong, ulong, 0444);
MODULE_PARM_DESC(wrong, "messages that came back from the peer as others");

static int error;
module_param(error, int, 0444);
MODULE_PARM_DESC(error, "why it stopped; 0 while it has not; 1 when it has done all");

/* A port of this host. */
struct echo_port {
	struct list_head list;
	struct weft_port *port;
	struct weft_listener *listener;
	struct work_struct accepting;
	/* Of the accepting work, and of remove() when that is off. */
	struct list_head ends;
};

/* One end of a channel, and the work that serves it. */
struct echo_end {
	struct list_head list;
	struct weft_channel *channel;
	struct work_struct work;
	/* Over; the accepting work, which is to free it. */
	bool ended;
	/* It is about to be freed. */
	bool stop;
	struct work_struct *accepting;
	/* To connect to the peer first, or NULL; then numbers of messages. */
	struct weft_port *port;
	ulong sent;
	ulong came;
	u8 *buffer;
};

/* Only with the clients' lock held. */
static LIST_HEAD(ports);

/* What a channel calls, and a listener: with interrupts off. */
static void kick(void *work, unsigned int events)
{
	queue_work(system_unbound_wq, work);
}

/* The channel is over. It is freed by the accepting work: a work cannot free itself. */
static void end(struct echo_end *it)
{
	WRITE_ONCE(it->ended, true);
	queue_work(system_unbound_wq, it->accepting);
}

static int send(struct echo_end *it, size_t length, u64 tag)
{
	/* In two pieces, as a protocol would that has headers. */
	size_t first = length / 3;
	struct kvec pieces[] = {
		{ .iov_base = it->buffer, .iov_len = first },
		{ .iov_base = it->buffer + first, .iov_len = length - first },
	};

	return weft_channel_send(it->channel, pieces, ARRAY_SIZE(pieces), tag, 0);
}

/* Sends back what has come. -EAGAIN: all that there was, or there is no room. */
static int serve(struct echo_end *it)
{
	struct weft_message message;
	int err;

	for (;;) {
		err = weft_channel_next(it->channel, &message);
		if (!err)
			err = weft_channel_read(it->channel, 0, it->buffer, message.bytes);
		if (!err)
			err = send(it, message.bytes, message.tag);
		if (!err)
			err = weft_channel_consume(it->channel);
		if (err)
			return err;
		cond_resched();
	}
}

/* Message n. */
static size_t fill(u8 *buffer, ulong n)
{
	size_t length = n % 3 ? n % 49 : (n * 1021) % (bytes + 1);
	size_t i;

	length = min_t(size_t, length, bytes);
	for (i = 0; i < length; i++)
		buffer[i] = n + i * 7;
	return length;
}

static void compare(struct echo_end *it, const struct weft_message *message, const u8 *came)
{
	size_t length = fill(it->buffer, it->came);

	if (message->tag == it->came && message->bytes == length &&
	    !memcmp(came, it->buffer, length))
		echoed++;
	else
		wrong++;
	it->came++;
}

/* Sends to the peer what there is room for, and takes what has come back. 1: that was all. */
static int ask(struct echo_end *it)
{
	u8 *came = it->buffer + BULK;
	struct weft_message message;
	bool moved;
	int err;

	do {
		moved = false;
		if (!count || it->sent < count) {
			err = send(it, fill(it->buffer, it->sent), it->sent);
			if (err && err != -EAGAIN)
				return err;
			if (!err) {
				it->sent++;
				moved = true;
			}
		}
		err = weft_channel_next(it->channel, &message);
		if (!err)
			err = weft_channel_read(it->channel, 0, came, message.bytes);
		if (err && err != -EAGAIN)
			return err;
		if (!err) {
			compare(it, &message, came);
			err = weft_channel_consume(it->channel);
			if (err)
				return err;
			moved = true;
		}
		if (count && it->came == count)
			return 1;
		cond_resched();
	} while (moved);
	return -EAGAIN;
}

static int connect(struct echo_end *it)
{
	struct weft_destination to = {
		.peer = peer,
		.link = WEFT_CLIENT_ANY_LINK,
		.service = service,
		.cells = CELLS,
		.bulk = BULK,
		.timeout_ms = TIMEOUT_MS,
	};
	struct weft_notifier notifier = { .notify = kick, .context = &it->work };
	unsigned long until = jiffies + msecs_to_jiffies(2 * TIMEOUT_MS);
	struct weft_channel *channel;

	/* The links of a port that has just been added are not ready yet. */
	for (;;) {
		channel = weft_connect(it->port, &to, &notifier);
		if (channel != ERR_PTR(-EHOSTUNREACH) || READ_ONCE(it->stop) ||
		    time_after(jiffies, until))
			break;
		msleep(50);
	}
	if (IS_ERR(channel))
		return PTR_ERR(channel);
	it->channel = channel;
	return 0;
}

static void work_of_end(struct work_struct *work)
{
	struct echo_end *it = container_of(work, struct echo_end, work);
	int err;

	if (it->ended)
		return;
	if (!it->port) {
		err = serve(it);
		if (err != -EAGAIN)
			end(it);
		return;
	}
	err = it->channel ? 0 : connect(it);
	if (!err)
		err = ask(it);
	if (err != -EAGAIN) {
		WRITE_ONCE(error, err);
		end(it);
	}
}

static struct echo_end *new_end(struct echo_port *port)
{
	struct echo_end *it = kzalloc(sizeof(*it), GFP_KERNEL);

	if (!it)
		return NULL;
	it->buffer = kvmalloc(2 * BULK, GFP_KERNEL);
	if (!it->buffer) {
		kfree(it);
		return NULL;
	}
	/* A notification may come before the function returns that makes the channel. */
	INIT_WORK(&it->work, work_of_end);
	disable_work(&it->work);
	it->accepting = &port->accepting;
	list_add(&it->list, &port->ends);
	return it;
}

static void free_end(struct echo_end *it)
{
	WRITE_ONCE(it->stop, true);
	disable_work_sync(&it->work);
	if (it->channel)
		weft_channel_close(it->channel);
	list_del(&it->list);
	kvfree(it->buffer);
	kfree(it);
}

/* Accepts what waits, and frees what has ended. */
static void work_of_port(struct work_struct *work)
{
	struct echo_port *port = container_of(work, struct echo_port, accepting);
	struct echo_end *it, *next;

	list_for_each_entry_safe(it, next, &port->ends, list)
		if (READ_ONCE(it->ended))
			free_end(it);
	for (;;) {
		struct weft_notifier notifier = { .notify = kick };
		struct weft_channel_attr attr;
		struct weft_channel *channel;

		it = new_end(port);
		if (!it)
			return;
		notifier.context = &it->work;
		channel = weft_accept(port->listener, &notifier);
		if (IS_ERR(channel)) {
			/* -EAGAIN: no more are waiting. -ECONNABORTED: this one is gone. */
			free_end(it);
			if (PTR_ERR(channel) == -ECONNABORTED)
				continue;
			return;
		}
		weft_query_channel(channel, &attr);
		if (attr.bulk > BULK) {
			weft_channel_close(channel);
			free_end(it);
			continue;
		}
		it->channel = channel;
		/* What has come already is found by this first run. */
		enable_and_queue_work(system_unbound_wq, &it->work);
	}
}

static void add(struct weft_client *client, struct weft_port *at)
{
	struct echo_port *port = kzalloc(sizeof(*port), GFP_KERNEL);
	struct weft_notifier notifier;
	struct weft_port_attr attr;
	struct echo_end *it;

	weft_query_port(at, &attr);
	if (!port)
		return;
	port->port = at;
	INIT_LIST_HEAD(&port->ends);
	/* As in new_end(). */
	INIT_WORK(&port->accepting, work_of_port);
	disable_work(&port->accepting);
	notifier = (struct weft_notifier){ .notify = kick, .context = &port->accepting };
	port->listener = weft_listen(at, service, BACKLOG, &notifier);
	if (IS_ERR(port->listener)) {
		pr_err("weft%u: cannot listen on service %u: %pe\n", attr.minor, service,
		       port->listener);
		kfree(port);
		return;
	}
	list_add(&port->list, &ports);
	it = peer ? new_end(port) : NULL;
	if (it) {
		it->port = at;
		enable_and_queue_work(system_unbound_wq, &it->work);
	}
	enable_and_queue_work(system_unbound_wq, &port->accepting);
}

static void remove(struct weft_client *client, struct weft_port *at)
{
	struct echo_port *port;
	struct echo_end *it, *next;

	list_for_each_entry(port, &ports, list) {
		if (port->port != at)
			continue;
		disable_work_sync(&port->accepting);
		list_for_each_entry_safe(it, next, &port->ends, list)
			free_end(it);
		weft_listener_close(port->listener);
		list_del(&port->list);
		kfree(port);
		return;
	}
}

static struct weft_client client = {
	.name = "weft_echo",
	.add = add,
	.remove = remove,
};

static int __init weft_echo_init(void)
{
	if (bytes > BULK)
		return -EINVAL;
	weft_register_client(&client);
	return 0;
}

static void __exit weft_echo_exit(void)
{
	weft_unregister_client(&client);
}

module_init(weft_echo_init);
module_exit(weft_echo_exit);
MODULE_DESCRIPTION("Echo over the ports of Weft: an example of a client in the kernel");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("WEFT");
