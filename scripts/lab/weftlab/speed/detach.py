# SPDX-License-Identifier: GPL-2.0
"""How long it takes until users know when a function is taken away: a program that waits for an event of
its device file. What a reset costs, which queue pairs outlast, is a pause: see moves.py.

All of it happens in the guest, by the guest's clock: from just before the write that takes the
function away until the user runs again.
"""

import json

from .. import topology
from ..lab import Lab
from . import ways
from .machines import Samples

VFS = 2
# Waits for a hang-up of a device file.
WAITER = """import os, select, sys
poll = select.poll()
poll.register(os.open(sys.argv[1], os.O_RDWR), 0)
print("watching", flush=True)
poll.poll()
print("failed", flush=True)
"""
# Writes something while a program waits that says "watching" before, and "failed" when it knows; or
# that is in the way of it: FILE VALUE gone|refused COMMAND...
TAKER = """import json, os, subprocess, sys, time
file, value, how, *command = sys.argv[1:]
user = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
if not user.stdout.readline().startswith("watching"):
    sys.exit("no program watches")
# It has to be asleep.
time.sleep(0.5)
fd = os.open(file, os.O_WRONLY)
pid = os.fork() if how == "gone" else 0
begin = time.monotonic()
if pid == 0:
    error = 0
    try:
        os.write(fd, value.encode())
    except OSError as e:
        error = e.errno
    seconds = time.monotonic() - begin
    if how == "gone":
        os._exit(error)
if how == "gone":
    if not user.stdout.readline().startswith("failed"):
        sys.exit("it has not learned of it")
    seconds = time.monotonic() - begin
    if os.waitpid(pid, 0)[1]:
        sys.exit("it was not written")
elif not error:
    sys.exit("it was not refused")
user.kill()
user.wait()
print(json.dumps({"seconds": seconds}))
"""
DRIVER = "/sys/bus/pci/drivers/weft"
DEVICES = "/sys/bus/pci/devices"


def _machines(say):
    lab = Lab("detach", say)
    lab.join(topology.chain(2))
    for name in ("h1", "h2"):
        lab.add(name, vfs=VFS, vf_slots=4, cpus=2)
    return lab


class _Place:
    """The first function of h1, and its VF 0."""

    def __init__(self, lab):
        self.lab = lab
        self.host = lab["h1"]
        self.pf = self.host.out("basename $(readlink -f /sys/class/weft/weft0/device)")
        self.script = {
            name: self.host.push(f"{name}.py", text.encode())
            for name, text in (("waiter", WAITER), ("taker", TAKER))
        }
        self.ready()

    def ready(self):
        """Both hosts have the VF, and all have their neighbours."""
        for host in self.lab.hosts.values():
            pf = host.out("basename $(readlink -f /sys/class/weft/weft0/device)")
            host.run(f"[ $(cat {DEVICES}/{pf}/sriov_numvfs) = 1 ] || echo 1 >{DEVICES}/{pf}/sriov_numvfs")
            host.until(f"[ -e {DEVICES}/{pf}/virtfn0/weft ]")
        for host in self.lab.hosts.values():
            for port in (0, self.node(host)):
                host.wait_link("ready", 60, port=port)
        self.vf = self.host.out(f"basename $(readlink -f {DEVICES}/{self.pf}/virtfn0)")

    def node(self, host):
        pf = host.out("basename $(readlink -f /sys/class/weft/weft0/device)")
        return int(host.out(f"basename {DEVICES}/{pf}/virtfn0/weft/weft*").removeprefix("weft"))

    def _taken(self, file, value, how, command):
        line = f"python3 {self.script['taker']} {file} {value} {how} {command}"
        return json.loads(self.host.out(line, ways.PATIENCE).splitlines()[-1])["seconds"]

    def hup(self, port, file, value, how="gone"):
        return self._taken(file, value, how, f"python3 {self.script['waiter']} /dev/weft{port}")


def _bound(place, function):
    place.host.run(f"echo {function} >{DRIVER}/bind")
    place.host.until(f"[ -e {DEVICES}/{function}/weft ]")
    place.ready()


def _once(place, samples):
    host, pf = place.host, place.pf
    vf, here = place.vf, place.node(place.host)
    numvfs = f"{DEVICES}/{pf}/sriov_numvfs"
    samples.add("numvfs-refused", place.hup(here, numvfs, 0, "refused"))
    samples.add("vf-unbind", place.hup(here, f"{DRIVER}/unbind", vf))
    _bound(place, vf)
    # The PF's driver takes its VFs along.
    samples.add("pf-unbind-vf", place.hup(place.node(host), f"{DRIVER}/unbind", pf))
    _bound(place, pf)
    # Its own users wait until the kernel has disabled them.
    samples.add("pf-unbind-with-vfs", place.hup(0, f"{DRIVER}/unbind", pf))
    _bound(place, pf)
    host.run(f"echo 0 >{numvfs}")
    samples.add("pf-unbind", place.hup(0, f"{DRIVER}/unbind", pf))
    _bound(place, pf)
    host.run(f"echo 0 >{numvfs}")
    # The slot loses its power, and the function with it.
    slot = host.out(f"grep -l {pf.rsplit('.', 1)[0]} /sys/bus/pci/slots/*/address")
    samples.add("hot-removal", place.hup(0, slot.replace("address", "power"), 0))
    port = host.ports[0]
    host.until(f"[ ! -e {DEVICES}/{pf} ]")
    host.plug(port, "slot0")
    host.until("[ -e /dev/weft0 ] && [ -e /dev/weft1 ]")
    for each in place.lab.hosts.values():
        each.wait_links(60)
    place.ready()


def measure(figures, say, runs):
    """how long it takes to learn that a function is taken away"""
    samples = Samples()
    with _machines(say) as lab:
        lab.boot().load()
        place = _Place(lab)
        for run in range(runs):
            _once(place, samples)
            say(f"run {run + 1} of {runs}")
    for name, figure in (
        ("vf-unbind", "vf-unbind-hup"),
        ("pf-unbind", "pf-unbind-hup"),
        ("pf-unbind-vf", "pf-unbind-hup-of-vf"),
        ("pf-unbind-with-vfs", "pf-unbind-hup-with-vfs"),
        ("hot-removal", "hot-removal-hup"),
        ("numvfs-refused", "numvfs-0-refused"),
    ):
        figures.add(f"detach-{figure}", "ms", [1e3 * s for s in samples[name]])
