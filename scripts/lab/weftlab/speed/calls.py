# SPDX-License-Identifier: GPL-2.0
"""How many system calls a connection takes at either end: the kernel's own events count them, by process."""

import re

from ..errors import LabError
from . import ways

# More connections in one of two programs than in the other: what each does besides falls out.
CONNECTIONS = 100
FEW = 50
EVENT = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/trigger"
# Of each process of that name, by the number of the call.
COUNTED = 'hist:keys=common_pid,id:size=4096 if comm == "weft-bench"'
_LINE = re.compile(r"common_pid: +(\d+), id: +(\d+) .* hitcount: +(\d+)")


def _made(host, count, command):
    """Calls by process and number, while `command` makes so many connections."""
    host.run(f"echo '{COUNTED}' >{EVENT}")
    host.run(f"{command} {count}", ways.PATIENCE)
    # What answers has closed its last connection by then.
    host.run("/mnt/lab/nap 50")
    found = {}
    for line in host.out(f"cat {EVENT.replace('trigger', 'hist')}").splitlines():
        match = _LINE.search(line)
        if match:
            process, number, times = map(int, match.groups())
            found.setdefault(process, {})[number] = times
    host.run(f"echo '!{COUNTED}' >{EVENT}")
    return found


def each(host, namespace, at, before):
    """System calls of a connection, at the end that connects and at the end that accepts."""
    host.run("mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing")
    serving = host.start_job(f"exec ip netns exec {namespace} {before} {ways.PROGRAM} answer tcp {at}")
    serving.expect("^listening", 60)
    command = f"{before} {ways.PROGRAM} connections tcp {at}"
    try:
        rounds = [_made(host, count, command) for count in (FEW, FEW + CONNECTIONS)]
    finally:
        serving.kill()
        serving.wait(60)
    (there,) = rounds[0].keys() & rounds[1].keys() or {None}
    ends = [[one[process] for one in rounds for process in one if (process == there) == accepts]
            for accepts in (False, True)]  # fmt: skip
    if any(len(end) != 2 for end in ends):
        raise LabError(f"system calls were not counted: {rounds}")
    return [(sum(more.values()) - sum(few.values())) / CONNECTIONS for few, more in ends]
