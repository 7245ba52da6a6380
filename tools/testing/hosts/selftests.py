# SPDX-License-Identifier: GPL-2.0
"""The kselftests of tools/testing/selftests/weft, in one host with two ports in loopback; one of them also in a
host that has an endpoint and virtual functions."""

import os
import re
import shlex
import shutil
import subprocess
import time

from weftlab import kernel, paths, tap
from weftlab.errors import LabError, Mismatch, SetupError
from weftlab.suite import test
from weftlab.topology import Topology

from . import sharing
from .fabric import settled
from .migration import Port

LAB = "loopback"
SOURCE = paths.TOP / "tools" / "testing" / "selftests" / "weft"
# Messages for which lists change hands.
HANDED = 100000
# Programs that measure TLPs say so here: their ports count while they run.
TRACED = ("tlp", "qp")
MODULE = "/mnt/module/weft.ko"
# What scripts/kselftest installs.
LIST = "kselftest-list.txt"
# A test of its own, to be run for as long as one likes: see Documentation/testing.rst.
FUZZ = "fuzz"
FUZZ_SETTINGS = ("WEFT_FUZZ_SECONDS", "WEFT_FUZZ_SEED", "WEFT_FUZZ_STEPS", "WEFT_FUZZ_THREADS", "WEFT_FUZZ_GUIDED")
# What it counts.
COUNTED = r"^# (.*: \d+ calls, \d+ succeeded.*|coverage: .*)$"
# These take as long as all others.
QUEUES = "qp"
# Fails allocations, those of what watches in such a kernel among them. It takes hours there, in parts.
STARVES = "failnth"
PARTS = 4
# The programs that are run, where not all of them are wanted.
CHOSEN = "WEFT_PROGRAMS"
# Short ones, for the kernel's own runner.
SHORT = ("uapi", "sysfs.sh")


def build(lab):
    """Builds them and installs them beside what the lab says; the folder, and the programs in the order of
    their list."""
    installed = lab.folder / "kselftest"
    with paths.alone():
        done = subprocess.run([paths.TOP / "scripts" / "kselftest", installed],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
    if done.returncode:
        raise SetupError(f"the kselftests do not build:\n{done.stdout}")
    if re.search(r"\bwarning\b", done.stdout):
        raise SetupError(f"the kselftests build with warnings:\n{done.stdout}")
    programs = [line.removeprefix("weft:") for line in (installed / LIST).read_text().split()]
    if not programs:
        raise SetupError(f"{installed / LIST} names no program")
    return installed, programs


def copy(host, installed):
    """On a file system of the guest's own, where a program can write beside itself."""
    shutil.copytree(installed, host.run_dir / "kselftest", dirs_exist_ok=True)
    host.run("rm -rf /tmp/kselftest && cp -r /mnt/run/kselftest /tmp/")


def limit():
    match = re.search(r"^timeout=(\d+)", (SOURCE / "settings").read_text(), re.M)
    return float(match.group(1)) if match else 45.0


def run(lab, program, settings="", more=0.0):
    host = lab["host"]
    traced = program.partition(".")[0] in TRACED
    for node in ("n1", "n2") if traced else ():
        lab.fabric.trace(node, True)
    environment = f"WEFT_KO={MODULE} {settings}" + (" WEFT_TRACED=1" if traced else "")
    command = f"cd /tmp/kselftest/weft && {environment} ./{shlex.quote(program)} 2>&1"
    result = host.run(command, limit() + more, None)
    for node in ("n1", "n2") if traced else ():
        lab.fabric.trace(node, False)
    return result


def outcomes(bench, lab, installed, program, settings="", more=0.0):
    """Runs one program; yields its tests, and whether all around them was well."""
    host = lab["host"]
    copy(host, installed)
    begin = time.monotonic()
    host.starved = program == STARVES
    try:
        result = run(lab, program, settings, more)
    except LabError as error:
        yield program, False, f"{error.kind}: {error}", None, time.monotonic() - begin
        bench.after(False)
        return
    parsed = tap.Parsed(result.out)
    for said in re.findall(COUNTED, result.out, re.M):
        bench.note(said)
    failures = 0
    for (ok, name, skip), account in zip(parsed.results, parsed.accounts, strict=True):
        name = f"{program}: {name}" if name else program
        failures += not ok
        yield name, ok, account, skip, None
    # What went wrong beside the tests, or instead of them, is one more.
    try:
        bench.after(True)
        why = ""
    except LabError as error:
        why = f"{error.kind}: {error}"
    if not parsed.complete:
        why += f"\n{program} ended with {result.status} after {len(parsed.results)} results of "
        why += f"{parsed.planned}:\n{result.out}"
    elif result.status not in (0, 4) and not failures:
        why += f"\n{program} ended with {result.status}:\n{result.out}"
    if why:
        yield f"{program}: ends well", False, why, None, time.monotonic() - begin
        bench.abandon()
    else:
        yield f"{program}: ends well", True, "", None, time.monotonic() - begin


def chosen(bench, mine, settings=""):
    """Runs those programs of `mine` that are wanted."""
    installed, programs = build(bench.loopback())
    wanted = os.environ.get(CHOSEN, "").split() or programs
    if unknown := set(wanted) - set(programs):
        raise SetupError(f"{CHOSEN}: there is no {' or '.join(sorted(unknown))} in {programs}")
    for program in filter(mine, wanted):
        yield from outcomes(bench, bench.loopback(), installed, program, settings)


@test("kselftests")
def kselftests(bench):
    yield from chosen(bench, lambda program: program not in (QUEUES, STARVES, FUZZ))


@test("kselftests: queue pairs")
def queue_pairs(bench):
    yield from chosen(bench, lambda program: program == QUEUES)


@test("L-6: messages, as many as WEFT_HANDED says, through 256 entries: none lost or reordered, and the lists go both ways",
      patient=True, long=True)  # fmt: skip
def handed(bench):
    installed, _ = build(bench.loopback())
    messages = int(os.environ.get("WEFT_HANDED", HANDED))
    yield from outcomes(bench, bench.loopback(), installed, "handing", f"WEFT_HANDED={messages}", messages / 100)


def starved(part):
    @test(f"kselftests: allocations that fail, {part} of {PARTS}")
    def some(bench):
        yield from chosen(bench, lambda program: program == STARVES, f"WEFT_NTH={part}/{PARTS}")
        if kernel.variant():
            # What comes next is watched by everything again.
            bench.close()

    return some


starved_1, starved_2, starved_3, starved_4 = (starved(part) for part in range(1, PARTS + 1))


def fuzzed(bench, lab, *settings):
    installed, _ = build(lab)
    chosen = {name: os.environ[name] for name in FUZZ_SETTINGS if os.environ.get(name)}
    seconds = float(chosen.get("WEFT_FUZZ_SECONDS", 0))
    words = [*settings, *(f"{name}={shlex.quote(value)}" for name, value in chosen.items())]
    yield from outcomes(bench, lab, installed, FUZZ, " ".join(words), seconds)


@test("fuzz", patient=True)
def fuzz(bench):
    """Every ioctl, more or less right; as long as WEFT_FUZZ_SECONDS says."""
    yield from fuzzed(bench, bench.loopback())


@test("fuzz, in a host that is master, has virtual functions, and functions of a shared endpoint", lab="whole", patient=True, long=True)
def fuzz_whole(bench):
    """Likewise; each ioctl has to succeed some time."""
    shape = Topology().host("n1", 1).host("n2", 2).switch("s1", 2).endpoint("ep", 2)
    shape.link("n1:0", "n2:0").link("n1:1", "s1:0").link("s1:1", "ep:0")
    # The virtual functions are the second port's, so that the ports are numbered as in loopback.
    lab = bench.shape("whole", shape, {"host": ["n1", "n2"]}, vfs={"n2": 2}, vf_slots=4, cpus=2, memory=320)
    host = lab["host"]
    settled([host], 1, 4)
    given = [("ep", ve, "n1") for ve in range(2)]
    sharing.assign(lab, host, given)
    sharing.become(lab, host, {assignment: "done" for assignment in given})
    port = Port(host, 1)
    port.numvfs(2)
    for n in range(2):
        port.state(n, "driven")
    yield from fuzzed(bench, lab, "WEFT_FUZZ_WHOLE=1")


@test("run_kselftest.sh runs an installed copy")
def runner(bench):
    lab = bench.loopback()
    installed, programs = build(lab)
    host = lab["host"]
    copy(host, installed)
    chosen = " ".join(f"-t weft:{program}" for program in SHORT)
    result = host.run(f"cd / && WEFT_KO={MODULE} /tmp/kselftest/run_kselftest.sh {chosen}", 2 * limit())
    told = re.findall(r"^ok \d+ selftests: weft: (\S+)$", result.out, re.M)
    if tuple(told) != SHORT:
        raise Mismatch(f"the runner tells of {told}:\n{result.out}{result.err}")
    listed = host.out("/tmp/kselftest/run_kselftest.sh --list").split()
    if listed != [f"weft:{program}" for program in programs]:
        raise Mismatch(f"the runner lists {listed}")
