# SPDX-License-Identifier: GPL-2.0
"""Matching interfaces between hosts: messages of each kind, a target that is stopped, and what becomes of them when
something goes. What one host alone can tell is in the kselftest of that name."""

import contextlib
import shlex
import signal
import time

from weftlab import kernel, topology
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import far, false_master, selftests
from .arenas import given_back
from .migration import moving
from .programs import running

LAB = "pair"
DEVICE = "/sys/class/weft/weft0/device"
# In the ring, eager, and pulled by the target.
SIZES = {"in the ring": (60, 200), "eager": (4000, 200), "pulled": (300_000, 100)}
# Seconds in which a source hears that its target is gone.
SOON = 3.0
ESRCH, ENXIO, EFAULT, ECONNRESET, EHOSTUNREACH = 3, 6, 14, 104, 113


def matcher(*words):
    return "/tmp/kselftest/weft/matcher " + " ".join(str(word) for word in words)


def prepared(lab):
    """Hosts that have the program."""
    installed, _ = selftests.build(lab)
    for host in lab.hosts.values():
        if host.run("test -x /tmp/kselftest/weft/matcher", status=None).status:
            selftests.copy(host, installed)
    return lab


@contextlib.contextmanager
def addressed(host, *words):
    """A target, and its address as words."""
    with running(host, matcher(*words)) as job:
        yield job, job.expect(r"^(\d+) (\d+) (\d+)$", 30).group(0)


def serving(host, size, port=0):
    return addressed(host, "serve", port, size, 0)


def sent(host, address, size, count, port=0):
    """How many messages have arrived, and the first error."""
    arrived, error = host.out(matcher("send", port, address, size, count), 120).split()
    return int(arrived), int(error)


def arrive(host, address, size, count, port=0):
    told = sent(host, address, size, count, port)
    if told != (count, 0):
        raise Mismatch(f"{count} messages of {size} bytes: {told}")


def likewise(target, source, at=0, by=0):
    """Messages of each kind, from a port of one host to a port of another."""
    for size, count in SIZES.values():
        with serving(target, size, at) as (_, address):
            arrive(source, address, size, count, by)


@test("L-3, L-4, L-7: messages of each kind are matched and arrive whole, between two hosts and within one")
def messages(bench):
    lab = prepared(bench.pair())
    h1, h2 = lab["h1"], lab["h2"]
    with given_back(h1, h2):
        for name, (size, count) in SIZES.items():
            with serving(h2, size) as (job, address):
                for host in (h1, h2):
                    since = time.monotonic()
                    arrive(host, address, size, count)
                    bench.note(f"{name}, {host.name} to h2: {count} in {time.monotonic() - since:.2f} s")
                if not job.running:
                    raise Mismatch(f"{name}: the target ended: {job.wait(5)}")


@test("L-3: long messages arrive while the process of their target is stopped")
def stopped(bench):
    lab = prepared(bench.pair())
    size = 300_000
    with serving(lab["h2"], size) as (job, address):
        job.kill(signal.SIGSTOP)
        # As many as it has posted buffers for.
        arrive(lab["h1"], address, size, 8)
        job.kill(signal.SIGCONT)
        arrive(lab["h1"], address, size, 8)
        if not job.running:
            raise Mismatch(f"it found other bytes: {job.wait(5)}")


def plug(lab):
    """The cable of h1 is back."""
    lab.fabric.link("up", "h1:0")
    for name in ("h1", "h2"):
        lab[name].wait_link("ready")


@test("L-7: messages end with an error when their link, peer or port goes, and the next ones arrive")
def losses(bench):
    lab = prepared(bench.pair())
    h1, h2 = lab["h1"], lab["h2"]
    ways = {
        "the cable is pulled": lambda: lab.fabric.link("down", "h1:0"),
        "the peer is reset": lambda: h2.run(f"echo 1 >{DEVICE}/reset", 60),
        "the port is reset": lambda: h1.run(f"echo 1 >{DEVICE}/reset", 60),
    }
    for name, go in ways.items():
        for size in (60, 300_000):
            with serving(h2, size) as (job, address):
                with running(h1, matcher("send", 0, address, size, 0)) as sender:
                    time.sleep(1)
                    go()
                    arrived, error = map(int, sender.wait(60).must().out.split())
                if error not in (ECONNRESET, EHOSTUNREACH) or not arrived:
                    raise Mismatch(f"{name}: {arrived} messages of {size} bytes, then {error}")
                plug(lab)
                # The interfaces are there as before.
                arrive(h1, address, size, 5)
                if not job.running:
                    raise Mismatch(f"{name}: the target ended: {job.wait(5)}")


# How often a cable is pulled until a program has something under way.
PULLS = 20


@test("L-7: an atomic operation whose session is lost ends with an error, and is carried out once at most")
def once(bench):
    lab = prepared(bench.pair())
    h1, h2 = lab["h1"], lab["h2"]
    with addressed(h2, "sum", 0) as (job, address):
        before = 0
        for n in range(5):
            with running(h1, matcher("add", 0, address, 0)) as adder:
                time.sleep(0.5 + n / 10)
                comes_back = n % 2 == 1
                # The cable comes back in time for what would be done again; a moment in which nothing is under way is
                # no loss, and another one follows.
                for _ in range(PULLS if comes_back else 1):
                    lab.fabric.link("down", "h1:0")
                    h1.wait_link("down")
                    if comes_back:
                        plug(lab)
                    if not adder.running:
                        break
                added, error = map(int, adder.wait(60).must().out.split())
            if not comes_back:
                plug(lab)
            reads, failed, number = map(int, h1.out(matcher("read", 0, address, 0), 60).split())
            bench.note(f"{added} added, then {error}; {number - before} more than before")
            if error not in (ECONNRESET, EHOSTUNREACH) or not added or (reads, failed) != (1, 0):
                raise Mismatch(f"{added} added, then {error}; {reads} reads, then {failed}")
            if number - before not in (added, added + 1):
                raise Mismatch(f"{added} added, the last one perhaps: {before} became {number}")
            before = number
        if not job.running:
            raise Mismatch(f"the target ended: {job.wait(5)}")


@test("L-7: a get is done again when its session was lost, if its program wants that")
def gets_again(bench):
    lab = prepared(bench.pair())
    h1, h2 = lab["h1"], lab["h2"]
    with addressed(h2, "sum", 0) as (job, address):
        if h1.out(matcher("add", 0, address, 7), 60) != "7 0":
            raise Mismatch("7 could not be added")
        with running(h1, matcher("read", 0, address, 8)) as reader:
            for _ in range(3):
                time.sleep(0.7)
                lab.fabric.link("down", "h1:0")
                plug(lab)
            reads, error, number = map(int, reader.wait(60).must().out.split())
        bench.note(f"{reads} reads")
        if error or number != 7 or reads < 10:
            raise Mismatch(f"{reads} reads of {number}, then {error}")
        if not job.running:
            raise Mismatch(f"the target ended: {job.wait(5)}")


@test("L-7: a message whose target has said nothing yet ends with an error when the link goes")
def unanswered(bench):
    lab = prepared(bench.pair())
    h1, h2 = lab["h1"], lab["h2"]
    with running(h2, matcher("mute", 0)) as target:
        address = target.expect(r"^(\d+) (\d+) (\d+)$", 30).group(0)
        with running(h1, matcher("send", 0, address, 4000, 1)) as sender:
            # Long enough for it to be there: it has no answer, so there is no channel for one.
            time.sleep(1)
            if not sender.running:
                raise Mismatch(f"there was an answer: {sender.wait(5)}")
            lab.fabric.link("down", "h1:0")
            since = time.monotonic()
            told = sender.wait(20 * kernel.patience()).must().out.split()
            took = time.monotonic() - since
    plug(lab)
    if told != ["0", str(ECONNRESET)] or took > SOON * kernel.patience():
        raise Mismatch(f"{told} after {took:.1f} s")


@test("L-7: each of many programs, one after the other, gets its messages to a host that goes on")
def again(bench):
    lab = prepared(bench.pair())
    h1, h2 = lab["h1"], lab["h2"]
    with serving(h2, 60) as (job, address):
        # The last interface of a host ends its channels; the next one makes others, while h2 hears of that.
        done = h1.run(f"for n in $(seq 200); do {matcher('send', 0, address, 60, 1)} || echo $?; done", 300)
        told = done.must().out.splitlines()
        if told != ["1 0"] * 200:
            raise Mismatch(f"{[(n, line) for n, line in enumerate(told) if line != '1 0']}")
        if not job.running:
            raise Mismatch(f"the target ended: {job.wait(5)}")


@test("L-7: the message with which a program ends, the last one of its host, has arrived, and its source is told so")
def last(bench):
    lab = prepared(bench.pair())
    h1, h2 = lab["h1"], lab["h2"]
    # Its own messages keep h1 busy, so that it may find one channel closed before it has accepted the other one.
    with serving(h1, 60) as (_, own), running(h1, matcher("send", 0, own, 60, 0)):
        for size, count in ((60, 50), (4000, 10), (300_000, 5)):
            each = f"for n in $(seq {count}); do {matcher('serve', 0, size, 1)} || exit; done"
            with running(h2, f"sh -c {shlex.quote(each)}") as job:
                since = time.monotonic()
                for n in range(count):
                    # The next one opens its interface when the one before has closed it.
                    address = job.expect(rf"^(?:\d+ \d+ \d+\n){{{n}}}(\d+ \d+ \d+)$", 30).group(1)
                    told = sent(h1, address, size, 1)
                    if told != (1, 0):
                        raise Mismatch(f"message {n} of {size} bytes: {told}")
                job.wait(30).must()
                bench.note(f"{size} bytes: {count} programs in {time.monotonic() - since:.1f} s")


@test("L-7: messages that wait at a program that is killed end with an error at once")
def waiting(bench):
    lab = prepared(bench.pair())
    h1, h2 = lab["h1"], lab["h2"]
    # A header that has come is answered, also by the last program of its host; what there was no space for may come
    # again while the host closes.
    for size, errors in ((60, (ENXIO, EHOSTUNREACH, ECONNRESET)), (300_000, (ENXIO,))):
        with serving(h2, size) as (job, address):
            job.kill(signal.SIGSTOP)
            # One more than it has posted buffers for.
            with running(h1, matcher("send", 0, address, size, 9)) as sender:
                time.sleep(1)
                if not sender.running:
                    raise Mismatch(f"{size} bytes: there was an answer: {sender.wait(5)}")
                since = time.monotonic()
                job.kill(signal.SIGKILL)
                arrived, error = map(int, sender.wait(20 * kernel.patience()).must().out.split())
                took = time.monotonic() - since
            if arrived != 8 or error not in errors or took > SOON * kernel.patience():
                raise Mismatch(f"{arrived} messages of {size} bytes, then {error} after {took:.1f} s")


@test("L-7: messages to a program that is killed end with an error, and nothing of it is left")
def killed(bench):
    lab = prepared(bench.pair())
    h1, h2 = lab["h1"], lab["h2"]
    with given_back(h1, h2):
        for size in (60, 4000, 300_000):
            with serving(h2, size) as (job, address), running(h1, matcher("send", 0, address, size, 0)) as sender:
                time.sleep(0.5)
                job.kill(signal.SIGKILL)
                arrived, error = map(int, sender.wait(60).must().out.split())
                # Its memory goes first, then the interface, and as the last one of the host the channels.
                if error not in (ESRCH, EFAULT, ENXIO, ECONNRESET, EHOSTUNREACH) or not arrived:
                    raise Mismatch(f"{arrived} messages of {size} bytes, then {error}")


@test("L-3: over a route messages arrive likewise", lab="chain")
def over_a_route(bench):
    lab = prepared(bench.shape("chain", topology.chain(3)))
    far.met(lab, "h1", "h3")
    likewise(lab["h1"], lab["h3"])


@test("L-3: over a route messages arrive also while and after the link is quiesced", lab="chain", long=True)
def quiesced(bench):
    lab = prepared(bench.shape("chain", topology.chain(3)))
    h1, h3 = lab["h1"], lab["h3"]
    far.met(lab, "h1", "h3")
    for size in (4000, 300_000):
        with serving(h3, size) as (job, address):
            with false_master.writing("REST", h1, far.ids(lab)["h3"]):
                since = time.monotonic()
                while time.monotonic() - since < 3:
                    arrive(h1, address, size, 10)
            arrive(h1, address, size, 10)
            if not job.running:
                raise Mismatch(f"the target ended: {job.wait(5)}")
    # It takes no older write than those of the false master, in this life.
    h3.rmmod()
    h3.insmod()
    far.met(lab, "h1", "h3")


@test("L-3: between virtual functions messages arrive likewise", lab="twins", patient=True)
def functions(bench):
    with moving(bench) as (lab, a, b):
        prepared(lab)
        h1, h2 = lab["h1"], lab["h2"]
        node, other = a[0].node(0), b[0].node(0)
        for host, port in ((h1, node), (h2, other)):
            host.wait_link("ready", 60, port=port)
        likewise(h1, h2, node, other)


@test("L-3: over ivshmem-doorbell messages arrive likewise", lab="ivshmem", long=True)
def ivshmem(bench):
    lab = prepared(bench.ivshmem())
    likewise(lab["h2"], lab["h1"])
