/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers of the Weft port, an NTB endpoint of a PCI Express fabric.
 *
 * The one source of the register interface: the device model is compiled with
 * this file, the driver's constants are generated from it, and
 * Documentation/hardware.rst explains it. Only preprocessor constants, so that
 * C, bindgen and people can read it.
 *
 * BAR 0  control, 32-bit registers, little endian, 256 KiB
 * BAR 2  windows, 64-bit prefetchable: slot n at n << SLOT_SHIFT; the same
 *        slots again through the write-combining alias at WEFT_R_WC_OFFSET
 * BAR 4  MSI-X table and pending bits
 *
 * Each function of the device, physical or virtual, has all of this for itself.
 *
 * 64-bit registers are pairs, low half first; a pair takes effect with the
 * write of the CTRL register of its group.
 */
#ifndef WEFT_REGS_H
#define WEFT_REGS_H

#define WEFT_VENDOR_ID			0x1234
#define WEFT_DEVICE_ID_PF		0x7ef7
#define WEFT_DEVICE_ID_VF		0x7ef8

#define WEFT_BAR_CTRL			0
#define WEFT_BAR_WINDOW			2
#define WEFT_BAR_MSIX			4
#define WEFT_BAR_CTRL_SIZE		0x40000

#define WEFT_MAX_LINKS			4
#define WEFT_MAX_SLOTS			32
#define WEFT_MAX_INBOUND		32
#define WEFT_DOORBELLS			32
#define WEFT_DB_PAGES			32
#define WEFT_VECTORS			16
#define WEFT_MAX_DMA			8	/* channels of a function */
/*
 * Functions of an endpoint: PF p is function p, VF v of it function
 * WEFT_PFS + WEFT_VFS p + v.
 */
#define WEFT_PFS			2
#define WEFT_VFS			16
#define WEFT_FUNCTIONS			34
#define WEFT_ROUTES			512	/* entries of a port's route table */
#define WEFT_VPS			16	/* virtual planes of a link */
#define WEFT_MAX_HOPS			32	/* links of a route */
#define WEFT_PAGE			4096

/* ---- identity and control ------------------------------------------- */
#define WEFT_R_ID			0x000	/* ro: WEFT_ID */
#define   WEFT_ID			0x54464557
#define WEFT_R_VERSION			0x004	/* ro: major << 16 | minor */
#define   WEFT_VERSION			0x00010000
#define WEFT_R_CAP0			0x008	/* ro */
#define   WEFT_CAP0_SLOTS		0x000000ff
#define   WEFT_CAP0_INBOUND		0x0000ff00
#define   WEFT_CAP0_DOORBELLS		0x00ff0000
#define   WEFT_CAP0_DB_PAGES		0xff000000
#define WEFT_R_CAP1			0x00c	/* ro */
#define   WEFT_CAP1_LINKS		0x0000000f
#define   WEFT_CAP1_LINK_BYTES		0x00000010	/* LINK_OUT, LINK_IN are there */
#define   WEFT_CAP1_ATTESTS		0x00000020	/* CS_HWID is the fabric's word */
#define   WEFT_CAP1_STORED		0x00000040	/* STORED is there */
#define   WEFT_CAP1_TRACED		0x00000100
#define   WEFT_CAP1_DMA			0x00000200
#define   WEFT_CAP1_SRIOV		0x00000400
#define   WEFT_CAP1_ROUTES		0x00000800
#define   WEFT_CAP1_VF_HWID		0x00001000	/* VF_HWID is there: VFs can migrate */
#define   WEFT_CAP1_MBOX_LID		0x00002000	/* MBOX_TX_LID, SLOT_TAKEN */
#define   WEFT_CAP1_VF_RATE		0x00004000	/* VF_RATE to VF_RUNG are there */
#define   WEFT_CAP1_VF_NUMBER		0x00008000	/* VF_NUMBER is there */
#define   WEFT_CAP1_MBOX_BYTES		0xffff0000
#define WEFT_R_SLOT_SHIFT		0x010	/* ro: log2 of the bytes of a slot */
#define WEFT_R_WC_OFFSET		0x018	/* ro, 64: write-combining alias in BAR 2 */
#define WEFT_R_HWID			0x020	/* ro, 64: hardware id, unique */
#define WEFT_R_GENERATION		0x028	/* ro: changes with every reset of the port */
#define WEFT_R_LID			0x02c	/* rw: local id given by the master, reset 0 */
#define WEFT_R_CTRL			0x030	/* rw, reset 0 */
#define   WEFT_CTRL_ENABLE		0x00000001	/* links may come up */
#define   WEFT_CTRL_RESET		0x80000000	/* w1: like a function level reset */
#define WEFT_R_STATUS			0x034	/* ro */
#define   WEFT_STATUS_FABRIC		0x00000001	/* attached to a fabric */
#define   WEFT_STATUS_TRACED		0x00000002	/* windows trap and are counted */
#define   WEFT_STATUS_ADVERSARIAL	0x00000004	/* the ordering rules' freedom is used */
#define WEFT_R_EVENT			0x038	/* rw1c */
#define   WEFT_EVENT_LINK		0x0000000f	/* one bit a link: status changed */
#define   WEFT_EVENT_MBOX		0x00000100	/* a message has arrived */
#define   WEFT_EVENT_FUNCTION		0x00000200	/* between a PF and its VFs */
#define   WEFT_EVENT_CFG		0x00000400	/* a configuration request is answered */
#define   WEFT_EVENT_ROUTE		0x00000800	/* a SLOT_TAKEN has changed */
#define   WEFT_EVENT_PLUG		0x00001000	/* a hot-plug controller has news */
#define   WEFT_EVENT_ERROR		0x00010000	/* ERR_STATUS has a new bit */
#define WEFT_R_EVENT_MASK		0x03c	/* rw, reset all ones: 1 masks */
#define WEFT_R_EVENT_VECTOR		0x040	/* rw, reset 0x03020100: a byte a purpose */
#define   WEFT_EVENT_VECTOR_LINK	0x000000ff
#define   WEFT_EVENT_VECTOR_MBOX	0x0000ff00
#define   WEFT_EVENT_VECTOR_ERROR	0x00ff0000
#define   WEFT_EVENT_VECTOR_DMA		0xff000000
#define WEFT_R_SCRATCH			0x044	/* rw, reset 0 */
#define WEFT_R_DB_PENDING		0x048	/* rw1c */
#define WEFT_R_DB_MASK			0x04c	/* rw, reset all ones: 1 masks */
#define WEFT_R_FUNCTION			0x050	/* ro: which function this is */
#define   WEFT_FUNCTION_NUMBER		0x000000ff	/* in its endpoint */
#define   WEFT_FUNCTION_VFS		0x0000ff00	/* a PF: how many VFs it can have */
#define   WEFT_FUNCTION_VF		0x80000000	/* this is a VF */
#define WEFT_R_STORED			0x054	/* wo: what CPUs have stored by a slot */
#define   WEFT_STORED_SLOT		0x000000ff
#define   WEFT_STORED_KIB		0xffffff00	/* since it was written last for it */

/* ---- links: group n at 0x100 + 0x40 n ------------------------------- */
#define WEFT_R_LINK			0x100
#define WEFT_LINK_STRIDE		0x40
#define WEFT_LINK_STATUS		0x00	/* ro */
#define   WEFT_LINK_UP			0x00000001
#define   WEFT_LINK_PRESENT		0x00000002	/* something is plugged in */
#define   WEFT_LINK_ROLE_EP		0x00000004	/* this end is the endpoint */
#define   WEFT_LINK_SWITCH		0x00000008	/* the neighbour is a switch that routes */
#define   WEFT_LINK_SPEED		0x000000f0	/* generation 1 to 6 */
#define   WEFT_LINK_WIDTH		0x00003f00	/* lanes */
#define WEFT_LINK_CTRL			0x04	/* rw, reset 0 */
#define   WEFT_LINK_DISABLE		0x00000001
#define   WEFT_LINK_TARGET_SPEED	0x000000f0	/* 0: the most it can */
#define   WEFT_LINK_TARGET_WIDTH	0x00003f00	/* 0: the most it can */
#define WEFT_LINK_TRAINED		0x08	/* ro: how often it came up */
#define WEFT_LINK_MAX			0x0c	/* ro: speed and width, as in STATUS */
#define WEFT_LINK_OUT			0x10	/* ro, 64: bytes that it has carried, out */
#define WEFT_LINK_IN			0x18	/* ro, 64: and in */

/* ---- neighbour mailbox ---------------------------------------------- */
#define WEFT_MBOX_BYTES			256
#define WEFT_MBOX_DEPTH			32	/* messages held for the reader */
#define WEFT_MBOX_LINK_DEPTH		4	/* of those, kept for each link that is up */
#define WEFT_R_MBOX_TX_DATA		0x200	/* rw: 256 bytes */
#define WEFT_R_MBOX_TX_CTRL		0x300	/* wo: link, bytes << 8, DEST_FUNCTION: sends */
#define   WEFT_MBOX_TX_ROUTED		0x80000000	/* to MBOX_TX_LID, not to a link */
#define WEFT_R_MBOX_TX_STATUS		0x304	/* ro */
#define   WEFT_MBOX_TX_FAILED		0x00000001	/* the last: link down, bad length */
#define WEFT_R_MBOX_TX_LID		0x308	/* rw: which port ROUTED is for */
#define WEFT_R_MBOX_VPS			0x310	/* rw, 64: allowed senders, bit 16 link + VP */
#define WEFT_R_MBOX_RX_DATA		0x400	/* ro: 256 bytes of the oldest message */
#define WEFT_R_MBOX_RX_STATUS		0x500	/* ro */
#define   WEFT_MBOX_RX_VALID		0x80000000
#define   WEFT_MBOX_LINK		0x0000000f
#define   WEFT_MBOX_LEN			0x0001ff00
#define   WEFT_MBOX_VP			0x00f00000	/* of that link, if ROUTED */
#define   WEFT_MBOX_FROM		0x3f000000	/* function of the neighbour */
#define   WEFT_MBOX_RX_ROUTED		0x40000000	/* it came by a route */
#define WEFT_R_MBOX_RX_POP		0x504	/* wo: any value drops the oldest */
#define WEFT_R_MBOX_RX_LID		0x508	/* ro: its sender, if ROUTED, else 0 */
#define WEFT_MBOX_ROUTED_DEPTH		16	/* of those held, that came by routes */

/* ---- counters: 64 bits each, at 0x800 + 8 n ------------------------- */
#define WEFT_R_COUNTERS			0x800	/* ro, 64 */
#define WEFT_R_COUNTERS_CLEAR		0x7f8	/* wo: any value */
#define WEFT_CNT_TX_MWR			0	/* memory write TLPs, windows (traced) */
#define WEFT_CNT_TX_MWR_BYTES		1
#define WEFT_CNT_TX_MRD			2	/* memory read TLPs, windows (traced) */
#define WEFT_CNT_TX_MRD_BYTES		3
#define WEFT_CNT_TX_DB			4	/* doorbell TLPs to peers */
#define WEFT_CNT_TX_MSG			5	/* mailbox messages sent */
#define WEFT_CNT_RX_DB			6
#define WEFT_CNT_RX_MSG			7
#define WEFT_CNT_OUT_DROPPED		8	/* own writes that hit nothing */
#define WEFT_CNT_OUT_ONES		9	/* own reads answered by all ones */
#define WEFT_CNT_IN_DENIED		10	/* accesses of peers refused here */
#define WEFT_CNT_DB_DENIED		11
#define WEFT_CNT_MSG_DROPPED		12	/* mailbox full */
#define WEFT_CNT_IRQS			13
#define WEFT_CNT_REMAPS			14
#define WEFT_CNT_IN_FAULTS		15	/* entries with nothing (any more) behind them */
#define WEFT_CNT_ROUTE_DENIED		16	/* traffic whose route ended here */
#define WEFT_COUNTERS			17

/* ---- errors --------------------------------------------------------- */
#define WEFT_R_ERR_STATUS		0xc00	/* rw1c */
#define   WEFT_ERR_OUT_WRITE		0x00000001
#define   WEFT_ERR_OUT_READ		0x00000002
#define   WEFT_ERR_IN_DENIED		0x00000004
#define   WEFT_ERR_IN_INVALID		0x00000008	/* inbound base is not memory */
#define   WEFT_ERR_DB_DENIED		0x00000010
#define   WEFT_ERR_MSG_DROPPED		0x00000020
#define   WEFT_ERR_FABRIC_LOST		0x00000040
#define   WEFT_ERR_UNMAP_LATE		0x00000080	/* unmapped, and a peer holds on */
#define   WEFT_ERR_DMA			0x00000100	/* where: channel | code << 8 */
#define   WEFT_ERR_POISONED		0x00000200	/* data came poisoned */
#define   WEFT_ERR_TIMEOUT		0x00000400	/* own read without an answer */
#define   WEFT_ERR_ROUTE_DENIED		0x00000800	/* a route ended here */
#define   WEFT_ERR_QUOTA		0x00010000	/* a VF: more than its PF lets it have */
#define WEFT_R_ERR_INFO			0xc04	/* ro, the first: bit | slot, entry, link << 8 */
#define WEFT_R_ERR_ADDR			0xc08	/* ro, 64, the first: offset in slot, aperture */

/* ---- outbound slots: n at 0x1000 + 0x20 n --------------------------- */
#define WEFT_R_SLOT			0x1000
#define WEFT_SLOT_STRIDE		0x20
#define WEFT_SLOT_DEST			0x00	/* rw: see WEFT_DEST_* */
#define WEFT_SLOT_TAKEN			0x04	/* ro: its route's number, 0 without */
#define WEFT_SLOT_OFFSET		0x08	/* rw, 64: in the destination's aperture space */
#define WEFT_SLOT_LEN			0x10	/* rw, 64: bytes, up to the slot's size */
#define WEFT_SLOT_CTRL			0x18	/* rw: latches the group */
#define   WEFT_SLOT_ENABLE		0x00000001
#define WEFT_SLOT_STATUS		0x1c	/* ro */
#define   WEFT_SLOT_LIVE		0x00000001	/* resolves to the peer's memory */
#define   WEFT_SLOT_DIRECT		0x00000002	/* without trapping */
#define   WEFT_SLOT_LOST		0x00000004	/* a write was refused since CTRL */
#define   WEFT_SLOT_HOPS		0x00003f00	/* links its route passes, DEST_LID */
#define   WEFT_SLOT_STOP		0x00070000	/* why it ends there: WEFT_STOP_* */

/* Why a route does not reach its port. */
#define WEFT_STOP_NONE			0
#define WEFT_STOP_CHANGING		1	/* it leads elsewhere in a moment */
#define WEFT_STOP_ROUTE			2	/* no entry of a route table */
#define WEFT_STOP_VP			3	/* no entry of a VP table */
#define WEFT_STOP_LINK			4	/* a link is down, or there is none */
#define WEFT_STOP_HOPS			5	/* WEFT_MAX_HOPS links and not there yet */
#define WEFT_STOP_BUSY			6	/* too many reach that port already */

/*
 * Where a slot or a doorbell page leads. There, to the function of the same
 * number as this one, unless FUNCTION names another.
 */
#define WEFT_DEST_TYPE			0xc0000000
#define WEFT_DEST_FUNCTION		0x20000000
#define WEFT_DEST_NUMBER		0x1f800000	/* which, if FUNCTION */
#define WEFT_DEST_WHERE			0x007fffff	/* link or local id */
#define WEFT_DEST_LID			0x00000000	/* by local id; needs CAP1_ROUTES */
#define WEFT_DEST_LINK			0x40000000	/* the neighbour on link [3:0] */
#define WEFT_DEST_SELF			0x80000000	/* this port */

/* ---- inbound apertures: n at 0x2000 + 0x40 n ------------------------ */
#define WEFT_R_INBOUND			0x2000
#define WEFT_INBOUND_STRIDE		0x40
#define WEFT_INBOUND_OFFSET		0x00	/* rw, 64: in the aperture space, page aligned */
#define WEFT_INBOUND_LEN		0x08	/* rw, 64: bytes, page aligned */
#define WEFT_INBOUND_BASE		0x10	/* rw, 64: DMA address of this function */
#define WEFT_INBOUND_RIGHTS		0x18	/* rw */
#define   WEFT_RIGHT_READ		0x00000001
#define   WEFT_RIGHT_WRITE		0x00000002
#define WEFT_INBOUND_ALLOW		0x1c	/* rw: a bit a link; SELF for this port */
#define   WEFT_ALLOW_SELF		0x80000000
#define WEFT_INBOUND_CTRL		0x20	/* rw: latches the group */
#define   WEFT_INBOUND_ENABLE		0x00000001
#define WEFT_INBOUND_STATUS		0x24	/* ro */
#define   WEFT_INBOUND_LIVE		0x00000001
#define   WEFT_INBOUND_BUSY		0x00000002	/* a peer may still reach what was there */
#define   WEFT_INBOUND_POISONED		0x00000008	/* a write was dropped since CTRL */
#define   WEFT_INBOUND_INVALID		0x00000004	/* base is not memory, or misaligned */
#define WEFT_INBOUND_VPS		0x30	/* rw, 64: by routes, bit 16 link + VP */
#define WEFT_INBOUND_FROM		0x38	/* rw: local id that may come so */
#define   WEFT_FROM_ANY			0xffffffff

/* ---- doorbells ------------------------------------------------------ */
#define WEFT_R_DB_VECTOR		0x3000	/* rw: doorbell n's at 4 n, reset 4 + n % 12 */
#define WEFT_R_DB_ALLOW			0x3100	/* rw, reset 0: mask that link n may ring, at 4 n */
#define WEFT_R_DB_PAGE			0x3200	/* group of doorbell page n at 8 n */
#define WEFT_DB_PAGE_STRIDE		0x08
#define WEFT_DB_PAGE_DEST		0x00	/* rw, reset 0 (nothing) */
#define WEFT_DB_PAGE_ALLOW		0x04	/* rw, reset 0: doorbells this page may ring */

/* ---- DMA engine: channel n at 0x4100 + 0x100 n ----------------------- */
#define WEFT_R_DMA_CAP			0x4000	/* ro */
#define   WEFT_DMA_CAP_CHANNELS		0x000000ff
#define   WEFT_DMA_CAP_ORDER		0x0000ff00	/* log2 of a ring's most entries */
#define   WEFT_DMA_CAP_ELEMENTS		0xffff0000	/* most elements of a list */
#define WEFT_R_DMA_PENDING		0x4004	/* rw1c: a bit a channel */
#define WEFT_R_DMA_MASK			0x4008	/* rw, reset all ones: 1 masks */
#define WEFT_R_DMA			0x4100
#define WEFT_DMA_STRIDE			0x100
#define WEFT_DMA_CTRL			0x00	/* rw, reset 0 */
#define   WEFT_DMA_ENABLE		0x00000001	/* 0 to 1 latches the group */
#define   WEFT_DMA_ABORT		0x00000002	/* w1: ends all that is submitted */
#define   WEFT_DMA_RESET		0x80000000	/* w1: the channel, at once */
#define WEFT_DMA_STATUS			0x04	/* ro */
#define   WEFT_DMA_RUNNING		0x00000001
#define   WEFT_DMA_BUSY			0x00000002	/* submitted descriptors are not done */
#define   WEFT_DMA_HALTED		0x00000004	/* by an error of the channel */
#define   WEFT_DMA_REASON		0x0000ff00	/* WEFT_DMA_ST_* of that error */
#define WEFT_DMA_BASE			0x08	/* rw, 64: the ring's DMA address */
#define WEFT_DMA_ORDER			0x10	/* rw: log2 of its entries */
#define WEFT_DMA_VECTOR			0x14	/* rw, reset 0xff: that of EVENT_VECTOR */
#define   WEFT_DMA_VECTOR_SHARED	0x000000ff
#define WEFT_DMA_HEAD			0x18	/* ro: how many are done */
#define WEFT_DMA_TAIL			0x1c	/* rw: how many are submitted */
/* Counters of the channel, 64 bits each, at 0x40 + 8 n. */
#define WEFT_DMA_COUNTERS		0x40	/* ro, 64 */
#define WEFT_DMA_CNT_DESCS		0	/* descriptors that succeeded */
#define WEFT_DMA_CNT_BYTES		1	/* moved */
#define WEFT_DMA_CNT_ERRORS		2
#define WEFT_DMA_CNT_MWR		3	/* memory writes to the fabric (traced) */
#define WEFT_DMA_CNT_MRD		4	/* memory reads to the fabric (traced) */
#define WEFT_DMA_CNT_CPL		5	/* completions of those (traced) */
#define WEFT_DMA_CNT_HOST_MWR		6	/* memory writes to the own host (traced) */
#define WEFT_DMA_CNT_HOST_MRD		7	/* memory reads of the own host (traced) */
#define WEFT_DMA_CNT_HOST_CPL		8	/* completions of those (traced) */
#define WEFT_DMA_COUNT			9

/* A descriptor: little endian, aligned to its size. */
#define WEFT_DMA_MAX_ORDER		12
#define WEFT_DMA_DESC_BYTES		64
#define WEFT_DMA_DESC_CTRL		0x00	/* 32 */
#define   WEFT_DMA_OP			0x000000ff
#define   WEFT_DMA_NOP			0
#define   WEFT_DMA_WRITE		1	/* local memory to the window */
#define   WEFT_DMA_READ			2	/* the window to local memory */
#define   WEFT_DMA_LIST			0x00000100	/* ADDR is that of a list */
#define   WEFT_DMA_IRQ			0x00000200	/* set PENDING when done */
#define   WEFT_DMA_BELL			0x00000400	/* then ring a doorbell */
#define   WEFT_DMA_CHAIN		0x00000800	/* the next one depends on this */
#define WEFT_DMA_DESC_SLOT		0x04	/* 32 */
#define WEFT_DMA_DESC_OFFSET		0x08	/* 64: in the slot */
#define WEFT_DMA_DESC_ADDR		0x10	/* 64: DMA address of this function */
#define WEFT_DMA_DESC_LEN		0x18	/* 32: bytes, of all elements */
#define WEFT_DMA_DESC_COUNT		0x1c	/* 32: elements of the list, else 0 */
#define WEFT_DMA_DESC_BELL		0x20	/* 32: doorbell page << 16 | doorbell */
#define WEFT_DMA_DESC_ZERO		0x24	/* 32: reserved, 0 */
#define WEFT_DMA_DESC_COOKIE		0x28	/* 64: the driver's */
#define WEFT_DMA_DESC_ZERO2		0x30	/* 64: reserved, 0 */
#define WEFT_DMA_DESC_STATUS		0x38	/* 32, by the device */
#define   WEFT_DMA_DONE			0x80000000
#define   WEFT_DMA_CODE			0x000000ff
#define WEFT_DMA_DESC_MOVED		0x3c	/* 32, by the device: bytes */

/* An element of a list: 16 bytes, aligned to them. */
#define WEFT_DMA_MAX_ELEMENTS		256
#define WEFT_DMA_ELEMENT_BYTES		16
#define WEFT_DMA_ELEMENT_ADDR		0x00	/* 64 */
#define WEFT_DMA_ELEMENT_LEN		0x08	/* 32 */
#define WEFT_DMA_ELEMENT_ZERO		0x0c	/* 32: reserved, 0 */

/* How a descriptor ended, */
#define WEFT_DMA_ST_OK			0
#define WEFT_DMA_ST_BAD			1	/* the descriptor or its list makes no sense */
#define WEFT_DMA_ST_LOCAL		2	/* local address faults, or is not memory */
#define WEFT_DMA_ST_LIST		3	/* the list cannot be read */
#define WEFT_DMA_ST_CLOSED		4	/* the slot leads to nothing */
#define WEFT_DMA_ST_LINK		5	/* its link is down */
#define WEFT_DMA_ST_BOUNDS		6	/* outside of the slot's live range */
#define WEFT_DMA_ST_RIGHTS		7	/* the aperture's owner does not allow it */
#define WEFT_DMA_ST_BELL		8	/* data moved, doorbell refused */
#define WEFT_DMA_ST_ABORTED		9
#define WEFT_DMA_ST_SKIPPED		10	/* an earlier one of its chain failed */
#define WEFT_DMA_ST_INTERNAL		11	/* the engine failed */
#define WEFT_DMA_ST_TIMEOUT		12	/* a read got no answer */
#define WEFT_DMA_ST_POISONED		13	/* the data that answer a read are poisoned */
/* and why a channel is halted. */
#define WEFT_DMA_ST_SETUP		16	/* BASE or ORDER cannot be */
#define WEFT_DMA_ST_TAIL		17	/* TAIL is further than the ring is long */
#define WEFT_DMA_ST_RING		18	/* the ring cannot be read or written */
#define WEFT_DMA_ST_MASTER		19	/* the function may not master the bus */

/* ---- route table: entry n at 0x8000 + 0x20 n ------------------------ */
#define WEFT_R_ROUTE			0x8000
#define WEFT_ROUTE_STRIDE		0x20
#define WEFT_ROUTE_FIRST		0x00	/* rw: first local id it is for, not 0 */
#define WEFT_ROUTE_LAST			0x04	/* rw: last one */
#define WEFT_ROUTE_OUT			0x08	/* rw: where to */
#define   WEFT_ROUTE_LINK		0x0000000f
#define   WEFT_ROUTE_VP			0x00000f00
#define WEFT_ROUTE_FROM			0x0c	/* rw: whose traffic */
#define   WEFT_ROUTE_FROM_LINKS		0x0000000f	/* neighbours', a bit a link */
#define   WEFT_ROUTE_FROM_VPS		0x00ffff00	/* on these VPs */
#define   WEFT_ROUTE_FROM_SELF		0x80000000	/* this port's own */
#define WEFT_ROUTE_CTRL			0x10	/* rw: latches the group */
#define   WEFT_ROUTE_ENABLE		0x00000001
#define WEFT_ROUTE_STATUS		0x14	/* ro */
#define   WEFT_ROUTE_LIVE		0x00000001
#define   WEFT_ROUTE_BUSY		0x00000002	/* what it said before may be in use */
#define   WEFT_ROUTE_INVALID		0x00000004

/* ---- configuration requests ----------------------------------------- */
#define WEFT_R_CFG_PATH			0xc000	/* rw: 32 bytes, a port a hop */
#define WEFT_R_CFG_ADDR			0xc020	/* rw */
#define WEFT_R_CFG_DATA			0xc024	/* rw: to write; what was read */
#define WEFT_R_CFG_TERM			0xc028	/* rw: of the master, for writes */
#define WEFT_R_CFG_CTRL			0xc02c	/* wo: sends the request */
#define   WEFT_CFG_HOPS			0x000000ff	/* valid bytes of PATH, 1 to 32 */
#define   WEFT_CFG_SPACE		0x00000f00
#define   WEFT_CFG_WRITE		0x00010000
#define WEFT_R_CFG_STATUS		0xc030	/* ro */
#define   WEFT_CFG_BUSY			0x00000001
#define   WEFT_CFG_RESULT		0x000000f0
#define   WEFT_CFG_PASSED		0x0000ff00	/* links it passed */
#define WEFT_R_ROUTE_CAP		0xc034	/* ro */
#define   WEFT_ROUTE_CAP_ENTRIES	0x0000ffff
#define   WEFT_ROUTE_CAP_VPS		0x00ff0000
#define   WEFT_ROUTE_CAP_HOPS		0xff000000

/* CFG_SPACE: what ADDR means. */
#define WEFT_SPACE_CONFIG		0	/* registers of the node, WEFT_CS_* */
#define WEFT_SPACE_ROUTE		1	/* a switch's route table: a local id */
#define WEFT_SPACE_VP			2	/* a switch's VP tables: port << 8 | VP */

#define WEFT_SPACE_PLUG			4	/* hot-plug controllers: port << 8 | VP */
#define   WEFT_PLUG_PHYSICAL		0xff	/* in place of a VP: that of the port */

/*
 * Data of a hot-plug controller. Writing it sets POWER, and clears CHANGED by a 1. By a 1 in
 * ANNOUNCE, and in WITHDRAW, a physical one has ANNOUNCED set, and cleared.
 */
#define WEFT_PLUG_PRESENT		0x00000001	/* ro: something is plugged in */
#define WEFT_PLUG_CHANGED		0x00000002	/* rw1c: something came or went */
#define WEFT_PLUG_POWER			0x00000004	/* rw: of a VP, it is connected */
#define WEFT_PLUG_ANNOUNCED		0x00000008	/* ro: something will come, or go */
#define WEFT_PLUG_LINK			0x00000010	/* ro: the link is up */
#define WEFT_PLUG_ANNOUNCE		0x00000020	/* wo: something will come */
#define WEFT_PLUG_WITHDRAW		0x00000040	/* wo: nothing will come, nor go */

/* CFG_RESULT */
#define WEFT_CFG_OK			0
#define WEFT_CFG_NO_PATH		1	/* link down, no such port, no switch on the way */
#define WEFT_CFG_STALE			2	/* the switch has seen a higher term */
#define WEFT_CFG_READ_ONLY		3	/* there, or not this port's to write */
#define WEFT_CFG_BAD			4	/* no such space, address or value */
#define WEFT_CFG_FULL			5	/* no entry left */
#define WEFT_CFG_NO_FABRIC		6
#define WEFT_CFG_BUSY_THERE		7	/* an endpoint: the last write is not in force */

/* Data of the tables: 0 for none. */
#define WEFT_TABLE_VALID		0x80000000
#define WEFT_TABLE_PORT			0x000000ff	/* route table: out by this port */
#define WEFT_TABLE_VH			0x0000ffff	/* VP table: virtual hierarchy, not 0 */

/* Configuration registers of a node, read by SPACE_CONFIG. */
#define WEFT_DEVICE_ID_SWITCH		0x7ef9
#define WEFT_CS_ID			0x000	/* device << 16 | vendor */
#define WEFT_CS_PORTS			0x004
#define   WEFT_CS_PORT_COUNT		0x000000ff
#define   WEFT_CS_PORT_IN		0x0000ff00	/* the one the request came in by */
#define WEFT_CS_HWID			0x008	/* 64 */
#define WEFT_CS_MASTER			0x010	/* 64: hardware id of the last writer */
#define WEFT_CS_TERM			0x018	/* its term */
#define WEFT_CS_CAP			0x01c
#define   WEFT_CS_CAP_ROUTES		0x00ffffff	/* entries of its route table */
#define   WEFT_CS_CAP_VPS		0xff000000
#define WEFT_CS_STOPPED			0x040	/* 64 each: stopped here, at + 8 WEFT_STOP_* */
#define WEFT_CS_PORT			0x100	/* port n's group at + 0x40 n */
#define WEFT_CS_PORT_STRIDE		0x40
#define WEFT_CS_PORT_STATUS		0x00	/* as LINK_STATUS */
#define WEFT_CS_PORT_PLUG		0x04	/* WEFT_PLUG_*, of the physical controller */
#define WEFT_CS_PORT_OUT_TLPS		0x10	/* 64: memory TLPs, traced ports only */
#define WEFT_CS_PORT_OUT_BYTES		0x18	/* 64 */
#define WEFT_CS_PORT_OUT_DBS		0x20	/* 64: doorbells */
#define WEFT_CS_PORT_IN_TLPS		0x28	/* 64 */
#define WEFT_CS_PORT_IN_BYTES		0x30	/* 64 */
#define WEFT_CS_PORT_IN_DBS		0x38	/* 64 */
#define WEFT_CS_VPD			0x2000	/* 256 bytes */
#define WEFT_CS_VPD_BYTES		256

/* Doorbells that may be rung by routes: VP v of link n at + 4 (16 n + v). */
#define WEFT_R_DB_ALLOW_VP		0xc100	/* rw, reset 0 */

/*
 * Doorbell page n: a write of 0 to 31 at its first word rings that doorbell.
 * Pages 0 to 15 begin at BASE, the others at MORE.
 */
#define WEFT_DB_PAGE_BASE		0x10000
#define WEFT_DB_PAGE_MORE		0x30000
#define WEFT_DB_PAGES_AT_BASE		16

/* ---- a VF and its PF: the mailbox, in the VF ------------------------ */
#define WEFT_R_PF_MBOX			0x640	/* group, laid out as WEFT_VF_MBOX */

/* ---- a PF and its VFs: group of VF n at 0x20000 + 0x400 n ----------- */
#define WEFT_R_VF_PENDING		0x600	/* rw1c: VFs whose STATUS has news */
#define WEFT_R_VF			0x20000
#define WEFT_VF_STRIDE			0x400
#define WEFT_VF_STATUS			0x000	/* rw1c */
#define   WEFT_VF_ENABLED		0x00000001	/* ro: by VF Enable and NumVFs */
#define   WEFT_VF_MASTER		0x00000002	/* ro: its Bus Master Enable */
#define   WEFT_VF_RESET			0x00000100	/* it has been reset */
#define   WEFT_VF_RX			0x00000200	/* it has sent a message */
#define   WEFT_VF_TAKEN			0x00000400	/* it has taken ours */
#define WEFT_VF_FUNCTION		0x004	/* ro: its number in the endpoint */
#define WEFT_VF_NUMBER			0x008	/* wo: exchanges it with the VF that has that */
#define WEFT_VF_SLOTS			0x010	/* rw: it may use slots 0 to this - 1 */
#define WEFT_VF_INBOUND			0x014	/* rw: entries */
#define WEFT_VF_DOORBELLS		0x018	/* rw: doorbells that may ring here */
#define WEFT_VF_DB_PAGES		0x01c	/* rw: pages */
#define WEFT_VF_BYTES			0x020	/* rw, 64: of all its live entries */
#define WEFT_VF_LINKS			0x028	/* rw: a bit a link it may use */
#define WEFT_VF_CHANNELS		0x02c	/* rw: channels of the DMA engine */
#define WEFT_VF_PEERS			0x030	/* rw, 64: functions it may address there */
#define WEFT_VF_CTRL			0x038	/* wo: any value latches the quota */
#define WEFT_VF_USED			0x040	/* ro: slots enabled | entries live << 8 */
#define WEFT_VF_USED_BYTES		0x048	/* ro, 64: of its live entries */
#define WEFT_VF_HWID			0x050	/* rw, 64: the id it is to have; 0: its own */
#define WEFT_VF_RATE			0x058	/* rw, 64: bytes a second by DMA; 0: any */
#define WEFT_VF_RINGS			0x060	/* rw: doorbells a second that it rings; 0: any */
#define WEFT_VF_MOVED			0x068	/* ro, 64: bytes that its DMA has moved */
#define WEFT_VF_RUNG			0x070	/* ro, 64: doorbells that it has rung */
#define WEFT_VF_MBOX			0x100	/* group of the mailbox */

/* The mailbox between a PF and a VF, the same at both ends. */
#define WEFT_PAIR_BYTES			64
#define WEFT_PAIR_STRIDE		0x90
#define WEFT_PAIR_TX			0x00	/* rw: 64 bytes to send */
#define WEFT_PAIR_RX			0x40	/* ro: 64 bytes that have come */
#define WEFT_PAIR_CTRL			0x80	/* wo */
#define   WEFT_PAIR_LEN			0x0000007f
#define   WEFT_PAIR_SEND		0x00000100	/* TX, LEN bytes of it */
#define   WEFT_PAIR_TAKE		0x00000200	/* RX is read: make room */
#define WEFT_PAIR_STATUS		0x84	/* ro */
#define   WEFT_PAIR_VALID		0x80000000	/* RX holds LEN bytes */
#define   WEFT_PAIR_BUSY		0x00000100	/* what was sent is not taken */
#define   WEFT_PAIR_FAILED		0x00000200	/* the last SEND was refused */

#endif /* WEFT_REGS_H */
