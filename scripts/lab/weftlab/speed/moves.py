# SPDX-License-Identifier: GPL-2.0
"""How long programs wait while the function below them becomes another one, or is reset: the longest
time between two completions of a queue pair that is busy both ways, and the same without either.

What is measured checks every completion meanwhile (weft-keep).
"""

import re
import signal
import time

from .. import topology
from ..errors import Mismatch
from ..lab import Lab
from .machines import Samples

KEEP = "/mnt/tools/weft-keep"
STOP = "/tmp/stop"
SYSFS = "/sys/class/weft/weft0/device"
# Before and behind what is measured: as long as nothing else is.
AROUND = 0.5


def _longest(lab, hwid, node, happens):
    """Milliseconds, of a program to which that happens."""
    here, there = lab["h1"], lab["h2"]
    here.run(f"rm -f {STOP}")
    listener = there.start_job(f"exec {KEEP} listen {node} 7105")
    listener.expect("listening", 60)
    job = here.start_job(f"exec {KEEP} run {hwid} 7105 {STOP}")
    try:
        job.expect("running", 60)
        time.sleep(AROUND)
        happens()
        time.sleep(AROUND)
        here.run(f"touch {STOP}")
        said = job.wait(60).must(0).out
        listener.wait(60).must(0)
    finally:
        for each in (job, listener):
            if each.running:
                each.kill(signal.SIGKILL)
    found = re.search(r"longest ([\d.]+) ms", said)
    if not found:
        raise Mismatch(said)
    return float(found[1])


def _node(host, n):
    return int(host.out(f"basename {SYSFS}/virtfn{n}/weft/weft*").removeprefix("weft"))


def measure(figures, say, runs):
    """how long programs wait while a function moves live, or is reset"""
    samples = Samples()
    with Lab("bench", say) as lab:
        lab.join(topology.chain(2))
        for host in ("h1", "h2"):
            lab.add(host, vfs=2, vf_slots=4, cpus=2)
        lab.boot().load()
        for host in lab.hosts.values():
            host.run(f"echo 2 >{SYSFS}/sriov_numvfs", 120)
        for host in lab.hosts.values():
            for n in range(2):
                host.wait_link("ready", 60, port=_node(host, n))
        here, at = lab["h1"], 0
        hwid = here.out(f"cat {SYSFS}/virtfn0/hwid")
        node = _node(lab["h2"], 0)

        def ready():
            here.wait_link("ready", 60, port=_node(here, at))

        def moves():
            nonlocal at
            here.run(here.weftctl_line("vf", "migrate", f"0:{at}", f"0:{1 - at}", "--live"), 60)
            at = 1 - at
            ready()

        def is_reset():
            here.run(f"echo 1 >{SYSFS}/virtfn{at}/reset", 60)
            ready()

        for run in range(runs):
            for name, happens in (("without", lambda: None), ("move", moves), ("reset", is_reset)):
                samples.add(name, _longest(lab, hwid, node, happens))
            say(f"run {run + 1} of {runs}")
    for name, figure in (("move", "live-move"), ("reset", "function-reset"), ("without", "nothing")):
        figures.add(f"qp-longest-pause-{figure}", "ms", samples[name])
