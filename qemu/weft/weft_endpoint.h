/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared endpoints: what weft-fabric models beside switches. How they are
 * programmed is in Documentation/endpoint.rst; all is little endian.
 */
#ifndef WEFT_ENDPOINT_H
#define WEFT_ENDPOINT_H

/* ---- configuration space -------------------------------------------- */
#define WEFT_DEVICE_ID_ENDPOINT		0x7efa	/* in CS_ID */
/* CS_CAP of an endpoint. */
#define WEFT_CS_CAP_VES			0x000000ff	/* virtual endpoints */
#define WEFT_CS_CAP_FUNCTIONS		0x0000ff00	/* of each */
#define WEFT_CS_CAP_KIND		0x00ff0000
#define   WEFT_KIND_COPY		1
#define WEFT_CS_CAP_SHIFT		0xff000000	/* log2 of the bytes of a function */

/* CFG_SPACE: the base function; ADDR is VE << 8 | register. */
#define WEFT_SPACE_BASE			3
#define WEFT_BASE_VE			0x00	/* rw: 31 VALID, [3:0] VP */
#define   WEFT_BASE_VP			0x0000000f
#define WEFT_BASE_ROOT			0x04	/* rw while not valid: LID of the root complex */
#define WEFT_BASE_FUNCTIONS		0x08	/* ro: [7:0] the first, [15:8] how many */
#define WEFT_BASE_ENDPOINT		0xff00	/* of the endpoint, in place of VE << 8: */
#define WEFT_BASE_LID			0x00	/* rw: its LID */
#define WEFT_BASE_RESIDENT		0x04	/* rw, 64: co-residence field */

/* ---- a function of a virtual endpoint, in its aperture space -------- */
#define WEFT_EP_FUNCTION_BYTES		0x10000
#define WEFT_EP_MAX_VES			15
#define WEFT_EP_MAX_FUNCTIONS		4

#define WEFT_EP_ID			0x00	/* "WFEP" */
#define   WEFT_EP_ID_VALUE		0x50454657
#define WEFT_EP_VERSION			0x04
#define WEFT_EP_CAP			0x08
#define   WEFT_EP_CAP_SEGMENTS		0x000000ff	/* of a WQE, sources and destinations */
#define   WEFT_EP_CAP_ENTRIES		0x0000ff00	/* log2 of the most of a queue */
#define   WEFT_EP_CAP_BYTES		0x00ff0000	/* log2 of the most of a WQE */
#define   WEFT_EP_CAP_HOLDS		0x01000000	/* has HOLD, and ROUTE to PROBE */
#define WEFT_EP_FUNCTION		0x0c	/* [7:0] VE, [15:8] function of it */
#define WEFT_EP_STATUS			0x10
#define   WEFT_EP_ENABLED		0x00000001
#define   WEFT_EP_FAILED		0x0000ff00	/* WEFT_EP_FAIL_* */
#define WEFT_EP_CTRL			0x14
#define   WEFT_EP_ENABLE		0x00000001
#define   WEFT_EP_WQE_PUSH		0x00000002	/* the host writes WQEs here */
#define   WEFT_EP_DATA_PUSH		0x00000004	/* the host moves data, by this memory */
#define   WEFT_EP_CQE_PULL		0x00000008	/* the host reads CQEs here */
#define   WEFT_EP_HOLD			0x00000010	/* works while GO is ROUTE */
#define   WEFT_EP_RING			0x00000100	/* ring a doorbell for each CQE: */
#define   WEFT_EP_DOORBELL		0x001f0000	/* this one */
#define WEFT_EP_WQ			0x20	/* work queue, group */
#define WEFT_EP_CQ			0x40	/* completion queue, group */
#define   WEFT_EP_Q_BASE		0x00	/* 64: first byte */
#define   WEFT_EP_Q_LIMIT		0x08	/* 64: last byte */
#define   WEFT_EP_Q_DOORBELL		0x10	/* elements passed since ENABLE */
#define   WEFT_EP_Q_TAKEN		0x14	/* elements taken */
#define   WEFT_EP_Q_OFFSET		0x18	/* of the next element, in the queue */
#define WEFT_EP_ROUTE			0x60	/* number of the route to the host, 0: none */
#define   WEFT_EP_ROUTE_LAST		0x7fffffff	/* the highest; then from 1 again */
#define WEFT_EP_GO			0x64	/* the route by which it may work */
#define WEFT_EP_GO_SEEN			0x68	/* what it has seen in GO */
#define WEFT_EP_PROBED			0x6c	/* whether it could read at PROBE then: 1 */
#define WEFT_EP_PROBE			0x70	/* 64: in the host's aperture space, 0: nothing */
#define WEFT_EP_REGISTERS		0x80
#define WEFT_EP_MEMORY			0x1000	/* free for queues and data, to the end */

/* Why a function does no work. */
#define WEFT_EP_FAIL_SETUP		1
#define WEFT_EP_FAIL_OVERRUN		2
#define WEFT_EP_FAIL_WQ			3
#define WEFT_EP_FAIL_CQ			4

/* WQE */
#define WEFT_EP_WQE_BYTES		128
#define WEFT_EP_WQE_OP			0x00	/* 8 */
#define   WEFT_EP_NOP			0
#define   WEFT_EP_COPY			1
#define   WEFT_EP_CRC32C		2
#define   WEFT_EP_COPY_CRC32C		3
#define WEFT_EP_WQE_SOURCES		0x01	/* 8: segments */
#define WEFT_EP_WQE_DESTS		0x02	/* 8: segments, after the sources */
#define WEFT_EP_WQE_LOCAL		0x03	/* 8: segment n is in this function's memory */
#define WEFT_EP_WQE_COOKIE		0x08	/* 64 */
#define WEFT_EP_WQE_SEGMENT		0x10	/* base and limit, 64 each */
#define WEFT_EP_SEGMENTS		7

/* CQE */
#define WEFT_EP_CQE_BYTES		32
#define WEFT_EP_CQE_COOKIE		0x00	/* 64 */
#define WEFT_EP_CQE_STATUS		0x08
#define   WEFT_EP_OK			0
#define   WEFT_EP_BAD_WQE		1
#define   WEFT_EP_PROTOCOL		2
#define   WEFT_EP_UNREACHABLE		3
#define   WEFT_EP_TOO_LONG		4
#define WEFT_EP_CQE_CRC			0x0c
#define WEFT_EP_CQE_BYTES_DONE		0x10	/* 64 */
#define WEFT_EP_CQE_NUMBER		0x18	/* from 1, written last */

#endif /* WEFT_ENDPOINT_H */
