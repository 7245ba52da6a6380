# SPDX-License-Identifier: GPL-2.0
"""The fences of the protocol, in adversarial mode: all are enough, and without one it breaks.

Not all are here: rust/proto/fence.rs names them, and Documentation/protocol.rst says
what shows the others.
"""

import os
import re
import shutil
import subprocess

from weftlab import paths
from weftlab.errors import LabError, Mismatch, SetupError
from weftlab.suite import test

LAB = "pair"
# Of the protocol, and of who wins a race: neither is the kernel's to judge.
CLOSELY = False
SERVICE = 7302
SEED = 20
MESSAGES = 400
# A message that is later than this is one that no thread was woken for.
PATIENCE = 10
# The driver looks after those who sleep for too long, and counts them. A doorbell may also be late: a busy machine
# keeps the sender from running between its store and its doorbell.
OVERSLEPT = "/sys/class/weft/weft0/device/link0/doorbells_lost"
SOAK = "/mnt/tools/weft-soak"
# What the program says of a message that is not as it was sent. That one is late it says as well.
TORN = re.compile(r"is not what was sent|message \d+ instead of|broke the protocol|after the last one")
# How many overslept with all fences, in this run.
LATE = []


def make(fence, *command):
    """Builds something without a fence."""
    environment = {**os.environ, "WEFT_WITHOUT_FENCE": fence}
    done = subprocess.run(command, cwd=paths.TOP / "tools", env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    if done.returncode:
        raise SetupError(f"without the fence {fence}: {' '.join(command)}:\n{done.stdout}")


def program(fence):
    """weft-soak without a fence."""
    target = paths.tools_dir().parent / "without-fence"
    make(fence, "cargo", "build", "--quiet", "--release", "--locked", "--package", "weft",
         "--bin", "weft-soak", "--target-dir", str(target))  # fmt: skip
    return target / "release" / "weft-soak"


def module(fence):
    """weft.ko without a fence."""
    make(fence, str(paths.TOP / "scripts" / "modules"))
    return paths.BUILD.parent / f"{paths.env('kver')}-without-{fence}" / "weft.ko"


def give(host, path, name):
    """A file for a host, which may execute it; its path there."""
    shutil.copyfile(path, host.run_dir / name)
    (host.run_dir / name).chmod(0o755)
    return f"/mnt/run/{name}"


def overslept(lab):
    """Sleepers that only the driver's clock woke."""
    return sum(int(host.out(f"cat {OVERSLEPT}")) for host in lab.hosts.values())


def soak(lab, command):
    """How both ends ended, (host, result), and how many sleepers overslept meanwhile."""
    for node in ("h1", "h2"):
        lab.fabric.adversarial(node, SEED)
    before = overslept(lab)
    listening = lab["h2"].start_job(f"{command} listen 0 {SERVICE} {PATIENCE}")
    listening.expect("listening", 30)
    connecting = lab["h1"].start_job(f"{command} connect 0 {SERVICE} {MESSAGES} {PATIENCE}")
    # An end that is not served says so within its patience, and then the other's channel is closed.
    ends = [("h1", connecting.wait(240)), ("h2", listening.wait(60))]
    return ends, overslept(lab) - before


def late(lab):
    """How many sleepers overslept with all fences: their doorbells came, but late."""
    if not LATE:
        ends, count = soak(lab, SOAK)
        for host, result in ends:
            if result.status:
                raise LabError(f"{host}: {result.command} ended with {result.status}: {result.err}")
        LATE.append(count)
    return LATE[0]


def without(lab, fence):
    """The library without one of its fences, for the driver with all of them."""
    built = program(fence)
    commands = {give(host, built, f"soak-without-{fence}") for host in lab.hosts.values()}
    return commands.pop()


def must_oversleep(bench, lab, command, fence):
    """Without the fence far more sleepers oversleep than with it, in the same run: one that does may only have
    been late to be rung for. Measured on two processors: 12 to 18 without wake-receiver, 78 to 100 without
    sleep, none with all fences."""
    _, count = soak(lab, command)
    bench.note(f"{count} sleepers overslept without {fence}, {late(lab)} with all fences")
    if count <= 2 * (late(lab) + 1):
        raise Mismatch(f"without the fence {fence} {count} sleepers overslept, with all of them {late(lab)}")


@test("with all of them nothing is torn, lost, doubled or late, whatever leaves when")
def all_of_them(bench):
    bench.note(f"{late(bench.pair())} sleepers overslept")


@test("without `publish` a message is read before all of it is there", long=True)
def publish(bench):
    lab = bench.pair()
    ends, _ = soak(lab, without(lab, "publish"))
    # Late ones are no proof: only what has left too early is torn.
    if not any(TORN.search(result.err) for _, result in ends):
        said = "; ".join(f"{host}: {result.status} {result.err.strip()}" for host, result in ends)
        raise Mismatch(f"without the fence publish nothing was torn: {said}")


@test("without `wake-receiver` a receiver sleeps on", long=True)
def wake_receiver(bench):
    lab = bench.pair()
    late(lab)
    must_oversleep(bench, lab, without(lab, "wake-receiver"), "wake-receiver")


@test("without `sleep` in the driver the peer does not know that a thread sleeps", long=True)
def sleep(bench):
    lab = bench.pair()
    # With the right driver.
    late(lab)
    built = module("sleep")
    for host in lab.hosts.values():
        host.rmmod()
        host.run(f"insmod {give(host, built, 'weft-without-sleep.ko')}")
    for host in lab.hosts.values():
        host.wait_links()
    must_oversleep(bench, lab, SOAK, "sleep")
    # The bench loads the right one.
    for host in lab.hosts.values():
        host.rmmod()
