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

#define WEFT_FAB_VERSION	2
#define WEFT_FAB_DATA		256
#define WEFT_FAB_SEGS		16	/* segments in the data of one INBOUND */
#define WEFT_FAB_FUNCTIONS	34	/* functions of an endpoint, WEFT_FUNCTIONS */
#define WEFT_FAB_LINKS		4	/* links of an endpoint, WEFT_MAX_LINKS */

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
 * A port's doorbell page (its own memfd, WEFT_PAGE bytes). The neighbour on the
 * owner's link n sets bits in pending[f][n] atomically, for function f of the
 * owner, then writes 1 to the owner's eventfd; the owner takes them with an
 * atomic exchange.
 *
 * From before it maps anything of the owner until after it has unmapped all of
 * it, that neighbour holds a shared lock (F_OFD_SETLK, by an open file of its
 * own) on byte n of the page. So the owner sees, whoever has died meanwhile,
 * whether its memory may still be reached over a link that is down.
 */
struct weft_fab_doorbell {
	uint32_t pending[WEFT_FAB_FUNCTIONS][WEFT_FAB_LINKS];
};

enum weft_fab_type {
	/*
	 * port -> fabric. arg: 0 WEFT_FAB_VERSION, 1 hardware id wanted or 0,
	 * 2 bytes of RAM; data: name of the node, as in the topology.
	 * fds: RAM memfd, doorbell memfd, doorbell eventfd.
	 */
	WEFT_FAB_HELLO = 1,
	/* fabric -> port. arg: 0 generation, 1 hardware id, 2 links, 3 traced (0, 1). */
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
	 * neighbour. fds: the neighbour's RAM memfd, doorbell memfd, eventfd.
	 * The neighbour's open apertures follow as INBOUND.
	 */
	WEFT_FAB_LINK_UP = 6,
	/* fabric -> port: link is down; all apertures seen through it are gone. */
	WEFT_FAB_LINK_DOWN = 7,
	/*
	 * fabric -> port, any time: arg: 0 speed, 1 width, 2 role, 3 present,
	 * 4 highest speed, 5 highest width.
	 */
	WEFT_FAB_LINK_INFO = 8,
	/* port -> fabric. arg: 0 disable, 1 target speed, 2 target width (0: highest). */
	WEFT_FAB_LINK_CTRL = 9,
	/*
	 * owner -> fabric -> each neighbour allowed. arg: 0 entry (32 f + n for
	 * entry n of function f), 1 aperture offset, 2 bytes (0: withdrawn), 3 rights, 4 allow mask (owner's
	 * links; the fabric clears it), 5 sequence number << 32 | first segment
	 * << 1 | more to come. data: struct weft_fab_seg[]. An entry changes when
	 * its last packet is in. A neighbour no longer allowed gets bytes 0.
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
	 * offset, 1 kind (0 read, 1 write), 2 how many since the last report,
	 * 3 function of the owner that was meant.
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
};

#endif /* WEFT_FABRIC_H */
