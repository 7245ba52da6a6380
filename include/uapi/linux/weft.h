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
 *  ENODEV	the port is gone; poll() reports POLLHUP
 *
 * An open file is one of: fresh, listening, or one end of a channel. Which of
 * them changes once, by WEFT_CHAN_LISTEN, WEFT_CHAN_CONNECT or WEFT_CHAN_ACCEPT;
 * a second change fails with EISCONN, one at the same time as another with EBUSY.
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

/* Kinds of ports. */
#define WEFT_PORT_WEFT		1	/* Weft port */
#define WEFT_PORT_IVSHMEM	2	/* ivshmem-doorbell */

/* Who keeps a peer to what it was granted (weft_port_info.protection). */
#define WEFT_PROT_DEVICE	(1 << 0)	/* the owner's device, on each access */
#define WEFT_PROT_APERTURE	(1 << 1)	/* the aperture holds granted pages only */
#define WEFT_PROT_BOUNCE	(1 << 2)	/* the kernel copies out of a ring of its own */

/**
 * struct weft_port_info - ioctl(WEFT_PORT_INFO)
 * @size: sizeof(struct weft_port_info)
 * @flags: must be 0
 * @kind: out: WEFT_PORT_*
 * @generation: out: changes with every reset of the port
 * @hwid: out: hardware id, unique in the fabric
 * @lid: out: local id, 0 while there is none
 * @links: out: links that the port has, numbered from 0
 * @protection: out: mask of WEFT_PROT_*
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

/**
 * struct weft_link_info - ioctl(WEFT_LINK_INFO)
 * @size: sizeof(struct weft_link_info)
 * @flags: must be 0
 * @link: in: number of the link; EINVAL if there is no such link
 * @state: out: WEFT_LINK_*
 * @speed: out: PCI Express generation, 0 while unknown
 * @width: out: lanes, 0 while unknown
 * @role: out: 1 if this end is the endpoint, 0 if it is the root complex
 * @trained: out: how often the link came up
 * @peer_hwid: out: hardware id of the neighbour, 0 while unknown
 * @peer_generation: out: its generation
 * @channels: out: channels open on the link
 * @arena_bytes: out: memory that the neighbour may reach, for channels
 * @arena_free: out: what is left of it
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
};

/**
 * struct weft_chan_listen - ioctl(WEFT_CHAN_LISTEN)
 * @size: sizeof(struct weft_chan_listen)
 * @flags: must be 0
 * @service: service number, 1 to 0xffffffff
 * @backlog: connections that may wait for WEFT_CHAN_ACCEPT, 1 to 64
 *
 * poll() reports POLLIN while a connection waits. EADDRINUSE: somebody listens
 * on that service already. EISCONN: the file is not fresh.
 */
struct weft_chan_listen {
	__u32 size;
	__u32 flags;
	__u32 service;
	__u32 backlog;
};

#define WEFT_ANY_LINK		0xffffffffu

/* Limits of a channel. */
#define WEFT_CHAN_MIN_CELLS	16
#define WEFT_CHAN_MAX_CELLS	16384
#define WEFT_CHAN_MIN_BULK	4096
#define WEFT_CHAN_MAX_BULK	(1 << 20)

/**
 * struct weft_chan_connect - ioctl(WEFT_CHAN_CONNECT)
 * @size: sizeof(struct weft_chan_connect)
 * @flags: must be 0
 * @peer: hardware id of the peer, or 0 for whoever is at the end of @link
 * @link: number of the link, or WEFT_ANY_LINK for the first that leads to @peer
 * @service: service number at the peer
 * @cells: cells of each direction's ring: a power of two, WEFT_CHAN_MIN_CELLS
 *	to WEFT_CHAN_MAX_CELLS
 * @bulk: bytes of each direction's bulk ring: a multiple of 4096,
 *	WEFT_CHAN_MIN_BULK to WEFT_CHAN_MAX_BULK
 * @timeout_ms: how long to wait for the peer, 0 for 5000, at most 60000
 * @reserved: must be 0
 *
 * Waits until the peer's listener has accepted. EHOSTUNREACH: no link leads to
 * the peer, or none of them is ready. ECONNREFUSED: nobody listens there, or
 * its backlog is full. ENOSPC: the arena of this end has no room; ENOBUFS: that
 * of the peer has none. ETIMEDOUT: no answer. ECONNRESET: the link or the peer
 * went away. EPROTO: the peer broke the protocol. EINTR: a signal came; the file
 * stays fresh. EISCONN: the file is not fresh.
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
 * that waits at @listen_fd. Waits for one unless the file is O_NONBLOCK
 * (EAGAIN). EBADF, EINVAL: @listen_fd is not a listening file of this port.
 * ECONNABORTED: the peer gave up meanwhile; call again.
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
 * Rings the peer's doorbell, for those who sleep at the other end.
 */
struct weft_chan_kick {
	__u32 size;
	__u32 flags;
};

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
 * struct weft_chan_user - written by the user, read by the kernel in poll()
 * @consumed: number of the next cell to be received
 * @produced: number of the next cell to be sent
 * @credit_wanted: POLLOUT waits until the peer has consumed as many cells as
 *	this; 0: for any room
 *
 * poll() reports POLLIN when cell @consumed has come, POLLOUT when fewer than
 * all cells are on the way; before it sleeps it tells the peer where to ring.
 */
struct weft_chan_user {
	__u64 consumed;
	__u64 produced;
	__u64 credit_wanted;
};

#endif /* _UAPI_LINUX_WEFT_H */
