# SPDX-License-Identifier: GPL-2.0
"""Links that come and go."""

from weftlab import transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps

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


@test("a transfer over a link that flaps under load ends with the whole file", core=True)
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
    for speed, width in ((1, 1), (3, 4), (4, 8)):
        lab.fabric.call("link", "set", END, "--speed", speed, "--width", width)
        for host in lab.hosts.values():
            host.run(
                f"for i in $(seq 500); do [ $(cat {link}/speed)x$(cat {link}/width) = {speed}x{width} ]"
                f" && exit 0; sleep 0.02; done; cat {link}/speed {link}/width; exit 1",
            )
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
