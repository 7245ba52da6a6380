# SPDX-License-Identifier: GPL-2.0
"""The kselftests of tools/testing/selftests/weft, in one host with two ports in loopback."""

import re
import shlex
import shutil
import subprocess
import time

from weftlab import paths, tap
from weftlab.errors import LabError, SetupError
from weftlab.suite import test

SOURCE = paths.TOP / "tools" / "testing" / "selftests" / "weft"
# Programs that measure TLPs say so here: their ports count while they run.
TRACED = ("tlp",)


def build():
    """Builds and installs them; the folder, and the programs in the order of their Makefile."""
    made, installed = paths.BUILD / "selftests.o", paths.BUILD / "selftests"
    made.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(installed, ignore_errors=True)
    kselftest = paths.env("ksource") + "/tools/testing/selftests"
    command = ["make", "-s", "-C", str(SOURCE), f"OUTPUT={made}", f"KSFT={kselftest}",
               f"INSTALL_PATH={installed}", "install"]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SetupError(f"the kselftests do not build:\n{done.stdout}")
    if re.search(r"\bwarning\b", done.stdout):
        raise SetupError(f"the kselftests build with warnings:\n{done.stdout}")
    words = {}
    for line in (SOURCE / "Makefile").read_text().replace("\\\n", " ").splitlines():
        match = re.match(r"(TEST_GEN_PROGS|TEST_PROGS)\s*[:+]?=\s*(.*)", line)
        if match:
            words.setdefault(match.group(1), []).extend(match.group(2).split())
    programs = words.get("TEST_GEN_PROGS", []) + words.get("TEST_PROGS", [])
    if not programs:
        raise SetupError(f"{SOURCE}/Makefile names no program")
    return installed, programs


def limit():
    match = re.search(r"^timeout=(\d+)", (SOURCE / "settings").read_text(), re.M)
    return float(match.group(1)) if match else 45.0


def run(lab, program):
    host = lab["host"]
    traced = program.partition(".")[0] in TRACED
    for node in ("n1", "n2") if traced else ():
        lab.fabric.trace(node, True)
    environment = "WEFT_KO=/mnt/module/weft.ko" + (" WEFT_TRACED=1" if traced else "")
    result = host.run(f"cd /tmp/weft && {environment} ./{shlex.quote(program)}", limit(), None)
    for node in ("n1", "n2") if traced else ():
        lab.fabric.trace(node, False)
    return result


@test("kselftests")
def kselftests(bench):
    installed, programs = build()
    for program in programs:
        lab = bench.loopback()
        host = lab["host"]
        # On a file system of the guest's own, where a program can write beside itself.
        shutil.copytree(installed, host.run_dir / "weft", dirs_exist_ok=True)
        host.run("rm -rf /tmp/weft && cp -r /mnt/run/weft /tmp/")
        begin = time.monotonic()
        try:
            result = run(lab, program)
        except LabError as error:
            yield program, False, f"{error.kind}: {error}", None, time.monotonic() - begin
            bench.after(False)
            continue
        parsed = tap.Parsed(result.out)
        failures = 0
        for ok, name, skip in parsed.results:
            name = f"{program}: {name}" if name else program
            failures += not ok
            yield name, ok, result.out + result.err, skip, None
        # What went wrong beside the tests, or instead of them, is one more.
        try:
            bench.after(True)
            why = ""
        except LabError as error:
            why = f"{error.kind}: {error}"
        if not parsed.complete:
            why += f"\n{program} ended with {result.status} after {len(parsed.results)} results of "
            why += f"{parsed.planned}:\n{result.out}{result.err}"
        elif result.status not in (0, 4) and not failures:
            why += f"\n{program} ended with {result.status}:\n{result.out}{result.err}"
        if why:
            yield f"{program}: ends well", False, why, None, time.monotonic() - begin
            bench.abandon()
        else:
            yield f"{program}: ends well", True, "", None, time.monotonic() - begin
