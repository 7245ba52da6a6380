/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a Weft port and weft-fabric say to each other.
 *
 * A Unix SOCK_SEQPACKET connection a port; every packet is one struct
 * weft_fab_msg, descriptors ride along as SCM_RIGHTS. Control only: window
 * data and doorbells go from process to process through shared memory.
 * Native byte order (both ends are on one machine).
 */
#ifndef WEFT_FABRIC_H
#define WEFT_FABRIC_H

#include <stdint.h>

#define WEFT_FAB_VERSION	5
#define WEFT_FAB_DATA		256
#define WEFT_FAB_SEGS		16	/* segments in the data of one INBOUND */
#define WEFT_FAB_FUNCTIONS	34	/* functions of an endpoint, WEFT_FUNCTIONS */
#define WEFT_FAB_LINKS		4	/* links of an endpoint, WEFT_MAX_LINKS */

/*
 * What a port reaches by routes are its remotes: in every message remote n is
 * link WEFT_MAX_LINKS + n. Its owner knows it by a channel, a number from
 * WEFT_MAX_LINKS on, and by the gate it comes in at: the last link and the VP
 * there, WEFT_VPS * link + VP.
 */
#define WEFT_FAB_REMOTES	64
#define WEFT_FAB_CHANNELS	64	/* links and remotes that may see one owner */
#define WEFT_FAB_GATES		64

struct weft_fab_msg {
	uint16_t type;		/* enum weft_fab_type */
	uint16_t link;		/* number of the link at the port that sends or gets this */
	uint32_t len;		/* valid bytes in data */
	uint64_t arg[6];
	uint8_t data[WEFT_FAB_DATA];
};

/* A piece of an aperture: where it lies in the owner's RAM descriptor. */
struct weft_fab_seg {
	uint64_t offset;
	uint64_t len;
};

/*
 * A port's doorbell page (its own memfd). The neighbour on the
 * owner's link n sets bits in pending[f][n] atomically, for function f of the
 * owner, then writes 1 to the owner's eventfd; the owner takes them with an
 * atomic exchange.
 *
 * From before it maps anything of the owner until after it has unmapped all of
 * it, that neighbour holds a shared lock (F_OFD_SETLK, by an open file of its
 * own) on byte (n << 32) + life of the page, far behind its end. So the owner
 * sees, whatever process has died meanwhile, whether its memory may still be reached over
 * a link that is down, even if the link is up again by then: each time that it
 * comes up is another life. Lives are numbers from the count of generations, so
 * that all before a WELCOME are below what that says. Remotes do the same with
 * byte (channel << 32) + life, and ring in routed[f][gate].
 */
struct weft_fab_doorbell {
	uint32_t pending[WEFT_FAB_FUNCTIONS][WEFT_FAB_LINKS];
	uint32_t routed[WEFT_FAB_FUNCTIONS][WEFT_FAB_GATES];
};

#define WEFT_FAB_DOORBELL_BYTES	0x3000	/* of the page: whole pages for it */

enum weft_fab_type {
	/*
	 * port -> fabric. arg: 0 WEFT_FAB_VERSION, 1 hardware id wanted or 0,
	 * 2 bytes of RAM; data: name of the node, as in the topology.
	 * fds: RAM memfd, doorbell memfd, doorbell eventfd.
	 */
	WEFT_FAB_HELLO = 1,
	/*
	 * fabric -> port. arg: 0 generation, 1 hardware id, 2 links, 3 traced (0, 1),
	 * 4 adversarial (bit 0), no hardware id is attested (bit 1, WEFT_FAB_UNATTESTED),
	 * and 5 the seed of adversarial mode.
	 */
	WEFT_FAB_WELCOME = 2,
	/* fabric -> port, then closed. data: why. */
	WEFT_FAB_REFUSED = 3,
	/* port -> fabric. arg 0: CTRL.ENABLE. Links come up only while both ends have it. */
	WEFT_FAB_ENABLE = 4,
	/*
	 * port -> fabric: the port was reset. The fabric takes its links down,
	 * forgets its apertures and answers with a WELCOME of a new generation.
	 */
	WEFT_FAB_RESET = 5,
	/*
	 * fabric -> port: link is up. arg: 0 speed, 1 width, 2 role (1: endpoint),
	 * 3 hardware id and 4 generation of the neighbour, 5 link number at the
	 * neighbour | life << 32. fds: the neighbour's RAM memfd, doorbell memfd, eventfd.
	 * The neighbour's open apertures follow as INBOUND.
	 */
	WEFT_FAB_LINK_UP = 6,
	/* fabric -> port: link is down; all apertures seen through it are gone. */
	WEFT_FAB_LINK_DOWN = 7,
	/*
	 * fabric -> port, any time: arg: 0 speed, 1 width, 2 role (bit 0), the
	 * neighbour is a switch that routes (bit 1) and the link to it up (bit 2),
	 * 3 present, 4 highest speed, 5 highest width.
	 */
	WEFT_FAB_LINK_INFO = 8,
	/* port -> fabric. arg: 0 disable, 1 target speed, 2 target width (0: highest). */
	WEFT_FAB_LINK_CTRL = 9,
	/*
	 * owner -> fabric -> each neighbour allowed. arg: 0 entry (32 f + n for
	 * entry n of function f), 1 aperture offset, 2 bytes (0: withdrawn), 3
	 * rights, 4 allow mask (owner's links; the fabric clears it), 5 sequence
	 * number << 32 | first segment << 1 | more to come. data: struct
	 * weft_fab_seg[]. An entry changes when its last packet is in. A neighbour
	 * no longer allowed gets bytes 0.
	 */
	WEFT_FAB_INBOUND = 10,
	/*
	 * neighbour -> fabric: the change is in force. arg 0 entry, 5 as received
	 * in the last packet. fabric -> owner, when all neighbours concerned have
	 * answered or gone: arg 0 entry, 5 sequence number << 32.
	 */
	WEFT_FAB_INBOUND_ACK = 11,
	/*
	 * both ways: a mailbox message on link, in data. arg: 0 function it is
	 * for, 1 function it is from.
	 */
	WEFT_FAB_MBOX = 12,
	/*
	 * neighbour -> fabric -> owner: an access was refused. arg: 0 aperture
	 * offset, 1 kind (0 read, 1 write, 3 write whose data came poisoned),
	 * 2 how many since the last report, 3 function of the owner that was
	 * meant. Of a remote, the owner gets: link the last link, 4
	 * WEFT_FAB_ROUTED | the VP there << 8; and what ends on the way,
	 * doorbells as well (kind 2), the fabric counts where it ends
	 * (ROUTE_DENIED).
	 */
	WEFT_FAB_DENIED = 13,
	/* fabric -> port. arg 0: traced mode on or off. */
	WEFT_FAB_TRACE = 14,
	/* fabric -> port. arg 0: number of the request, 1: clear afterwards. */
	WEFT_FAB_COUNTERS_GET = 15,
	/* port -> fabric. arg 0: number of the request; data: uint64_t[WEFT_COUNTERS]. */
	WEFT_FAB_COUNTERS = 16,
	/*
	 * port -> fabric. arg 0: function, not the first, that was reset. What it
	 * had open it has withdrawn; only a new generation is asked for.
	 */
	WEFT_FAB_FUNCTION_RESET = 17,
	/* fabric -> port, one for each FUNCTION_RESET. arg: 0 generation, 1 function. */
	WEFT_FAB_GENERATION = 18,
	/*
	 * fabric -> port, any time. arg: 0 enum weft_fab_fault, 1 how often it is
	 * to strike from now on (0: not any more, WEFT_FAB_FAULT_ALWAYS), of
	 * SLOW also 2 latency in ns, 3 bytes per second (0: as fast as can be).
	 * Holds over resets; a port that loses the fabric forgets all.
	 */
	WEFT_FAB_FAULT = 19,
	/* port -> fabric. arg 0: this one has struck as often as it was to. */
	WEFT_FAB_FAULT_USED = 20,
	/* fabric -> port. arg: 0 adversarial mode on or off, 1 its seed. */
	WEFT_FAB_ADVERSARIAL = 21,

	/* ---- routes ---- */
	/*
	 * port -> fabric: an entry of its route table. arg: 0 entry, 1 first LID |
	 * last LID << 32 (0: withdrawn), 2 ROUTE_OUT, 3 ROUTE_FROM, 5 sequence
	 * number << 32.
	 */
	WEFT_FAB_ROUTE = 32,
	/*
	 * fabric -> port: what that change broke cannot be reached any more.
	 * arg: 0 entry, 5 sequence number << 32.
	 */
	WEFT_FAB_ROUTE_ACK = 33,
	/* port -> fabric. arg 0: its LID, 0: none. */
	WEFT_FAB_LID = 34,
	/*
	 * port -> fabric, link a remote: it is to lead to the LID in arg 0. 0: not
	 * any more, and the port has let go of it; answered by a REMOTE_DOWN with
	 * arg 2 set, before which the remote must not be used again.
	 */
	WEFT_FAB_WANT = 35,
	/*
	 * fabric -> port, link a remote: its route leads to a port. arg: 0 hops,
	 * 1 gate, 2 channel, 3 hardware id and 4 generation of the owner, 5 life
	 * << 32. fds: as with LINK_UP. What it has opened to this remote follows
	 * as INBOUND.
	 */
	WEFT_FAB_REMOTE_UP = 36,
	/*
	 * fabric -> port, link a remote: it leads nowhere. arg: 0 why
	 * (WEFT_STOP_*), 1 links passed, 2 set in the answer to WANT 0, 5 ticket
	 * << 32, or 0 if it was down before and nothing is to be confirmed.
	 */
	WEFT_FAB_REMOTE_DOWN = 37,
	/* port -> fabric, link a remote: it has let go. arg 5 as received. */
	WEFT_FAB_REMOTE_ACK = 38,
	/*
	 * fabric -> owner: the port that had channel arg 0 is gone, and may not
	 * have let go; the lock tells. arg 5: life << 32.
	 */
	WEFT_FAB_PEER_GONE = 39,
	/*
	 * port -> fabric, any link: TLPs since the last report. arg: 0 writes,
	 * 1 their bytes, 2 reads, 3 bytes asked for, 4 doorbells.
	 */
	WEFT_FAB_TRAFFIC = 40,
	/*
	 * fabric -> port where a route ended. link: the one it came in by, or
	 * WEFT_MAX_LINKS for the port's own. arg: 0 LID, 1 how many, 2 why.
	 */
	WEFT_FAB_ROUTE_DENIED = 41,
	/*
	 * port -> fabric: a configuration request, one at a time. arg: 0 its
	 * number, 1 CFG_CTRL, 2 CFG_ADDR, 3 CFG_DATA, 4 CFG_TERM. data: the path,
	 * a byte a hop.
	 */
	WEFT_FAB_CONFIG = 42,
	/* fabric -> port. arg: 0 number, 1 WEFT_CFG_*, 2 links passed, 3 data. */
	WEFT_FAB_CONFIG_REPLY = 43,
	/*
	 * owner -> fabric, before an INBOUND of the same entry, which it is part of:
	 * what may reach the entry by routes. arg: 0 entry, 1 LID or WEFT_FROM_ANY,
	 * 2 mask of gates. Without it no port may.
	 */
	WEFT_FAB_INBOUND_FROM = 44,
	/*
	 * port -> fabric: a mailbox message by a route, in data. arg: 0 function
	 * it is for, 1 function it is from, 2 LID. fabric -> the port of that LID:
	 * link the last link, arg 0 and 1 the same, 2 LID of the source, 3 the VP
	 * on that link. What ends on the way the fabric counts where it ends
	 * (ROUTE_DENIED).
	 */
	WEFT_FAB_MBOX_LID = 45,
	/*
	 * port -> fabric, any link: bytes moved since the last report, as far as
	 * the port knows, traced or not. arg: 0 out, 1 in (what reads brought).
	 * fabric -> port: all that this link has carried since the WELCOME, whatever
	 * it is, in the same way: both ends of a link hear the same. One may be
	 * lost, the next says it again.
	 */
	WEFT_FAB_MOVED = 46,

	/* ---- shared endpoints: ports that are no hosts ---- */
	/*
	 * fabric -> endpoint: its base function was written. arg: 0 virtual
	 * endpoint, 1 its VP or WEFT_FAB_NO_VP, 2 LID of its root complex,
	 * 5 ticket << 32. Its own LID the fabric knows by itself.
	 */
	WEFT_FAB_BASE = 64,
	/* endpoint -> fabric: that is in force. arg 5 as received. */
	WEFT_FAB_BASE_ACK = 65,
	/*
	 * fabric -> port that has programmed a switch last: one of its hot-plug
	 * controllers has news. arg: 0 hardware id of the switch, 1 port,
	 * 2 WEFT_PLUG_*.
	 */
	WEFT_FAB_PRESENCE = 66,
};

#define WEFT_FAB_NO_VP		0xff

#define WEFT_FAB_DENIED_DOORBELL	2
#define WEFT_FAB_DENIED_POISONED	3
#define WEFT_FAB_FAULT_ALWAYS	0x7fffffffffffffff

/* Of the link in the message; MEMORY, ONES, DMA and STALL of the endpoint, with link 0. */
enum weft_fab_fault {
	/* Stores and doorbells vanish, reads get no answer; the link seems up. */
	WEFT_FAB_FAULT_DEAD = 1,
	WEFT_FAB_FAULT_SLOW = 2,
	/* The data that answer a read come poisoned. */
	WEFT_FAB_FAULT_POISONED_READ = 3,
	/* The data of a store are poisoned on their way: DENIED, kind 3. */
	WEFT_FAB_FAULT_POISONED_WRITE = 4,
	/* A read gets no answer. */
	WEFT_FAB_FAULT_TIMEOUT = 5,
	/* The neighbour's doorbells are lost. */
	WEFT_FAB_FAULT_DOORBELL = 6,
	/* No aperture can be reached. */
	WEFT_FAB_FAULT_MEMORY = 7,
	/* No function answers its host: reads are all ones. */
	WEFT_FAB_FAULT_ONES = 8,
	/* A descriptor of a DMA engine fails. */
	WEFT_FAB_FAULT_DMA = 9,
	/* Functions of a shared endpoint do no work. */
	WEFT_FAB_FAULT_STALL = 10,
	WEFT_FAB_FAULTS
};

/* In arg 4 of a DENIED. */
#define WEFT_FAB_ROUTED		1
/* In arg 4 of a WELCOME. */
#define WEFT_FAB_UNATTESTED	2

#endif /* WEFT_FABRIC_H */
