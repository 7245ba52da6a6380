# SPDX-License-Identifier: GPL-2.0
"""Queue pairs that outlast what is below them: their programs keep everything, and wait a moment."""

import contextlib
import json
import os
import re
import signal
import time

from weftlab.errors import Mismatch, Skip
from weftlab.suite import test

from .migration import SYSFS, back, holding, migrate, moving

LAB = "twins"
# A program that sleeps in a call of a port, and makes others meanwhile, until it is asked to end: DEVICE
# accept|connect|completion|listen|argument|result|memory SERVICE STOP. "listen" sleeps in none, and accepts nothing.
# The last three sleep where the driver reads the argument, writes the result, or pins memory: userfaultfd has it wait for
# a page that does not come.
SLEEPER = """import ctypes, fcntl, mmap, os, struct, sys, threading, time
INFO, LISTEN, CONNECT, ACCEPT, PD_ALLOC, MR_REG = 22400, 22402, 22403, 22404, 22407, 22408
CQ_CREATE, CQ_WAIT, FOREVER = 22410, 22426, 0xffffffff
USERFAULTFD, API, REGISTER, PROTECT, MISSING, WRITES = 323, 0xc018aa3f, 0xc020aa00, 0xc018aa06, 1, 2
device, what, service, stop = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
libc = ctypes.CDLL(None, use_errno=True)
pages = []
listener, fresh = os.open(device, os.O_RDWR), os.open(device, os.O_RDWR)
if what in ("accept", "listen"):
    fcntl.ioctl(listener, LISTEN, struct.pack("=IIII", 16, 0, service, 4))
    print("listening", flush=True)
call = {
    "accept": lambda: fcntl.ioctl(fresh, ACCEPT, struct.pack("=IIiI", 16, 0, listener, 0)),
    "connect": lambda: fcntl.ioctl(fresh, CONNECT, struct.pack("=IIQIIIIII", 40, 0, 0, 0, service, 16, 4096, 60000, 0)),
    "completion": lambda: completion(),
    "argument": lambda: by_address(INFO, awaited(MISSING)),
    "result": lambda: by_address(INFO, awaited(WRITES, struct.pack("=I", 40))),
    "memory": lambda: memory(),
}.get(what)


def awaited(mode, content=b""):
    "The address of a page for which the kernel waits in vain, to read it or to write to it."
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.append(page)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    fd = libc.syscall(USERFAULTFD, os.O_CLOEXEC)
    fcntl.ioctl(fd, API, struct.pack("=QQQ", 0xaa, mode & WRITES and 1, 0))
    fcntl.ioctl(fd, REGISTER, struct.pack("=QQQQ", at, 4096, mode, 0))
    if mode == WRITES:
        page[:len(content)] = content
        fcntl.ioctl(fd, PROTECT, struct.pack("=QQQ", at, 4096, 1))
    return at


def by_address(number, at):
    if libc.ioctl(fresh, ctypes.c_ulong(number), ctypes.c_void_p(at)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def completion():
    cq = bytearray(struct.pack("=IIIiIIQQ", 40, 0, 16, -1, 0, 0, 0, 0))
    fcntl.ioctl(fresh, CQ_CREATE, cq)
    handle = struct.unpack_from("=I", cq, 16)[0]
    fcntl.ioctl(fresh, CQ_WAIT, struct.pack("=IIQIIII", 32, 0, 0, handle, 0, 0, FOREVER))


def asleep(function):
    "In the kernel's words, or in a function of the driver's."
    return function in ("wait_woken", "handle_userfault") or "weft" in function


def memory():
    pd = bytearray(struct.pack("=IIII", 16, 0, 0, 0))
    fcntl.ioctl(fresh, PD_ALLOC, pd)
    fcntl.ioctl(fresh, MR_REG, struct.pack("=IIQQQIIIIII", 56, 0, awaited(MISSING), 4096, 0,
                                           struct.unpack("=IIII", pd)[2], 1, 1, 0, 0, 0))


def sleeps():
    try:
        call()
        print(what, "done", flush=True)
    except OSError as error:
        print(what, "failed:", error.strerror, flush=True)


if call:
    thread = threading.Thread(target=sleeps, daemon=True)
    thread.start()
    wchan = f"/proc/self/task/{thread.native_id}/wchan"
    while not asleep(open(wchan).read()):
        time.sleep(0.01)
    print("asleep", flush=True)
calls, longest = 0, 0
while not os.path.exists(stop):
    begin = time.monotonic()
    fcntl.ioctl(listener, INFO, struct.pack("=I", 40) + bytes(36))
    calls, longest = calls + 1, max(longest, time.monotonic() - begin)
    time.sleep(0.01)
print(f"{calls} calls, the longest {round(longest * 1000)} ms", flush=True)
"""
FOLLOW = "/mnt/tools/weft-follow"
# A program that closes a region that takes long to be unmapped, when a path is not there any more: DEVICE MIB
# PATH. No two pages beside each other are contiguous in physical memory: each is mapped by itself.
CLOSER = """import ctypes, fcntl, mmap, os, struct, sys, time
PD_ALLOC, MR_REG, PAGE, NO_HUGE = 22407, 22408, 4096, 15
device, bytes, path = sys.argv[1], int(sys.argv[2]) << 20, sys.argv[3]
memory = mmap.mmap(-1, bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(NO_HUGE)
for first in range(2):
    for at in range(first * PAGE, bytes, 2 * PAGE):
        memory[at] = 1
addr = ctypes.addressof(ctypes.c_char.from_buffer(memory))
fd = os.open(device, os.O_RDWR)
pd = bytearray(struct.pack("=IIII", 16, 0, 0, 0))
fcntl.ioctl(fd, PD_ALLOC, pd)
pd = struct.unpack("=IIII", pd)[2]
fcntl.ioctl(fd, MR_REG, struct.pack("=IIQQQIIIIII", 56, 0, addr, bytes, 0, pd, 1, 1, 0, 0, 0))
print("registered", flush=True)
while os.path.lexists(path):
    time.sleep(0.001)
print("closing", flush=True)
os.close(fd)
print("closed", flush=True)
"""
TRACING = "/sys/kernel/tracing"
# What is seen of DMA mappings: a page is unmapped; a driver is to get a device, and has left it.
PROBES = {"unmap": "weft:weft_dma_unmap", "probe": "pci_device_probe", "unbound": "devres_release_all"}
STACKS = "hist:keys=common_stacktrace"
KEEP = "/mnt/tools/weft-keep"
SERVICE = 7431
# How often a function moves in a row: more by hand.
MOVES = int(os.environ.get("WEFT_MIGRATIONS", "4"))
SAID = r"queue pair \d+, (\d+) done, (\d+) received, (\d+) counted, longest [\d.]+ ms, pauses \[(.*)\] ms"


class Keeping:
    """A queue pair of each host, busy in both directions: weft-keep checks every completion. With a pace,
    each end posts a request in so many milliseconds; without, as many as it can."""

    def __init__(self, here, hwid, there, node, pace=None):
        self.here, self.stop = here, f"/tmp/stop{hwid}"
        here.run(f"rm -f {self.stop}")
        more = "" if pace is None else f" {pace}"
        self.listener = there.start_job(f"exec {KEEP} listen {node} {SERVICE}{more}")
        self.listener.expect("listening", 30)
        self.job = here.start_job(f"exec {KEEP} run {hwid} {SERVICE} {self.stop}{more}")
        self.job.expect("running", 60)

    def whole(self, least=10):
        """Ends it: what both ends say, as numbers, and the pauses of the first one. `least`: how much of each kind
        must have been done."""
        self.here.run(f"touch {self.stop}")
        ours = self.job.wait(90)
        theirs = self.listener.wait(90 if not ours.status else 1)
        if ours.status or theirs.status:
            raise Mismatch(f"{ours.status}: {ours.out}{ours.err}; the other end {theirs.status}: "
                           f"{theirs.out}{theirs.err}")  # fmt: skip
        ours, theirs = (re.search(SAID, done.out) for done in (ours, theirs))
        counts = [[int(number) for number in said.group(1, 2, 3)] for said in (ours, theirs)]
        if min(map(min, counts)) < least:
            raise Mismatch(f"too little was done: {counts}")
        pauses = [int(pause) for pause in ours[4].split(", ") if pause]
        return counts, pauses

    def end(self):
        for job in (self.job, self.listener):
            if job.running:
                job.kill(signal.SIGKILL)
                with contextlib.suppress(Exception):
                    job.wait(20)


@contextlib.contextmanager
def keeping(here, hwid, there, node, pace=None):
    made = Keeping(here, hwid, there, node, pace)
    try:
        yield made
    finally:
        made.end()


@test("MR-8: a function is reset, at either end, and queue pairs over it go on: not one completion is lost, "
      "repeated or out of order", patient=True, long=True)
def resets(bench):
    with moving(bench) as (lab, a, b):
        # A VF, that of its peer, and the PF that it is of.
        for name, host, function in (
            ("VF", lab["h1"], a[0].vf(0)), ("peer's VF", lab["h2"], b[0].vf(0)), ("PF", lab["h1"], a[0].pf),
        ):  # fmt: skip
            with keeping(lab["h1"], a[0].hwid(0), lab["h2"], b[0].node(0)) as work:
                for _ in range(5):
                    time.sleep(0.5)
                    host.run(f"echo 1 >{SYSFS}/{function}/reset", 60)
                    host.wait_link("ready", 60, port=(a if host is lab["h1"] else b)[0].node(0))
                counts, pauses = work.whole()
            bench.note(f"{name}: {counts}, pauses {pauses} ms")


# The class directories, one below each function that has a node, in which there is nothing.
EMPTY = (f"for dir in {SYSFS}/*/weft /sys/devices/virtual/weft; do "
         "[ ! -d $dir ] || [ -n \"$(ls $dir)\" ] || echo $dir; done")  # fmt: skip


def moved(host, port, source, target, *words):
    """Moves it live; the driver does without a word of what went wrong."""
    done = migrate(host, f"{port}:{source}", f"{port}:{target}", "--live", *words)
    if done["outcome"] != "moved" or "step" in done:
        raise Mismatch(f"{done}")
    # They would be in the way of the nodes of the next weft.ko.
    left = host.out(EMPTY)
    if left:
        raise Mismatch(f"the move has left behind: {left}")
    return done


@test("MIG-2: a VF moves live, there and back, again and again: its programs keep files, queue pairs, regions "
      "and neighbours, and not one completion is lost, repeated or out of order", patient=True)
def again_and_again(bench):
    with moving(bench) as (lab, a, b):
        host, hwid, node = lab["h1"], a[0].hwid(0), a[0].node(0)
        a[0].set(0, "bytes", 6 << 20)
        at, to = 0, 1
        with keeping(host, hwid, lab["h2"], b[0].node(0)) as work:
            for _ in range(MOVES):
                time.sleep(0.5)
                moved(host, 0, at, to)
                at, to = to, at
                if (a[0].hwid(at), a[0].node(at)) != (hwid, node):
                    raise Mismatch(f"at VF {at}: {a[0].hwid(at)}, weft{a[0].node(at)}; it was {hwid}, weft{node}")
                if a[0].get(at, "bytes") != str(6 << 20):
                    raise Mismatch("the quota has stayed behind")
                a[0].state(to, "idle")
                a[0].state(at, "used")
                if a[0].get(to, "used_apertures") != "0":
                    raise Mismatch("the source has something open")
                host.wait_link("ready", 60, port=node)
            counts, pauses = work.whole()
        bench.note(f"{MOVES} moves: {counts}, pauses of 100 ms and more: {sorted(pauses)} ms")
        # One that begins afterwards finds the same neighbour.
        moved(host, 0, at, to)
        with keeping(host, hwid, lab["h2"], b[0].node(0)) as work:
            time.sleep(1)
            work.whole()
        moved(host, 0, to, at)


def refused(host, source, target, obstacle):
    done = migrate(host, source, target, "--live", status=1)
    if done["outcome"] != "stayed" or obstacle not in done["obstacles"]:
        raise Mismatch(f"{source} to {target}: {done}, not {obstacle}")


@test("MIG-3: what cannot move live is refused beforehand, with the reason, and its users notice nothing",
      patient=True)
def refusing(bench):
    with moving(bench) as (lab, a, b):
        host, hwid = lab["h1"], a[0].hwid(0)
        with keeping(host, hwid, lab["h2"], b[0].node(0)) as work:
            listed = host.weftctl_json("vf", "migrate", "0:0", "--dry-run")["candidates"]
            found = {(to["place"], to["live"]): to["live_obstacles"] for to in listed}
            if found != {
                ("same-port", True): [], ("same-endpoint", False): ["elsewhere"],
                ("other-endpoint", False): ["elsewhere"],
            }:  # fmt: skip
                raise Mismatch(f"{listed}")
            refused(host, "0:0", "1:0", "elsewhere")
            with holding(lab, hwid):
                refused(host, "0:0", "0:1", "channels")
            done = host.run(host.weftctl_line("vf", "migrate", "0:0", "0:1", "--live", "--stop"), status=None)
            if done.status != 2:
                raise Mismatch(f"--live --stop: {done.status}, {done.err}")
            # A neighbour that does not answer: it stays, and goes on. One that is silent for longer is dead. A
            # driver of the target would have to be removed first, which waits for the neighbour, too.
            host.run(f"echo {a[0].vf(1)} >/sys/bus/pci/drivers/weft/unbind")
            a[0].state(1, "idle")
            lab["h2"].freeze()
            try:
                done = migrate(host, "0:0", "0:1", "--live", "--timeout", 0.3, status=1)
            finally:
                lab["h2"].freeze(False)
            if (done["outcome"], done["step"], done["event"]) != ("stayed", "finish", "timeout"):
                raise Mismatch(f"a neighbour that is stopped: {done}")
            counts, _ = work.whole()
            bench.note(f"{counts}")
        # Without a driver there is nothing to be kept.
        host.run(f"echo {a[0].vf(0)} >/sys/bus/pci/drivers/weft/unbind")
        refused(host, "0:0", "0:1", "foreign")
        host.run(f"echo {a[0].vf(0)} >/sys/bus/pci/drivers/weft/bind")
        host.wait_link("ready", 60, port=a[0].node(0))


@contextlib.contextmanager
def sleeper(host, node, what, service):
    """A program that sleeps in that call."""
    path, stop = host.push("sleeper.py", SLEEPER.encode()), f"/tmp/stop-{what}"
    host.run(f"rm -f {stop}")
    job = host.start_job(f"exec python3 {path} /dev/weft{node} {what} {service} {stop}")
    try:
        job.expect("listening" if what == "listen" else "asleep", 60)
        yield job
        host.run(f"touch {stop}")
        job.wait(60).must(0)
    finally:
        if job.running:
            job.kill(signal.SIGKILL)
            with contextlib.suppress(Exception):
                job.wait(20)


@test("MIG-2: a VF moves live while programs sleep in accept and connect: other calls go on, the accept sleeps "
      "on and gets its connection afterwards, the connect ends", patient=True)
def sleeping(bench):
    with moving(bench) as (lab, a, b):
        host, there, node = lab["h1"], lab["h2"], a[0].node(0)
        with sleeper(there, b[0].node(0), "listen", SERVICE + 1), sleeper(host, node, "accept", SERVICE) as accept:
            with sleeper(host, node, "connect", SERVICE + 1) as connect:
                moved(host, 0, 0, 1)
                connect.expect("connect failed: Connection reset by peer", 30)
            bench.note(f"beside a connect: {connect.out.strip().splitlines()[-1]}")
            host.wait_link("ready", 60, port=node)
            # The accept has not noticed.
            if "accept " in accept.out:
                raise Mismatch(f"{accept.out}")
            job = there.start_job(f"exec {FOLLOW} hold {b[0].hwid(0)} {SERVICE}")
            try:
                accept.expect("accept done", 60)
            finally:
                job.kill(signal.SIGKILL)
                with contextlib.suppress(Exception):
                    job.wait(20)
        bench.note(f"beside an accept: {accept.out.strip().splitlines()[-1]}")
        # Identities outlast the functions that have them, and the test after this one begins with its own.
        moved(host, 0, 1, 0)


@test("MIG-2: a VF moves live while a program sleeps until a completion comes: other calls go on, and it sleeps on",
      patient=True)
def expecting(bench):
    with moving(bench) as (lab, a, _):
        host, node = lab["h1"], a[0].node(0)
        with sleeper(host, node, "completion", SERVICE) as job:
            moved(host, 0, 0, 1)
            host.wait_link("ready", 60, port=node)
            if "completion " in job.out:
                raise Mismatch(f"{job.out}")
        bench.note(f"beside it: {job.out.strip().splitlines()[-1]}")
        # Likewise.
        moved(host, 0, 1, 0)


@test("MIG-2: a VF moves live while the driver waits for a page of a program: for an argument, a result, or memory "
      "to be registered: other calls go on", patient=True, long=True)
def awaiting(bench):
    with moving(bench) as (lab, a, b):
        host, node = lab["h1"], a[0].node(0)
        if host.run("grep -q ' userfaultfd_ioctl$' /proc/kallsyms", status=None).status:
            raise Skip("this kernel has no userfaultfd (CONFIG_USERFAULTFD)")
        at, to = 0, 1
        for what in ("argument", "result", "memory"):
            with sleeper(host, node, what, SERVICE) as job:
                moved(host, 0, at, to)
                at, to = to, at
                if f"{what} " in job.out:
                    raise Mismatch(f"{job.out}")
            bench.note(f"beside the {what}: {job.out.strip().splitlines()[-1]}")
            host.wait_link("ready", 60, port=node)
        # Likewise.
        moved(host, 0, at, to)


@contextlib.contextmanager
def mappings_seen(host):
    """The order in which pages are unmapped and devices lose their drivers, in the kernel's trace. A histogram of
    stacks makes it slow to unmap many; stacks in the trace itself would make it slow to read."""
    if host.run(f"test -d {TRACING}/events", status=None).status:
        host.run(f"mount -t tracefs tracefs {TRACING}")
    if host.run(f"test -e {TRACING}/kprobe_events", status=None).status:
        raise Skip("this kernel has no probes (CONFIG_KPROBE_EVENTS)")
    for name, where in PROBES.items():
        host.run(f"echo 'p:dma/{name} {where} dev=%di:x64' >>{TRACING}/kprobe_events")
    host.run(f"echo 4096 >{TRACING}/buffer_size_kb; echo {STACKS} >{TRACING}/events/dma/unmap/trigger; "
             f"echo >{TRACING}/trace; echo 1 >{TRACING}/events/dma/enable")  # fmt: skip
    try:
        yield
    finally:
        host.run(f"echo 0 >{TRACING}/events/dma/enable; echo '!{STACKS}' >{TRACING}/events/dma/unmap/trigger; "
                 f"echo >{TRACING}/kprobe_events; echo >{TRACING}/trace; echo 1024 >{TRACING}/buffer_size_kb")  # fmt: skip


@test("MIG-2: a program closes a huge region while its VF moves live: no page is unmapped for a function that no "
      "driver has", patient=True, long=True)
def closing(bench):
    with moving(bench) as (lab, a, b):
        host, node = lab["h1"], a[0].node(0)
        path = host.push("closer.py", CLOSER.encode())
        # The target is free: the source is taken from its driver next.
        job = host.start_job(f"exec python3 {path} /dev/weft{node} 32 {SYSFS}/{a[0].vf(1)}/driver")
        try:
            job.expect("registered", 60)
            with mappings_seen(host):
                moved(host, 0, 0, 1)
                job.expect("closed", 120)
                seen = host.out(f"grep -E ' (unmap|probe|unbound): ' {TRACING}/trace")
                job.wait(30).must(0)
        finally:
            if job.running:
                job.kill(signal.SIGKILL)
        bound, before, after = {}, 0, 0
        for event, dev in re.findall(r" (unmap|probe|unbound): .*dev=(0x[0-9a-f]+)", seen):
            if event != "unmap":
                bound[dev] = event == "probe"
            elif bound.get(dev, True):
                before += 1
            else:
                after += 1
        bench.note(f"{before} pages were unmapped while the function had its driver, {after} afterwards")
        if after or not before:
            raise Mismatch(f"{after} pages were unmapped for a function without a driver, {before} before")
        host.wait_link("ready", 60, port=a[0].node(1))
        # Likewise.
        moved(host, 0, 1, 0)


@test("MIG-2: a target that its driver does not take leads back, live: programs have lost nothing", patient=True)
def leading_back(bench):
    with moving(bench) as (lab, a, b):
        host, hwid, node = lab["h1"], a[0].hwid(0), a[0].node(0)
        other = a[0].vf(1)
        with keeping(host, hwid, lab["h2"], b[0].node(0)) as work:
            host.run(f"echo no-such-driver >{SYSFS}/{other}/driver_override")
            done = migrate(host, "0:0", "0:1", "--live", status=1)
            host.run(f"echo >{SYSFS}/{other}/driver_override; echo {other} >/sys/bus/pci/drivers_probe")
            if (done["outcome"], done["step"], done["event"]) != ("stayed", "configure", "failed"):
                raise Mismatch(f"{done}")
            if (a[0].hwid(0), a[0].node(0)) != (hwid, node):
                raise Mismatch(f"afterwards {a[0].hwid(0)}, weft{a[0].node(0)}")
            host.wait_link("ready", 60, port=node)
            # It is still good for a move.
            moved(host, 0, 0, 1)
            host.wait_link("ready", 60, port=node)
            moved(host, 0, 1, 0)
            counts, pauses = work.whole()
        bench.note(f"{counts}, pauses {sorted(pauses)} ms")


@test("MIG-2: source and target are taken away at any moment of a live move: programs get errors, at both ends, "
      "and none waits for ever", patient=True, long=True)
def dying(bench):
    with moving(bench) as (lab, a, b):
        host, where = lab["h1"], []
        for delay in (0, 30, 60, 100, 150, 250) if MOVES >= 100 else (0, 60, 150):
            work = Keeping(host, a[0].hwid(0), lab["h2"], b[0].node(0))
            try:
                line = host.weftctl_line("--json", "vf", "migrate", f"{a[0].number}:0", f"{a[0].number}:1", "--live")
                done = host.run(f"(sleep {delay / 1000}; echo 1 >{SYSFS}/{a[0].pf}/remove) & {line}; wait", 120, None)
                said = [json.loads(line).get("migration", {}) for line in done.out.splitlines()[:1]]
                where.append(f"{delay} ms: {said[0].get('step', said[0].get('outcome')) if said else 'gone'}")
                # Both hear of it; the other end when the first has not come back.
                for job in (work.job, work.listener):
                    if not job.wait(60).status:
                        raise Mismatch(f"a program has not noticed, {where[-1]}")
            finally:
                work.end()
            back(a[0], 2)
            for n in range(2):
                host.wait_link("ready", 60, port=a[0].node(n))
                b[0].host.wait_link("ready", 60, port=b[0].node(n))
        bench.note(", ".join(where))
