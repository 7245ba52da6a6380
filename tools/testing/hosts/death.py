# SPDX-License-Identifier: GPL-2.0
"""Power cuts, reboots, and the death of the fabric's daemon."""

from weftlab import kernel, transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps

LAB = "pair"
SIZE = 48 << 20


def in_mid_transfer(lab):
    """A transfer from h1 to h2 that is under way: (receiver, sender's job)."""
    h1, h2 = lab["h1"], lab["h2"]
    path, _ = steps.payload(h1, "death", SIZE, 8)
    limit = 10 * kernel.patience()
    receiving = transfer.Receiver(h2, ["--timeout", limit])
    sending = h1.start_job(transfer.send_line(h1, path, "--timeout", limit))
    receiving.has(1 << 20)
    if not sending.running:
        raise Mismatch("the transfer was over before anything could happen to it")
    return receiving, sending


def comes_back(lab, host):
    host.wait_ready()
    host.insmod()
    for each in lab.hosts.values():
        each.wait_links()
    steps.both_ways(lab)


@test("a receiver whose power is cut in mid-transfer: the sender ends in a clear error; it returns", core=True)
def receiver_dies(bench):
    lab = bench.pair()
    _, sending = in_mid_transfer(lab)
    lab["h2"].kill()
    lab["h1"].wait_link("down")
    result = sending.wait(60)
    steps.refused(result, 5, "link")
    lab["h2"].start()
    comes_back(lab, lab["h2"])


@test("a sender whose power is cut in mid-transfer: the receiver keeps nothing half; it returns")
def sender_dies(bench):
    lab = bench.pair()
    receiving, _ = in_mid_transfer(lab)
    lab["h1"].kill()
    lab["h2"].wait_link("down")
    receiving.end()
    left = lab["h2"].out(f"ls -A {receiving.there}")
    if left:
        raise Mismatch(f"left in the receiver's folder: {left}")
    lab["h1"].start()
    comes_back(lab, lab["h1"])


@test("a peer that reboots in mid-transfer comes back with a new generation")
def reboot(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    generation = "cat /sys/class/weft/weft0/device/link0/peer_generation"
    before = int(h1.out(generation))
    _, sending = in_mid_transfer(lab)
    h2.reboot()
    # It may be shorter than the sender's patience: either is right, silence is not.
    h2.wait_ready()
    h2.insmod()
    for host in lab.hosts.values():
        host.wait_links()
    result = sending.wait(90)
    if not result.status:
        raise Mismatch("the sender takes a file for carried that no host has")
    after = int(h1.out(generation))
    if after == before:
        raise Mismatch(f"h2 was rebooted, and h1 still sees generation {before}")
    steps.both_ways(lab)


@test("the daemon dies in mid-transfer: links go down, no program hangs; a new one joins all again", core=True)
def daemon_dies(bench):
    lab = bench.pair()
    receiving, sending = in_mid_transfer(lab)
    lab.fabric.kill()
    for host in lab.hosts.values():
        host.wait_link("down")
    # The machines run on as if nothing had happened.
    for host in lab.hosts.values():
        host.run("weftctl list && dd if=/dev/zero of=/dev/null bs=1M count=16", 30)
        if host.qmp.call("query-status")["status"] != "running":
            raise Mismatch(f"{host.name}: QEMU does not run on")
    lab.fabric.start()
    for host in lab.hosts.values():
        host.wait_links()
    sending.wait(transfer.patience(SIZE))
    receiving.end()
    steps.both_ways(lab)
