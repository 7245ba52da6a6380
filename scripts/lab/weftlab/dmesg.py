# SPDX-License-Identifier: GPL-2.0
"""What the kernel of a guest may not say."""

import re

BAD = re.compile(
    r"\bWARNING\b|\bBUG\b|\bOops\b|Call Trace|general protection fault|\brefcount_t\b"
    r"|kmemleak|scheduling while atomic|sleeping function called|unregister_netdevice"
    r"|blocked for more than|self-detected stall|detected stalls|soft lockup|hard LOCKUP"
    r"|INFO: (possible|suspicious|task|inconsistent)|circular locking|suspicious RCU"
    r"|KASAN|UBSAN|KCSAN|KFENCE: (?!initialized)|Kernel panic|nobody cared|list_(add|del) corruption"
    r"|page allocation failure|Objects remaining|Bad page (state|map)|non-zero pgtables_bytes"
    r"|Bad rss-counter|invalid opcode|divide error|stack segment|double fault"
    r"|lockdep is turned off|Poison overwritten|Redzone|ODEBUG: (?!selftest)"
    r"|Trying to (v?free|vfree)|memory leak|leaked|DMA-API:|rust_kernel: panicked|\bpanicked at\b"
)

# Said by the kernels in these machines, with or without weft. The last three are what kmemleak, a
# page fault and the checks of DMA say when an allocation of theirs was failed on purpose; the checks
# stop then, and the other kselftests have them.
KNOWN = re.compile(
    r"Speculative Return Stack Overflow|Spectre|RETBleed|VMSCAPE|MDS CPU bug|TAA CPU bug"
    r"|Mitigation|vulnerab"
    r"|DMA-API: (preallocated \d+ debug entries|debugging enabled by kernel config)"
    r"|kmemleak: (Kernel memory leak detector initialized|Automatic memory scanning)"
    r"|kmemleak: Cannot allocate a scan area"
    r"|Huh VM_FAULT_OOM leaked out to the #PF handler"
    r"|DMA-API: cacheline tracking ENOMEM, dma-debug disabled",
    re.I,
)


# The same, of a trace. /proc/irq has files that could not be made, since that was failed on purpose,
# and warns when they are to go; any that has interrupts. And the PCI core takes a lock around
# sriov_configure, but not around a driver's remove, where virtual functions are disabled, too, and
# where no driver can take it: a caller above it may have.
KNOWN_TRACE = re.compile(
    r"WARNING: at remove_proc_entry.*Comm: failnth .*\bunregister_irq_proc\b"
    r"|WARNING: at pci_stop_and_remove_bus_device\+.*\bsriov_disable\+.*\bpci_device_remove\+",
    re.S,
)


# What stacks.py asks for is full of traces that are no complaint.
ASKED = re.compile(r"sysrq: Show State.*?(sysrq: Changing Loglevel|\Z)", re.S)


def complaints(text, context=25):
    """Each complaint in a log, with the lines that follow it."""
    lines = ASKED.sub("", text).splitlines()
    found = []
    skip = 0
    for number, line in enumerate(lines):
        if number < skip or not BAD.search(line) or KNOWN.search(line):
            continue
        skip = number + context
        if not KNOWN_TRACE.match("\n".join(lines[number:skip])[line.find("WARNING"):]):
            found.append("\n".join(lines[max(0, number - 3) : skip]))
    return found


_RECORD = re.compile(r"^(\d+),\d+,(\d+),[^;]*;(.*)$")


def readable(records):
    """What /dev/kmsg says, as dmesg would show it."""
    lines = []
    for line in records.splitlines():
        match = _RECORD.match(line)
        if match:
            lines.append(f"[{int(match.group(2)) / 1e6:12.6f}] {match.group(3)}")
        elif not line.startswith(" "):
            lines.append(line)
    return "\n".join(lines)
