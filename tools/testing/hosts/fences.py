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
# The driver looks after those who sleep for too long, and counts them.
OVERSLEPT = "/sys/class/weft/weft0/device/link0/doorbells_lost"
# What the program says of a message that is not as it was sent, or not there.
FAULT = re.compile(r"is not what was sent|message \d+ instead of|not in time|timed out waiting|"
                   r"broke the protocol|after the last one")  # fmt: skip


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


def soak(lab, command):
    """How both ends ended: (host, result)."""
    for node in ("h1", "h2"):
        lab.fabric.adversarial(node, SEED)
    listening = lab["h2"].start_job(f"{command} listen 0 {SERVICE} {PATIENCE}")
    listening.expect("listening", 30)
    connecting = lab["h1"].start_job(f"{command} connect 0 {SERVICE} {MESSAGES} {PATIENCE}")
    # Who is not served says so within its patience, and then the other's channel is closed.
    return [("h1", connecting.wait(240)), ("h2", listening.wait(60))]


def overslept(lab):
    """Sleepers that only the driver's clock woke."""
    return sum(int(host.out(f"cat {OVERSLEPT}")) for host in lab.hosts.values())


def must_break(lab, command, fence):
    before = overslept(lab)
    ends = soak(lab, command)
    if overslept(lab) == before and not any(FAULT.search(result.err) for _, result in ends):
        said = "; ".join(f"{host}: {result.status} {result.err.strip()}" for host, result in ends)
        raise Mismatch(f"without the fence {fence} nothing was torn, lost or late: {said}")


def without(lab, fence):
    """The library without one of its fences, over the driver with all of them."""
    built = program(fence)
    commands = {give(host, built, f"soak-without-{fence}") for host in lab.hosts.values()}
    must_break(lab, commands.pop(), fence)


@test("with all of them nothing is torn, lost, doubled or late, whatever leaves when")
def all_of_them(bench):
    for host, result in soak(bench.pair(), "/mnt/tools/weft-soak"):
        if result.status:
            raise LabError(f"{host}: {result.command} ended with {result.status}: {result.err}")


@test("without `publish` a message is read before all of it is there")
def publish(bench):
    without(bench.pair(), "publish")


@test("without `wake-receiver` a receiver sleeps on")
def wake_receiver(bench):
    without(bench.pair(), "wake-receiver")


@test("without `sleep` in the driver the peer does not know that a thread sleeps")
def sleep(bench):
    lab = bench.pair()
    built = module("sleep")
    for host in lab.hosts.values():
        host.rmmod()
        host.run(f"insmod {give(host, built, 'weft-without-sleep.ko')}")
    for host in lab.hosts.values():
        host.wait_links()
    must_break(lab, "/mnt/tools/weft-soak", "sleep")
    # The bench loads the right one.
    for host in lab.hosts.values():
        host.rmmod()
