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
#define WEFT_DB_PAGES			16
#define WEFT_VECTORS			16
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
#define   WEFT_CAP1_TRACED		0x00000100
#define   WEFT_CAP1_DMA			0x00000200
#define   WEFT_CAP1_SRIOV		0x00000400
#define   WEFT_CAP1_ROUTES		0x00000800
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
#define WEFT_R_EVENT			0x038	/* rw1c */
#define   WEFT_EVENT_LINK		0x0000000f	/* one bit a link: status changed */
#define   WEFT_EVENT_MBOX		0x00000100	/* a message has arrived */
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

/* ---- links: group n at 0x100 + 0x40 n ------------------------------- */
#define WEFT_R_LINK			0x100
#define WEFT_LINK_STRIDE		0x40
#define WEFT_LINK_STATUS		0x00	/* ro */
#define   WEFT_LINK_UP			0x00000001
#define   WEFT_LINK_PRESENT		0x00000002	/* something is plugged in */
#define   WEFT_LINK_ROLE_EP		0x00000004	/* this end is the endpoint */
#define   WEFT_LINK_SPEED		0x000000f0	/* generation 1 to 6 */
#define   WEFT_LINK_WIDTH		0x00003f00	/* lanes */
#define WEFT_LINK_CTRL			0x04	/* rw, reset 0 */
#define   WEFT_LINK_DISABLE		0x00000001
#define   WEFT_LINK_TARGET_SPEED	0x000000f0	/* 0: the most it can */
#define   WEFT_LINK_TARGET_WIDTH	0x00003f00	/* 0: the most it can */
#define WEFT_LINK_TRAINED		0x08	/* ro: how often it came up */
#define WEFT_LINK_MAX			0x0c	/* ro: speed and width, as in STATUS */

/* ---- neighbour mailbox ---------------------------------------------- */
#define WEFT_MBOX_BYTES			256
#define WEFT_MBOX_DEPTH			32	/* messages held for the reader */
#define WEFT_R_MBOX_TX_DATA		0x200	/* rw: 256 bytes */
#define WEFT_R_MBOX_TX_CTRL		0x300	/* wo: link | bytes << 8: sends */
#define WEFT_R_MBOX_TX_STATUS		0x304	/* ro */
#define   WEFT_MBOX_TX_FAILED		0x00000001	/* the last: link down, bad length */
#define WEFT_R_MBOX_RX_DATA		0x400	/* ro: 256 bytes of the oldest message */
#define WEFT_R_MBOX_RX_STATUS		0x500	/* ro */
#define   WEFT_MBOX_RX_VALID		0x80000000
#define   WEFT_MBOX_LINK		0x0000000f
#define   WEFT_MBOX_LEN			0x0001ff00
#define WEFT_R_MBOX_RX_POP		0x504	/* wo: any value drops the oldest */

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
#define WEFT_COUNTERS			16

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
#define WEFT_R_ERR_INFO			0xc04	/* ro, the first: bit | slot, entry, link << 8 */
#define WEFT_R_ERR_ADDR			0xc08	/* ro, 64, the first: offset in slot, aperture */

/* ---- outbound slots: n at 0x1000 + 0x20 n --------------------------- */
#define WEFT_R_SLOT			0x1000
#define WEFT_SLOT_STRIDE		0x20
#define WEFT_SLOT_DEST			0x00	/* rw: see WEFT_DEST_* */
#define WEFT_SLOT_OFFSET		0x08	/* rw, 64: in the destination's aperture space */
#define WEFT_SLOT_LEN			0x10	/* rw, 64: bytes, up to the slot's size */
#define WEFT_SLOT_CTRL			0x18	/* rw: latches the group */
#define   WEFT_SLOT_ENABLE		0x00000001
#define WEFT_SLOT_STATUS		0x1c	/* ro */
#define   WEFT_SLOT_LIVE		0x00000001	/* resolves to the peer's memory */
#define   WEFT_SLOT_DIRECT		0x00000002	/* without trapping */

/* Where a slot or a doorbell page leads. */
#define WEFT_DEST_TYPE			0xc0000000
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
#define   WEFT_INBOUND_INVALID		0x00000004	/* base is not memory, or misaligned */

/* ---- doorbells ------------------------------------------------------ */
#define WEFT_R_DB_VECTOR		0x3000	/* rw: doorbell n's at 4 n, reset 4 + n % 12 */
#define WEFT_R_DB_ALLOW			0x3100	/* rw, reset 0: mask that link n may ring, at 4 n */
#define WEFT_R_DB_PAGE			0x3200	/* group of doorbell page n at 8 n */
#define WEFT_DB_PAGE_STRIDE		0x08
#define WEFT_DB_PAGE_DEST		0x00	/* rw, reset 0 (nothing) */
#define WEFT_DB_PAGE_ALLOW		0x04	/* rw, reset 0: doorbells this page may ring */

#define WEFT_DMA_RESERVED		0x4000	/* to 0x7fff: DMA engine */
#define WEFT_ROUTE_RESERVED		0x8000	/* to 0xffff: route, VP and ATPT tables */

/* Doorbell page n: a write of 0 to 31 at its first word rings that doorbell. */
#define WEFT_DB_PAGE_BASE		0x10000

#endif /* WEFT_REGS_H */
