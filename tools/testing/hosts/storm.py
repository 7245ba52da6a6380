# SPDX-License-Identifier: GPL-2.0
"""Doorbells that neighbours ring all the time: what the host that they ring at has left.

In each neighbour a program without privileges stores to the doorbell page that it has mapped, some hundred
times a second. It pauses in between: without that it would keep busy the emulator of the other host, where
no driver can help. For comparison it stores to memory of its own. What is measured is of the guest's own
clock. The median of short loops leaves out what else the machine has to do; without a limit each of them
meets interrupts. Interrupts and wake-ups are counted and have limits; what is left of the processor and of another
link's rate are times, which are printed.
"""

import contextlib
import json
import signal
import statistics

from weftlab.errors import Mismatch
from weftlab.speed import ways
from weftlab.suite import test

from .far import DEVICE, chain
from .faults import header

LAB = "chain"
SERVICE = 7500
# As rust/hw/weft_port/limit.rs has it: so many rings at once, then one in each period.
BURST, PERIOD = 64, 0.010
# Other interrupts in a second: heartbeats, messages of the manager.
OTHERS = 60
SECONDS = 1.5
# Sleepers at the ends of so many channels of each neighbour.
CHANNELS = 8
# How often each is measured, with and without doorbells.
ROUNDS = 3
TRIPS = 400
# Seconds from ring to ring: few enough for several times as many interrupts as the limit, and enough for the
# emulator of the other host, which stands for its port, not to be what is measured.
PAUSE = 2e-3

COMMON = """import fcntl, mmap, os, select, signal, struct, sys, time


def call(file, number, layout, *values):
    words = bytearray(struct.pack("<I" + layout, 4 + struct.calcsize("<" + layout), *values))
    fcntl.ioctl(file, {type} << 8 | {base} + number, words)
    return words


"""
# Accepts COUNT channels, and sleeps until something comes over one of them.
SLEEP = """listener = os.open("/dev/weft0", os.O_RDWR)
count = int(sys.argv[1])
call(listener, {listen}, "III", 0, {service}, count)
print("listening", os.getpid(), flush=True)
files, waiting = select.poll(), select.poll()
waiting.register(listener, select.POLLIN)
for _ in range(count):
    waiting.poll()
    file = os.open("/dev/weft0", os.O_RDWR)
    call(file, {accept}, "IiI", 0, listener, 0)
    files.register(file, select.POLLIN)
print("sleeping", flush=True)
print("woken", files.poll(), flush=True)
"""
# Connects COUNT channels, gives up its privileges, and stores to memory of its own, or, from signal to
# signal, to the doorbell page, with pauses of SECONDS.
RING = """for _ in range(int(sys.argv[1])):
    file = os.open("/dev/weft0", os.O_RDWR)
    call(file, {connect}, "IQIIIIII", 0, 0, 0, {service}, 16, 4096, 20000, 0)
told = call(file, {info}, "IIIQIIIIIIQQQQQQ", *[0] * 16)
value, page = struct.unpack_from("<I", told, 44)[0], struct.unpack_from("<Q", told, 88)[0]
os.setgid(65534)
os.setuid(65534)
both = mmap.PROT_READ | mmap.PROT_WRITE
places = [memoryview(mmap.mmap(-1, 4096)).cast("I")]
places.append(memoryview(mmap.mmap(file, 4096, mmap.MAP_SHARED, both, offset=page)).cast("I"))
names = ["quiet", "ringing"]


def turn(*_):
    places.reverse()
    names.reverse()
    print(names[0], flush=True)


signal.signal(signal.SIGUSR1, turn)
print("connected", flush=True)
while True:
    places[0][0] = value
    time.sleep(float(sys.argv[2]))
"""
# How long loops take in so many SECONDS, what interrupts and doorbells there were in that time, and how
# often process PID was woken.
METER = """import sys, time
COUNTERS = "/sys/class/weft/weft0/device/counters/"


def loop():
    begin = time.monotonic()
    for _ in range(10000):
        pass
    return time.monotonic() - begin


def look():
    status = open(f"/proc/{sys.argv[2]}/status").read()
    woken = status.partition("voluntary_ctxt_switches:")[2].split()[0]
    return [int(open(COUNTERS + name).read()) for name in ("interrupts", "rx_doorbells")] + [int(woken)]


begin, before, took = time.monotonic(), look(), []
while time.monotonic() - begin < float(sys.argv[1]):
    took.append(loop())
after = look()
print(time.monotonic() - begin, *(b - a for a, b in zip(before, after)), *took)
"""


def program(host, name, text):
    """The command that runs a program in Python at a host."""
    calls = ("LISTEN", "CONNECT", "ACCEPT", "INFO")
    numbers = {call.lower(): header(f"WEFT_CHAN_{call}") for call in calls}
    numbers |= {"type": header("WEFT_IOC_TYPE"), "base": header("WEFT_IOC_BASE"), "service": SERVICE}
    for word, number in numbers.items():
        text = text.replace("{" + word + "}", str(number))
    return f"exec python3 {host.push(name, text.encode())}"


class Storm:
    """Neighbours of h2 with channels to it, over each of which a receiver there sleeps."""

    def __init__(self, lab, *neighbours):
        self.h2 = lab["h2"]
        count = CHANNELS * len(neighbours)
        self.sleeping = self.h2.start_job(program(self.h2, "sleep.py", COMMON + SLEEP) + f" {count}")
        self.pid = int(self.sleeping.expect(r"^listening (\d+)", 30)[1])
        self.ringing = []
        for name in neighbours:
            job = lab[name].start_job(program(lab[name], "ring.py", COMMON + RING) + f" {CHANNELS} {PAUSE}")
            job.expect("^connected", 60)
            self.ringing.append(job)
        self.sleeping.expect("^sleeping", 60)
        self.times = 0

    def turn(self):
        """All of them begin to ring, or all are quiet again."""
        self.times += 1
        said = ["ringing", "quiet"] * self.times
        for job in self.ringing:
            job.kill(signal.SIGUSR1)
        for job in self.ringing:
            job.expect("^" + r"\n(?s:.*)^".join(said[: self.times]), 30)

    def measure(self):
        """(median of the loops, seconds, interrupts, doorbells, how often the sleepers were woken) at h2."""
        line = program(self.h2, "meter.py", METER)
        took, interrupts, doorbells, woken, *loops = self.h2.out(f"{line} {SECONDS} {self.pid}", 120).split()
        loops = [float(loop) for loop in loops]
        return statistics.median(loops), float(took), int(interrupts), int(doorbells), int(woken)

    def woken(self):
        """How often the sleepers were."""
        return int(self.h2.out(f"awk '/^voluntary/ {{ print $2 }}' /proc/{self.pid}/status"))

    def end(self):
        for job in [*self.ringing, self.sleeping]:
            if job.running:
                job.kill(signal.SIGKILL)
            job.wait(30)


def work(lab, sender, job):
    """A job of weft-bench between a neighbour and h2, whose ends sleep: {(job, bytes): (seconds, count)}."""
    way = f"channel 0 {SERVICE + 1} sleeping"
    serving = lab["h2"].start_job(f"{ways.PROGRAM} serve {way}")
    serving.expect("^listening", 60)
    done = lab[sender].run(f"{ways.PROGRAM} run {way} {job}", 300)
    serving.wait(60).must()
    lines = [json.loads(line) for line in done.out.splitlines()]
    return {(one["job"], one["bytes"]): (one["seconds"], one["count"]) for one in lines}


@contextlib.contextmanager
def storm(lab, *neighbours):
    made = Storm(lab, *neighbours)
    try:
        yield made
    finally:
        made.end()


@test("doorbells of all neighbours at once interrupt a host as often as the limit says, and wake no program")
def processor(bench):
    calm, busy = [], []
    with storm(chain(bench), "h1", "h3") as made:
        for _ in range(ROUNDS):
            calm.append(made.measure())
            made.turn()
            busy.append(made.measure())
            made.turn()
    took, interrupts, doorbells, woken = (sum(each[n] for each in busy) for n in range(1, 5))
    without, within = min(calm)[0], min(busy)[0]
    bench.note(f"{doorbells / took:.0f} doorbells/s, {interrupts / took:.0f} interrupts/s, "
               f"{100 * without / within:.0f} % of the processor")  # fmt: skip
    rings = len(made.ringing) * (len(busy) * BURST + took / PERIOD)
    if doorbells < rings:
        raise Mismatch(f"nothing to limit: {doorbells} doorbells in {took} s")
    if interrupts > rings + OTHERS * took:
        raise Mismatch(f"{interrupts} interrupts in {took} s")
    if woken:
        raise Mismatch(f"the sleepers were woken {woken} times, and nothing had come")


@test("doorbells of one neighbour wake no program while another sends")
def other_link(bench):
    lab = chain(bench)

    def seconds():
        (took, _), *_ = work(lab, "h3", f"stream:{64 << 10}:2000").values()
        return took

    with storm(lab, "h1") as made:
        before = made.woken()
        calm, busy = [], []
        for _ in range(ROUNDS):
            calm.append(seconds())
            made.turn()
            busy.append(seconds())
            made.turn()
        woken = made.woken() - before
    bench.note(f"{100 * min(calm) / min(busy):.0f} % of the rate, the best of {len(busy)} each")
    if woken:
        raise Mismatch(f"the sleepers were woken {woken} times, and nothing had come")


@test("ends that sleep for each message are not put off")
def honest(bench):
    lab = chain(bench)
    each = [next(iter(work(lab, "h3", f"round-trip:64:{TRIPS}").values())) for _ in range(ROUNDS)]
    took, trips = min(each)
    limited = [lab[name].out(f"cat {DEVICE}/counters/doorbells_limited || :") for name in ("h2", "h3")]
    bench.note(f"{took / trips * 1e6:.0f} us a round trip; doorbells without credit: {' '.join(limited)}")
    # A message that waits for a doorbell to be looked at waits for half a period, each way.
    if took / trips > PERIOD / 2:
        raise Mismatch(f"{took / trips * 1e3:.1f} ms a round trip")
