/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM weft

#if !defined(_WEFT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _WEFT_TRACE_H

#include <linux/tracepoint.h>

/* @dev is the name of the PCI function everywhere. */

TRACE_EVENT(weft_link_state,
	TP_PROTO(const char *dev, u32 link, u32 from, u32 to),
	TP_ARGS(dev, link, from, to),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u32, link)
		__field(u32, from)
		__field(u32, to)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->link = link;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("dev=%s link=%u from=%u to=%u", __get_str(dev), __entry->link,
		  __entry->from, __entry->to)
);

/* @master is a hardware id. */
TRACE_EVENT(weft_manager,
	TP_PROTO(const char *dev, u32 role, u32 lid, u64 master, u32 term,
		 u32 nodes, u32 routes),
	TP_ARGS(dev, role, lid, master, term, nodes, routes),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u32, role)
		__field(u32, lid)
		__field(u64, master)
		__field(u32, term)
		__field(u32, nodes)
		__field(u32, routes)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->role = role;
		__entry->lid = lid;
		__entry->master = master;
		__entry->term = term;
		__entry->nodes = nodes;
		__entry->routes = routes;
	),
	TP_printk("dev=%s role=%s lid=%u master=%#llx term=%u nodes=%u routes=%u",
		  __get_str(dev),
		  __print_symbolic(__entry->role,
				   { 0, "unknown" },
				   { 1, "standby" },
				   { 2, "master" }),
		  __entry->lid, __entry->master, __entry->term, __entry->nodes,
		  __entry->routes)
);

/* @what: an enum weft_trace_port */
TRACE_EVENT(weft_port_event,
	TP_PROTO(const char *dev, u32 what, u64 arg),
	TP_ARGS(dev, what, arg),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u32, what)
		__field(u64, arg)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->what = what;
		__entry->arg = arg;
	),
	TP_printk("dev=%s what=%s arg=%#llx", __get_str(dev),
		  __print_symbolic(__entry->what,
				   { 0, "start" },
				   { 1, "stop" },
				   { 2, "links" },
				   { 3, "wake" },
				   { 4, "echo" },
				   { 5, "reset" },
				   { 6, "gone" },
				   { 7, "plug" }),
		  __entry->arg)
);

TRACE_EVENT(weft_port_error,
	TP_PROTO(const char *dev, u32 bits, u32 info, u64 addr),
	TP_ARGS(dev, bits, info, addr),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u32, bits)
		__field(u32, info)
		__field(u64, addr)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->bits = bits;
		__entry->info = info;
		__entry->addr = addr;
	),
	TP_printk("dev=%s bits=%#x info=%#x addr=%#llx", __get_str(dev),
		  __entry->bits, __entry->info, __entry->addr)
);

DECLARE_EVENT_CLASS(weft_mbox,
	TP_PROTO(const char *dev, u32 link, u32 type, u32 len),
	TP_ARGS(dev, link, type, len),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u32, link)
		__field(u32, type)
		__field(u32, len)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->link = link;
		__entry->type = type;
		__entry->len = len;
	),
	TP_printk("dev=%s link=%u type=%u len=%u", __get_str(dev), __entry->link,
		  __entry->type, __entry->len)
);

DEFINE_EVENT(weft_mbox, weft_mbox_send,
	TP_PROTO(const char *dev, u32 link, u32 type, u32 len),
	TP_ARGS(dev, link, type, len)
);

DEFINE_EVENT(weft_mbox, weft_mbox_recv,
	TP_PROTO(const char *dev, u32 link, u32 type, u32 len),
	TP_ARGS(dev, link, type, len)
);

/* States and reasons as in the user interface. */
TRACE_EVENT(weft_chan_state,
	TP_PROTO(const char *dev, u64 id, u32 from, u32 to, u32 reason),
	TP_ARGS(dev, id, from, to, reason),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u64, id)
		__field(u32, from)
		__field(u32, to)
		__field(u32, reason)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->id = id;
		__entry->from = from;
		__entry->to = to;
		__entry->reason = reason;
	),
	TP_printk("dev=%s id=%llu from=%u to=%u reason=%u", __get_str(dev),
		  __entry->id, __entry->from, __entry->to, __entry->reason)
);

/* The opcodes and codes of the link queues, see Documentation/queues.rst. */
#define show_weft_op(op) __print_symbolic(op,				\
	{ 1, "SEND" }, { 2, "SEND_EAGER" }, { 3, "WRITE" },		\
	{ 4, "WRITE_EAGER" }, { 5, "SEND_LONG" }, { 6, "WRITE_LONG" },	\
	{ 7, "FETCH_ADD" }, { 8, "CMP_SWAP" },				\
	{ 16, "SIZE_IS" }, { 17, "VALUE" }, { 18, "GONE" },		\
	{ 19, "JOIN" },							\
	{ 24, "LEND" }, { 25, "READ" }, { 26, "OFFER" },		\
	{ 27, "SIZE" })

#define show_weft_code(code) __print_symbolic(code,			\
	{ 1, "ACK" }, { 2, "NAK" }, { 3, "NO_RECV" }, { 4, "DONE" },	\
	{ 5, "RECV" })

#define show_weft_role(role) __print_symbolic(role,			\
	{ 0, "initiator" }, { 1, "responder" }, { 2, "either" })

/*
 * @own: queue pair of this end, or 0; @qpn: queue pair of the receiver; @role: role of the
 * receiver in the request; @bytes: number of bytes of data that the cell carries or announces
 */
TRACE_EVENT(weft_cell,
	TP_PROTO(const char *dev, u32 link, u32 sent, u32 own, u32 qpn,
		 u32 psn, u32 role, u32 op, u64 bytes),
	TP_ARGS(dev, link, sent, own, qpn, psn, role, op, bytes),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u32, link)
		__field(u32, sent)
		__field(u32, own)
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, role)
		__field(u32, op)
		__field(u64, bytes)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->link = link;
		__entry->sent = sent;
		__entry->own = own;
		__entry->qpn = qpn;
		__entry->psn = psn;
		__entry->role = role;
		__entry->op = op;
		__entry->bytes = bytes;
	),
	TP_printk("dev=%s link=%u %s own=%#x qpn=%#x psn=%u to=%s op=%s bytes=%llu",
		  __get_str(dev), __entry->link,
		  __entry->sent ? "sent" : "taken", __entry->own, __entry->qpn,
		  __entry->psn, show_weft_role(__entry->role),
		  show_weft_op(__entry->op), __entry->bytes)
);

TRACE_EVENT(weft_word,
	TP_PROTO(const char *dev, u32 link, u32 sent, u32 own, u32 qpn,
		 u32 psn, u32 role, u32 code, u32 detail),
	TP_ARGS(dev, link, sent, own, qpn, psn, role, code, detail),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u32, link)
		__field(u32, sent)
		__field(u32, own)
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, role)
		__field(u32, code)
		__field(u32, detail)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->link = link;
		__entry->sent = sent;
		__entry->own = own;
		__entry->qpn = qpn;
		__entry->psn = psn;
		__entry->role = role;
		__entry->code = code;
		__entry->detail = detail;
	),
	TP_printk("dev=%s link=%u %s own=%#x qpn=%#x psn=%u to=%s code=%s detail=%u",
		  __get_str(dev), __entry->link,
		  __entry->sent ? "sent" : "taken", __entry->own, __entry->qpn,
		  __entry->psn, show_weft_role(__entry->role),
		  show_weft_code(__entry->code), __entry->detail)
);

/*
 * A descriptor that DMA channel @channel is given. @at: byte of the window; @addr: the device's
 * address of the data, or of their list if there are @elements
 */
TRACE_EVENT(weft_dma,
	TP_PROTO(const char *dev, u32 channel, u32 number, u32 ctrl, u64 at,
		 u64 addr, u32 bytes, u32 elements),
	TP_ARGS(dev, channel, number, ctrl, at, addr, bytes, elements),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u32, channel)
		__field(u32, number)
		__field(u32, ctrl)
		__field(u64, at)
		__field(u64, addr)
		__field(u32, bytes)
		__field(u32, elements)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->channel = channel;
		__entry->number = number;
		__entry->ctrl = ctrl;
		__entry->at = at;
		__entry->addr = addr;
		__entry->bytes = bytes;
		__entry->elements = elements;
	),
	TP_printk("dev=%s channel=%u number=%u ctrl=%#x at=%#llx addr=%#llx bytes=%u elements=%u",
		  __get_str(dev), __entry->channel, __entry->number,
		  __entry->ctrl, __entry->at, __entry->addr, __entry->bytes,
		  __entry->elements)
);

#endif /* _WEFT_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE weft_trace
#include <trace/define_trace.h>
