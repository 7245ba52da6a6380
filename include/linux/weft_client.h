/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Channels for other modules of the kernel, over the ports of weft.ko. See
 * Documentation/kernel-clients.rst, and samples/weft_echo.c for a whole client.
 *
 * The other end of a channel may be another kernel, or a program that has it by
 * /dev/weftN: there is no difference for a peer.
 */
#ifndef _LINUX_WEFT_CLIENT_H
#define _LINUX_WEFT_CLIENT_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/uio.h>

/* A port of this host. Valid from a client's add() until its remove() returns. */
struct weft_port;
/* What connections from other hosts wait at until they are accepted. */
struct weft_listener;
/* One end of a channel. It outlasts its port: then all calls but close return an error. */
struct weft_channel;

/**
 * struct weft_client - a user of all ports of this host, present and to come
 * @name: for messages in the log
 * @add: a port is there; may sleep
 * @remove: the port is about to go; when this returns, the client has closed what it had of the
 *	port. May sleep. Also called for each port by weft_unregister_client().
 * @list: private
 *
 * add() and remove() are called one at a time, and must not register or unregister clients.
 */
struct weft_client {
	const char *name;
	void (*add)(struct weft_client *client, struct weft_port *port);
	void (*remove)(struct weft_client *client, struct weft_port *port);
	struct list_head list;
};

/**
 * struct weft_notifier - what a listener or a channel calls when something has changed
 * @notify: a connection waits; a message, or room for one, has come where a call returned
 *	-EAGAIN; the state has changed, or the users of the port are asked to finish. Called with
 *	interrupts off, perhaps in a hard interrupt, and also when there is nothing new. It
 *	schedules what looks (queue_work(), irq_work_queue(), wake_up()), and calls no function of
 *	this file.
 * @context: its argument
 *
 * When the function that closes the listener or the channel returns, @notify does not run any
 * more. It may run before the function returns that was given it.
 */
struct weft_notifier {
	void (*notify)(void *context);
	void *context;
};

/**
 * struct weft_port_attr - a port
 * @hwid: hardware id: its name in the fabric; 0 while no function answers for the port
 * @minor: N of /dev/weftN
 * @finish: the users of the function are asked to finish, and can begin nothing new
 */
struct weft_port_attr {
	u64 hwid;
	u32 minor;
	bool finish;
};

/* Any link that leads to the peer. */
#define WEFT_CLIENT_ANY_LINK	0xffffffffU

/**
 * struct weft_destination - where to connect to, and with what
 * @peer: hardware id of the host, 0 for any neighbour; the port's own for a peer of this host
 * @link: a link of the port, or WEFT_CLIENT_ANY_LINK
 * @service: what the peer listens on, not 0
 * @cells: messages on their way in each direction, a power of two
 * @bulk: bytes of long messages on their way in each direction, whole pages: no message is longer
 * @timeout_ms: how long to wait for an answer
 */
struct weft_destination {
	u64 peer;
	u32 link;
	u32 service;
	u32 cells;
	u32 bulk;
	u32 timeout_ms;
};

/**
 * struct weft_channel_attr - a channel
 * @peer: hardware id of the host at the other end, as the port attests it
 * @link: the link that it uses
 * @service: that of the listener
 * @cells: messages on their way in each direction
 * @bulk: bytes of the longest message
 */
struct weft_channel_attr {
	u64 peer;
	u32 link;
	u32 service;
	u32 cells;
	u32 bulk;
};

/**
 * struct weft_message - a message that has come
 * @tag: the sender's
 * @bytes: of the payload
 */
struct weft_message {
	u64 tag;
	u32 bytes;
};

/* More messages follow at once: the peer is not woken for this one. */
#define WEFT_SEND_MORE	1U

/* Process context. */
void weft_register_client(struct weft_client *client);
void weft_unregister_client(struct weft_client *client);
void weft_query_port(struct weft_port *port, struct weft_port_attr *attr);
size_t weft_query_hosts(struct weft_port *port, u64 *hwids, size_t count);
struct weft_listener *weft_listen(struct weft_port *port, u32 service, u32 backlog,
				  const struct weft_notifier *notifier);
void weft_listener_close(struct weft_listener *listener);
struct weft_channel *weft_accept(struct weft_listener *listener,
				 const struct weft_notifier *notifier);
struct weft_channel *weft_connect(struct weft_port *port, const struct weft_destination *to,
				  const struct weft_notifier *notifier);
void weft_channel_close(struct weft_channel *channel);

/* Any context but hard interrupts; none of them sleeps. */
void weft_query_channel(struct weft_channel *channel, struct weft_channel_attr *attr);
int weft_channel_send(struct weft_channel *channel, const struct kvec *pieces, size_t count,
		      u64 tag, unsigned int flags);
int weft_channel_finish(struct weft_channel *channel);
int weft_channel_room(struct weft_channel *channel);
int weft_channel_next(struct weft_channel *channel, struct weft_message *message);
int weft_channel_read(struct weft_channel *channel, u32 offset, void *to, size_t bytes);
int weft_channel_consume(struct weft_channel *channel);

#endif /* _LINUX_WEFT_CLIENT_H */
