# SPDX-License-Identifier: GPL-2.0
"""Links that come and go."""

import re

from weftlab import transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import hostile, steps

LAB = "pair"
END = "h1:0"
# At most, and at least: how far a transfer gets between two is not ours to say.
FLAPS, ENOUGH = 20, 2


@test("N-1: a link that goes down and comes back is down and ready at both ends, and carries", core=True)
def down_and_up(bench):
    lab = bench.pair()
    for _ in range(2):
        lab.fabric.link("down", END)
        for host in lab.hosts.values():
            host.wait_link("down")
        lab.fabric.link("up", END)
        for host in lab.hosts.values():
            host.wait_link("ready")
    steps.both_ways(lab)


@test("a transfer over a link that flaps under load ends with the whole file", core=True, patient=True)
def flap_under_load(bench):
    lab = bench.pair()
    way = steps.UnderWay(lab, "flap", begun=1)
    size = 0
    for flap in range(FLAPS):
        # Each time there is more of it: the transfer goes on, it does not start again.
        size += (2 << 20) if flap else 1
        way.has(size)
        if not way.sending.running:
            if flap < ENOUGH:
                raise Mismatch(f"the transfer was over after {flap} flaps: nothing was tested")
            break
        lab.fabric.link("down", END)
        for host in lab.hosts.values():
            host.wait_link("down")
        lab.fabric.link("up", END)
    way.whole(resumed=True)
    # It was connected to again and again while drivers had not met yet.
    for host in lab.hosts.values():
        routed = host.out("cd /sys/class/weft/weft0/device; ls -d link[4-9] || true")
        if routed:
            raise Mismatch(f"{host.name}: a routed link was aimed at a neighbour: {routed}")


@test("without a link a transfer ends with a message that says so")
def no_link(bench):
    lab = bench.pair()
    lab.fabric.link("down", END)
    lab["h1"].wait_link("down")
    path, _ = steps.payload(lab["h1"], "nolink", 100)
    result = lab["h1"].run(transfer.send_line(lab["h1"], path, "--timeout", 2), 60, None)
    steps.refused(result, 5, "link")


@test("N-1: a change of speed and width is seen by both drivers and harms nothing")
def rate(bench):
    lab = bench.pair()
    link = "/sys/class/weft/weft0/device/link0"
    with steps.at_the_most(lab):
        for speed, width in ((1, 1), (3, 4), (4, 8)):
            lab.fabric.call("link", "set", END, "--speed", speed, "--width", width)
            for host in lab.hosts.values():
                host.until(f"[ $(cat {link}/speed)x$(cat {link}/width) = {speed}x{width} ]", 10)
            steps.carry(lab, "h1", "h2", 100000, "rate", speed)


WATCH = """import os, select, sys
file = os.open(sys.argv[1], os.O_RDONLY)
epoll = select.epoll()
epoll.register(file, select.EPOLLPRI | select.EPOLLET)
while True:
    print("state", os.pread(file, 64, 0).decode().strip(), flush=True)
    if not epoll.poll(60):
        sys.exit("no event for a minute")
"""


@test("N-1: a program that sleeps on a link's state with epoll is told of each change")
def epoll(bench):
    lab = bench.pair()
    jobs = []
    for host in lab.hosts.values():
        path = host.push("watch.py", WATCH.encode())
        jobs.append(host.start_job(f"exec python3 {path} /sys/class/weft/weft0/device/link0/state"))
    for job in jobs:
        job.expect("^state ready")
    lab.fabric.link("down", END)
    for job in jobs:
        job.expect("^state ready\n(?s:.*)^state down")
    lab.fabric.link("up", END)
    for job in jobs:
        job.expect("^state down\n(?s:.*)^state ready")
        job.kill()
        job.wait(20)


# The port of a host in the hands of a program that only listens: FILE GO. Prints each hello that it hears: the
# bytes of its offer, which are 0 where there is none.
LISTENER = """import mmap, os, struct, sys, time
regs = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 1 << 17)).cast("I")
HEADER, HELLO = 48, 1
regs[R_CTRL // 4] = CTRL_ENABLE
print("begins", flush=True)
while True:
    status = regs[R_MBOX_RX_STATUS // 4]
    if not status & MBOX_RX_VALID:
        time.sleep(0.01)
        continue
    length = (status & MBOX_LEN) >> 8
    words = [regs[R_MBOX_RX_DATA // 4 + n] for n in range(length // 4)]
    regs[R_MBOX_RX_POP // 4] = 0
    message = struct.pack(f"<{len(words)}I", *words)
    if message[:4] == b"WEFT" and message[5] == HELLO:
        print("hello", message[HEADER:].hex(), flush=True)
"""
# Trace events of the device: an inbound entry opens, and something is given to the fabric.
OPENS, SENDS = "weft_inbound_set", "weft_fab_send"
HELLOS = 3


@test("N-2: a driver says hello before there is any address: its memory is opened when a neighbour has answered")
def before_addresses(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    h1.rmmod()
    with hostile.neighbour(h2, LISTENER) as job:
        begin = h1.qemu_log.stat().st_size
        traced(h1, True)
        h1.insmod()
        job.expect("(?s:(?:^hello .*){%d})" % HELLOS, 60)
        said = re.findall(r"^hello (\w+)$", job.out, re.M)
        state, zeroed = h1.link_state(), h1.out("cat /sys/class/weft/weft0/device/link0/arena_zeroed")
        log = events(h1, begin)
    if state != "hello" or any(int(offer, 16) for offer in said):
        raise Mismatch(f"without an answer the link is {state}, and the hellos offer {said}")
    if zeroed != "0" or any(OPENS in line for line in log) or not any(SENDS in line for line in log):
        raise Mismatch(f"{zeroed} bytes of the arena are cleared; what the port did:\n" + "\n".join(log))
    h2.insmod()
    for host in lab.hosts.values():
        host.wait_link("ready")
    opened = [line for line in events(h1, begin) if OPENS in line]
    traced(h1, False)
    if not opened:
        raise Mismatch("the link is ready, and no inbound entry has been opened")


def traced(host, on):
    for event in OPENS, SENDS:
        host.qmp.call("trace-event-set-state", name=event, enable=on)


def events(host, begin):
    """What QEMU has written of such events."""
    with open(host.qemu_log, errors="replace") as log:
        log.seek(begin)
        return [line for line in log.read().splitlines() if OPENS in line or SENDS in line]
