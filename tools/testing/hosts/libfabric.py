# SPDX-License-Identifier: GPL-2.0
"""libfabric's provider weft (tools/libfabric): Debian's libfabric loads it, its programs and those of
tools/testing/libfabric run over it, between two hosts and within one: messages, remote memory, atomic operations."""

import contextlib
import shlex
import signal
import subprocess

from weftlab import kernel, paths, topology
from weftlab.errors import Mismatch, SetupError
from weftlab.suite import test

from .arenas import given_back
from .net import address, interfaces
from .programs import listens, running

LAB = "libfabric"
SOURCE = paths.TOP / "tools" / "testing" / "libfabric"
LIBRARY = "/tmp/fi"
# Where libraries of Debian's packages lie, below the place that they are unpacked to.
LIBRARIES = "usr/lib/x86_64-linux-gnu"
PLACE = "/mnt/libfabric"
# The provider is named as libfabric wants it.
PREPARE = f"mkdir -p {LIBRARY} && cp /mnt/tools/libweft_fi.so {LIBRARY}/libweft-fi.so"
# Seconds in which a program hears that its peer has been killed; and if it reads: that is tried again, four times.
SOON = 3.0
RETRIED = 10.0
ECONNRESET, EHOSTUNREACH = 104, 113
# The port where ends of fi_pingpong exchange addresses.
PINGPONG = 47592
# How a program waits for completions.
WAYS = ("spin", "sread", "fd")


def built(lab):
    """The programs of tools/testing/libfabric, for the guests of a lab."""
    program = lab.folder / "fit"
    if not program.exists():
        place = paths.env("libfabric")
        args = ["gcc", "-Wall", "-Wextra", "-Werror", "-O2", f"-I{place}/usr/include", "-o", program,
                *sorted(SOURCE.glob("*.c")), f"-L{place}/{LIBRARIES}",
                "-Wl,--allow-shlib-undefined", "-lfabric"]  # fmt: skip
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise SetupError(f"the programs of {SOURCE} do not build:\n{done.stdout}")
    return program.read_bytes()


def prepared(bench):
    """Two hosts that have libfabric, the provider and the programs."""
    shares = {"libfabric": paths.env("libfabric")}
    lab = bench.shape("libfabric", topology.chain(2), shares=shares, memory=512)
    for host in lab.hosts.values():
        if host.run(f"test -e {LIBRARY}/libweft-fi.so", status=None).status:
            host.run(PREPARE, 120)
            path = host.push("fit", built(lab))
            host.run(f"cp {path} /tmp/fit && chmod 755 /tmp/fit")
    return lab


def inside(*words, **more):
    """A command with libfabric and the provider."""
    settings = {"LD_LIBRARY_PATH": f"{PLACE}/{LIBRARIES}", "FI_PROVIDER_PATH": LIBRARY, **more}
    env = " ".join(f"{name}={value}" for name, value in settings.items())
    return f"env {env} " + " ".join(shlex.quote(str(word)) for word in words)


def fit(*words):
    return inside("/tmp/fit", *words)


def serving(host, way, port="weft0"):
    return running(host, fit("serve", way, port))


def named(job):
    return job.expect(r"^weft://\S+$", 60 * kernel.patience()).group(0)


def step(name, target, sources, way="spin"):
    """A step of a test: what a target and its sources do, hosts one and all."""
    patience = 120 * kernel.patience()
    with contextlib.ExitStack() as jobs:
        end = jobs.enter_context(running(target, fit("target", name, way, "weft0")))
        at = named(end)
        begun = [jobs.enter_context(running(host, fit("source", name, way, "weft0", at, n)))
                 for n, host in enumerate(sources)]  # fmt: skip
        for job in (*begun, end):
            job.wait(patience).must()


def in_pairs(lab, name, way="spin"):
    """A step of a target and one source, in two hosts and in one."""
    h1, h2 = lab["h1"], lab["h2"]
    for target, source in ((h2, h1), (h1, h1)):
        step(name, target, [source], way)


@test("L-8: Debian's libfabric lists the provider, and gives its endpoints for what they can do alone")
def lists(bench):
    lab = prepared(bench)
    h1 = lab["h1"]
    info = h1.out(inside(f"{PLACE}/usr/bin/fi_info", "-p", "weft"), 120)
    for line in ("provider: weft", "domain: weft0", "type: FI_EP_RDM"):
        if line not in info:
            raise Mismatch(f"{line!r} is not in what fi_info says:\n{info}")
    if (found := info.count("provider: ")) != 1:
        raise Mismatch(f"{found} endpoints for one port:\n{info}")
    h1.run(fit("hints"), 120)
    why = h1.run(inside(f"{PLACE}/usr/bin/fi_info", "-p", "weft", "-t", "FI_EP_DGRAM", FI_LOG_LEVEL="info"), 120, None)
    if not why.status or "only FI_EP_RDM" not in why.err:
        raise Mismatch(f"the log does not say why there is no endpoint:\n{why.err[-2000:]}")


@test("L-3, L-8: messages with tags and without, of 0 bytes to 1 MiB, go there and back as they were")
def messages(bench):
    lab = prepared(bench)
    with given_back(*lab.hosts.values()):
        for way in WAYS:
            in_pairs(lab, "echo", way)


@test("L-2, L-8: messages that come before their receive are received by it, whole, in their order")
def unexpected(bench):
    in_pairs(prepared(bench), "late", "sread")


@test("L-2, L-8: a receive is for messages with tags or for those without")
def kinds(bench):
    in_pairs(prepared(bench), "kinds")


@test("L-2, L-8: messages that wait are found, claimed, received and dropped")
def peek(bench):
    in_pairs(prepared(bench), "peek")


@test("L-2, L-8: a receive that names its source gets messages of no other")
def directed(bench):
    lab = prepared(bench)
    step("directed", lab["h2"], [lab["h1"], lab["h2"]])
    step("directed", lab["h2"], [lab["h1"], lab["h1"]], "sread")


@test("L-2, L-8: a buffer is for many messages, and is the program's again when it is full")
def multi(bench):
    in_pairs(prepared(bench), "multi", "fd")


@test("L-2, L-8: receives are taken back, and the others get their messages")
def cancel(bench):
    in_pairs(prepared(bench), "cancel")


@test("L-3, L-8: more messages than there are list entries wait, and none is lost or reordered")
def flood(bench):
    lab = prepared(bench)
    step("flood", lab["h2"], [lab["h1"]])


@test("L-7, L-8: regions are written and read, of 0 bytes to 1 MiB, with data and without, and no others")
def regions(bench):
    lab = prepared(bench)
    with given_back(*lab.hosts.values()):
        for way in WAYS:
            in_pairs(lab, "rma", way)


@test("L-7, L-8: what is written to a region is there before what is read and written later")
def ordered(bench):
    in_pairs(prepared(bench), "order")


@test("L-7, L-8: a region is written while its program looks at no queue")
def passive(bench):
    in_pairs(prepared(bench), "passive")


@test("L-7, L-8: counters count what others do in a region")
def counted(bench):
    in_pairs(prepared(bench), "counted", "sread")


@test("L-7, L-8: integers are changed by each atomic operation, each at once, by two programs and their owner")
def atomics(bench):
    lab = prepared(bench)
    with given_back(*lab.hosts.values()):
        in_pairs(lab, "atomic")
        step("contend", lab["h2"], [lab["h1"], lab["h2"]])
        step("contend", lab["h2"], [lab["h1"], lab["h1"]], "sread")


@test("L-7, L-8: operations wait for a counter, and begin while their program calls nothing")
def triggered(bench):
    lab = prepared(bench)
    for way in WAYS:
        in_pairs(lab, "trigger", way)


@test("L-7, L-8: deferred work waits for counters, is counted by them, and is taken back")
def deferred(bench):
    in_pairs(prepared(bench), "deferred", "sread")


@test("L-7, L-8: what is behind a fence begins when all before it is over")
def fenced(bench):
    in_pairs(prepared(bench), "fence")


def until_killed(bench, lab, how, cases, soon):
    """Programs that send, or access a region, until their peer is killed; and then go on with another."""
    h1, h2 = lab["h1"], lab["h2"]
    for way, size in cases:
        # The other one is in the same host, and in the program's own.
        for other in (h1, h2):
            with serving(h2, way) as peer, serving(other, way) as next_one:
                words = ("until", way, "weft0", named(peer), named(next_one), size, how)
                with running(h1, fit(*words)) as job:
                    job.expect("^begun$", 60 * kernel.patience())
                    peer.kill(signal.SIGKILL)
                    said = job.wait(120 * kernel.patience()).must().out.split()
                if not next_one.running:
                    raise Mismatch(f"the other peer ended: {next_one.wait(5)}")
            arrived, error, took = int(said[1]), int(said[2]), float(said[3])
            bench.note(f"{how}, {size} bytes: {arrived} times, then {error} after {took:.2f} s")
            if not arrived or error not in (ECONNRESET, EHOSTUNREACH):
                raise Mismatch(f"{how}: {arrived} times {size} bytes, then {error}")
            if took > soon * kernel.patience():
                raise Mismatch(f"{how}: the error came after {took:.1f} s")


@test("L-7, L-8: a program whose peer is killed gets an error within 3 s, and goes on with another")
def killed(bench):
    lab = prepared(bench)
    with given_back(*lab.hosts.values()):
        until_killed(bench, lab, "send", (("spin", 8), ("sread", 4000), ("fd", 300_000)), SOON)


@test("L-7, L-8: a program that accesses a region whose program is killed gets an error, and goes on with another", long=True)
def killed_regions(bench):
    lab = prepared(bench)
    with given_back(*lab.hosts.values()):
        until_killed(bench, lab, "write", (("spin", 8), ("fd", 300_000)), SOON)
        until_killed(bench, lab, "add", (("sread", 8), ("spin", 2048)), SOON)
        until_killed(bench, lab, "read", (("spin", 8), ("sread", 300_000)), RETRIED)


@test("L-8: fi_pingpong runs over the provider: messages with tags and without")
def pingpong(bench):
    lab = prepared(bench)
    program = f"{PLACE}/usr/bin/fi_pingpong"
    with interfaces(lab) as (h1, h2):
        for kind in ("msg", "tagged"):
            # In the ring, sent at once, and pulled; with the bytes compared.
            for size, times in ((8, 10), (4096, 10), (65536, 10), (1 << 20, 3)):
                words = ("-p", "weft", "-e", "rdm", "-c", "-I", times, "-m", kind, "-S", size)
                with running(h2, inside(program, *words)) as server:
                    h2.until(listens(PINGPONG), 60)
                    said = h1.out(inside(program, *words, address(lab, h2)), 300 * kernel.patience())
                    server.wait(60).must()
                last = said.strip().splitlines()[-1].split()
                bench.note(f"fi_pingpong, {kind}, {size} bytes: {last[4]}, {last[6]} us a message")
                if last[1:3] != [f"{times}", f"={times}"]:
                    raise Mismatch(f"it did not come to the end:\n{said}")
