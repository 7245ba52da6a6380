# SPDX-License-Identifier: GPL-2.0
"""The kselftests of tools/testing/selftests/weft, in one host with two ports in loopback."""

import os
import re
import shlex
import shutil
import subprocess
import time

from weftlab import kernel, paths, tap
from weftlab.errors import LabError, Mismatch, SetupError
from weftlab.suite import test

LAB = "loopback"
SOURCE = paths.TOP / "tools" / "testing" / "selftests" / "weft"
# Programs that measure TLPs say so here: their ports count while they run.
TRACED = ("tlp", "qp")
MODULE = "/mnt/module/weft.ko"
# What scripts/kselftest installs.
LIST = "kselftest-list.txt"
# A test of its own, to be run for as long as one likes: see Documentation/testing.rst.
FUZZ = "fuzz"
FUZZ_SETTINGS = ("WEFT_FUZZ_SECONDS", "WEFT_FUZZ_SEED", "WEFT_FUZZ_STEPS", "WEFT_FUZZ_THREADS")
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


def outcomes(bench, installed, program, settings="", more=0.0):
    """Runs one program; yields its tests, and whether all around them was well."""
    lab = bench.loopback()
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
        yield from outcomes(bench, installed, program, settings)


@test("kselftests")
def kselftests(bench):
    yield from chosen(bench, lambda program: program not in (QUEUES, STARVES, FUZZ))


@test("kselftests: queue pairs")
def queue_pairs(bench):
    yield from chosen(bench, lambda program: program == QUEUES)


def starved(part):
    @test(f"kselftests: allocations that fail, {part} of {PARTS}")
    def some(bench):
        yield from chosen(bench, lambda program: program == STARVES, f"WEFT_NTH={part}/{PARTS}")
        if kernel.variant():
            # What comes next is watched by everything again.
            bench.close()

    return some


starved_1, starved_2, starved_3, starved_4 = (starved(part) for part in range(1, PARTS + 1))


@test("fuzz")
def fuzz(bench):
    """Every ioctl, more or less right; as long as WEFT_FUZZ_SECONDS says."""
    installed, _ = build(bench.loopback())
    settings = {name: os.environ[name] for name in FUZZ_SETTINGS if os.environ.get(name)}
    seconds = float(settings.get("WEFT_FUZZ_SECONDS", 0))
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
    yield from outcomes(bench, installed, FUZZ, words, seconds)


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
