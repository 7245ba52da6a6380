# SPDX-License-Identifier: GPL-2.0
"""Trace events of QEMU, which say what a port does."""

import re

import regs as R
from dma import LOCAL, Channel, joined, nop, write
from tap import equal

EVENT = re.compile(r"\bweft_(\w+) (\S+)\.(\d+) (.*)$", re.M)


def enable(qemu, on=True):
    qemu.qmp("trace-event-set-state", name="weft_*", enable=on)


def events(qemu):
    """(name, function, what it says) of each, in order."""
    found = EVENT.findall(qemu.errors())
    equal({node for _, node, _, _ in found} - {qemu.name}, set(), "nodes of other names")
    return [(name, int(function), text) for name, _, function, text in found]


def test_trace_events(scope):
    """what a port does is seen as trace events while they are enabled, and only then"""
    pair = joined(scope)
    a = pair.a
    a.qemu.complains = True         # where events are written
    equal(events(a.qemu), [], "events before they are enabled")
    enable(a.qemu)
    a.write(R.R_SCRATCH, 0x12345)
    a.set_page(0, R.DEST_SELF, 0xffffffff)
    a.write(R.R_DB_MASK, 0)
    a.ring(0, 3)
    channel = Channel(a)
    channel.run(write(LOCAL, 0x2000), nop())
    pair.node_a.send(R.FAB_FAULT, 0, (R.FAB_FAULT_TIMEOUT, 1))
    pair.until(lambda: not a.slot_status(0) & R.SLOT_DIRECT, "the slot to trap")
    a.qemu.readl(a.slot(0))
    pair.fabric.link_down(pair.node_a, 0)
    pair.until(lambda: not a.link_up(), "the link to go down")
    got = events(a.qemu)
    for want in (
        ("regs_write", 0, f"addr {R.R_SCRATCH:#x} val 0x12345"),
        ("doorbell_ring", 0, f"page 0 doorbell 3 dest {R.DEST_SELF:#x}"),
        ("doorbell_set", 0, "bits 0x8"),
        ("interrupt", 0, "vectors 0x80"),
        ("dma_begin", 0, f"channel 0 ctrl {R.DMA_WRITE:#x} slot 0 offset 0x0 len {0x2000}"),
        ("dma_end", 0, f"channel 0 code {R.DMA_ST_OK} moved {0x2000}"),
        ("fab_take", 0, f"type {R.FAB_FAULT} link 0 arg {R.FAB_FAULT_TIMEOUT:#x}"),
        ("fault_set", 0, f"link 0 fault {R.FAB_FAULT_TIMEOUT} times 1"),
        ("fault_strike", 0, f"link 0 fault {R.FAB_FAULT_TIMEOUT}"),
        ("fab_send", 0, f"type {R.FAB_FAULT_USED} link 0 arg {R.FAB_FAULT_TIMEOUT:#x}"),
        ("link_down", 0, "link 0"),
    ):
        assert want in got, f"{want} is not among\n" + "\n".join(map(str, got))
    enable(a.qemu, False)
    before = len(events(a.qemu))
    a.write(R.R_SCRATCH, 0)
    equal(len(events(a.qemu)), before, "events after they are disabled")
