# SPDX-License-Identifier: GPL-2.0
"""The same over QEMU's ivshmem-doorbell: the port trait does not fit one hardware only."""

import mmap
import random
import runpy
import struct
import time

from weftlab import paths
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import library, steps

LAB = "ivshmem"
COUNTERS = "/sys/class/weft/weft0/device/counters"
# rust/hw/ivshmem/layout.rs: nodes; in a block, the messages taken, and the ring of messages with the number,
# the length and the bytes of each. rust/proto/wire.rs: the header, and the checksum in it.
NODES, TAKEN = 4, 64
RING, SLOTS, SLOT, LEN, DATA = 256, 12, 320, 8, 64
HEADER, SUM = 48, 44


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


@test("a peer whose power is cut comes back, as another node, and carries again", long=True)
def peer_dies(bench):
    lab = bench.ivshmem()
    # The server never gives a position twice while it lives: h1 meets node 2 at its link 1. Which of
    # nodes 0 and 1 it is itself was decided when both started; its hardware id counts from 1.
    node = node_of(lab["h1"])
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


@test("insmod and rmmod 5 times on one side while the other stays", long=True)
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


def node_of(host):
    """Hardware ids count nodes from 1."""
    return int(host.out("cat /sys/class/weft/weft0/device/hwid"), 0) % 0x100 - 1


def counted(host, name):
    return int(host.out(f"cat {COUNTERS}/{name}"))


def spoil(memory, block, dice, crc32c):
    """Does one thing to the mailbox of a block that a third node may do, and no neighbour does: a message of
    the right number with any bytes, or one that was sent with something else in it and the right checksum;
    a number, or a count of the owner's, that is none."""
    taken, = struct.unpack_from("<Q", memory, block + TAKEN)
    slot = block + RING + taken % SLOTS * SLOT
    kind = dice.randrange(8)
    if kind < 3:
        old = block + RING + dice.randrange(SLOTS) * SLOT
        length, = struct.unpack_from("<I", memory, old + LEN)
        data = bytearray(memory[old + DATA : old + SLOT])
        length = min(max(length, HEADER), len(data))
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(4, length)] = dice.choice((0, 1, 0xff, dice.randrange(256)))
        struct.pack_into("<I", data, SUM, crc32c(data[:SUM] + data[HEADER:length]))
        memory[slot + DATA : slot + SLOT] = bytes(data)
        struct.pack_into("<I", memory, slot + LEN, length)
        struct.pack_into("<Q", memory, slot, taken + 1)
    elif kind < 5:
        memory[slot + DATA : slot + SLOT] = dice.randbytes(SLOT - DATA)
        struct.pack_into("<I", memory, slot + LEN, dice.choice((0, 1, 257, 1 << 31, dice.randrange(257))))
        struct.pack_into("<Q", memory, slot, taken + 1)
    elif kind < 7:
        at = block + RING + dice.randrange(SLOTS) * SLOT
        struct.pack_into("<Q", memory, at, dice.choice((0, taken, taken + 2, dice.getrandbits(64))))
    else:
        struct.pack_into("<Q", memory, block + TAKEN, dice.choice((0, taken + 5, dice.getrandbits(64))))


@test("any bytes in the mailboxes of both hosts harm neither, and messages go on when they end", long=True)
def spoilt(bench):
    lab = bench.ivshmem()
    crc32c = runpy.run_path(str(paths.CRC))["crc32c"]
    nodes = {name: node_of(host) for name, host in lab.hosts.items()}
    dice = random.Random(1)
    with open(lab.server.memory, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        size = len(memory) // NODES**2 & ~4095
        blocks = [(nodes[a] * NODES + nodes[b]) * size for a, b in (("h1", "h2"), ("h2", "h1"))]
        done, end = 0, time.monotonic() + 10
        while time.monotonic() < end:
            # What the owner reads next is there for some of its looks, of which heartbeats cause a few a second.
            for _ in range(20):
                spoil(memory, dice.choice(blocks), dice, crc32c)
                done += 1
            time.sleep(0.005)
        refused = [counted(host, "messages_dropped") for host in lab.hosts.values()]
        bench.note(f"{done} changes; messages dropped: {refused}")
        # Counts of messages taken that the owner has not written. The source sends from there on, numbers that the
        # owner does not expect, until the owner writes its own count again.
        for ahead in (0, 1 << 40, 5):
            for block in blocks:
                taken, = struct.unpack_from("<Q", memory, block + TAKEN)
                struct.pack_into("<Q", memory, block + TAKEN, taken + ahead)
            for host in lab.hosts.values():
                sent = counted(host, "tx_messages")
                host.until(f"test $(cat {COUNTERS}/tx_messages) -gt {sent}", 30)
            for host in lab.hosts.values():
                host.wait_links(60)
            steps.both_ways(lab)
