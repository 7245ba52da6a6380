# SPDX-License-Identifier: GPL-2.0
"""A migration, and what befalls one of its functions at a given step of it."""

import contextlib
import json

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps
from .migration import MIGRATIONS, SYSFS, back, holding, migrate, moving, none_twice

LAB = "twins"
# Waits until a step is seen to be done, by what sysfs shows, and does something at once: PATH WANTED
# FILE VALUE. WANTED: "-", there is no such path; "+", there is; or what is in it.
CROSS = """import os, sys, time
path, wanted, file, value = sys.argv[1:]


def seen():
    if wanted in "+-":
        return os.path.lexists(path) == (wanted == "+")
    try:
        return open(path).read().strip() == wanted
    except OSError:
        return False


until = time.monotonic() + 60
print("watching", flush=True)
while not seen():
    if time.monotonic() > until:
        sys.exit("never seen")
try:
    fd = os.open(file, os.O_WRONLY)
    os.write(fd, value.encode())
except OSError as error:
    print(error)
"""
# Waits until a path is not there any more, and so many milliseconds; takes a function from weft for
# vfio then, with which it masters the bus and says nothing, until it is killed: PATH MS GROUP FUNCTION.
HOLDER = """import fcntl, os, sys, time
GET, CONTAINER, IOMMU = 0x3b6a, 0x3b68, 0x3b66
path, later, group, function = sys.argv[1:]
dir = f"/sys/bus/pci/devices/{function}"


def write(path, what, at=0):
    fd = os.open(path, os.O_WRONLY)
    os.pwrite(fd, what, at)
    os.close(fd)


write(f"{dir}/driver_override", b"vfio-pci")
until = time.monotonic() + 60
print("watching", flush=True)
while os.path.lexists(path):
    if time.monotonic() > until:
        sys.exit("it stays")
time.sleep(int(later) / 1000)
try:
    write("/sys/bus/pci/drivers/weft/unbind", function.encode())
except OSError as error:
    print(error, flush=True)
write("/sys/bus/pci/drivers_probe", function.encode())
container, group = (os.open(f"/dev/vfio/{name}", os.O_RDWR) for name in ("vfio", group))
fcntl.ioctl(group, CONTAINER, container.to_bytes(4, "little"))
fcntl.ioctl(container, IOMMU, 1)
fcntl.ioctl(group, GET, function.encode() + bytes(1))
write(f"{dir}/config", (6).to_bytes(2, "little"), 4)
print("held", flush=True)
time.sleep(600)
"""
DRIVER = "/sys/bus/pci/drivers/weft"


def seen(source, target, hwid):
    """How it is seen that a step is done, or has begun: the step, a path, and what is there."""
    return [
        ("claim", f"{SYSFS}/{target.vf(0)}/driver", "-"),
        ("release", f"{SYSFS}/{source.vf(0)}/weft", "-"),
        ("attach", f"{SYSFS}/{target.pf}/vf0/hwid", hwid),
        ("configure", f"{SYSFS}/{source.pf}/vf0/hwid", target.hwid(0)),
    ]


def crossed(host, source, target, path, wanted, file, value):
    """A migration of VF 0, in whose way something is done; what became of it."""
    script = host.push("cross.py", CROSS.encode())
    watch = host.start_job(f"exec python3 {script} {path} {wanted} {file} {value}")
    watch.expect("watching", 30)
    line = host.weftctl_line("--json", "vf", "migrate", f"{source.number}:0", f"{target.number}:0")
    done = host.run(line, 120, None)
    watch.wait(90).must(0)
    report = json.loads(done.out.splitlines()[0]).get("migration")
    if not report or report["obstacles"]:
        raise Mismatch(f"it did not begin: {done.out} {done.err}")
    return report


def mended(host, port):
    """The function is where it was, with its driver, and has its neighbour."""
    if host.run(f"test -e {SYSFS}/{port.pf}", status=None).status:
        back(port, 1)
    vf = port.vf(0)
    host.run(f"[ -e {SYSFS}/{vf}/driver ] || echo {vf} >/sys/bus/pci/drivers_probe")
    host.until(f"[ -e {SYSFS}/{vf}/weft ]")
    for one in (port.number, port.node(0)):
        host.wait_link("ready", 60, port=one)


@test("MIG-2: source or target is reset, unbound or taken away at each step: its identity is the source's or the "
      "target's, and it moves the next time", patient=True, long=True)
def each_step(bench):
    with moving(bench) as (lab, a, b):
        host, source, target = lab["h1"], a[2], a[1]
        ends = []
        for number in range(4):
            for turn, side in enumerate((source, target)):
                # Both by hand; otherwise in turns.
                if MIGRATIONS < 100 and (number + turn) % 2:
                    continue
                ways = [
                    ("reset", f"{SYSFS}/{side.vf(0)}/reset", 1),
                    ("unbound", f"{DRIVER}/unbind", side.vf(0)),
                    ("taken away", f"{SYSFS}/{side.pf}/remove", 1),
                ]
                # All of them by hand; otherwise each in its turn.
                for what, file, value in ways if MIGRATIONS >= 100 else [ways[(number + turn) % len(ways)]]:
                    hwid, other = source.hwid(0), target.hwid(0)
                    step, path, wanted = seen(source, target, hwid)[number]
                    done = crossed(host, source, target, path, wanted, file, value)
                    which = "source" if side is source else "target"
                    case = f"{which} {what} after {step}: {done['outcome']}"
                    ends.append(f"{case} ({done.get('step', 'all')}, {done.get('event', 'done')})")
                    mended(host, source)
                    mended(host, target)
                    none_twice((a[0], 2), (target, 1), (source, 1))
                    moved = done["outcome"] in ("moved", "at-target")
                    have = source.hwid(0), target.hwid(0)
                    # A target that is taken away with the identity of another comes back with it.
                    if have != ((other, hwid) if moved else (hwid, other)) or done["outcome"] == "lost":
                        raise Mismatch(f"{ends[-1]}: {have} of {(hwid, other)}")
        for end in ends:
            bench.note(end)
        if migrate(host, f"{source.number}:0", f"{target.number}:0")["outcome"] != "moved":
            raise Mismatch("it does not move afterwards")


@test("MIG-2: a source that is given to another driver meanwhile neither keeps the migration waiting nor is "
      "taken from its holder", iommu=True, patient=True)
def rebound(bench):
    with moving(bench) as (lab, a, b):
        host, source, target = lab["h1"], a[2], a[1]
        steps.vfio(host)
        vf = source.vf(0)
        group = host.out(f"basename $(readlink -f {SYSFS}/{vf}/iommu_group)")
        script = host.push("holder.py", HOLDER.encode())
        take = (
            f"echo >{SYSFS}/{vf}/driver_override; "
            f"[ ! -e {SYSFS}/{vf}/driver ] || echo {vf} >{SYSFS}/{vf}/driver/unbind; "
            f"echo {vf} >/sys/bus/pci/drivers_probe"
        )
        ends = []
        line = host.weftctl_line("--json", "vf", "migrate", f"{source.number}:0", f"{target.number}:0", "--timeout", 5)
        # While users are waited for; and from when the target is taken from its driver on.
        for delay in (None, 0, 10, 40, 120):
            hwid, other = source.hwid(0), target.hwid(0)
            begins = "/tmp/begins" if delay is None else f"{SYSFS}/{target.vf(0)}/weft"
            with contextlib.ExitStack() as stack:
                user = None
                if delay is None:
                    user = stack.enter_context(holding(lab, hwid))
                    host.run(f"touch {begins}")
                holder = host.start_job(f"exec python3 {script} {begins} {delay or 0} {group} {vf}")
                holder.expect("watching", 30)
                going = host.start_job(f"exec {line}")
                if user:
                    user.expect("asked", 30)
                    host.run(f"rm {begins}")
                holder.expect("held", 60)
                # Every step has its limit.
                done = json.loads(going.wait(100).out.splitlines()[0])["migration"]
            when = "while users are waited for" if delay is None else f"{delay} ms later"
            ends.append(f"{when}: {done['outcome']} ({done.get('step', 'all')}, {done.get('event', 'done')})")
            # Who has taken it has it still, whatever became of its identity.
            if not holder.running or host.out(f"basename $(readlink -f {SYSFS}/{vf}/driver)") != "vfio-pci":
                raise Mismatch(f"{ends[-1]}: it was taken from its holder")
            if source.get(0, "state") != "used" or source.get(0, "links") != f"0x{0xf:016x}":
                raise Mismatch(f"{ends[-1]}: it is {source.get(0, 'state')}, with links {source.get(0, 'links')}")
            holder.kill(9)
            holder.wait(30)
            host.run(take, 60)
            mended(host, source)
            mended(host, target)
            if done["outcome"] not in ("moved", "stayed"):
                raise Mismatch(ends[-1])
            have = source.hwid(0), target.hwid(0)
            if have != ((other, hwid) if done["outcome"] == "moved" else (hwid, other)):
                raise Mismatch(f"{ends[-1]}: {have} of {(hwid, other)}")
        for end in ends:
            bench.note(end)
        if migrate(host, f"{source.number}:0", f"{target.number}:0")["outcome"] != "moved":
            raise Mismatch("it does not move afterwards")
