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
				   { 6, "gone" }),
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

#endif /* _WEFT_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE weft_trace
#include <trace/define_trace.h>
