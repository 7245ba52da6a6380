# SPDX-License-Identifier: GPL-2.0
"""Links whose speed and width follow their traffic, and routes that follow those."""

import contextlib
import re

from weftlab.errors import Mismatch, Skip
from weftlab.speed import ways
from weftlab.suite import test
from weftlab.topology import Topology

from . import steps
from .diagnose import diagnose, named
from .fabric import PORT, figure_5, settled, until, walks
from .rates import stranger
from .sriov import Side, vfs

LAB = "figure-5"
STEPS = [(4, 4), (4, 2), (4, 1), (3, 1), (2, 1), (1, 1)]
# The most that a link is allowed under load, and bytes a second that are more than it needs to get there and to
# stay there, also if a busy machine lets a quarter of them come about.
FASTEST, LOAD = (2, 1), 600_000_000
TARGETS = ("target_speed", "target_width")
SERVICE = 7101
HUGE_PAGES = "/proc/sys/vm/nr_hugepages"
# What a VF in the hands of a stranger needs: registers, and memory of which the addresses are known.
STRANGER = """import ctypes, mmap, os, struct, sys, time
HUGE, PAGE, MAP_HUGETLB = 2 << 20, 4096, 0x40000
fd = os.open(f"/sys/bus/pci/devices/{sys.argv[1]}/resource0", os.O_RDWR)
regs = memoryview(mmap.mmap(fd, 1 << 17)).cast("I")
memory = mmap.mmap(-1, HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB)
memory[:] = bytes(HUGE)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
with open("/proc/self/pagemap", "rb", buffering=0) as file:
    file.seek(at // PAGE * 8)
    physical = (struct.unpack("<Q", file.read(8))[0] & (1 << 55) - 1) * PAGE


def write(address, value, size=4):
    for word in range(size // 4):
        regs[address // 4 + word] = value >> 32 * word & 0xffffffff


write(R_CTRL, CTRL_ENABLE)
BYTES = 1 << 20
"""
# Opens memory to the neighbour, and to who comes over switches.
SINK = """
write(R_INBOUND + INBOUND_LEN, BYTES, 8)
write(R_INBOUND + INBOUND_BASE, physical, 8)
write(R_INBOUND + INBOUND_RIGHTS, RIGHT_READ | RIGHT_WRITE)
write(R_INBOUND + INBOUND_ALLOW, 1)
write(R_INBOUND + INBOUND_VPS, 1, 8)
write(R_INBOUND + INBOUND_FROM, FROM_ANY)
write(R_INBOUND + INBOUND_CTRL, INBOUND_ENABLE)
if regs[(R_INBOUND + INBOUND_STATUS) // 4] & INBOUND_INVALID:
    sys.exit("the entry is invalid")
print("begins", flush=True)
time.sleep(3600)
"""
# Writes so many bytes a second there: FUNCTION RATE [LID].
SOURCE = """
ENTRIES = 64
write(R_SLOT + SLOT_DEST, DEST_LID | int(sys.argv[3]) if sys.argv[3:] else DEST_LINK)
write(R_SLOT + SLOT_LEN, BYTES, 8)
write(R_SLOT + SLOT_CTRL, SLOT_ENABLE)
for n in range(ENTRIES):
    desc = bytearray(DMA_DESC_BYTES)
    struct.pack_into("<I", desc, DMA_DESC_CTRL, DMA_WRITE)
    struct.pack_into("<Q", desc, DMA_DESC_ADDR, physical + BYTES)
    struct.pack_into("<I", desc, DMA_DESC_LEN, BYTES // 2)
    memory[n * DMA_DESC_BYTES:(n + 1) * DMA_DESC_BYTES] = bytes(desc)
write(R_DMA + DMA_BASE, physical, 8)
write(R_DMA + DMA_ORDER, ENTRIES.bit_length() - 1)
write(R_DMA + DMA_CTRL, DMA_ENABLE)
while not regs[(R_SLOT + SLOT_STATUS) // 4] & SLOT_LIVE:
    time.sleep(0.01)
print("begins", flush=True)
due, last = 0, time.monotonic()
while True:
    # What it was too late for, because others had the processors, it does not make up for: that would be
    # another load.
    now = time.monotonic()
    due += min(now - last, 0.05) * int(sys.argv[2]) / (BYTES // 2)
    due, last = min(due, regs[(R_DMA + DMA_HEAD) // 4] + ENTRIES // 4), now
    write(R_DMA + DMA_TAIL, int(due))
    time.sleep(0.01)
"""
# A channel whose program says that it stores RATE bytes a second, into the bulk ring: how fast a program can store
# depends on how busy the machine is. SERVICE RATE.
TELLER = """import fcntl, mmap, os, struct, sys, time
CONNECT, INFO = "=2IQ6I", "=4IQ6I6Q"
file = os.open("/dev/weft0", os.O_RDWR)
fcntl.ioctl(file, 0x5783, struct.pack(CONNECT, struct.calcsize(CONNECT), 0, 0, 0, int(sys.argv[1]), 16, 4096, 30000, 0))
info = bytearray(struct.pack("=I", struct.calcsize(INFO)).ljust(struct.calcsize(INFO), bytes(1)))
fcntl.ioctl(file, 0x5785, info)
user = memoryview(mmap.mmap(file, mmap.PAGESIZE, offset=struct.unpack(INFO, info)[-2])).cast("Q")
print("begins", flush=True)
begun = time.monotonic()
while True:
    user[3] = int((time.monotonic() - begun) * int(sys.argv[2]))
    time.sleep(0.01)
"""
# Tells of each change of the speed of a link: DIRECTORY SPEED WIDTH, the names of the files.
WATCH = """import os, select, sys, time
def read(name):
    with open(f"{sys.argv[1]}/{name}") as file:
        return file.read().strip()


fd = os.open(f"{sys.argv[1]}/state", os.O_RDONLY)
poll = select.poll()
poll.register(fd, select.POLLPRI)
last = None
while True:
    os.pread(fd, 64, 0)
    now = read(sys.argv[2]), read(sys.argv[3])
    if now != last:
        print(f"{time.monotonic():.2f}", *now, flush=True)
        last = now
    poll.poll(100)
"""


class Changes:
    """What a link of a host has run at since, or was wanted to, each time with when that began. At first: `rate`."""

    def __init__(self, host, link, rate=(4, 8), names=("speed", "width")):
        path = host.push("watch.py", WATCH.encode())
        self.job = host.start_job(f"exec python3 {path} {PORT}/link{link} {' '.join(names)}")
        self.job.expect(" {} {}$".format(*rate), 30)

    def all(self):
        lines = [line.split() for line in self.job.out.splitlines()]
        return [(float(when), (int(speed), int(width))) for when, speed, width in lines]

    def rates(self):
        return [rate for _, rate in self.all()]

    def end(self):
        self.job.kill(9)
        self.job.wait(30)


def power(host, link, word):
    host.run(f"echo {word} >{PORT}/link{link}/power")


def limit(lab, end, rate):
    """What the administrator of the fabric allows the link."""
    lab.fabric.call("link", "set", end, "--speed", rate[0], "--width", rate[1])


def link_file(host, link, name):
    return host.out(f"cat {PORT}/link{link}/{name}")


def rate_of(host, link, names=("speed", "width")):
    speed, width = (int(link_file(host, link, name)) for name in names)
    return speed, width


def wanted(host, link):
    return rate_of(host, link, TARGETS)


def bytes_at(*ends):
    return [int(link_file(side.host, 0, name)) for side, name in ends]


def sessions(host, link):
    """What another number of would mean that a program had noticed."""
    return [link_file(host, link, name) for name in ("readied", "trained", "state")]


def from_the_most(lab, host, link):
    """All links at the most, and then following their traffic again: what this link has run at since."""
    with steps.at_the_most(lab):
        return Changes(host, link)


def needs_huge_pages(host):
    if host.run(f"test -e {HUGE_PAGES}", status=None).status:
        raise Skip("this kernel has no huge pages (CONFIG_HUGETLBFS)")


def moves(side, program, *words):
    """VF 0 moves data, or has them moved to it, as fast as it likes, whatever it might before."""
    side.host.weftctl("vf", "set", 0, 0, "rate=0", "rings=0")
    side.host.run(f"echo 1 >{HUGE_PAGES}")
    return stranger(side, 0, STRANGER + program, *words)


@test("N-8: a link slows down step by step, is fast enough at once for what comes, and stays so while that does", lab="functions of both")
def follows(bench):
    with vfs(bench, 1) as (lab, a, b):
        needs_huge_pages(a.host)
        before = [sessions(side.host, 0) for side in (a, b)]
        changes = from_the_most(lab, a.host, 0)
        until("the slowest", lambda: changes.rates()[-1:] == STEPS[-1:], 60)
        if changes.rates() != [(4, 8), *STEPS]:
            raise Mismatch(f"not step by step: {changes.all()}")
        times = [when for when, _ in changes.all()][1:]
        if any(later - when < 1.5 for when, later in zip(times, times[1:])):
            raise Mismatch(f"not one after the other: {changes.all()}")
        # The link is what the slower end wants; the other one comes to the same.
        until("what either end wants", lambda: all(wanted(side.host, 0) == (1, 1) for side in (a, b)))
        named(diagnose(a.host), "link-saves-power", "note", "gen1 x1", "gen4 x8", "performance")
        idle = len(changes.all())
        # Since the reset of either, which was not at the same time.
        counted = bytes_at((a, "bytes_out"), (b, "bytes_in"))
        limit(lab, "h1:0", FASTEST)
        with moves(b, SINK):
            # Both take part: what is out here is in there.
            with moves(a, SOURCE, LOAD):
                until("faster", lambda: changes.rates()[-1] != (1, 1), 10)
                until("seconds of it", lambda: bytes_at((a, "bytes_out"))[0] - counted[0] >= 6 * LOAD, 60)
                meanwhile = changes.rates()[idle:]
            if meanwhile != [FASTEST]:
                raise Mismatch(f"a load that lasts: {meanwhile}")
            until("slow again", lambda: changes.rates()[-1] == (1, 1), 60)
        now = bytes_at((a, "bytes_out"), (b, "bytes_in"))
        carried = [here - was for here, was in zip(now, counted)]
        # Heartbeats go on between the two looks.
        if carried[0] < 6 * LOAD or abs(carried[0] - carried[1]) > 1 << 16:
            raise Mismatch(f"the ends count {carried} bytes")
        limit(lab, "h1:0", (4, 8))
        for side in (a, b):
            power(side.host, 0, "performance")
        until("the most", lambda: changes.rates()[-1] == (4, 8), 10)
        changes.end()
        for side in (a, b):
            power(side.host, 0, "auto")
        if [sessions(side.host, 0) for side in (a, b)] != before:
            raise Mismatch("a program has noticed more than the speed")


@test("N-8: routes avoid a link that saves power, nothing is reset for that, and they come back to one that does not")
def routes(bench):
    lab = bench.shape("figure-5", figure_5())
    # But for one link: routes do not avoid one that is as slow as all others.
    with steps.at_the_most(lab):
        avoid_a_slow_link(lab)


def avoid_a_slow_link(lab):
    hosts = list(lab.hosts.values())
    n2, n3, _ = hosts
    found = settled(hosts, 2, 3)
    lids = {name: s["lid"] for name, s in found.items()}

    def direct(yes):
        return lambda: len(lab.fabric.walk("n2", lids["n3"])["hops"]) == (1 if yes else 2)

    until("the direct route", direct(True))
    before = sessions(n2, 2), sessions(n3, 2)
    n2.run(f"! echo sometimes >{PORT}/link2/power")
    n2.run(f"! echo 1 >{PORT}/link2/target_speed")
    power(n3, 2, "auto")
    until("a way around the slow link", direct(False), 60)
    walks(lab, ["n2", "n3", "n4"], lids)
    if (sessions(n2, 2), sessions(n3, 2)) != before:
        raise Mismatch("a link that is slow is not what it was")
    shown = [p["links"][2] for p in (n3.weftctl_json("show")["ports"][0], n3.weftctl_json("ports")["ports"][0])]
    if any((link["power"], link["max_speed"], link["max_width"]) != ("auto", 4, 8) for link in shown):
        raise Mismatch(f"{shown}")
    # A port that is reset has not forgotten it: the link begins at the most, and slows down again.
    until("the slowest", lambda: (link_file(n2, 2, "speed"), link_file(n2, 2, "width")) == ("1", "1"), 60)
    changes = Changes(n2, 2, STEPS[-1])
    n3.run(f"echo 1 >{PORT}/reset", 60)
    # The steps are seen as they come: the first one is over after two seconds.
    until("slow again", lambda: changes.rates()[-len(STEPS) - 1 :] == [(4, 8), *STEPS], 60)
    changes.end()
    n3.wait_link("ready")
    if link_file(n3, 2, "power") != "auto":
        raise Mismatch("a port that was reset has forgotten the policy of its link")
    power(n3, 2, "performance")
    until("the direct route again", direct(True))
    settled(hosts, 2, 3)


@test("N-8: links follow their traffic from the start, unless the parameter says otherwise, and what is sent over "
      "idle ones is whole")
def from_the_start(bench):
    lab = bench.shape("figure-5", figure_5())
    n2, n3, _ = hosts = list(lab.hosts.values())
    for parameters, word in ((["link_power=0"], "performance"), ([], "auto")):
        n2.rmmod()
        n2.insmod(*parameters)
        said = n2.out(f"cat {PORT}/link*/power").split()
        if not said or set(said) != {word}:
            raise Mismatch(f"with {parameters}: {said}")
    settled(hosts, 2, 3)
    until("the slowest", lambda: all(rate_of(*end) == STEPS[-1] for end in ((n2, 0), (n2, 2), (n3, 2))), 60)
    before = sessions(n2, 2), sessions(n3, 2)

    def counted():
        return [int(link_file(host, 2, name)) for host, name in ((n2, "bytes_out"), (n3, "bytes_in"))]

    was, size = counted(), 3_000_000
    steps.carry(lab, "n2", "n3", size, "idle", 8, ("--link", 2))
    # The channel is closed, perhaps before the timer has looked at it once.
    until("all of it is counted", lambda: all(now - one >= size for one, now in zip(was, counted())), 10)
    if (sessions(n2, 2), sessions(n3, 2)) != before:
        raise Mismatch("a link that was idle is not what it was")


@test("N-8: a link busy with a channel, of whose data no call of the kernel tells, is not idle, and gets fast at once; "
      "what queue pairs store is counted at both ends")  # fmt: skip
def mapped(bench):
    lab = bench.shape("figure-5", figure_5())
    n2, n3, n4 = hosts = list(lab.hosts.values())
    settled(hosts, 2, 3)
    ends = (n2, 0), (n4, 2)
    # By the CPU: longer messages of queue pairs are for the DMA engine, which the port sees.
    size, count = 16384, 200
    with serving(n4, f"qp 0 {SERVICE} polled 1") as way:
        counted = carried(ends)
        n2.run(f"{ways.PROGRAM} run {way} stream:{size}:{count}", ways.PATIENCE)

    def all_counted():
        return all(now - was >= size * count for now, was in zip(carried(ends), counted))

    # The pair is closed, perhaps before the timer has looked at it once.
    until("all of it is counted", all_counted, 10)
    # Load is reckoned by what the link is: the slowest stays full.
    limit(lab, "n2:0", STEPS[-1])
    try:
        busy(n2, n4, n3, ends)
    finally:
        limit(lab, "n2:0", (4, 8))


@contextlib.contextmanager
def serving(host, way):
    """A program at the other end of that way, while it is needed."""
    job = host.start_job(f"exec {ways.PROGRAM} serve {way}")
    try:
        job.expect("^listening", 60)
        yield way
    finally:
        job.kill(9)
        job.wait(30)


def carried(ends):
    """Bytes that the first end has sent, and the second one got."""
    return [int(link_file(*end, name)) for end, name in zip(ends, ("bytes_out", "bytes_in"))]


def bandwidths(watch):
    return [width << speed for speed, width in watch.rates()]


def busy(n2, n4, n3, ends):
    """A program at n2 sends more to one at n4 than the link carries; the link to n3 is idle."""
    until("the least is wanted", lambda: all(wanted(*end) == STEPS[-1] for end in ends), 60)
    watches = [Changes(host, link, STEPS[-1], TARGETS) for host, link in ends]
    with serving(n4, f"channel 0 {SERVICE} sleeping"):
        sending = n2.start_job(f"exec python3 {n2.push('teller.py', TELLER.encode())} {SERVICE} {LOAD}")
        sending.expect("^begins", 60)
        until("wanted fast", lambda: all(watch.rates()[-1] != STEPS[-1] for watch in watches), 20)
        # While an idle link goes down two steps the busy one is not wanted slower.
        for host in (n2, n3):
            power(host, 2, "performance")
        until("the most of the idle link", lambda: rate_of(n2, 2) == (4, 8), 20)
        for host in (n2, n3):
            power(host, 2, "auto")
        until("two steps of the idle link", lambda: rate_of(n2, 2) in STEPS[1:], 60)
        fast = [bandwidths(watch) for watch in watches]
        for watch, rates in zip(watches, fast):
            if rates != sorted(rates):
                raise Mismatch(f"wanted slower while it carries: {watch.all()}")
        sending.kill(9)
        sending.wait(30)
        until("slower again", lambda: all(bandwidths(watch)[-1] < rates[-1] for watch, rates in zip(watches, fast)), 60)
    for watch in watches:
        watch.end()


def two_ways():
    """h1 at one switch, h2 at another, and two cables between these; a slow one needs no saving."""
    shape = Topology().switch("s1", 8).switch("s2", 8).host("h1", 1).host("h2", 2)
    shape.link("h1:0", "s1:0").link("h2:0", "s2:0").link("s1:4", "s2:4")
    return shape.link("s1:5", "s2:5", speed=2, width=1)


@test("N-8: a cable between two switches slows down step by step, routes avoid it, and a load has it fast at once",
      lab="two-ways", long=True)  # fmt: skip
def switches(bench):
    lab = bench.shape("two-ways", two_ways(), vfs=1, vf_slots=4)
    a, b = (Side(host) for host in lab.hosts.values())
    needs_huge_pages(a.host)
    lids = {name: s["lid"] for name, s in settled([a.host, b.host], 1, 4).items()}

    def rates():
        """Of the cable, as the fabric tells of each change."""
        told = re.findall(r"link s1:4--s2:4 runs at gen(\d) x(\d+)", lab.fabric.log.read_text())
        return [(int(speed), int(width)) for speed, width in told]

    def by(end):
        return lambda: [h["from"] for h in lab.fabric.walk("h1", lids["h2"])["hops"]][1:2] == [end]

    for side in (a, b):
        side.numvfs(1)
    until("the fast cable", by("s1:4"))
    before = sessions(a.host, 0), sessions(b.host, 0)
    lab.fabric.call("link", "set", "s1:4", "--power", "auto")
    until("the slowest", lambda: rates()[-1:] == STEPS[-1:], 60)
    if rates() != STEPS:
        raise Mismatch(f"not step by step: {rates()}")
    until("the cable that is the faster one now", by("s1:5"))
    walks(lab, ["h1", "h2"], lids)
    shown = lab.fabric.call("status").stdout
    if "s1:4 ==== gen1 x1 ==== s2:4" not in shown or "as its traffic asks" not in shown:
        raise Mismatch(shown)
    # There is no other any more.
    lab.fabric.link("down", "s1:5")
    until("the slow cable", by("s1:4"))
    limit(lab, "s1:4", FASTEST)
    with moves(b, SINK), moves(a, SOURCE, LOAD, lids["h2"]):
        until("faster", lambda: rates() != STEPS, 20)
        counted = bytes_at((a, "bytes_out"))[0]
        until("seconds of it", lambda: bytes_at((a, "bytes_out"))[0] - counted >= 4 * LOAD, 60)
        up = rates()[len(STEPS) :]
        if up != [FASTEST]:
            raise Mismatch(f"a load that lasts: {up}")
    limit(lab, "s1:4", (4, 8))
    lab.fabric.link("up", "s1:5")
    lab.fabric.call("link", "set", "s1:4", "--power", "performance")
    # Perhaps by the limit alone: what a full link is wanted to be is the most.
    until("the most", lambda: "s1:4 ==== gen4 x8 ==== s2:4" in lab.fabric.call("status").stdout, 10)
    until("the fast cable again", by("s1:4"))
    settled([a.host, b.host], 1, 4)
    if (sessions(a.host, 0), sessions(b.host, 0)) != before:
        raise Mismatch("the links of the hosts have been down")
    for side in (a, b):
        side.numvfs(0)
