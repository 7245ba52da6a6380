# SPDX-License-Identifier: GPL-2.0
"""A neighbour whose kernel says what it likes, as fast as it can: what that costs the host beside it, and the
other links of that host."""

import contextlib
import time

from weftlab import paths, topology
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps
from .constants import constants
from .far import ids

LAB = "chain"
PORT = "/sys/class/weft/weft0/device"
TRACING = "/sys/kernel/tracing"
# rust/proto/link.rs: how often an arena is granted at once, and how many times a second beyond that.
BURST, RATE = 8, 2
# How long the neighbour sends.
SECONDS = 3
# Longer than a neighbour may be silent (rust/proto/heartbeat.rs), twice.
FLAP_SECONDS = 8
# Until it is there, the neighbour sends nothing.
GO = "/tmp/go"
# A neighbour without a driver: FILE GO SECONDS. It sends the hellos of three incarnations in turn.
HELLOS = """import mmap, os, struct, sys, time
regs = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 1 << 17)).cast("I")


# rust/proto/wire.rs: without an offer, to whatever session there is. The hardware id is the port's own: the
# fabric attests no other.
def hello(generation):
    body = bytes(24)
    hwid = regs[R_HWID // 4] | regs[R_HWID // 4 + 1] << 32
    head = struct.pack("<4sBBHQIIQQII", b"WEFT", WIRE_VERSION, 1, 48 + len(body), hwid, generation, 0, 1, 0, 1, 0)
    data = head[:44] + struct.pack("<I", crc32c(head + body)) + body
    return [word for word, in struct.iter_unpack("<I", data)]


regs[R_CTRL // 4] = CTRL_ENABLE
while not regs[R_LINK // 4] & LINK_UP:
    time.sleep(0.01)
hellos = [hello(generation) for generation in (97, 98, 99)]
print("begins", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
sent, end = 0, time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    for words in hellos:
        for n, word in enumerate(words, R_MBOX_TX_DATA // 4):
            regs[n] = word
        regs[R_MBOX_TX_CTRL // 4] = 4 * len(words) << 8
        sent += 1
print(f"{sent} sent", flush=True)
"""

# FILE GO SECONDS. It takes its end of the link down and up again, ten times a second.
FLAPS = """import mmap, os, sys, time
regs = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 1 << 17)).cast("I")
regs[R_CTRL // 4] = CTRL_ENABLE
while not regs[R_LINK // 4] & LINK_UP:
    time.sleep(0.01)
print("begins", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
times, end = 0, time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    for disable in (LINK_DISABLE, 0):
        regs[(R_LINK + LINK_CTRL) // 4] = disable
        time.sleep(0.05)
    times += 1
print(f"{times} times", flush=True)
"""


@contextlib.contextmanager
def neighbour(host, program, *words):
    """The port of `host` in the hands of a program that knows its registers."""
    device = host.out(f"readlink -f {PORT}")
    host.rmmod()
    host.run(f"echo 1 >{device}/enable")
    path = host.push("neighbour.py", (constants() + paths.CRC.read_text() + program).encode())
    host.run(f"rm -f {GO}")
    job = host.start_job(f"exec python3 {path} {device}/resource0 {GO} {' '.join(map(str, words))}")
    try:
        job.expect("^begins", 60)
        yield job
    finally:
        if job.running:
            job.kill(9)
        job.wait(60)
        host.run(f"echo 1 >{device}/reset && echo 0 >{device}/enable")


def number(host, name):
    return int(host.out(f"cat {PORT}/{name}"))


def flood(bench, h1, h2, job):
    """The neighbour sends for its time; how many seconds that took at most."""
    names = ("counters/rx_messages", "counters/messages_dropped", "link1/arena_zeroed")
    before, began = [number(h2, name) for name in names], time.monotonic()
    h1.run(f"touch {GO}")
    job.expect("sent", 60)
    read, dropped, zeroed = (number(h2, name) - old for name, old in zip(names, before))
    took = time.monotonic() - began
    grants = zeroed / number(h2, "link1/arena_bytes")
    bench.note(f"{job.out.split()[-2]} hellos in {SECONDS} s: the device took {read} and dropped {dropped}, "
               f"{grants:.0f} grants")  # fmt: skip
    return took, grants


@test("hellos of many incarnations have the arena zeroed as often as the limit says, and the session of another link goes on")
def many_incarnations(bench):
    lab = bench.shape("chain", topology.chain(3))
    h1, h2 = lab["h1"], lab["h2"]
    # Link 0 of h2 leads to h3, link 1 to h1.
    readied = number(h2, "link0/readied")
    way = steps.UnderWay(lab, "beside", by="h2", to="h3", options=("--to", ids(lab)["h3"]), size=24 << 20)
    with neighbour(h1, HELLOS, SECONDS) as job:
        took, grants = flood(bench, h1, h2, job)
    most = BURST + RATE * took + 1
    if not 1 <= grants <= most:
        raise Mismatch(f"in {took:.1f} s there were {grants} grants, of {most:.0f} at most")
    way.whole(resumed=False)
    if number(h2, "link0/readied") != readied:
        raise Mismatch("the session with h3 ended")


@test("messages of a neighbour that sends without end are acted upon at normal priority, and other links lose none")
def normal_priority(bench):
    lab = bench.shape("chain", topology.chain(3))
    h1, h2 = lab["h1"], lab["h2"]
    if h2.run(f"test -d {TRACING}/events", status=None).status:
        h2.run(f"mount -t tracefs tracefs {TRACING}")
    readied = number(h2, "link0/readied")
    sends = f"{TRACING}/events/weft/weft_mbox_send"
    try:
        with neighbour(h1, HELLOS, SECONDS) as job:
            # The first hello is sent where the link's interrupt is handled.
            h2.wait_link("hello", link=1)
            h2.run(f"echo 'link == 1' >{sends}/filter && echo >{TRACING}/trace && echo 1 >{sends}/enable")
            flood(bench, h1, h2, job)
        # A line begins with the name of the thread; the manager's messages are not traced.
        lines = [line for line in h2.out(f"cat {TRACING}/trace").splitlines() if "weft_mbox_send:" in line]
    finally:
        h2.run(f"echo 0 >{sends}/enable && echo 0 >{sends}/filter")
    urgent = [line for line in lines if line.split()[0].startswith("irq/")]
    if urgent or not lines:
        raise Mismatch(f"{len(urgent)} of {len(lines)} messages were answered in an interrupt thread:\n"
                       + "\n".join(urgent[:5]))  # fmt: skip
    lost, flooded = (number(h2, f"link{n}/messages_dropped") for n in (0, 1))
    bench.note(f"the driver dropped {flooded}")
    if lost or number(h2, "link0/readied") != readied:
        raise Mismatch(f"of h3's messages {lost} were dropped, or its session ended")


@test("a neighbour whose link goes down and comes up without end has no other link fall silent")
def flapping(bench):
    lab = bench.shape("chain", topology.chain(3))
    h1, h2, h3 = (lab[name] for name in ("h1", "h2", "h3"))
    names = ("link0/readied", "link1/trained", "counters/tx_messages")
    before = [number(h2, name) for name in names]
    with neighbour(h1, FLAPS, FLAP_SECONDS) as job:
        h1.run(f"touch {GO}")
        job.expect("times", 60)
    readied, trained, sent = (number(h2, name) - old for name, old in zip(names, before))
    bench.note(f"{job.out.split()[-2]} times in {FLAP_SECONDS} s; h2 saw it come up {trained} times, and sent {sent} messages")
    if trained < FLAP_SECONDS:
        raise Mismatch("h2 hardly noticed: nothing was tested")
    if readied:
        raise Mismatch("the session with h3 ended")
    h3.check_dmesg()
