/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Channels and sockets for other modules of the kernel, over the ports of weft.ko. See
 * Documentation/kernel-clients.rst; samples/weft_echo.c and modules/vsock are whole clients.
 *
 * The other end of a channel or of a socket may be another kernel, or a program that has it
 * by /dev/weftN: there is no difference for a peer.
 */
#ifndef _LINUX_WEFT_CLIENT_H
#define _LINUX_WEFT_CLIENT_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/uio.h>
#include <uapi/linux/weft.h>

/* A port of this host. Valid from a client's add() until its remove() returns. */
struct weft_port;
/* What connections from other hosts wait at until they are accepted. */
struct weft_listener;
/* One end of a channel. It outlasts its port: then all calls but close return an error. */
struct weft_channel;
/* What requests for sockets from other hosts wait at. */
struct weft_socket_listener;
/* One end of a socket. It outlasts its port, as a channel does. */
struct weft_socket;

/**
 * struct weft_client - a user of all ports of this host, present and to come
 * @name: for messages in the log
 * @add: a port is there; may sleep
 * @remove: the port is about to go; when this returns, the client has closed what it had of the
 *	port, but perhaps sockets, and uses the port no more. May sleep. Also called for each
 *	port by weft_unregister_client().
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
 * struct weft_notifier - what a listener, a channel or a socket calls when something has changed
 * @notify: a connection waits; a message, bytes, or room for some, have come where a call
 *	returned -EAGAIN; the state has changed, or the users of the port are asked to finish.
 *	Called with interrupts off, perhaps in a hard interrupt, and also when there is nothing
 *	new. It schedules what looks (queue_work(), irq_work_queue(), wake_up()), and calls no
 *	function of this file. @events: of a socket, EPOLLIN, EPOLLOUT or both, with the bits that
 *	poll() adds to them, if bytes or room have come and nothing else is new; 0: anything
 * @context: its first argument
 *
 * When the function that closes the listener, the channel or the socket returns, @notify does
 * not run any more. It may run before the function returns that was given it.
 */
struct weft_notifier {
	void (*notify)(void *context, unsigned int events);
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

/**
 * struct weft_socket_destination - where to connect a socket to
 * @peer: as in struct weft_destination
 * @data: what the listener is told of the request before it accepts; 0 for programs
 * @link: as in struct weft_destination
 * @service: what the peer listens on, not 0; those of sockets and of channels are apart
 * @bytes: of a half, whole pages from 4 KiB to 1 MiB: each end has one in its arena
 * @timeout_ms: how long to wait for a link that leads there; 0: not at all
 */
struct weft_socket_destination {
	u64 peer;
	u64 data;
	u32 link;
	u32 service;
	u32 bytes;
	u32 timeout_ms;
};

/**
 * struct weft_socket_request - a request that waits at a listener
 * @peer: hardware id of the host at the other end, as the port attests it
 * @data: that of struct weft_socket_destination
 * @session: private
 * @link: the link that it has come over
 * @from: private
 */
struct weft_socket_request {
	u64 peer;
	u64 data;
	u64 session;
	u32 link;
	u32 from;
};

/* The bytes are received again by the next call. */
#define WEFT_SOCKET_PEEK	1U

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
struct weft_socket_listener *weft_socket_listen(struct weft_port *port, u32 service, u32 backlog,
						const struct weft_notifier *notifier);
void weft_socket_listener_close(struct weft_socket_listener *listener);
int weft_socket_oldest(struct weft_socket_listener *listener,
		       struct weft_socket_request *request);
struct weft_socket *weft_socket_accept(struct weft_socket_listener *listener,
				       const struct weft_socket_request *request,
				       const struct weft_notifier *notifier);
void weft_socket_refuse(struct weft_socket_listener *listener,
			const struct weft_socket_request *request);
struct weft_socket *weft_socket_connect(struct weft_port *port,
					const struct weft_socket_destination *to,
					const struct weft_notifier *notifier);
void weft_socket_close(struct weft_socket *socket);
ssize_t weft_socket_send(struct weft_socket *socket, struct iov_iter *from, size_t bytes);
ssize_t weft_socket_receive(struct weft_socket *socket, struct iov_iter *to, size_t bytes,
			    unsigned int flags);
int weft_socket_finish(struct weft_socket *socket);

/* Process context; none of them sleeps. */
void weft_query_socket(struct weft_socket *socket, struct weft_sock_info *info);
ssize_t weft_socket_readable(struct weft_socket *socket, size_t want, bool arms);
ssize_t weft_socket_writable(struct weft_socket *socket, bool arms);

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
