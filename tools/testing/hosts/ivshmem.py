# SPDX-License-Identifier: GPL-2.0
"""The same over QEMU's ivshmem-doorbell: the port trait does not fit one hardware only."""

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import library, steps

LAB = "ivshmem"


@test("a foreign device is not taken by itself, only by driver_override")
def not_by_itself(bench):
    lab = bench.ivshmem()
    host = lab["h1"]
    host.rmmod()
    host.run("for d in /sys/bus/pci/devices/*; do echo >$d/driver_override; done")
    host.insmod()
    if host.run("ls /dev/weft0", status=None).status == 0:
        raise Mismatch("weft took an ivshmem device that it was not given")
    host.bind_ivshmem()
    host.run("test -e /dev/weft0")


@test("files arrive as they were, both ways")
def carry(bench):
    lab = bench.ivshmem()
    for size in (0, 1, 49, 100001, 8 << 20):
        steps.carry(lab, "h1", "h2", size, f"iv-{size}", size)
    steps.carry(lab, "h2", "h1", 3 << 20, "iv-back", 9)


@test("messages in turn and both ways at once: whole, in order, no sleeper forgotten")
def messages(bench):
    library.soak(bench.ivshmem())


@test("a peer whose power is cut comes back, as another node, and carries again")
def peer_dies(bench):
    lab = bench.ivshmem()
    # The server never gives a position twice while it lives: h1 meets node 2 at its link 1. Which of
    # nodes 0 and 1 it is itself was decided when both started; its hardware id counts from 1.
    node = int(lab["h1"].out("cat /sys/class/weft/weft0/device/hwid"), 0) % 0x100 - 1
    lab["h2"].kill()
    # ivshmem has no link state: that the peer is gone is told by silence.
    lab["h1"].wait_link("hello", 60)
    lab["h2"].start().wait_ready()
    lab["h2"].insmod()
    lab["h2"].bind_ivshmem()
    lab["h1"].links = [(0, 1)]
    lab["h2"].links = [(0, node)]
    for host in lab.hosts.values():
        host.wait_links(60)
    steps.both_ways(lab)
    # Where the nodes are now is not what other tests expect.
    bench.close()


@test("insmod and rmmod 5 times on one side while the other stays")
def reload(bench):
    lab = bench.ivshmem()
    host = lab["h1"]
    for _ in range(5):
        host.rmmod()
        host.insmod()
        host.bind_ivshmem()
    for each in lab.hosts.values():
        each.wait_links(60)
    steps.both_ways(lab)
