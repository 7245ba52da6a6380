# SPDX-License-Identifier: GPL-2.0
"""What Weft takes of a machine: memory of its objects, wakeups when nothing happens, the time until it is
there."""

import json
import re
import time

from . import ways
from .machines import Samples, pair

# So many of each kind are made: what is not theirs is lost in them.
OBJECTS = {"cq": 512, "mr": 4096, "qp": 256, "channel": 128, "socket": 128}
# What a region itself has of the memory, in bytes: the program's own.
OWN = {"mr": 4096}
SERVICE = 7400
GO = "/tmp/go"
IDLE = 10
# What the kernel does later, or for the first time, is over by then.
SETTLED = 1


def _free(host):
    """Bytes that the kernel could give away."""
    host.run("sync; echo 3 >/proc/sys/vm/drop_caches")
    time.sleep(SETTLED)
    free = dict(re.findall(r"^(\w+):\s+(\d+) kB", host.out("cat /proc/meminfo"), re.M))
    return 1024 * (int(free["MemFree"]) + int(free["Cached"]) + int(free["Buffers"]))


def _object(samples, lab, kind, count):
    here, there = lab["h1"], lab["h2"]
    here.run(f"rm -f {GO}")
    accepting = there.start_job(f"exec {ways.PROGRAM} accept 0 {SERVICE}")
    accepting.expect("^listening", 60)
    making = here.start_job(f"exec {ways.PROGRAM} make {kind} 0 {count} {SERVICE} {GO}")
    making.expect("^one", 60)
    before = _free(here)
    here.run(f"touch {GO}")
    making.expect("^made", 60)
    samples.add(kind, (before - _free(here)) / count - OWN.get(kind, 0))
    for job in (making, accepting):
        job.kill(9)
        job.wait(60)


def _wakeups(host):
    """Of the driver's interrupts and threads, until now."""
    threads = host.out(
        "for task in /proc/[0-9]*; do "
        "  case $(cat $task/comm 2>/dev/null) in weft*|irq/*weft*) "
        "    grep -h ctxt_switches $task/status; esac; "
        "done || :"
    )
    return ways.interrupts(host) + sum(int(word) for word in re.findall(r"\d+", threads))


def _idle(samples, host):
    before = _wakeups(host)
    time.sleep(IDLE)
    samples.add("wakeups", (_wakeups(host) - before) / IDLE)


def _loading(samples, lab):
    """From insmod on, and what a port with one peer has of the memory then."""
    here = lab["h1"]
    here.rmmod()
    before = _free(here)
    serving = ways.serve(lab, f"channel 0 {SERVICE} sleeping")
    found = json.loads(here.out(f"{ways.PROGRAM} first {SERVICE} insmod /mnt/module/weft.ko", 120))
    serving.wait(60).must(0)
    for name in ("loaded", "ready", "first"):
        samples.add(name, found[name])
    samples.add("port", before - _free(here))


def measure(figures, say, runs):
    """memory of objects, idle wakeups, the time from insmod to the first byte"""
    samples = Samples()
    with pair(say) as lab:
        for run in range(runs):
            for kind, count in OBJECTS.items():
                _object(samples, lab, kind, count)
            _idle(samples, lab["h1"])
            _loading(samples, lab)
            say(f"run {run + 1} of {runs}")
    for kind in OBJECTS:
        figures.add(f"{kind}-memory", "bytes", samples[kind])
    figures.add("port-with-one-peer-memory", "bytes", samples["port"])
    figures.add("idle-wakeups", "1/s", samples["wakeups"])
    figures.add("insmod-returns", "ms", [1e3 * s for s in samples["loaded"]])
    figures.add("insmod-to-ready", "ms", [1e3 * s for s in samples["ready"]])
    figures.add("insmod-to-first-byte", "ms", [1e3 * s for s in samples["first"]])
