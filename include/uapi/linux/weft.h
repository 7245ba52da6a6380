/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * User interface of the Weft driver: /dev/weftN.
 *
 * Every ioctl takes one structure whose first member is its size as the caller
 * knows it. What the caller does not know of is taken as zero; a tail that the
 * kernel does not know of must be zero. Common errors:
 *
 *  ENOTTY	the ioctl is unknown
 *  EINVAL	the size is below the first version's, a flag is unknown, a
 *		reserved member is not zero, or an argument is out of range
 *  E2BIG	the tail that the kernel does not know of is not zero, or the size
 *		is larger than a page
 *  EFAULT	the structure cannot be read or written
 *  ENODEV	the port is gone; poll() reports POLLHUP. The user of a function of an
 *		endpoint reaps, queries and frees all the same
 *
 * An open file is one of: fresh, listening, one end of a channel, the owner of
 * objects (protection domains, memory, queues), a matching interface, or the user of a
 * function of a shared endpoint. Which of them changes once, by WEFT_CHAN_LISTEN,
 * WEFT_CHAN_CONNECT, WEFT_CHAN_ACCEPT, WEFT_MATCH_OPEN, WEFT_EP_OPEN or the first WEFT_PD_ALLOC
 * or WEFT_CQ_CREATE; a second change fails with EISCONN, one at the same time as another with
 * EBUSY. While the users of the port are asked to finish (WEFT_VF_MIGRATE), WEFT_CHAN_LISTEN,
 * WEFT_CHAN_CONNECT, WEFT_CHAN_ACCEPT, WEFT_MATCH_OPEN, WEFT_QP_CREATE and WEFT_EP_OPEN fail
 * with ESHUTDOWN.
 */
#ifndef _UAPI_LINUX_WEFT_H
#define _UAPI_LINUX_WEFT_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define WEFT_IOC_TYPE	'W'
#define WEFT_IOC_BASE	0x80

#define WEFT_PORT_INFO		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 0)
#define WEFT_LINK_INFO		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 1)
#define WEFT_CHAN_LISTEN	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 2)
#define WEFT_CHAN_CONNECT	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 3)
#define WEFT_CHAN_ACCEPT	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 4)
#define WEFT_CHAN_INFO		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 5)
#define WEFT_CHAN_KICK		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 6)
#define WEFT_PD_ALLOC		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 7)
#define WEFT_MR_REG		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 8)
#define WEFT_MW_ALLOC		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 9)
#define WEFT_CQ_CREATE		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 10)
#define WEFT_SRQ_CREATE		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 11)
#define WEFT_QP_CREATE		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 12)
#define WEFT_QP_MODIFY		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 13)
#define WEFT_QP_QUERY		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 14)
#define WEFT_DESTROY		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 15)
#define WEFT_KICK		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 16)
#define WEFT_CQ_ARM		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 17)
#define WEFT_LIMITS		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 18)
#define WEFT_VF_MIGRATE		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 19)
#define WEFT_FABRIC_NODES	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 20)
#define WEFT_FABRIC_ROUTES	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 21)
#define WEFT_FABRIC_ASSIGNMENTS	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 22)
#define WEFT_FABRIC_ASSIGNMENT	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 23)
#define WEFT_FABRIC_COMPONENT	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 24)
#define WEFT_FABRIC_VH		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 25)
#define WEFT_CQ_WAIT		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 26)
#define WEFT_FABRIC_SLOT	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 27)
#define WEFT_FABRIC_ANNOUNCE	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 28)
#define WEFT_SOCK_LISTEN	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 40)
#define WEFT_SOCK_CONNECT	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 41)
#define WEFT_SOCK_ACCEPT	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 42)
#define WEFT_SOCK_INFO		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 43)
#define WEFT_SOCK_SHUTDOWN	_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 44)
#define WEFT_MATCH_OPEN		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 48)
#define WEFT_MATCH_KICK		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 49)
#define WEFT_EP_OPEN		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 32)
#define WEFT_EP_QUERY		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 33)
#define WEFT_EP_AREA		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 34)
#define WEFT_EP_FREE		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 35)
#define WEFT_EP_SUBMIT		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 36)
#define WEFT_EP_REAP		_IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + 37)

/* Kinds of ports. */
#define WEFT_PORT_WEFT		1	/* Weft port */
#define WEFT_PORT_IVSHMEM	2	/* ivshmem-doorbell */

/* What keeps a peer to what it was granted (weft_port_info.protection). */
#define WEFT_PROT_DEVICE	(1 << 0)	/* the owner's device, on each access */
#define WEFT_PROT_APERTURE	(1 << 1)	/* the aperture holds granted pages only */
#define WEFT_PROT_BOUNCE	(1 << 2)	/* the kernel copies out of a ring of its own */

/*
 * The same by what is guarded: a mask of these, shifted left by one of the following. All of
 * them are 0 where the driver does not say.
 */
#define WEFT_PROT_MASK		0xff
#define WEFT_PROT_CHANNELS	8	/* arenas, and the channels in them */
#define WEFT_PROT_MEMORY	16	/* registered memory */
#define WEFT_PROT_DOORBELLS	24	/* doorbells of this port */

/**
 * struct weft_port_info - ioctl(WEFT_PORT_INFO)
 * @size: sizeof(struct weft_port_info)
 * @flags: must be 0
 * @kind: out: WEFT_PORT_*
 * @generation: out: changes with every reset of the port
 * @hwid: out: hardware id, unique in the fabric
 * @lid: out: local id, 0 while there is none
 * @links: out: one more than the highest number of a link; some numbers below may
 *	be no link's: see WEFT_LINK_INFO
 * @protection: out: mask of WEFT_PROT_* that guard anything, and by what they guard
 * @reserved: out: 0
 */
struct weft_port_info {
	__u32 size;
	__u32 flags;
	__u32 kind;
	__u32 generation;
	__u64 hwid;
	__u32 lid;
	__u32 links;
	__u32 protection;
	__u32 reserved;
};

/* States of a link (weft_link_info.state). */
#define WEFT_LINK_DOWN		0	/* no signal, or disabled */
#define WEFT_LINK_HELLO		1	/* up; waiting for the neighbour's driver */
#define WEFT_LINK_READY		2	/* channels can be connected */
#define WEFT_LINK_TO_SWITCH	3	/* up, to a switch */

/* Which end of a link this is (weft_link_info.role). */
#define WEFT_ROLE_ROOT		0	/* the root complex */
#define WEFT_ROLE_ENDPOINT	1
#define WEFT_ROLE_LOOPBACK	2	/* the other end is this port's, too */

/* What the speed of a link follows (weft_link_info.power). */
#define WEFT_POWER_PERFORMANCE	0	/* it runs at the most that it can */
#define WEFT_POWER_AUTO		1	/* its traffic */

/**
 * struct weft_link_info - ioctl(WEFT_LINK_INFO)
 * @size: sizeof(struct weft_link_info)
 * @flags: must be 0
 * @link: in: number of the link; EINVAL if there is no such link. The first ones, up to
 *	four, lead to neighbours; those behind, up to eight, lead over routes to ports that
 *	are none, and are there while the manager of the fabric has them lead to a port;
 *	the last two lead to each other, and are there once a program has connected to
 *	this host itself
 * @state: out: WEFT_LINK_*
 * @speed: out: PCI Express generation, 0 while unknown
 * @width: out: lanes, 0 while unknown
 * @role: out: WEFT_ROLE_*
 * @trained: out: how often the link came up
 * @peer_hwid: out: hardware id of the neighbour, 0 while unknown
 * @peer_generation: out: its generation
 * @channels: out: channels open on the link
 * @arena_bytes: out: memory that the neighbour may reach, for channels
 * @arena_free: out: what is left of it
 * @lid: out: local id of the port to which a route leads, 0 if the link is one to a
 *	neighbour
 * @hops: out: links that the route passes, 0 if the link is one to a neighbour
 * @max_speed: out: the most that the link can, PCI Express generation, 0 while unknown
 * @max_width: out: likewise, lanes
 * @power: out: WEFT_POWER_*
 * @reserved: out: 0
 * @arena_share: out: the most bytes of the arena that the user of the file may have, for
 *	all of its channels; 0 while the link is not ready
 */
struct weft_link_info {
	__u32 size;
	__u32 flags;
	__u32 link;
	__u32 state;
	__u32 speed;
	__u32 width;
	__u32 role;
	__u32 trained;
	__u64 peer_hwid;
	__u32 peer_generation;
	__u32 channels;
	__u64 arena_bytes;
	__u64 arena_free;
	__u32 lid;
	__u32 hops;
	__u32 max_speed;
	__u32 max_width;
	__u32 power;
	__u32 reserved;
	__u64 arena_share;
};

/**
 * struct weft_chan_listen - ioctl(WEFT_CHAN_LISTEN)
 * @size: sizeof(struct weft_chan_listen)
 * @flags: must be 0
 * @service: service number, from 1, less than WEFT_SERVICE_KERNEL
 * @backlog: connections that may wait for WEFT_CHAN_ACCEPT, 1 to 64
 *
 * poll() reports POLLIN while a connection waits. EADDRINUSE: another file listens
 * on that service already. EISCONN: the file is not fresh. EACCES: the service is
 * the kernel's. ENOSPC: the port has weft_limits.listeners; EDQUOT: the user has
 * weft_limits.listener_share of them.
 * Connections count for the user that listens, see weft_link_info.arena_share.
 */
struct weft_chan_listen {
	__u32 size;
	__u32 flags;
	__u32 service;
	__u32 backlog;
};

#define WEFT_ANY_LINK		0xffffffffu

/* From here on services are the kernel's own: no program listens on them, or connects to them. */
#define WEFT_SERVICE_KERNEL	0xffff0000u

/* Limits of a channel. */
#define WEFT_CHAN_MIN_CELLS	16
#define WEFT_CHAN_MAX_CELLS	16384
#define WEFT_CHAN_MIN_BULK	4096
#define WEFT_CHAN_MAX_BULK	(1 << 20)

/**
 * struct weft_chan_connect - ioctl(WEFT_CHAN_CONNECT)
 * @size: sizeof(struct weft_chan_connect)
 * @flags: must be 0
 * @peer: hardware id of the peer, or 0 for any that is at the end of @link
 * @link: number of the link, or WEFT_ANY_LINK for the first that leads to @peer
 * @service: service number at the peer
 * @cells: cells of each direction's ring: a power of two, WEFT_CHAN_MIN_CELLS
 *	to WEFT_CHAN_MAX_CELLS
 * @bulk: bytes of each direction's bulk ring: a multiple of 4096,
 *	WEFT_CHAN_MIN_BULK to WEFT_CHAN_MAX_BULK
 * @timeout_ms: how long to wait for the peer, 0 for 5000, at most 60000
 * @reserved: must be 0
 *
 * Waits until the peer's listener has accepted. If no link leads to @peer, a link over a
 * route is aimed at it, with WEFT_ANY_LINK: one that leads nowhere, or the least recently used
 * one on which nothing is open. @peer may be the hardware id of this port: the peer is another
 * program of this host then, see weft_link_info.link.
 *
 * EHOSTUNREACH: no link leads to the peer, and no route, or none of the links was READY in
 * @timeout_ms: the peer's own links may all be in use. ECONNREFUSED: no file listens there, or
 * its backlog is full. ENOSPC: the arena of this end has no room; or no link leads to the peer, and
 * all links over routes are in use (manager/routed_links in sysfs; the log counts what uses them):
 * close channels and queue pairs to another host. EDQUOT: there is room, but
 * not for this user, see weft_link_info.arena_share; or the user has something open on half of the
 * links over routes that other users leave, one at least; ENOBUFS: that of the peer has no
 * room, or none for the user that listens there. ENOMEM: the peer is this host, and there
 * is no memory for a loopback. ETIMEDOUT: no answer. ECONNRESET: the link or the peer went
 * away. EPROTO: the peer broke the protocol. EACCES: the service is the kernel's. EINTR: a
 * signal came. EISCONN: the file is not fresh. After any other error it stays fresh.
 */
struct weft_chan_connect {
	__u32 size;
	__u32 flags;
	__u64 peer;
	__u32 link;
	__u32 service;
	__u32 cells;
	__u32 bulk;
	__u32 timeout_ms;
	__u32 reserved;
};

/**
 * struct weft_chan_accept - ioctl(WEFT_CHAN_ACCEPT)
 * @size: sizeof(struct weft_chan_accept)
 * @flags: must be 0
 * @listen_fd: a listening file of the same /dev/weftN
 * @reserved: must be 0
 *
 * Called on a fresh file, which becomes the other end of the oldest connection
 * that waits at @listen_fd. Waits for one unless the file, not that of @listen_fd, is
 * O_NONBLOCK (EAGAIN). EBADF, EINVAL: @listen_fd is not a listening file of this port.
 * ECONNABORTED: the peer gave up meanwhile; call again. EINTR: a signal came. EISCONN: the
 * file is not fresh.
 */
struct weft_chan_accept {
	__u32 size;
	__u32 flags;
	__s32 listen_fd;
	__u32 reserved;
};

/* States of a channel, in struct weft_chan_info and struct weft_chan_status. */
#define WEFT_CHAN_OPEN		1
#define WEFT_CHAN_PEER_CLOSED	2	/* what came can still be read, nothing can be sent */
#define WEFT_CHAN_BROKEN	3	/* see reason: what was not acknowledged may be lost */

/* Why a channel is broken. */
#define WEFT_REASON_NONE	0
#define WEFT_REASON_LINK	1	/* the link went down, or lost data */
#define WEFT_REASON_PEER	2	/* the peer's driver or host was restarted, or is silent */
#define WEFT_REASON_PROTOCOL	3	/* the peer broke the protocol */
#define WEFT_REASON_REMOVED	4	/* this host's port was removed */

/**
 * struct weft_chan_info - ioctl(WEFT_CHAN_INFO)
 * @size: sizeof(struct weft_chan_info)
 * @flags: must be 0
 * @state: out: WEFT_CHAN_*
 * @reason: out: WEFT_REASON_*
 * @peer_hwid: out: hardware id of the peer
 * @peer_generation: out: its generation when the channel was made
 * @link: out: link that the channel uses
 * @service: out: service number
 * @cells: out: cells of each ring
 * @bulk: out: bytes of each bulk ring
 * @kick_value: out: what to write at @kick_offset to ring the peer's doorbell
 * @area_offset: out: mmap() offset of this end's area (to read; see struct
 *	weft_chan_ctl)
 * @window_offset: out: mmap() offset of the peer's area (to write, write
 *	combining)
 * @area_bytes: out: bytes of an area
 * @status_offset: out: mmap() offset of struct weft_chan_status, one page, to read
 * @user_offset: out: mmap() offset of struct weft_chan_user, one page, to read and write
 * @kick_offset: out: mmap() offset of a doorbell page, one page, to write with
 *	32-bit stores, or 0 if the hardware has none: use WEFT_CHAN_KICK
 *
 * ENOTCONN: the file is not one end of a channel.
 */
struct weft_chan_info {
	__u32 size;
	__u32 flags;
	__u32 state;
	__u32 reason;
	__u64 peer_hwid;
	__u32 peer_generation;
	__u32 link;
	__u32 service;
	__u32 cells;
	__u32 bulk;
	__u32 kick_value;
	__u64 area_offset;
	__u64 window_offset;
	__u64 area_bytes;
	__u64 status_offset;
	__u64 user_offset;
	__u64 kick_offset;
};

/**
 * struct weft_chan_kick - ioctl(WEFT_CHAN_KICK)
 * @size: sizeof(struct weft_chan_kick)
 * @flags: must be 0
 *
 * Rings the peer's doorbell, for programs that sleep at the other end.
 *
 * ENOTCONN: the file is not one end of a channel. EPIPE: the peer has closed its end.
 * ECONNRESET: the channel is broken.
 */
struct weft_chan_kick {
	__u32 size;
	__u32 flags;
};

/*
 * Sockets: a file becomes one end of a stream of bytes, which read(), write(), poll() and
 * splice() move, blocking or with O_NONBLOCK. See Documentation/sockets.rst.
 */

/**
 * struct weft_sock_listen - ioctl(WEFT_SOCK_LISTEN)
 * @size: sizeof(struct weft_sock_listen)
 * @flags: must be 0
 * @service: service number, not 0; those of sockets and those of channels are apart
 * @backlog: requests that may wait to be accepted, 1 to WEFT_SOCK_MAX_BACKLOG
 *
 * poll() reports POLLIN when a request waits. EADDRINUSE: another file listens there;
 * ENOSPC, EDQUOT: as WEFT_CHAN_LISTEN; EACCES: the service is the kernel's; EOPNOTSUPP: the
 * vital product data of the port say that it has no sockets; EISCONN: the file is not fresh.
 */
struct weft_sock_listen {
	__u32 size;
	__u32 flags;
	__u32 service;
	__u32 backlog;
};

#define WEFT_SOCK_MAX_BACKLOG	4096

/**
 * struct weft_sock_connect - ioctl(WEFT_SOCK_CONNECT)
 * @size: sizeof(struct weft_sock_connect)
 * @flags: must be 0
 * @peer: as in struct weft_chan_connect
 * @link: likewise
 * @service: service number at the peer
 * @protocol: 0: data are pushed, stored into the memory of the end that receives them;
 *	WEFT_PULL_WQE | WEFT_PULL_DATA: pulled, fetched from the memory of the end that sends them
 * @bytes: of each of the two halves, of the arenas of the two ends: a multiple of 4096,
 *	WEFT_SOCK_MIN_BYTES to WEFT_SOCK_MAX_BYTES; 0: WEFT_SOCK_DEFAULT_BYTES
 * @timeout_ms: how long to wait for the peer, 0 for 5000, at most 60000
 *
 * Waits until the peer has accepted. With O_NONBLOCK it fails with EINPROGRESS, and the file
 * is a socket all the same: poll() reports POLLOUT, or POLLERR, when there is an answer, and
 * WEFT_SOCK_INFO says which. It may wait for a link to the peer even then.
 *
 * ECONNREFUSED: nothing listens there, or its backlog is full, or a service that listened has
 * closed; ENOBUFS: the arena of the link has no room for another half, at either end; EOPNOTSUPP:
 * the vital product data of this port or of the peer's say that it has no sockets, or @protocol
 * is another combination of WEFT_PULL_*. EHOSTUNREACH, EDQUOT, ENOMEM, ETIMEDOUT, ECONNRESET,
 * EACCES, EINTR, EISCONN, and ENOSPC for links: as WEFT_CHAN_CONNECT.
 */
struct weft_sock_connect {
	__u32 size;
	__u32 flags;
	__u64 peer;
	__u32 link;
	__u32 service;
	__u32 protocol;
	__u32 bytes;
	__u32 timeout_ms;
	__u32 reserved;
};

#define WEFT_SOCK_MIN_BYTES	4096
#define WEFT_SOCK_DEFAULT_BYTES	16384
#define WEFT_SOCK_MAX_BYTES	1048576

/**
 * struct weft_sock_accept - ioctl(WEFT_SOCK_ACCEPT): makes a fresh file a socket
 * @size: sizeof(struct weft_sock_accept)
 * @flags: must be 0
 * @listen_fd: a file of the same port that listens for sockets
 * @reserved: must be 0
 *
 * Waits for a request, unless the file is O_NONBLOCK (EAGAIN). ECONNABORTED: the peer has given
 * up; ENOBUFS: the arena has no room for the half of this end, EDQUOT: no more for this user. The
 * peer gets ENOBUFS then.
 */
struct weft_sock_accept {
	__u32 size;
	__u32 flags;
	__s32 listen_fd;
	__u32 reserved;
};

/* States of a socket (weft_sock_info.state). */
#define WEFT_SOCK_CONNECTING	1
#define WEFT_SOCK_OPEN		2
#define WEFT_SOCK_PEER_CLOSED	3	/* what the peer has sent can still be read */
#define WEFT_SOCK_ENDED		4	/* error says why */

/**
 * struct weft_sock_info - ioctl(WEFT_SOCK_INFO)
 * @size: sizeof(struct weft_sock_info)
 * @flags: must be 0
 * @state: out: WEFT_SOCK_*
 * @error: out: the errno that calls fail with, or 0
 * @peer_hwid: out: hardware id of the peer, as its port attests it
 * @peer_generation: out: its generation when the socket was made
 * @link: out: link that the socket uses
 * @service: out: service number
 * @protocol: out: 0, or WEFT_PULL_WQE | WEFT_PULL_DATA
 * @bytes: out: bytes of a half
 * @reserved: out: 0
 * @sent: out: bytes sent
 * @received: out: bytes received
 * @buffer_full: out: how often this end had to wait for room, and told the peer by its
 *	buffer-full flag
 *
 * ENOTCONN: the file is not a socket.
 */
struct weft_sock_info {
	__u32 size;
	__u32 flags;
	__u32 state;
	__u32 error;
	__u64 peer_hwid;
	__u32 peer_generation;
	__u32 link;
	__u32 service;
	__u32 protocol;
	__u32 bytes;
	__u32 reserved;
	__u64 sent;
	__u64 received;
	__u64 buffer_full;
};

/**
 * struct weft_sock_shutdown - ioctl(WEFT_SOCK_SHUTDOWN)
 * @size: sizeof(struct weft_sock_shutdown)
 * @flags: must be 0
 * @how: mask of WEFT_SHUT_*
 * @reserved: must be 0
 *
 * After WEFT_SHUT_SEND the peer reads to the end of the stream, and write() here fails with EPIPE.
 * After WEFT_SHUT_RECV read() returns 0. ENOTCONN: there is no connection (yet, or any more).
 */
struct weft_sock_shutdown {
	__u32 size;
	__u32 flags;
	__u32 how;
	__u32 reserved;
};

#define WEFT_SHUT_RECV		(1 << 0)
#define WEFT_SHUT_SEND		(1 << 1)

/*
 * What is in memory.
 *
 * Both ends of a channel own an area of the same shape in memory that the peer
 * reaches through its window:
 *
 *	0			struct weft_chan_ctl, one page
 *	WEFT_CHAN_CELLS_AT	cells x struct weft_cell, up to a whole page
 *	then			bulk ring
 *
 * Each end writes the peer's area and reads its own, never the reverse: no read
 * crosses the bridge. Whatever is read from an area was written by the peer and
 * is to be copied once, then checked, then used.
 */
#define WEFT_CELL_BYTES		64
#define WEFT_CELL_INLINE	48
#define WEFT_CHAN_CELLS_AT	4096

/**
 * struct weft_cell - one message, or the head of one
 * @head: written last, in one store, after a store fence: see WEFT_HEAD_*
 * @tag: the user's
 * @data: up to WEFT_CELL_INLINE bytes of payload; for WEFT_KIND_BULK its first
 *	8 bytes are the offset of the payload in the bulk ring
 *
 * Cell number i (counted from 0 for ever) lies at i modulo cells. Its phase is
 * 1 in the first lap, 0 in the second, and so on; the memory starts as zero.
 * The bulk ring is handed out in cells' order, in multiples of 64 bytes, each
 * payload in one piece; one that does not fit before the end starts at 0.
 */
struct weft_cell {
	__u64 head;
	__u64 tag;
	__u8 data[WEFT_CELL_INLINE];
};

#define WEFT_HEAD_LEN		0x00000000ffffffffull	/* bytes of payload */
#define WEFT_HEAD_KIND_SHIFT	32			/* 8 bits: WEFT_KIND_* */
#define WEFT_HEAD_SEQ_SHIFT	40			/* 16 bits: low bits of the cell's number */
#define WEFT_HEAD_PHASE		0x8000000000000000ull

#define WEFT_KIND_INLINE	1	/* payload in the cell */
#define WEFT_KIND_BULK		2	/* payload in the bulk ring */
#define WEFT_KIND_FIN		3	/* the sender will send no more */
#define WEFT_KIND_SPLIT		4	/* BULK, but 40 bytes behind the offset: of kernels */

/**
 * struct weft_chan_ctl - first page of an area, written by the peer
 * @credit: cells of this end that the peer has consumed; with a cell goes its
 *	part of the bulk ring
 * @recv_event: the peer's receiver sleeps: ring when the number of cells sent
 *	passes this
 * @send_event: the peer's sender sleeps: ring when the number of cells consumed
 *	passes this
 */
struct weft_chan_ctl {
	__u64 credit;
	__u64 reserved0[7];
	__u64 recv_event;
	__u64 reserved1[7];
	__u64 send_event;
	__u64 reserved2[7];
};

/**
 * struct weft_chan_status - written by the kernel in one store, read by the user
 * @state: WEFT_CHAN_*
 * @reason: WEFT_REASON_*
 */
struct weft_chan_status {
	__u32 state;
	__u32 reason;
};

/**
 * struct weft_chan_user - written by the user, read by the kernel: in poll(), and
 *	@produced and @bulk now and then
 * @consumed: number of the next cell to be received
 * @produced: number of the next cell to be sent
 * @credit_wanted: POLLOUT waits until the peer has consumed as many cells as
 *	this; 0: for any room
 * @bulk: bytes of the peer's bulk ring that were written so far, what was left
 *	out at its end included. Nothing waits for it: with @produced it says
 *	what the link carries, where the port cannot count that by itself
 *
 * poll() reports POLLIN when cell @consumed has come, POLLOUT when fewer than
 * all cells are on the way; before it sleeps it tells the peer where to ring.
 */
struct weft_chan_user {
	__u64 consumed;
	__u64 produced;
	__u64 credit_wanted;
	__u64 bulk;
};

/*
 * Objects.
 *
 * A file that owns objects names each of them by a handle, a number of its own
 * that is not 0. Handles of one file mean nothing to another. Closing the last
 * descriptor and mapping of the file destroys all of them. Common errors of the
 * ioctls that make or use objects, besides those above:
 *
 *  ENOENT	a handle names nothing, or an object of another kind; or the file is fresh
 *  EISCONN	the file listens, is one end of a channel, or uses a function
 *  ENOSPC	a limit of the port is reached, see struct weft_limits
 *  EDQUOT	the share of the user is reached, see there
 *
 * The memory of queues counts against RLIMIT_MEMLOCK (ENOMEM), until the queue is destroyed
 * and not mapped any more.
 */

/**
 * struct weft_limits - ioctl(WEFT_LIMITS)
 * @size: sizeof(struct weft_limits)
 * @flags: must be 0
 * @qps: out: queue pairs that the port can have
 * @cqs: out: completion queues
 * @srqs: out: shared receive queues
 * @stags: out: memory regions and windows together
 * @pds: out: protection domains
 * @queue_entries: out: entries of a send, receive or shared receive queue
 * @cq_entries: out: entries of a completion queue
 * @sges: out: elements of a scatter/gather list
 * @inline_bytes: out: bytes of inline data of a work request
 * @engine: out: mask of WEFT_ENGINE_*
 * @mr_bytes: out: bytes of a memory region
 * @qp_share: out: queue pairs that the user of the file may have
 * @cq_share: out: completion queues
 * @srq_share: out: shared receive queues
 * @stag_share: out: memory regions and windows together
 * @pd_share: out: protection domains
 * @listeners: out: listeners that the port can have
 * @listener_share: out: listeners that the user of the file may have
 * @reserved: out: 0
 *
 * A share is for all files that processes of the same real user id have opened. It is half
 * of what the other users leave of the port's, so it changes; for a file that was opened
 * with CAP_SYS_RESOURCE it is all that they leave.
 */
struct weft_limits {
	__u32 size;
	__u32 flags;
	__u32 qps;
	__u32 cqs;
	__u32 srqs;
	__u32 stags;
	__u32 pds;
	__u32 queue_entries;
	__u32 cq_entries;
	__u32 sges;
	__u32 inline_bytes;
	__u32 engine;
	__u64 mr_bytes;
	__u32 qp_share;
	__u32 cq_share;
	__u32 srq_share;
	__u32 stag_share;
	__u32 pd_share;
	__u32 listeners;
	__u32 listener_share;
	__u32 reserved;
};

#define WEFT_ENGINE_DMA		(1 << 0)	/* bulk data are moved by a DMA engine */
#define WEFT_ENGINE_KICK_PAGE	(1 << 1)	/* doorbell pages: weft_qp_create.kick_offset */

/**
 * struct weft_pd_alloc - ioctl(WEFT_PD_ALLOC): a protection domain
 * @size: sizeof(struct weft_pd_alloc)
 * @flags: must be 0
 * @pd: out: handle
 * @reserved: must be 0
 */
struct weft_pd_alloc {
	__u32 size;
	__u32 flags;
	__u32 pd;
	__u32 reserved;
};

/* Rights to memory. The owner's own queue pairs may always read. */
#define WEFT_ACCESS_LOCAL_WRITE		(1 << 0)
#define WEFT_ACCESS_REMOTE_READ		(1 << 1)
#define WEFT_ACCESS_REMOTE_WRITE	(1 << 2)	/* needs LOCAL_WRITE */
#define WEFT_ACCESS_REMOTE_ATOMIC	(1 << 3)	/* needs LOCAL_WRITE */
#define WEFT_ACCESS_MW_BIND		(1 << 4)	/* windows may be bound to the region */

/*
 * An STag, 32 bits, names memory: [31:8] the index, which the driver gives, [7:0]
 * the key, which the user chooses. An access names an STag and a tagged offset (TO).
 */
#define WEFT_STAG_KEY		0x000000ffu
#define WEFT_STAG_INDEX_SHIFT	8

/**
 * struct weft_mr_reg - ioctl(WEFT_MR_REG): registers memory of the caller
 * @size: sizeof(struct weft_mr_reg)
 * @flags: must be 0
 * @addr: address of the first byte
 * @length: bytes, 1 to weft_limits.mr_bytes
 * @base: TO of the first byte; @base + @length must not wrap
 * @pd: protection domain
 * @access: mask of WEFT_ACCESS_*
 * @key: the key of the STag, 0 to 255
 * @mr: out: handle
 * @stag: out: the STag
 * @reserved: must be 0
 *
 * The pages are pinned and count against RLIMIT_MEMLOCK (ENOMEM) until the region is
 * destroyed, whatever is unmapped meanwhile. EFAULT: not all of it is mapped, or not
 * to be written though LOCAL_WRITE asks for it. EOPNOTSUPP: memory that cannot be
 * pinned for long, such as pages of a file in a DAX file system. EINTR: the process is
 * being killed.
 */
struct weft_mr_reg {
	__u32 size;
	__u32 flags;
	__u64 addr;
	__u64 length;
	__u64 base;
	__u32 pd;
	__u32 access;
	__u32 key;
	__u32 mr;
	__u32 stag;
	__u32 reserved;
};

/**
 * struct weft_mw_alloc - ioctl(WEFT_MW_ALLOC): a memory window, bound to nothing
 * @size: sizeof(struct weft_mw_alloc)
 * @flags: must be 0
 * @pd: protection domain
 * @mw: out: handle
 * @stag: out: the STag, with the key 0: what WEFT_OP_BIND_MW takes
 * @reserved: must be 0
 */
struct weft_mw_alloc {
	__u32 size;
	__u32 flags;
	__u32 pd;
	__u32 mw;
	__u32 stag;
	__u32 reserved;
};

/**
 * struct weft_cq_create - ioctl(WEFT_CQ_CREATE): a completion queue
 * @size: sizeof(struct weft_cq_create)
 * @flags: must be 0
 * @entries: a power of two, 16 to weft_limits.cq_entries
 * @event_fd: an eventfd that is signalled when the queue is armed and an entry comes,
 *	or -1. poll() of the file reports POLLIN for any armed queue that has one
 * @cq: out: handle
 * @reserved: must be 0
 * @ring_offset: out: mmap() offset of struct weft_cq_ctl, and the entries at
 *	WEFT_CQ_ENTRIES_AT behind it; to read and write
 * @ring_bytes: out: bytes to map
 *
 * EBADF, EINVAL: @event_fd is not an eventfd.
 */
struct weft_cq_create {
	__u32 size;
	__u32 flags;
	__u32 entries;
	__s32 event_fd;
	__u32 cq;
	__u32 reserved;
	__u64 ring_offset;
	__u64 ring_bytes;
};

#define WEFT_CQ_ENTRIES_AT	128

/**
 * struct weft_cq_ctl - the beginning of a completion queue's memory
 * @consumed: written by the user: entries taken
 * @reserved0: 0
 * @produced: written by the driver: entries given, for programs that count rather
 *	than look at phases
 * @overrun: written by the driver: 1 when an entry found no room. Queue pairs that
 *	complete here are then in ERR
 * @reserved1: 0
 *
 * The driver believes @consumed no further than that no entry is written over before
 * it was taken.
 */
struct weft_cq_ctl {
	__u64 consumed;
	__u64 reserved0[7];
	__u64 produced;
	__u32 overrun;
	__u32 reserved1[13];
};

/**
 * struct weft_cqe - a completion
 * @wr_id: of the work request
 * @qpn: number of the queue pair
 * @byte_len: bytes received, read or written
 * @imm: immediate data, or the STag that was invalidated
 * @status: WEFT_WC_*
 * @opcode: WEFT_OP_* of the work request; WEFT_OP_RECV or WEFT_OP_RECV_WRITE_IMM
 * @flags: WEFT_WC_FLAG_*
 * @valid: written last: bit 31 is the phase, 1 in the first lap of the ring, 0 in the
 *	second, and so on; the rest is the low bits of the entry's number. The memory
 *	starts as zero
 */
struct weft_cqe {
	__u64 wr_id;
	__u32 qpn;
	__u32 byte_len;
	__u32 imm;
	__u16 status;
	__u8 opcode;
	__u8 flags;
	__u32 reserved;
	__u32 valid;
};

#define WEFT_CQE_PHASE		0x80000000u

#define WEFT_WC_FLAG_IMM	(1 << 0)	/* imm is there */
/*
 * Of no work request: a queue pair that takes its receive requests from a shared queue
 * has gone to ERR, and status says why. Those that it had not taken stay there, for the
 * others. One entry each time, in the CQ of receives: it needs room for that.
 */
#define WEFT_WC_FLAG_END	(1 << 1)

/* What became of a work request. After any but SUCCESS its queue pair is in ERR. */
#define WEFT_WC_SUCCESS		0
#define WEFT_WC_FLUSHED		1	/* was not begun, or not ended, when the pair went to ERR */
#define WEFT_WC_LOCAL_LENGTH	2	/* the list is shorter than what came */
#define WEFT_WC_LOCAL_REQUEST	3	/* the work request makes no sense */
#define WEFT_WC_LOCAL_PROT	4	/* an STag of the list: none, other PD, rights or bounds */
#define WEFT_WC_REMOTE_ACCESS	5	/* an STag at the peer: none, other PD, rights or bounds */
#define WEFT_WC_REMOTE_REQUEST	6	/* rights of the peer's queue pair, length, or its
					 * receive request is too short
					 */
#define WEFT_WC_REMOTE_OP	7	/* the peer failed to do it */
#define WEFT_WC_BIND		8	/* the window could not be bound */
#define WEFT_WC_LINK		9	/* the link went down; the peer may have done it or not */
#define WEFT_WC_PEER		10	/* the peer's queue pair is in ERR or gone, or its host */
#define WEFT_WC_PROTOCOL	11	/* the peer broke the protocol, or has another */

/**
 * struct weft_cq_arm - ioctl(WEFT_CQ_ARM)
 * @size: sizeof(struct weft_cq_arm)
 * @flags: must be 0
 * @cq: completion queue
 * @reserved: must be 0
 * @consumed: entries taken so far
 *
 * Asks for one event: when there is an entry beyond @consumed, at once if there is.
 */
struct weft_cq_arm {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 reserved;
	__u64 consumed;
};

/**
 * struct weft_srq_create - ioctl(WEFT_SRQ_CREATE): a shared receive queue
 * @size: sizeof(struct weft_srq_create)
 * @flags: must be 0
 * @pd: protection domain
 * @entries: a power of two, 16 to weft_limits.queue_entries
 * @sges: elements of a list, 1 to weft_limits.sges
 * @srq: out: handle
 * @stride: out: bytes of an entry
 * @reserved: must be 0
 * @ring_offset: out: mmap() offset of struct weft_queue_ctl, and the entries at
 *	WEFT_QUEUE_ENTRIES_AT behind it
 * @ring_bytes: out: bytes to map
 */
struct weft_srq_create {
	__u32 size;
	__u32 flags;
	__u32 pd;
	__u32 entries;
	__u32 sges;
	__u32 srq;
	__u32 stride;
	__u32 reserved;
	__u64 ring_offset;
	__u64 ring_bytes;
};

/*
 * What moves between the ends of a queue pair, and how: pushed, that is, written by the
 * end that has it, or pulled, read by the end that wants it. Both ends are to agree. Nothing is
 * pulled by default, and then no read crosses the bridge.
 */
#define WEFT_PULL_WQE		(1 << 0)	/* requests */
#define WEFT_PULL_DATA		(1 << 1)
#define WEFT_PULL_CQE		(1 << 2)	/* completions */

/**
 * struct weft_qp_create - ioctl(WEFT_QP_CREATE): a queue pair, in RESET
 * @size: sizeof(struct weft_qp_create)
 * @flags: must be 0
 * @pd: protection domain
 * @send_cq: where send requests complete
 * @recv_cq: where receive requests complete; may be the same
 * @srq: shared receive queue, of the same PD, or 0
 * @send_entries: a power of two, 16 to weft_limits.queue_entries
 * @recv_entries: likewise; 0 with @srq
 * @send_sges: elements of a list, 1 to weft_limits.sges
 * @recv_sges: likewise; 0 with @srq
 * @inline_bytes: room for inline data of a send request, 0 to weft_limits.inline_bytes
 * @protocol: mask of WEFT_PULL_*
 * @qp: out: handle
 * @qpn: out: number of the queue pair, 24 bits, unique at the port
 * @send_stride: out: bytes of an entry of the send queue
 * @recv_stride: out: of the receive queue, 0 with @srq
 * @ring_offset: out: mmap() offset of the memory of both queues, to read and write
 * @ring_bytes: out: bytes to map
 * @send_at: out: where in it the send queue's struct weft_queue_ctl is
 * @recv_at: out: where the receive queue's is, 0 with @srq
 * @kick_page_offset: out: mmap() offset of this file's kick page, or 0: use WEFT_KICK
 * @kick_offset: out: mmap() offset of a doorbell page, or 0
 * @kick_value: out: what to write there, 32 bits, at its start
 * @kick_bit: out: number of this pair's bit in the kick page
 *
 * EINVAL: @protocol has a bit that is none of WEFT_PULL_*, or @srq is of another PD.
 * ENOSPC: the port has weft_limits.qps of them, or 4096 files that have made some; EDQUOT:
 * likewise, of the share of the user.
 *
 * A queue pair has work when @posted of its send queue has grown: set bit @kick_bit of
 * the kick page, by an atomic or of a little endian 64-bit word, then ring; or call
 * WEFT_KICK.
 */
struct weft_qp_create {
	__u32 size;
	__u32 flags;
	__u32 pd;
	__u32 send_cq;
	__u32 recv_cq;
	__u32 srq;
	__u32 send_entries;
	__u32 recv_entries;
	__u32 send_sges;
	__u32 recv_sges;
	__u32 inline_bytes;
	__u32 protocol;
	__u32 qp;
	__u32 qpn;
	__u32 send_stride;
	__u32 recv_stride;
	__u64 ring_offset;
	__u64 ring_bytes;
	__u32 send_at;
	__u32 recv_at;
	__u64 kick_page_offset;
	__u64 kick_offset;
	__u32 kick_value;
	__u32 kick_bit;
};

#define WEFT_QUEUE_ENTRIES_AT	128

/**
 * struct weft_queue_ctl - the beginning of a send, receive or shared receive queue
 * @posted: written by the user: entries posted, after they were written
 * @reserved0: 0
 * @taken: written by the driver: entries of which it has a copy, and which the user
 *	may write over. What they point to is the driver's until they complete
 * @reserved1: 0
 *
 * Entry number i (counted from 0 for ever) is at WEFT_QUEUE_ENTRIES_AT + (i modulo
 * entries) * stride.
 */
struct weft_queue_ctl {
	__u64 posted;
	__u64 reserved0[7];
	__u64 taken;
	__u64 reserved1[7];
};

/**
 * struct weft_sge - an element of a scatter/gather list
 * @to: tagged offset
 * @length: bytes
 * @stag: STag of the pair's protection domain
 */
struct weft_sge {
	__u64 to;
	__u32 length;
	__u32 stag;
};

/* Operations. */
#define WEFT_OP_SEND		1	/* to the peer's receive queue */
#define WEFT_OP_WRITE		2	/* from the list to @remote_to of @remote_stag */
#define WEFT_OP_WRITE_IMM	3	/* and takes a receive request of the peer, for @imm */
#define WEFT_OP_READ		4	/* from there into the list: as many bytes as it has */
#define WEFT_OP_READ_ALL	5	/* likewise, as many as there are from @remote_to on */
#define WEFT_OP_FETCH_ADD	6	/* 8 bytes, @remote_to a multiple of 8: adds @arg0; the
					 * old value goes to the list, of 8 bytes
					 */
#define WEFT_OP_CMP_SWAP	7	/* 8 bytes: @arg1 if it is @arg0; likewise */
#define WEFT_OP_BIND_MW		8	/* window @remote_stag to [@arg0, @arg0 + @arg1) of the
					 * region of the list's one element, rights @access,
					 * key @imm, 0 to 255; @arg1 = 0 unbinds, and needs no list
					 */
#define WEFT_OP_LOCAL_INV	9	/* takes back @remote_stag, a window of this end; no list */
#define WEFT_OP_RECV		16	/* in completions: a message came */
#define WEFT_OP_RECV_WRITE_IMM	17	/* in completions: a write with immediate data */

/* Flags of a send request. */
#define WEFT_WR_SIGNALED	(1 << 0)	/* a completion, also if it succeeds */
#define WEFT_WR_INLINE		(1 << 1)	/* @count bytes of data in place of the list: of
						 * WEFT_OP_SEND, WEFT_OP_WRITE, WEFT_OP_WRITE_IMM
						 */
#define WEFT_WR_IMM		(1 << 2)	/* @imm goes with the message, WEFT_OP_SEND */
#define WEFT_WR_FENCE		(1 << 3)	/* not before earlier reads and atomics are done */

/**
 * struct weft_send_wqe - a send request: this, then the list or inline data
 * @wr_id: the user's, returned in the completion
 * @opcode: WEFT_OP_*
 * @flags: WEFT_WR_*
 * @count: elements of the list, or bytes of inline data
 * @imm: immediate data
 * @remote_to: tagged offset at the peer
 * @remote_stag: STag at the peer, or of a window of this end
 * @access: rights of a window that is bound
 * @arg0: operand
 * @arg1: operand
 * @reserved: must be 0
 *
 * A list has 2 GiB at most, all elements together. What is not as said here completes with
 * WEFT_WC_LOCAL_REQUEST.
 */
struct weft_send_wqe {
	__u64 wr_id;
	__u8 opcode;
	__u8 flags;
	__u16 count;
	__u32 imm;
	__u64 remote_to;
	__u32 remote_stag;
	__u32 access;
	__u64 arg0;
	__u64 arg1;
	__u64 reserved[2];
};

/**
 * struct weft_recv_wqe - a receive request: this, then the list
 * @wr_id: the user's
 * @count: elements of the list, which has 2 GiB at most
 * @reserved: must be 0
 */
struct weft_recv_wqe {
	__u64 wr_id;
	__u32 count;
	__u32 reserved;
};

/* States of a queue pair. */
#define WEFT_QP_RESET		0
#define WEFT_QP_INIT		1	/* receive requests can be posted */
#define WEFT_QP_RTR		2	/* requests of the peer are taken */
#define WEFT_QP_RTS		3	/* and send requests are done */
#define WEFT_QP_SQD		4	/* no new send requests are begun */
#define WEFT_QP_ERR		5	/* all requests are flushed */

/* Members of struct weft_qp_modify that count. */
#define WEFT_QP_STATE		(1 << 0)
#define WEFT_QP_ACCESS		(1 << 1)	/* with any state */
#define WEFT_QP_PATH		(1 << 2)	/* @link, @peer, @peer_qpn: of INIT to RTR, and of
						 * no other change
						 */

/**
 * struct weft_qp_modify - ioctl(WEFT_QP_MODIFY)
 * @size: sizeof(struct weft_qp_modify)
 * @flags: must be 0
 * @qp: queue pair
 * @mask: mask of the members that count
 * @state: RESET to INIT to RTR to RTS; RTS to SQD and back; any to ERR or RESET. EINVAL
 *	for any other change
 * @access: what the peer may do by this queue pair: WEFT_ACCESS_REMOTE_*
 * @peer: hardware id of the peer, or 0 for any that is at the end of @link
 * @link: number of the link, or WEFT_ANY_LINK for the first that leads to @peer
 * @peer_qpn: its queue pair, 24 bits, not 0. If it is of this port, both name
 *	WEFT_ANY_LINK, or one of the two links of the loopback each; EINVAL for a queue pair
 *	that names itself
 *
 * From RTR on it is joined with the pair that it names, if that one names it: nothing is
 * sent or heard before, and requests that are posted wait. They end with WEFT_WC_PEER if the
 * other one names another pair, is in ERR or is not there, and with WEFT_WC_PROTOCOL if its
 * @protocol is another.
 *
 * To RTR, a link is aimed at @peer if none leads there, as by WEFT_CHAN_CONNECT, and the call
 * waits up to five seconds for it: EHOSTUNREACH, ENOSPC, EDQUOT and EINTR as there.
 * ECONNRESET: to RTS, of a queue pair whose link went down meanwhile: it is in ERR.
 */
struct weft_qp_modify {
	__u32 size;
	__u32 flags;
	__u32 qp;
	__u32 mask;
	__u32 state;
	__u32 access;
	__u64 peer;
	__u32 link;
	__u32 peer_qpn;
};

/**
 * struct weft_qp_query - ioctl(WEFT_QP_QUERY)
 * @size: sizeof(struct weft_qp_query)
 * @flags: must be 0
 * @qp: queue pair
 * @state: out: WEFT_QP_*
 * @why: out: WEFT_WC_* that brought it to ERR
 * @access: out: as it was set
 * @protocol: out: mask of WEFT_PULL_*
 * @link: out: link, WEFT_ANY_LINK before RTR
 * @peer_qpn: out: the peer's queue pair
 * @reserved: must be 0
 * @peer: out: hardware id of the peer
 * @sent: out: requests sent to the peer
 * @received: out: requests of the peer that were done
 */
struct weft_qp_query {
	__u32 size;
	__u32 flags;
	__u32 qp;
	__u32 state;
	__u32 why;
	__u32 access;
	__u32 protocol;
	__u32 link;
	__u32 peer_qpn;
	__u32 reserved;
	__u64 peer;
	__u64 sent;
	__u64 received;
};

/**
 * struct weft_destroy - ioctl(WEFT_DESTROY)
 * @size: sizeof(struct weft_destroy)
 * @flags: must be 0
 * @handle: any object
 * @reserved: must be 0
 *
 * EBUSY: another object needs it: a PD its regions, windows and queues, a CQ and an
 * SRQ their queue pairs, a region its windows. When a region's or window's destruction
 * returns, no peer reaches the memory by it any more; it waits for accesses that are
 * going on. A queue pair's memory stays mapped, and means nothing.
 */
struct weft_destroy {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 reserved;
};

#define WEFT_KICK_DEFAULT	512
#define WEFT_KICK_MOST		1024

/**
 * struct weft_kick - ioctl(WEFT_KICK): has the engine look, in this thread
 * @size: sizeof(struct weft_kick)
 * @flags: must be 0
 * @qp: a queue pair that has work, or 0: only what has come from the peers
 * @budget: requests to handle at most, 0 for WEFT_KICK_DEFAULT; more than WEFT_KICK_MOST is
 *	taken for that
 *
 * Returns when what there is was done, or the budget is used up, or 1 MiB was moved, or a
 * fatal signal is pending. The rest is done by the next call, or by a thread of the kernel:
 * no call is needed for it. Without a queue pair the budget is for each link, and so is the
 * MiB. A program that polls a completion queue calls this in its loop: then no interrupt and
 * no other thread is needed.
 *
 * ENOMEM: there is no memory to leave to a thread what @qp, which is in ERR, has still to
 * flush: call again. WEFT_QP_MODIFY does the same with a small budget once it has made its
 * change, and may end so.
 */
struct weft_kick {
	__u32 size;
	__u32 flags;
	__u32 qp;
	__u32 budget;
};

#define WEFT_CQ_FOREVER		0xffffffffu	/* @timeout_ms: any time */

/**
 * struct weft_cq_wait - ioctl(WEFT_CQ_WAIT): rings, and sleeps until there is a completion
 * @size: sizeof(struct weft_cq_wait)
 * @flags: must be 0
 * @consumed: entries of the completion queue that were taken so far
 * @cq: completion queue
 * @qp: a queue pair that has work, or 0
 * @budget: as of struct weft_kick, for each look of the engine
 * @timeout_ms: how long to sleep at most, 0: not at all, or WEFT_CQ_FOREVER. out, with
 *	EINTR: what is left of it
 *
 * Does what WEFT_KICK does, then returns as soon as there is an entry beyond @consumed, at
 * once if there is. Without @qp nothing is done before it is looked for an entry. The engine
 * runs in this thread before it sleeps, and may do so when a peer rings meanwhile. Needs no
 * event_fd, and neither causes nor takes away an event that WEFT_CQ_ARM asks for. Several
 * threads may wait for one completion queue; each returns by its own @consumed.
 *
 * EAGAIN: there is none, and @timeout_ms is 0 or the file O_NONBLOCK. ETIMEDOUT: none came
 * in time. EINTR: a signal handler ran; signals without one do not end the call. ENOENT:
 * likewise, if the completion queue is destroyed meanwhile. EOVERFLOW: all entries were taken,
 * and none will come, since one found no room (weft_cq_ctl.overrun). ENODEV: likewise, if the
 * port goes meanwhile. ENOMEM: as of WEFT_KICK.
 */
struct weft_cq_wait {
	__u32 size;
	__u32 flags;
	__u64 consumed;
	__u32 cq;
	__u32 qp;
	__u32 budget;
	__u32 timeout_ms;
};

/* What a migration shall be (weft_vf_migrate.flags). */
#define WEFT_MIGRATE_DRY_RUN	(1 << 0)	/* only say what stands against it */
#define WEFT_MIGRATE_STOP	(1 << 1)	/* stop users that do not finish in time */
#define WEFT_MIGRATE_LIVE	(1 << 2)	/* users notice a pause, and nothing else */
#define WEFT_MIGRATE_FAR	(1 << 3)	/* the target is another host's */
#define WEFT_MIGRATE_RECEIVE	(1 << 4)	/* the VF is the target of another host's */

/* How it ended (weft_vf_migrate.outcome); 0 of a dry run. */
#define WEFT_MIGRATE_STAYED	1	/* the source is as it was */
#define WEFT_MIGRATE_MOVED	2	/* the target is in its place */
#define WEFT_MIGRATE_AT_SOURCE	3	/* the source has the identity, and no driver */
#define WEFT_MIGRATE_AT_TARGET	4	/* the same, of the target */
#define WEFT_MIGRATE_LOST	5	/* the source is gone, and the target not to be had */

/* What stands against it (weft_vf_migrate.obstacles). */
#define WEFT_MIGRATE_SAME	(1 << 0)	/* source and target are the same */
#define WEFT_MIGRATE_INCAPABLE	(1 << 1)	/* the hardware cannot change identities */
#define WEFT_MIGRATE_UNKNOWN	(1 << 2)	/* a port is not attached to a fabric */
#define WEFT_MIGRATE_UNEQUAL	(1 << 3)	/* the target has less than the source */
#define WEFT_MIGRATE_NO_SOURCE	(1 << 4)	/* the source is not enabled */
#define WEFT_MIGRATE_NO_TARGET	(1 << 5)	/* the target is not enabled */
#define WEFT_MIGRATE_TAKEN	(1 << 6)	/* the target is used, or another driver's */
#define WEFT_MIGRATE_SILENT	(1 << 7)	/* the driver of the source cannot be asked */
/* and, of those that are to move with their users: */
#define WEFT_MIGRATE_ELSEWHERE	(1 << 8)	/* they are VFs of different functions */
#define WEFT_MIGRATE_FOREIGN	(1 << 9)	/* another driver has the source, or none */
#define WEFT_MIGRATE_CHANNELS	(1 << 10)	/* channels are open over the source */

/* What went wrong first (weft_vf_migrate.event), 0 if nothing did. */
#define WEFT_MIGRATE_FAILED	1	/* the step could not be done */
#define WEFT_MIGRATE_TIMEOUT	2	/* it took too long */
#define WEFT_MIGRATE_CANCELLED	3	/* the caller got a signal */
#define WEFT_MIGRATE_SOURCE_GONE	4	/* the source does not exist any more */
#define WEFT_MIGRATE_TARGET_GONE	5	/* the target does not */

/**
 * struct weft_vf_migrate - ioctl(WEFT_VF_MIGRATE): a VF of this port moves to another
 * @size: sizeof(struct weft_vf_migrate)
 * @flags: mask of WEFT_MIGRATE_DRY_RUN, WEFT_MIGRATE_STOP, WEFT_MIGRATE_LIVE and
 *	WEFT_MIGRATE_FAR, LIVE with neither of STOP and FAR; or WEFT_MIGRATE_RECEIVE alone
 * @vf: number of the source
 * @target_fd: an open file of the port of the target's PF, which may be this one; -1 with
 *	FAR and RECEIVE
 * @target_vf: number of the target; 0 with FAR and RECEIVE
 * @timeout_ms: how long users may take to finish, or with RECEIVE until another host
 *	asks for the VF, up to 600000; 0 for 10000
 * @outcome: out: how it ended
 * @obstacles: out: what stands against it: then nothing was begun
 * @step: out: where something went wrong first, 0 nowhere: 1 claim, 2 finish, 3 stop,
 *	4 release, 5 cut, 6 attach, 7 configure, 8 start
 * @event: out: and what
 * @outstanding: out: what the source's driver has said last that is outstanding
 * @reserved: must be 0
 * @hwid: in, with FAR: hardware id of the target; with RECEIVE: the one that may come, 0
 *	for any; out: that which moves
 *
 * Returns 0 whenever there is an outcome, or obstacles. A signal leads back, and is no
 * error. While users of the source are asked to finish, poll() of their files reports
 * POLLPRI, and what would begin something fails with ESHUTDOWN. With WEFT_MIGRATE_LIVE
 * they are not asked: their calls sleep until it is over. The steps are in
 * Documentation/sriov.rst.
 *
 * Between hosts both call it: with RECEIVE, and @vf, that of the target, which waits; and
 * with FAR that of the source. Both need a port that runs the manager of a fabric that is
 * not at scale, and a VF that has not got the id of another port's by a migration on its
 * host: EOPNOTSUPP. With RECEIVE: ETIMEDOUT, EINTR: no host has asked for the VF;
 * EINTR also if a signal came and no master answers: the VF has no driver then. With FAR:
 * EBUSY: either VF is part of another migration of the fabric; ENOSPC: as many as can be
 * are under way there.
 *
 * EPERM: without CAP_SYS_ADMIN. EBADF, EINVAL: @target_fd is no open file, or no
 * port's. ENOENT: there is no such VF. EBUSY: another migration is under way, of any port
 * of this host; a dry run takes place all the same, and with WEFT_MIGRATE_LIVE does not
 * look then for what stands against that alone.
 */
struct weft_vf_migrate {
	__u32 size;
	__u32 flags;
	__u32 vf;
	__s32 target_fd;
	__u32 target_vf;
	__u32 timeout_ms;
	__u32 outcome;
	__u32 obstacles;
	__u32 step;
	__u32 event;
	__u32 outstanding;
	__u32 reserved;
	__u64 hwid;
};

/* What kind of node it is (weft_fabric_nodes.kind). */
#define WEFT_NODE_HOST		1
#define WEFT_NODE_SWITCH	2	/* it has no host, and is never master */
#define WEFT_NODE_ENDPOINT	3	/* nor has it one: hosts share it */

/* What is known of it (weft_fabric_nodes.state). */
#define WEFT_NODE_KNOWN		(1 << 0)	/* it answers; else a neighbour names it */
#define WEFT_NODE_SELF		(1 << 1)	/* the node of this port */
#define WEFT_NODE_MASTER	(1 << 2)	/* the master of the fabric */
#define WEFT_NODE_SCALE		(1 << 3)	/* lists no others: see manager/mode */

#define WEFT_FABRIC_PORTS	16	/* ports that are told of a node */
#define WEFT_FABRIC_HOPS	32	/* links of the longest way */
#define WEFT_FABRIC_PAGE	32	/* routes that are told at a time */

/**
 * struct weft_fabric_port - a port of a node
 * @peer: hardware id of the node at the other end of the link, 0: there is none
 * @speed: generation of the link
 * @width: its lanes
 */
struct weft_fabric_port {
	__u64 peer;
	__u32 speed;
	__u32 width;
};

/**
 * struct weft_fabric_nodes - ioctl(WEFT_FABRIC_NODES): the nodes of the fabric, one a call
 * @size: sizeof(struct weft_fabric_nodes)
 * @flags: must be 0
 * @index: which node, from 0; that is this port's own
 * @nodes: out: how many there are
 * @serial: out: changes with the list of nodes: a reader of one after the other then
 *	begins anew
 * @lid: out: local id, 0: none
 * @hwid: out: hardware id
 * @kind: out: WEFT_NODE_*
 * @state: out: mask of WEFT_NODE_KNOWN, WEFT_NODE_SELF, WEFT_NODE_MASTER, WEFT_NODE_SCALE
 * @hops: out: links of @path
 * @links: out: links of the cheapest way from here, which data take; 0: there is none
 * @path: out: how it was found: the port to leave by at each node, first one of this port
 * @ports: out: its ports
 *
 * In the order in which they were found: breadth first, ports in their order.
 *
 * EOPNOTSUPP: the port has no manager: it has no routes, or is not the first function of
 * its endpoint. ENOENT: there is no node @index.
 */
struct weft_fabric_nodes {
	__u32 size;
	__u32 flags;
	__u32 index;
	__u32 nodes;
	__u32 serial;
	__u32 lid;
	__u64 hwid;
	__u32 kind;
	__u32 state;
	__u32 hops;
	__u32 links;
	__u8 path[WEFT_FABRIC_HOPS];
	struct weft_fabric_port ports[WEFT_FABRIC_PORTS];
};

/**
 * struct weft_fabric_route - a route that is in use
 * @lid: for this local id
 * @hops: it passes so many links
 * @link: and begins with this link of the port
 */
struct weft_fabric_route {
	__u32 lid;
	__u16 hops;
	__u16 link;
};

/**
 * struct weft_fabric_routes - ioctl(WEFT_FABRIC_ROUTES): routes of this port
 * @size: sizeof(struct weft_fabric_routes)
 * @flags: must be 0
 * @first: number of the first that is wanted, from 0
 * @count: out: how many are told
 * @routes: out: how many there are
 * @lid: out: local id of this port, 0: none
 * @route: out: the first @count of these
 *
 * In no order. EOPNOTSUPP: as of WEFT_FABRIC_NODES.
 */
struct weft_fabric_routes {
	__u32 size;
	__u32 flags;
	__u32 first;
	__u32 count;
	__u32 routes;
	__u32 lid;
	struct weft_fabric_route route[WEFT_FABRIC_PAGE];
};

/* Replace the assignments (weft_fabric_assignments.flags). */
#define WEFT_ASSIGNMENTS_SET		(1 << 0)

#define WEFT_ASSIGNMENTS_BYTES	4096	/* the longest text */

/**
 * struct weft_fabric_assignments - ioctl(WEFT_FABRIC_ASSIGNMENTS): the assignments
 * @size: sizeof(struct weft_fabric_assignments)
 * @flags: WEFT_ASSIGNMENTS_SET, or 0: to read them
 * @text: address of the text, see Documentation/multiroot.rst
 * @bytes: in: length of the text; to read them, how much room there is. out: length
 * @version: in, with WEFT_ASSIGNMENTS_SET: of the assignments that these replace; out: of these. 0:
 *	there never were any
 * @line: out: with EINVAL and ENOSPC, the line of the text, from 1, that is meant; else 0
 * @reserved: must be 0
 *
 * Every host of the fabric keeps them, and tells them to callers; the master carries
 * them out, see WEFT_FABRIC_ASSIGNMENT.
 *
 * EOPNOTSUPP: as of WEFT_FABRIC_NODES. ENOBUFS: there is not as much room as @bytes says
 * now. With WEFT_ASSIGNMENTS_SET: EPERM: without CAP_SYS_ADMIN. EREMOTE: this host is not the
 * master of the fabric. EAGAIN: it is about to find out. ESTALE: @version is another one
 * now. EINVAL: @line is no assignment, or gives away what a line before it has given away.
 * ENOSPC: there is no room for @line.
 */
struct weft_fabric_assignments {
	__u32 size;
	__u32 flags;
	__u64 text;
	__u32 bytes;
	__u32 version;
	__u32 line;
	__u32 reserved;
};

/* What became of an assignment (weft_fabric_assignment.state). */
#define WEFT_ASSIGNMENT_WAITS		0	/* the master has not looked at it yet */
#define WEFT_ASSIGNMENT_DONE		1	/* the endpoint is the host's */
#define WEFT_ASSIGNMENT_NO_ENDPOINT	2	/* no such endpoint was found */
#define WEFT_ASSIGNMENT_NO_VE		3	/* it has no such virtual endpoint */
#define WEFT_ASSIGNMENT_NO_ROOT	4	/* no such host was found */
#define WEFT_ASSIGNMENT_NO_LID	5	/* one of the two has no local id yet */
#define WEFT_ASSIGNMENT_NO_WAY	6	/* no way between them leads through switches */
#define WEFT_ASSIGNMENT_NO_PLANE	7	/* a link on the way has no virtual plane left */
#define WEFT_ASSIGNMENT_NO_ROOM	8	/* the host's hierarchy has no room for it */
#define WEFT_ASSIGNMENT_FAILED	9	/* a table on the way could not be written */
#define WEFT_ASSIGNMENT_NOT_TAKEN	10	/* the host has not taken it */

/**
 * struct weft_fabric_assignment - ioctl(WEFT_FABRIC_ASSIGNMENT): what became of an assignment
 * @size: sizeof(struct weft_fabric_assignment)
 * @flags: must be 0
 * @index: which one, from 0, by endpoint
 * @count: out: how many there are
 * @serial: out: another one when anything of this is different for any assignment
 * @state: out: WEFT_ASSIGNMENT_*
 * @endpoint: out: hardware id
 * @root: out: hardware id of the host
 * @ve: out: which virtual endpoint
 * @reserved: out: 0
 *
 * EOPNOTSUPP: as of WEFT_FABRIC_NODES. EREMOTE: this host is not the master. ENOENT:
 * there is no assignment @index.
 */
struct weft_fabric_assignment {
	__u32 size;
	__u32 flags;
	__u32 index;
	__u32 count;
	__u32 serial;
	__u32 state;
	__u64 endpoint;
	__u64 root;
	__u32 ve;
	__u32 reserved;
};

/* What is known of it (weft_fabric_component.state). */
#define WEFT_COMPONENT_THERE	(1 << 0)	/* it answers now */
#define WEFT_COMPONENT_REPLACED	(1 << 1)	/* under this id there was another before */
#define WEFT_COMPONENT_NO_VPD	(1 << 2)	/* what it says of itself is not in order */
#define WEFT_COMPONENT_SOCKETS	(1 << 3)	/* it says that it supports sockets */

#define WEFT_VPD_TEXT		32	/* bytes of a text of the VPD, with the NUL */

/**
 * struct weft_fabric_component - ioctl(WEFT_FABRIC_COMPONENT): what the master has found
 * @size: sizeof(struct weft_fabric_component)
 * @flags: must be 0
 * @index: which one, from 0
 * @count: out: how many there are
 * @serial: out: another one when they are others than before
 * @kind: out: WEFT_NODE_*
 * @state: out: mask of WEFT_COMPONENT_*
 * @lid: out: local id, 0: none
 * @hwid: out: hardware id
 * @resident: out: of an endpoint, hardware id of the host on the same hardware unit, 0:
 *	none
 * @ports: out: how many it has
 * @ves: out: virtual endpoints of an endpoint
 * @functions: out: functions of each of them
 * @reserved: must be 0
 * @part: out: part number, of its VPD; it ends with a NUL
 * @serial_number: out: likewise
 * @blade: out: the hardware unit that it sits on, likewise
 *
 * EOPNOTSUPP: as of WEFT_FABRIC_NODES. EPERM: without CAP_SYS_ADMIN. EREMOTE: this host is
 * not the master. ENOENT: there is no component @index.
 */
struct weft_fabric_component {
	__u32 size;
	__u32 flags;
	__u32 index;
	__u32 count;
	__u32 serial;
	__u32 kind;
	__u32 state;
	__u32 lid;
	__u64 hwid;
	__u64 resident;
	__u32 ports;
	__u32 ves;
	__u32 functions;
	__u32 reserved;
	__u8 part[WEFT_VPD_TEXT];
	__u8 serial_number[WEFT_VPD_TEXT];
	__u8 blade[WEFT_VPD_TEXT];
};

/* What it is in the hierarchy (weft_fabric_vh.state). */
#define WEFT_VH_GIVEN		(1 << 0)	/* the virtual endpoint @ve is this host's */

/**
 * struct weft_fabric_vh - ioctl(WEFT_FABRIC_VH): the virtual hierarchy of a host
 * @size: sizeof(struct weft_fabric_vh)
 * @flags: must be 0
 * @root: in: hardware id of the host, 0: this one; out: its id
 * @index: in: which component, from 0, depth first; the first is the host
 * @count: out: how many there are, 1 or more
 * @serial: out: another one when anything of it is different
 * @vh: out: number of the hierarchy, 0: the host has none, as nothing is given to it
 * @kind: out: WEFT_NODE_*
 * @state: out: mask of WEFT_VH_*
 * @depth: out: links from the host
 * @port: out: by which port of the one above it is reached
 * @hwid: out: hardware id
 * @lid: out: local id
 * @ve: out: of an endpoint, which virtual endpoint
 * @functions: out: its functions
 * @vp: out: virtual plane on the host's link
 * @base: out: first byte of what it has in the host's address space
 * @limit: out: last byte
 *
 * A component that passes others on is told once; an endpoint once for each virtual
 * endpoint. EOPNOTSUPP: as of WEFT_FABRIC_NODES. Of another host: EPERM: without
 * CAP_SYS_ADMIN. EREMOTE: this host is not the master. ENOENT: there is no such host, or
 * no component @index.
 */
struct weft_fabric_vh {
	__u32 size;
	__u32 flags;
	__u64 root;
	__u32 index;
	__u32 count;
	__u32 serial;
	__u32 vh;
	__u32 kind;
	__u32 state;
	__u32 depth;
	__u32 port;
	__u64 hwid;
	__u32 lid;
	__u32 ve;
	__u32 functions;
	__u32 vp;
	__u64 base;
	__u64 limit;
};

/* What its hot-plug controller says (weft_fabric_slot.state). */
#define WEFT_SLOT_OCCUPIED	(1 << 0)	/* a component is plugged in */
#define WEFT_SLOT_ANNOUNCED	(1 << 1)	/* one will come or, if OCCUPIED, it will go */
#define WEFT_SLOT_POWER		(1 << 2)	/* it has power */
#define WEFT_SLOT_LINK		(1 << 3)	/* the link is up */

/**
 * struct weft_fabric_slot - ioctl(WEFT_FABRIC_SLOT): a switch port, by its hot-plug controllers
 * @size: sizeof(struct weft_fabric_slot)
 * @flags: must be 0
 * @index: which one, from 0
 * @count: out: how many there are
 * @serial: out: another one when anything of this is different for any slot
 * @port: out: number of the port
 * @hwid: out: hardware id of the switch
 * @state: out: mask of WEFT_SLOT_*
 * @planes: out: mask of the virtual planes, 1 and up, on which a hierarchy is connected
 *
 * As the master has seen it in its last look at all components; after WEFT_FABRIC_ANNOUNCE,
 * as it is then.
 *
 * EOPNOTSUPP: as of WEFT_FABRIC_NODES. EPERM: without CAP_SYS_ADMIN. EREMOTE: this host is
 * not the master. ENOENT: there is no slot @index.
 */
struct weft_fabric_slot {
	__u32 size;
	__u32 flags;
	__u32 index;
	__u32 count;
	__u32 serial;
	__u32 port;
	__u64 hwid;
	__u32 state;
	__u32 planes;
};

/* Nothing will come, nor go (weft_fabric_announce.flags). */
#define WEFT_ANNOUNCE_WITHDRAW	(1 << 0)

/**
 * struct weft_fabric_announce - ioctl(WEFT_FABRIC_ANNOUNCE): announce a component
 * @size: sizeof(struct weft_fabric_announce)
 * @flags: WEFT_ANNOUNCE_WITHDRAW, or 0: a component will be put in
 * @hwid: hardware id of the switch
 * @port: number of its port
 * @reserved: must be 0
 *
 * The announcement is kept by the hot-plug controller of the port, until a component comes or
 * goes there, or the announcement is withdrawn. Every host that is or becomes the master tells
 * its users of it (uevent). What is announced already, or not at all, stays as it is.
 *
 * EOPNOTSUPP: as of WEFT_FABRIC_NODES. EPERM: without CAP_SYS_ADMIN. EREMOTE: this host is
 * not the master. ENOENT: the master has found no such switch, or it has no such port. EEXIST:
 * a component is there already. EHOSTUNREACH: the switch does not answer. ETIMEDOUT: not in
 * time. EACCES: the switch does not let this host write. EIO: its controller does not take
 * announcements.
 */
struct weft_fabric_announce {
	__u32 size;
	__u32 flags;
	__u64 hwid;
	__u32 port;
	__u32 reserved;
};

/* What is pushed (weft_ep_open.flags); without, the function fetches work and data. */
#define WEFT_EP_PUSH_WORK	(1 << 0)	/* work is written to the function */
#define WEFT_EP_PUSH_DATA	(1 << 1)	/* areas are in the function's memory */
#define WEFT_EP_PULL_DONE	(1 << 2)	/* completions are read from the function */

#define WEFT_EP_MAX_ENTRIES	1024	/* work of a function, until it is reaped */
#define WEFT_EP_MAX_BATCH	64	/* pieces of work, or completions, of a call */
#define WEFT_EP_MAX_AREAS	4	/* areas of a function */
#define WEFT_EP_MAX_AREA	(4 << 20)	/* bytes of an area */
#define WEFT_EP_MAX_WORK	(16 << 20)	/* bytes that a piece of work reads */

/**
 * struct weft_ep_open - ioctl(WEFT_EP_OPEN): use a function of a shared endpoint
 * @size: sizeof(struct weft_ep_open)
 * @flags: mask of WEFT_EP_PUSH_WORK, WEFT_EP_PUSH_DATA, WEFT_EP_PULL_DONE
 * @endpoint: hardware id of the endpoint
 * @ve: which of its virtual endpoints; the hierarchy of this host has to give it, see
 *	WEFT_FABRIC_VH
 * @function: which function of that, from 0
 * @entries: how much work there can be, outstanding or not reaped: a power of two, 1 to
 *	WEFT_EP_MAX_ENTRIES
 * @reserved: must be 0
 *
 * The file becomes the user of the function, and no other file can, until it is
 * closed. Waits, for three seconds at the most, until work has gone there and back.
 *
 * EOPNOTSUPP: the port has no manager. ENOENT: the hierarchy of this host does not give
 * it such a function. EBUSY: another file uses it. ENOSPC: the port has no slots for
 * functions, which the log says, or all that it has are used (endpoint_slots in sysfs, four
 * at the most); or, with WEFT_EP_PUSH_WORK or WEFT_EP_PULL_DONE, the function has no room
 * for so many entries. EHOSTUNREACH: it is
 * not reached, or does not reach this host. EIO: it does not work. EPROTO: it tells what
 * cannot be true. ETIMEDOUT: a machine holds on to what was opened before. ENOMEM: there
 * is no memory for its queues. EINTR: a signal came. EISCONN: the file is not fresh.
 * ESHUTDOWN, ECONNRESET: it was taken away meanwhile.
 */
struct weft_ep_open {
	__u32 size;
	__u32 flags;
	__u64 endpoint;
	__u32 ve;
	__u32 function;
	__u32 entries;
	__u32 reserved;
};

/**
 * struct weft_ep_query - ioctl(WEFT_EP_QUERY)
 * @size: sizeof(struct weft_ep_query)
 * @flags: must be 0
 * @broken: out: 0, or the error that calls end with, as it works no more
 * @failed: out: why, as the function says if that is EIO; see Documentation/endpoint.rst
 * @outstanding: out: pieces of work that are not completed
 * @areas: out: areas that there are
 * @submitted: out: pieces of work submitted
 * @completed: out: and completed
 * @bytes: out: bytes that they have read
 *
 * ENOTCONN: the file uses no function.
 */
struct weft_ep_query {
	__u32 size;
	__u32 flags;
	__u32 broken;
	__u32 failed;
	__u32 outstanding;
	__u32 areas;
	__u64 submitted;
	__u64 completed;
	__u64 bytes;
};

/* What the function may do with an area (weft_ep_area.flags). */
#define WEFT_EP_MAY_READ	(1 << 0)
#define WEFT_EP_MAY_WRITE	(1 << 1)

/**
 * struct weft_ep_area - ioctl(WEFT_EP_AREA): memory for the function to work with
 * @size: sizeof(struct weft_ep_area)
 * @flags: mask of WEFT_EP_MAY_READ and WEFT_EP_MAY_WRITE, one of them at least
 * @bytes: in: how much, 1 to WEFT_EP_MAX_AREA; out: rounded up to whole pages
 * @area: out: its handle
 * @reserved: must be 0
 * @offset: out: where it is mapped
 *
 * It is zeroed. With WEFT_EP_PUSH_DATA it is in the memory of the function, which does
 * with it what it likes; there are some 60 KiB, less what the queues take.
 *
 * ENOTCONN: the file uses no function. ENOSPC: it has WEFT_EP_MAX_AREAS, or there is no
 * room. EBUSY: work that may name an area that was freed is outstanding; reap it first.
 * ENOMEM: there is no such memory in one piece. ETIMEDOUT, EINTR: as of WEFT_EP_OPEN.
 * Of a function that works no more: ESHUTDOWN: it was taken from this host. ECONNRESET:
 * it or the port was reset, or the way to it was lost for 30 s; or, with WEFT_EP_PUSH_DATA
 * or if the endpoint cannot hold, the way was lost, or is another one now. EIO: it has
 * failed. EPROTO: it has told what cannot be true. ENODEV: the port is gone.
 */
struct weft_ep_area {
	__u32 size;
	__u32 flags;
	__u64 bytes;
	__u32 area;
	__u32 reserved;
	__u64 offset;
};

/**
 * struct weft_ep_free - ioctl(WEFT_EP_FREE): take an area away
 * @size: sizeof(struct weft_ep_free)
 * @flags: must be 0
 * @area: its handle
 * @reserved: must be 0
 *
 * From the function at once: work that names it completes with WEFT_EP_DONE_UNREACHABLE,
 * and what it has done until then is done. With WEFT_EP_PUSH_DATA, where the area is in the
 * function's own memory, such work is done to its end. Its mappings fault when they are
 * touched.
 *
 * ENOTCONN: the file uses no function. ENOENT: there is no such area.
 */
struct weft_ep_free {
	__u32 size;
	__u32 flags;
	__u32 area;
	__u32 reserved;
};

/* What is to be done (weft_ep_work.op). */
#define WEFT_EP_OP_NOP		0
#define WEFT_EP_OP_COPY		1
#define WEFT_EP_OP_CRC32C	2
#define WEFT_EP_OP_COPY_CRC32C	3

#define WEFT_EP_MAX_SEGMENTS	7

/**
 * struct weft_ep_segment - a part of an area
 * @area: handle of the area
 * @bytes: how much, not 0
 * @offset: from there on
 */
struct weft_ep_segment {
	__u32 area;
	__u32 bytes;
	__u64 offset;
};

/**
 * struct weft_ep_work - a piece of work
 * @cookie: comes back with the completion
 * @op: WEFT_EP_OP_*
 * @sources: how many segments are read; none for WEFT_EP_OP_NOP
 * @dests: how many are written; none for WEFT_EP_OP_NOP and WEFT_EP_OP_CRC32C
 * @reserved: must be 0
 * @segment: sources, then destinations, which have as many bytes or more; the rest is
 *	not looked at
 */
struct weft_ep_work {
	__u64 cookie;
	__u8 op;
	__u8 sources;
	__u8 dests;
	__u8 reserved[5];
	struct weft_ep_segment segment[WEFT_EP_MAX_SEGMENTS];
};

/**
 * struct weft_ep_submit - ioctl(WEFT_EP_SUBMIT): give the function work
 * @size: sizeof(struct weft_ep_submit)
 * @flags: must be 0
 * @work: address of @count struct weft_ep_work
 * @count: how many, 1 to WEFT_EP_MAX_BATCH
 * @done: out: how many were submitted; with an error, which one it is of, from 0
 *
 * They are done one after the other. All are checked before one is submitted, then as
 * many are as there is room for: poll() reports POLLOUT while there is.
 *
 * ENOTCONN: the file uses no function. EINVAL, too: a piece makes no sense, reads or
 * writes beyond the end of an area, or reads more than WEFT_EP_MAX_WORK. ENOENT: it
 * names an area that there is not. EAGAIN: there is no room: reap completions. Of a
 * function that works no more: as of WEFT_EP_AREA.
 */
struct weft_ep_submit {
	__u32 size;
	__u32 flags;
	__u64 work;
	__u32 count;
	__u32 done;
};

/* What became of work (weft_ep_done.status). */
#define WEFT_EP_DONE_OK			0
#define WEFT_EP_DONE_BAD		1	/* the endpoint finds no sense in it */
#define WEFT_EP_DONE_PROTOCOL		2	/* it is not of the protocol that was chosen */
#define WEFT_EP_DONE_UNREACHABLE	3	/* an area is gone, or may not be used so */
#define WEFT_EP_DONE_TOO_LONG		4	/* more than is done at once */
#define WEFT_EP_DONE_FLUSHED		5	/* the function works no more; it may be done */

/**
 * struct weft_ep_done - a completion
 * @cookie: of the work
 * @status: WEFT_EP_DONE_*
 * @crc: CRC-32C of what was read, if that was asked for
 * @bytes: bytes read, and written; after WEFT_EP_DONE_UNREACHABLE some more may be
 */
struct weft_ep_done {
	__u64 cookie;
	__u32 status;
	__u32 crc;
	__u64 bytes;
};

#define WEFT_EP_FOREVER		0xffffffffu

/**
 * struct weft_ep_reap - ioctl(WEFT_EP_REAP): take completions
 * @size: sizeof(struct weft_ep_reap)
 * @flags: must be 0
 * @done: address of room for @count struct weft_ep_done
 * @count: in: for how many, 1 to WEFT_EP_MAX_BATCH; out: how many there are
 * @timeout_ms: how long to wait for the first; WEFT_EP_FOREVER: until there is one
 *
 * In the order in which the work was submitted. poll() reports POLLIN while there are
 * any. Of a function that works no more what is outstanding is WEFT_EP_DONE_FLUSHED;
 * behind that, the errors are those of WEFT_EP_AREA. poll() reports POLLIN, POLLHUP and
 * POLLERR as soon as it works no more.
 *
 * ENOTCONN: the file uses no function. EAGAIN: there is none, and @timeout_ms is 0, or the
 * file is O_NONBLOCK, or another thread was faster. ETIMEDOUT: none came. EINTR: a signal
 * came. EFAULT, too: not all of them could be written; they stay, for the next call.
 */
struct weft_ep_reap {
	__u32 size;
	__u32 flags;
	__u64 done;
	__u32 count;
	__u32 timeout_ms;
};

/* ---- matching interfaces ---------------------------------------------------- */

/**
 * struct weft_match_open - ioctl(WEFT_MATCH_OPEN): makes a fresh file a matching interface
 * @size: sizeof(struct weft_match_open)
 * @flags: WEFT_MATCH_ANY, WEFT_MATCH_HANDS_OVER, or 0
 * @entries: list entries that it may have, 1 to WEFT_MATCH_MAX_ENTRIES
 * @commands: slots of each command ring, a power of two up to WEFT_MATCH_MAX_SLOTS, 2 at least
 * @events: events of the event ring, a power of two up to WEFT_MATCH_MAX_SLOTS, 4 at least
 * @traffic_class: 0 to 3
 * @endpoint: out: its number
 * @generation: out: tells it apart from those that have had the number before
 * @hwid: out: hardware id of the port; @hwid, @endpoint and @generation are its address
 * @target_at: out: the ring of its lists: where in the mapping its slots begin
 * @initiator_at: out: the ring of its messages
 * @events_at: out: the event ring
 * @bytes: out: of the mapping
 *
 * The interface is disabled. It is closed with the file. It copies to and from the memory of
 * the process that has called this, until that ends or calls exec(): then nothing is copied
 * any more, and events say ESRCH.
 *
 * The mapping, mmap() with offset 0 and MAP_SHARED, begins with 64-bit counts, each of which
 * one side writes, and which only grow (WEFT_MATCH_*_AT); entry n of a ring is at n modulo its
 * size. A program writes slots, then the count of those produced behind a store barrier; and
 * if the word at WEFT_MATCH_IDLE_AT is not 0 then, behind a full barrier, it calls
 * WEFT_MATCH_KICK. Having consumed events it does so if the word at WEFT_MATCH_WANTS_AT is not
 * 0. An event is there when it is counted as produced; poll() reports POLLIN while there are
 * any. Without room for events the interface waits; no other does.
 *
 * ENOSPC: the port has as many interfaces, or entries, as there can be. EDQUOT: the user has
 * its share. ENOMEM, too: RLIMIT_MEMLOCK, which counts the mapping.
 */
struct weft_match_open {
	__u32 size;
	__u32 flags;
	__u32 entries;
	__u32 commands;
	__u32 events;
	__u32 traffic_class;
	__u32 endpoint;
	__u32 generation;
	__u64 hwid;
	__u64 target_at;
	__u64 initiator_at;
	__u64 events_at;
	__u64 bytes;
};

#define WEFT_MATCH_ANY		(1 << 0)	/* buffers are for any message */
#define WEFT_MATCH_HANDS_OVER	(1 << 1)	/* the program takes its lists over */

#define WEFT_MATCH_MAX_ENTRIES	16384
#define WEFT_MATCH_MAX_SLOTS	4096
#define WEFT_MATCH_INLINE	64	/* bytes of a message in the ring */
#define WEFT_MATCH_EAGER	4096	/* bytes of a message that are sent at once */

/* The counts, and other words: where in the mapping. */
#define WEFT_MATCH_TARGET_PRODUCED_AT		0	/* the program writes */
#define WEFT_MATCH_TARGET_CONSUMED_AT		64
#define WEFT_MATCH_INITIATOR_PRODUCED_AT	128	/* the program writes */
#define WEFT_MATCH_INITIATOR_CONSUMED_AT	192
#define WEFT_MATCH_EVENTS_PRODUCED_AT		256
#define WEFT_MATCH_EVENTS_CONSUMED_AT		320	/* the program writes */
#define WEFT_MATCH_IDLE_AT			384	/* the interface sleeps */
#define WEFT_MATCH_WANTS_AT			448	/* it wants room for events */
#define WEFT_MATCH_RECEIVED_AT			512	/* what has met a buffer, */
#define WEFT_MATCH_RECEIVE_ERRORS_AT		520	/* or not in full */
#define WEFT_MATCH_SENT_AT			528	/* those that the interface has sent, */
#define WEFT_MATCH_SEND_ERRORS_AT		536	/* or not in full */

/**
 * struct weft_match_kick - ioctl(WEFT_MATCH_KICK): the interface looks at its rings
 * @size: sizeof(struct weft_match_kick)
 * @flags: WEFT_MATCH_POLL, WEFT_MATCH_REST, or 0
 *
 * The work is done in this call, if the process is the one that has opened the interface; what
 * another one asks for, what there is much of, and what needs a page that is not there is done
 * soon afterwards.
 *
 * WEFT_MATCH_POLL: what other hosts have sent is taken as well, and as the program calls again
 * soon, no interrupt tells of more for some milliseconds. For programs that look for events again
 * and again. WEFT_MATCH_REST: the program does not, any more: to be called before it sleeps, or
 * what comes in these milliseconds comes late. Nothing else is done then.
 *
 * ENOTCONN: the file is no matching interface.
 */
struct weft_match_kick {
	__u32 size;
	__u32 flags;
};

#define WEFT_MATCH_POLL		(1 << 0)
#define WEFT_MATCH_REST		(1 << 1)

/* Commands (weft_match_command.op) of the ring of lists, */
#define WEFT_MATCH_APPEND	1	/* a buffer */
#define WEFT_MATCH_SEARCH	2	/* whether a message waits, */
#define WEFT_MATCH_CLAIM	3	/* which is taken out, for a receive to come, */
#define WEFT_MATCH_DISCARD	4	/* or dropped */
#define WEFT_MATCH_RECEIVE	5	/* what was claimed with the same context */
#define WEFT_MATCH_UNLINK	6	/* the oldest buffer with the context */
#define WEFT_MATCH_ENABLE	7	/* begin to match */
#define WEFT_MATCH_DISABLE	8	/* end to match: messages are refused */
#define WEFT_MATCH_HAND_OVER	9	/* have the lists handed over, */
#define WEFT_MATCH_REPORT	10	/* say how long those of the program are, */
#define WEFT_MATCH_APPEND_HEADER 11	/* and give a message back, */
#define WEFT_MATCH_PULL		12	/* or get the bytes of a long one */
/* and of the ring of messages. */
#define WEFT_MATCH_PUT		16	/* send a message */
#define WEFT_MATCH_GET		17	/* get bytes of a buffer */
#define WEFT_MATCH_ATOMIC	18	/* change integers in a buffer, */
#define WEFT_MATCH_FETCH	19	/* and get what they were */

#define WEFT_MATCH_PERSISTENT	(1 << 0)	/* the buffer stays when a message has matched */
#define WEFT_MATCH_MANAGE_LOCAL	(1 << 1)	/* messages lie behind each other */
#define WEFT_MATCH_ANY_SOURCE	(1 << 2)	/* hwid and endpoint do not matter */
#define WEFT_MATCH_QUIET	(1 << 3)	/* success posts no WEFT_MATCH_COMMAND */
#define WEFT_MATCH_IN_RING	(1 << 4)	/* the bytes of the message are the next slot */
#define WEFT_MATCH_OVERFLOW	(1 << 5)	/* memory for messages that no buffer is for */
#define WEFT_MATCH_SILENT	(1 << 6)	/* a match posts no event */
#define WEFT_MATCH_AT_OFFSET	(1 << 7)	/* the message is for an offset of the buffer */
#define WEFT_MATCH_READABLE	(1 << 8)	/* gets may read the buffer */
#define WEFT_MATCH_READ_ONLY	(1 << 9)	/* and nothing may change it */
#define WEFT_MATCH_RETRY	(1 << 10)	/* once more, if the connection is lost */
#define WEFT_MATCH_REQUESTS	(1 << 11)	/* memory for messages that the program matches */

/**
 * struct weft_match_command - a slot of a command ring
 * @op: WEFT_MATCH_*
 * @reserved: must be 0
 * @flags: WEFT_MATCH_* of flags
 * @min_free: a persistent buffer with WEFT_MATCH_MANAGE_LOCAL is unlinked when it has less
 *	room than this
 * @context: of buffer, receive or message; events have it
 * @address: of the buffer, or of the message; where bytes that are got go; of operands
 * @length: in bytes
 * @bits: match bits
 * @ignore: the match bits that do not matter; of a message: told to the target, see
 *	weft_match_event.data
 * @hwid: host of the source of messages; of a message: the target's
 * @endpoint: interface of the source; or the target's
 * @reserved2: must be 0
 * @generation: of a message: the target's
 */
struct weft_match_command {
	__u8 op;
	__u8 reserved;
	__u16 flags;
	__u32 min_free;
	__u64 context;
	__u64 address;
	__u64 length;
	__u64 bits;
	__u64 ignore;
	__u64 hwid;
	__u16 endpoint;
	__u16 reserved2;
	__u32 generation;
};

/* Operations on integers (weft_match_more.operation). */
#define WEFT_MATCH_MIN			1	/* the smaller one of memory and operand */
#define WEFT_MATCH_MAX			2
#define WEFT_MATCH_SUM			3	/* modulo their width, as the next two */
#define WEFT_MATCH_PRODUCT		4
#define WEFT_MATCH_DIFFERENCE		5	/* memory less the operand */
#define WEFT_MATCH_LOGICAL_OR		6	/* 1 or 0 */
#define WEFT_MATCH_LOGICAL_AND		7
#define WEFT_MATCH_BIT_OR		8
#define WEFT_MATCH_BIT_AND		9
#define WEFT_MATCH_LOGICAL_XOR		10
#define WEFT_MATCH_BIT_XOR		11
#define WEFT_MATCH_READ			12	/* of WEFT_MATCH_FETCH alone: no operand */
#define WEFT_MATCH_WRITE		13
#define WEFT_MATCH_SWAP_EQUAL		14	/* the operand, if what is compared is as memory, */
#define WEFT_MATCH_SWAP_NOT_EQUAL	15	/* is not, */
#define WEFT_MATCH_SWAP_LESS_EQUAL	16	/* is less than memory or equal, */
#define WEFT_MATCH_SWAP_LESS		17
#define WEFT_MATCH_SWAP_GREATER_EQUAL	18
#define WEFT_MATCH_SWAP_GREATER		19
#define WEFT_MATCH_SWAP_MASKED		20	/* its bits that are set in what is compared */

/* Types of integers (weft_match_more.integer): their width in bytes, 1, 2, 4 or 8, and */
#define WEFT_MATCH_SIGNED	(1 << 7)

#define WEFT_MATCH_MAX_ATOMIC	2048	/* bytes that an operation changes at most */

/**
 * struct weft_match_more - the next slot of a command of the ring of messages
 * @offset: where in the buffer, unless that has WEFT_MATCH_MANAGE_LOCAL
 * @result: of WEFT_MATCH_FETCH: address of room for as many bytes as it changes
 * @compare: of an operation that compares: address of as many values
 * @operation: of WEFT_MATCH_ATOMIC and WEFT_MATCH_FETCH: WEFT_MATCH_*
 * @integer: likewise: the type of the integers
 * @reserved: must be 0
 * @reserved2: must be 0
 * @reserved3: must be 0
 *
 * Stands behind WEFT_MATCH_GET, WEFT_MATCH_ATOMIC, WEFT_MATCH_FETCH, and WEFT_MATCH_PUT with
 * WEFT_MATCH_AT_OFFSET; WEFT_MATCH_IN_RING puts another slot behind it, in which the values to
 * compare with follow the operands. A command with more slots than its ring is never taken.
 *
 * None of these waits for a buffer: without one they end with ENOENT, or with EBUSY if the
 * target matches by itself. WEFT_MATCH_GET stores at weft_match_command.address.
 * WEFT_MATCH_ATOMIC and WEFT_MATCH_FETCH change weft_match_command.length bytes, whole integers,
 * up to WEFT_MATCH_MAX_ATOMIC, by operands at weft_match_command.address. In the buffer integers
 * are at multiples of their width. Each is changed at once for all processors of the target; those
 * of one operation may be changed one after the other. A buffer that is too short is not changed.
 *
 * WEFT_MATCH_RETRY: an operation that changes nothing, WEFT_MATCH_GET or WEFT_MATCH_READ, is done
 * again some times when the connection was lost. Any other ends then with ECONNRESET, and is done
 * once at most.
 */
struct weft_match_more {
	__u64 offset;
	__u64 result;
	__u64 compare;
	__u8 operation;
	__u8 integer;
	__u16 reserved;
	__u32 reserved2;
	__u64 reserved3[4];
};

/*
 * An interface with WEFT_MATCH_HANDS_OVER that has buffers with WEFT_MATCH_REQUESTS hands its lists
 * over when it needs an entry and has as many as it may, or when it is asked to. The events are, in
 * this order: WEFT_MATCH_STATE with WEFT_MATCH_ONLOAD; a WEFT_MATCH_BUFFER for each buffer, those
 * with WEFT_MATCH_OVERFLOW last; a WEFT_MATCH_HEADER for each message that has no receive, those
 * that were claimed last; WEFT_MATCH_STATE with WEFT_MATCH_SOFTWARE. Each in the order of its list.
 * Messages wait meanwhile. All of that is the program's then, and in no list. A command that was to
 * append something, before or after that, has failed with EBUSY: what it names is newer than all
 * that is handed over.
 *
 * From then on the bytes of short messages go to buffers with WEFT_MATCH_REQUESTS, each message is
 * a WEFT_MATCH_HEADER, and the program matches. If weft_match_event.stored is less than the length,
 * the bytes are with the source, and weft_match_event.address is the number by which it knows the
 * message. WEFT_MATCH_PULL gets them: @hwid and @endpoint of the event, @ignore the number,
 * @address and @length of where they go, no more than the message has. WEFT_MATCH_RECEIVED says
 * that they are there. With length 0 the message is dropped. A source waits for either.
 *
 * WEFT_MATCH_REPORT says how many buffers and messages the program has, as @length. When that was
 * below half of weft_match_open.entries for 100 ms, and would fit, WEFT_MATCH_STATE says
 * WEFT_MATCH_RETURNING. The program then appends its buffers, and with WEFT_MATCH_APPEND_HEADER
 * its messages, each in its order, and then enables the interface. Messages wait meanwhile. If
 * entries run out before, all of it is handed over again, and is older than what the program has
 * still. A header is given back by what its event has: @context, @address, @length, @bits, @ignore
 * for data, @hwid, @endpoint, and @min_free for stored. WEFT_MATCH_FREED with its context says
 * that its bytes are not needed any more; of one that was claimed then, with that of the claim.
 */

/* Of WEFT_MATCH_STATE (weft_match_event.data): messages are matched with */
#define WEFT_MATCH_DISABLED	0	/* none: the interface was disabled meanwhile */
#define WEFT_MATCH_ONLOAD	1	/* none, as the lists are being handed over */
#define WEFT_MATCH_SOFTWARE	2	/* those of the program */
#define WEFT_MATCH_RETURNING	3	/* none, as the program can give its lists back */

/* Kinds of events (weft_match_event.kind). */
#define WEFT_MATCH_COMMAND	1	/* what became of a command of the ring of lists */
#define WEFT_MATCH_RECEIVED	2	/* a message is in a buffer */
#define WEFT_MATCH_SENT		3	/* what was begun is over: its memory can be used */
#define WEFT_MATCH_UNLINKED	4	/* overflow memory receives no more */
#define WEFT_MATCH_FREED	5	/* and no message is in it any more */
#define WEFT_MATCH_GOT		6	/* bytes of a buffer were got */
#define WEFT_MATCH_CHANGED	7	/* integers in a buffer were changed */
#define WEFT_MATCH_BUFFER	8	/* a buffer is handed over */
#define WEFT_MATCH_HEADER	9	/* the program has to match this message */
#define WEFT_MATCH_STATE	10	/* what messages are matched with, from here on */

#define WEFT_MATCH_BUFFER_UNLINKED	(1 << 0)	/* the buffer receives no more */
#define WEFT_MATCH_TRUNCATED		(1 << 1)	/* the buffer was too short */
#define WEFT_MATCH_CLAIMED		(1 << 2)	/* the header, with this context */

/**
 * struct weft_match_event - an event
 * @kind: WEFT_MATCH_*
 * @flags: WEFT_MATCH_BUFFER_UNLINKED, WEFT_MATCH_TRUNCATED, WEFT_MATCH_CLAIMED
 * @endpoint: of a message, a get or an atomic operation of another: interface of the source
 * @status: 0, or an errno; of WEFT_MATCH_BUFFER: the flags of its command
 * @context: of the command, of the buffer, or of the message
 * @address: where the bytes are
 * @length: bytes of the message
 * @stored: how many of them are there; of WEFT_MATCH_BUFFER: how many of its bytes are in use
 * @bits: match bits of the message
 * @data: weft_match_command.ignore of the message, or buffer; of WEFT_MATCH_UNLINK: how many
 *	messages and gets with the context are not over, each with an event to come unless the
 *	buffer was WEFT_MATCH_SILENT; also with ENOENT, so that it can be asked for again
 * @hwid: host of the source
 *
 * Messages, gets and atomic operations are matched in the order in which their source has sent
 * them. Events are in that of what ends first: that one is over may be told before it is of an
 * earlier one.
 *
 * Status of WEFT_MATCH_COMMAND: ENOENT: there is no such message or buffer. EINVAL: the
 * command makes no sense. ENOSPC: there is no list entry left. EBUSY: the lists are the program's,
 * or are being handed over; or the interface is in another state. EHOSTUNREACH: no host with this
 * hardware id is known.
 *
 * Of WEFT_MATCH_SENT: EHOSTUNREACH: likewise, or it does not answer. ECONNRESET: the connection
 * was lost; whether the target has the message, or has changed integers, is not known. ENXIO: the
 * host has no such interface. ESHUTDOWN: it is disabled. EPERM: the buffer does not allow it.
 * EFAULT: memory is not there, here or at the target. ESRCH: likewise, as the process has ended or
 * called exec(). EINVAL: the command makes no sense, or integers are not at a multiple of their
 * width. Of others than plain messages, ENOENT: no buffer is for it. EBUSY: the target matches by
 * itself. EMSGSIZE: the buffer is too short for all integers. ENOMEM.
 *
 * Of WEFT_MATCH_RECEIVED, WEFT_MATCH_GOT and WEFT_MATCH_CHANGED: EFAULT, ESRCH, ECONNRESET, ENXIO,
 * EINVAL and EMSGSIZE as these; ENOMEM.
 */
struct weft_match_event {
	__u8 kind;
	__u8 flags;
	__u16 endpoint;
	__u32 status;
	__u64 context;
	__u64 address;
	__u64 length;
	__u64 stored;
	__u64 bits;
	__u64 data;
	__u64 hwid;
};

#endif /* _UAPI_LINUX_WEFT_H */
