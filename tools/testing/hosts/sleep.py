# SPDX-License-Identifier: GPL-2.0
"""A host goes to sleep and wakes up: the kernel calls the driver, which calls the neighbours."""

from weftlab import lab as labs
from weftlab import topology
from weftlab.errors import Mismatch, Skip
from weftlab.suite import test

from . import sriov, steps

LAB = "sleepers"
ASLEEP = 3


def can_sleep(lab):
    """Skips the test where the kernel cannot sleep. To be asked first: what a test has begun goes on."""
    for host in lab.hosts.values():
        if host.run("test -e /sys/power/pm_test", status=None).status:
            raise Skip("this kernel cannot sleep (CONFIG_SUSPEND, CONFIG_PM_DEBUG)")
    return lab


def sleep(host):
    """To idle and back after a while: all devices are turned off and on."""
    host.mark("going to sleep")
    # Of one that does not come back its console tells.
    host.run("dmesg -n 8; echo N >/sys/module/printk/parameters/console_suspend")
    host.run(
        f"echo platform >/sys/power/pm_test && echo {ASLEEP} >/sys/module/suspend/parameters/pm_test_delay"
        " && echo freeze >/sys/power/state && dmesg -n 6",
        120,
    )
    said = host.out("dmesg | sed -n '/going to sleep/,$p'")
    for word in ("suspend entry (s2idle)", "is back from sleep", "suspend exit"):
        if word not in said:
            raise Mismatch(f"{host.name} does not say {word!r}:\n{said}")


@test("system sleep: the peer learns of it, and both go on where they were when the host wakes up")
def s2idle(bench):
    lab = can_sleep(bench.sleepers())
    h1, h2 = lab["h1"], lab["h2"]
    for _ in range(2):
        watch = h2.start_job("until grep -qv ready /sys/class/weft/weft0/device/link0/state; do :; done")
        sleep(h1)
        watch.wait(30).must(0)
        for host in (h1, h2):
            host.wait_links()
        steps.both_ways(lab)


@test("system sleep: a transfer under way goes on when the host wakes up, and is whole")
def under_way(bench):
    lab = can_sleep(bench.sleepers())
    way = steps.UnderWay(lab, "sleeper", 24 << 20)
    sleep(lab["h1"])
    way.whole(resumed=True)


@test("MR-8: system sleep with VFs: they come back with their physical function, quotas and all", lab="own")
def with_vfs(bench):
    with labs.Lab("sleep", bench.say) as lab:
        lab.join(topology.chain(2))
        for name in ("h1", "h2"):
            lab.add(name, vfs=sriov.VFS, vf_slots=4, cpus=2, sleeps=True)
        can_sleep(lab.boot()).load()
        a, b = [sriov.Side(host) for host in lab.hosts.values()]
        for side in (a, b):
            side.numvfs(2)
        a.ready(2)
        a.set(1, "bytes", 8 << 20)
        with a.user(a.node(0)):
            sleep(a.host)
            nodes = a.ready(2)
            a.state(0, "used")
        if a.get(1, "bytes") != str(8 << 20):
            raise Mismatch("a quota is another after a sleep")
        sriov.carry(a, b, nodes, b.ready(2))
