# SPDX-License-Identifier: GPL-2.0
"""How long it takes to learn that something has failed: a request that is refused, and a peer that is
gone, whose queue pair's owner sleeps meanwhile.

Times of the latter are taken outside, from the fault to the guest's own word that it knows: the way
to the guest and back is in them, a few milliseconds.
"""

import json
import time

from . import ways
from .machines import Samples, pair


def _watched(lab, fault):
    """Seconds until a program on h1 has learned of what befalls h2."""
    serving = ways.serve(lab, "qp 0 7102 sleeping 1")
    watching = lab["h1"].start_job(f"{ways.PROGRAM} watch qp 0 7102 sleeping 1")
    watching.expect("^watching", 60)
    begin = time.monotonic()
    fault(lab, serving)
    watching.expect("^failed", 60)
    seconds = time.monotonic() - begin
    watching.wait(60)
    return seconds, serving


def _killed(lab, serving):
    serving.kill(9)


def _link_down(lab, _serving):
    lab.fabric.link("down", "h1:0")


def _power_cut(lab, _serving):
    lab["h2"].kill()


def _refused(lab):
    serving = ways.serve(lab, "qp 0 7102 polled 1")
    done = lab["h1"].run(f"{ways.PROGRAM} refused qp 0 7102 polled 1", ways.PATIENCE)
    # Its queue pair is in ERR as well.
    serving.wait(60)
    return json.loads(done.out)["seconds"]


def _again(lab):
    lab.boot()
    if lab["h2"].run("test -d /sys/module/weft", status=None).status:
        lab["h2"].insmod()
    for host in lab.hosts.values():
        host.wait_links()


def measure(figures, say, runs):
    """how long it takes to learn of a failure"""
    samples = Samples()
    with pair(say) as lab:
        for run in range(runs):
            samples.add("refused", _refused(lab))
            seconds, serving = _watched(lab, _killed)
            serving.wait(60)
            samples.add("killed", seconds)
            seconds, serving = _watched(lab, _link_down)
            serving.wait(60)
            lab.fabric.link("up", "h1:0")
            samples.add("link", seconds)
            for host in lab.hosts.values():
                host.wait_links()
            samples.add("power", _watched(lab, _power_cut)[0])
            _again(lab)
            say(f"run {run + 1} of {runs}")
    figures.add("qp-polled-refused", "us", [1e6 * s for s in samples["refused"]])
    for name, figure in (("killed", "process-killed"), ("link", "link-down"), ("power", "power-cut")):
        figures.add(f"qp-sleeping-peer-{figure}", "ms", [1e3 * s for s in samples[name]])
