# SPDX-License-Identifier: GPL-2.0
"""Virtual functions by the driver itself: made by sriov_numvfs, bound, in use, taken away."""

import contextlib
import os
import re
import signal

from weftlab import kernel, transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps
from .diagnose import diagnose, named

LAB = "functions of both"
VFS = 16
SYSFS = "/sys/bus/pci/devices"
ENDED = ("ended", "readied")
# How often VFs are made and taken away: more under a kernel that looks closely, by hand.
CYCLES = int(os.environ.get("WEFT_VF_CYCLES", "6"))
# A stranger that drives a VF by its registers alone: FUNCTION SECONDS. It says whatever there is to
# say to the PF, as fast as it can, and then resets itself as fast as it can.
STRANGER = """import mmap, os, random, struct, sys, time
PF_MBOX, CTRL, LENGTHS = 0x640 // 4, 0x30 // 4, (0, 1, 3, 4, 5, 16, 60, 63, 64, 65, 127)
fd = os.open(f"/sys/bus/pci/devices/{sys.argv[1]}/resource0", os.O_RDWR)
regs = memoryview(mmap.mmap(fd, 4096)).cast("I")
rng = random.Random(8)
said = 0


def say(note, length):
    global said
    for n, (word,) in enumerate(struct.iter_unpack("<I", note.ljust(64, bytes(1)))):
        regs[PF_MBOX + n] = word
    regs[PF_MBOX + 0x80 // 4] = 1 << 8 | 1 << 9 | length
    said += 1


def kinds():
    noise = rng.randbytes(60)
    yield bytes([1, 1, 0, 0]), 4
    yield bytes([1, 1, 0, 0]), rng.choice(LENGTHS)
    yield bytes([2, 1, 0, 0]) + noise[:12], 16
    yield bytes([4, 1, rng.randrange(3), 0]), 4
    yield bytes([3, rng.randrange(256), rng.randrange(256), rng.randrange(256)]) + noise, 64
    # A whole message, that is none, to each link and to those there are not.
    link, number = rng.randrange(6), rng.randrange(256)
    for index in range(4):
        yield bytes([3, link, number, index]) + noise, 64
    yield bytes([3, link, number, 4 | 0x80]) + noise[:rng.randrange(9)], rng.choice((5, 8, 12))
    yield b"WFVF" + noise, 64
    yield rng.randbytes(64), rng.choice(LENGTHS)


print("begins", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    for note, length in kinds():
        say(note, length)
resets = 0
end = time.monotonic() + float(sys.argv[2]) / 2
while time.monotonic() < end:
    regs[CTRL] = 1 << 31
    resets += 1
print(f"{said} notes, {resets} resets")
"""


class Side:
    """A host's first PF and its VFs."""

    def __init__(self, host):
        self.host = host
        self.pf = host.out("basename $(readlink -f /sys/class/weft/weft0/device)")

    def numvfs(self, count, status=0):
        return self.host.run(f"/bin/echo {count} >{SYSFS}/{self.pf}/sriov_numvfs", 240, status)

    def vf(self, n):
        return self.host.out(f"basename $(readlink -f {SYSFS}/{self.pf}/virtfn{n})")

    def node(self, n):
        """Number of the device node of VF n."""
        return int(self.host.out(f"basename {SYSFS}/{self.vf(n)}/weft/weft*").removeprefix("weft"))

    def ready(self, count, timeout=60):
        """Waits until the PF and the first VFs have their neighbours; their device nodes."""
        nodes = [0, *(self.node(n) for n in range(count))]
        for node in nodes:
            self.host.wait_link("ready", timeout, port=node)
        return nodes

    def file(self, n, name):
        return f"{SYSFS}/{self.pf}/vf{n}/{name}"

    def get(self, n, name):
        return self.host.out(f"cat {self.file(n, name)}")

    def set(self, n, name, value):
        self.host.run(f"echo {value} >{self.file(n, name)}")

    def lend(self, n):
        """Gives VF n to vfio-pci; its name and its hardware id."""
        steps.vfio(self.host)
        vf = self.vf(n)
        hwid = self.host.out(f"cat {SYSFS}/{vf}/hwid")
        self.host.run(f"echo {vf} >/sys/bus/pci/drivers/weft/unbind && "
                      f"echo vfio-pci >{SYSFS}/{vf}/driver_override && "
                      f"echo {vf} >/sys/bus/pci/drivers/vfio-pci/bind")  # fmt: skip
        return vf, hwid

    def take_back(self, vf):
        """Ends that of the VF with this name."""
        self.host.run(f"echo {vf} >/sys/bus/pci/drivers/vfio-pci/unbind && "
                      f"echo >{SYSFS}/{vf}/driver_override && echo {vf} >/sys/bus/pci/drivers_probe")  # fmt: skip

    def state(self, n, wanted, timeout=60):
        """VF n is to be in that state: what it says itself takes a moment."""
        self.host.until(f"[ $(cat {self.file(n, 'state')}) = {wanted} ]", timeout)

    def sessions(self, node):
        """What tells whether a link has been anything but ready since."""
        where = f"/sys/class/weft/weft{node}/device/link0"
        return self.host.out(f"cat {' '.join(f'{where}/{name}' for name in ENDED)} {where}/state")

    def user(self, node):
        """A program has the device node open."""
        return steps.user(self.host, f"exec 3</dev/weft{node}; echo open; exec sleep 600")


@contextlib.contextmanager
def vfs(bench, count):
    """Both hosts with so many VFs each; afterwards without any."""
    lab = bench.endpoints(VFS, both=True)
    sides = [Side(host) for host in lab.hosts.values()]
    for side in sides:
        side.numvfs(count)
    for side in sides:
        side.ready(count)
    yield lab, *sides
    for side in sides:
        side.numvfs(0)


class Carrying:
    """A file on its way from a port to one of the other host's."""

    def __init__(self, sender, receiver, ports, size=4 << 20):
        name = f"by{ports[0]}"
        self.path, self.source = steps.payload(sender, name, size, ports[0] + 1)
        self.receiver = transfer.Receiver(receiver, ["--port", ports[1]], f"inbox{ports[0]}")
        self.size = size
        line = transfer.send_line(sender, self.path, "--port", ports[0])
        self.job = sender.start_job(line)

    def whole(self):
        try:
            sent = self.job.wait(transfer.patience(self.size))
            sent.must(0)
            self.receiver.wait(60)
        finally:
            self.receiver.end()
        arrived = self.receiver.arrived(self.source.name)
        if transfer.sha256(arrived) != transfer.sha256(self.source):
            raise Mismatch(f"{self.path} arrived as another")
        arrived.unlink()
        return transfer.report(sent)["seconds"]


def carry(a, b, nodes_a, nodes_b, size=1 << 20):
    """Files by all of these ports at once, there and back."""
    for one, other, ports in ((a, b, zip(nodes_a, nodes_b)), (b, a, zip(nodes_b, nodes_a))):
        for way in [Carrying(one.host, other.host, pair, size) for pair in ports]:
            way.whole()


@contextlib.contextmanager
def undisturbed(*others):
    """Meanwhile no link of these is anything but ready; (side, device node) each."""
    before = [side.sessions(node) for side, node in others]
    yield
    after = [side.sessions(node) for side, node in others]
    if before != after:
        raise Mismatch(f"others were disturbed: {before!r}, then {after!r}")


@test("MR-8: VFs by sriov_numvfs are ports of their own, with neighbours, files and messages of their own")
def ports(bench):
    with vfs(bench, 2) as (lab, a, b):
        nodes = [side.ready(2) for side in (a, b)]
        hwids = set()
        for side, numbers in zip((a, b), nodes):
            for n, node in enumerate(numbers[1:]):
                side.host.run(f"test -c /dev/weft{node} && test -d /sys/class/weft/weft{node}")
                hwids.add(side.host.out(f"cat {SYSFS}/{side.vf(n)}/hwid"))
                side.state(n, "driven")
                if side.get(n, "links") != f"0x{0xf:016x}" or side.get(n, "used_apertures") == "0":
                    raise Mismatch(f"{side.host.name}: VF {n} has the links {side.get(n, 'links')}")
        if len(hwids) != 4:
            raise Mismatch(f"hardware ids of four VFs: {hwids}")
        for n, node in enumerate(nodes[0][1:]):
            peer = a.host.out(f"cat /sys/class/weft/weft{node}/device/link0/peer_hwid")
            if peer != b.host.out(f"cat {SYSFS}/{b.vf(n)}/hwid"):
                raise Mismatch(f"VF {n} of h1 has {peer} for a neighbour")
        carry(a, b, *nodes, size=4 << 20)
        for here, there in zip(nodes[0][1:], nodes[1][1:]):
            echo = b.host.start_job(b.host.weftctl_line("ping", "--serve", "--port", there))
            try:
                echo.expect("listening", 30)
                found = a.host.run(a.host.weftctl_line("ping", "--count", 20, "--port", here), 60)
                bench.note(f"VF weft{here}: {found.out.strip().splitlines()[-1]}")
            finally:
                echo.kill(signal.SIGTERM)
                echo.wait(20)


@test("MR-8: sriov_numvfs 0 is refused while a VF has users, and works when they have gone; 16 VFs, and again", long=True)
def refused(bench):
    with vfs(bench, 2) as (lab, a, b):
        with a.user(a.node(1)):
            a.state(1, "used")
            a.state(0, "driven")
            a.host.mark("refusing")
            done = a.numvfs(0, None)
            if not done.status or "busy" not in done.err.lower():
                raise Mismatch(f"numvfs 0 with a user: {done.status}, {done.err}")
            a.host.run("dmesg | sed -n '/refusing/,$p' | grep -q 'VF 1 is in use'")
            a.ready(2)
        a.state(1, "driven")
        a.numvfs(0)
        a.host.run(f"test ! -e {SYSFS}/{a.pf}/virtfn0 && [ $(ls -d /dev/weft* | wc -l) = 2 ]")
        a.state(0, "off")
        for count in (VFS, 0, VFS):
            a.numvfs(count)
            if count:
                a.host.run(f"[ $(ls -d /dev/weft? /dev/weft?? | wc -l) = {2 + count} ]")
                a.state(VFS - 1, "driven")
                a.ready(2)
        carry(a, b, a.ready(2)[1:], b.ready(2)[1:])


@test("MR-8: a VF's quota, changed in sysfs, is in force at once, and concerns no other")
def quota(bench):
    with vfs(bench, 2) as (lab, a, b):
        nodes = a.ready(2)
        with undisturbed((a, nodes[0]), (a, nodes[2])):
            for name, value, state in (
                ("links", "0xe", "down"),
                ("bytes", 4096, "hello"),
                ("slots", 0, "hello"),
                ("apertures", 0, "hello"),
            ):
                usual = a.get(0, name)
                a.set(0, name, value)
                a.host.wait_link(state, 30, port=nodes[1])
                if name == "bytes" and int(a.get(0, "used_bytes")) > value:
                    raise Mismatch("a VF keeps more than its quota")
                a.set(0, name, usual)
                for side in (a, b):
                    side.host.wait_link("ready", 60, port=side.node(0))
        carry(a, b, nodes, b.ready(2))
        for name, value, says in (
            ("links", "0x10", "Invalid argument"),
            ("peers", 1 << 40, "Invalid argument"),
            ("slots", "some", "Invalid argument"),
            ("slots", -1, "Invalid argument"),
            ("slots", 1 << 32, "out of range"),
            ("bytes", 1 << 64, "out of range"),
        ):
            was = a.get(0, name)
            done = a.host.run(f"/bin/echo {value} >{a.file(0, name)}", status=None)
            if not done.status or says not in done.err or a.get(0, name) != was:
                raise Mismatch(f"{name} {value}: {done.status}, {done.err}")
        # Who may not write, and who may write but is not allowed to.
        for who in ("--reuid 1000 --clear-groups", "--bounding-set=-sys_admin"):
            done = a.host.run(f"setpriv {who} sh -c '/bin/echo 1 >{a.file(0, 'slots')}'", status=None)
            if not done.status or not re.search("denied|not permitted", done.err):
                raise Mismatch(f"setpriv {who}: {done.status}, {done.err}")


@test("MR-8: one VF is reset and comes back, alone; the PF is unbound with VFs, and all comes back")
def resets(bench):
    with vfs(bench, 2) as (lab, a, b):
        nodes = a.ready(2)
        with undisturbed((a, nodes[0]), (a, nodes[2])):
            with a.user(nodes[1]):
                a.state(0, "used")
                a.host.run(f"echo 1 >{SYSFS}/{a.vf(0)}/reset")
                a.state(0, "used")
                a.ready(2)
            a.state(0, "driven")
        carry(a, b, nodes, b.ready(2))
        with a.user(nodes[2]):
            a.host.run(f"echo {a.pf} >/sys/bus/pci/drivers/weft/unbind", 120)
            a.host.run(f"test ! -e {SYSFS}/{a.pf}/virtfn0 && [ $(ls -d /dev/weft* | wc -l) = 1 ]")
        a.host.run(f"echo {a.pf} >/sys/bus/pci/drivers/weft/bind")
        a.host.wait_links(60)
        a.numvfs(2)
        carry(a, b, a.ready(2), b.ready(2))


@test("MR-8: a PF is reset with VFs enabled and used: the driver takes them along")
def reset_of_pf(bench):
    with vfs(bench, 2) as (lab, a, b):
        a.set(1, "bytes", 8 << 20)
        with a.user(a.node(0)):
            for _ in range(2):
                a.host.run(f"echo 1 >{SYSFS}/{a.pf}/reset", 60)
                nodes = a.ready(2)
                a.state(0, "used")
                if a.get(1, "bytes") != str(8 << 20):
                    raise Mismatch("a quota is another after a reset")
                carry(a, b, nodes, b.ready(2))


@test("MR-8: VFs are made, used and taken away again and again", patient=True, long=True)
def cycles(bench):
    with vfs(bench, 1) as (lab, a, b):
        a.numvfs(0)
        serve = b.host.weftctl_line("ping", "--serve", "--port", b.node(0))
        server = b.host.start_job(serve)
        server.expect("listening", 30)
        count = f"/bin/echo %d >{SYSFS}/{a.pf}/sriov_numvfs"
        node = f"$(basename {SYSFS}/{a.pf}/virtfn0/weft/weft* | tr -d a-z)"
        once = (
            f"{count % 1} && weftctl wait --link 0 --port {node} && "
            f"weftctl ping --count 3 --timeout 30 --port {node} && {count % 0}"
        )
        a.host.run(f"n=0; while [ $n -lt {CYCLES} ]; do n=$((n + 1)); {once} || exit 1; done",
                   60 + 20 * CYCLES)  # fmt: skip
        server.kill(signal.SIGKILL)
        server.wait(20)
        bench.note(f"{CYCLES} cycles")
        a.numvfs(1)
        carry(a, b, a.ready(1), b.ready(1))


@test("MR-8: errors on the bus with VFs in use: what is not fatal harms nothing, after a reset all come back", long=True)
def errors(bench):
    with vfs(bench, 2) as (lab, a, b):
        a.set(1, "bytes", 8 << 20)
        for name, says in (("POISON_TLP", r"\(Non-Fatal\)"), ("MALF_TLP", r"\(Fatal\)")):
            nodes = list(zip(a.ready(2), b.ready(2)))
            ways = [Carrying(a.host, b.host, pair, 8 << 20) for pair in nodes]
            for way in ways:
                way.receiver.has(1 << 20)
            steps.aer(a.host, name, says, "device recovery successful")
            for way in ways:
                way.whole()
            if a.get(1, "bytes") != str(8 << 20):
                raise Mismatch("a quota is another after an error")
        carry(a, b, a.ready(2), b.ready(2))


@test("MR-8, HP-2: an endpoint is pulled with VFs enabled and in use, and put back", long=True)
def pulled(bench):
    with vfs(bench, 2) as (lab, a, b):
        nodes = a.ready(2)
        port = a.host.ports[0]
        with kernel.slots_at_work(a.host):
            steps.pull(a.host, port, patience=60, nodes=[f"/dev/weft{n}" for n in range(4)],
                       listen=nodes[1])  # fmt: skip
            b.host.wait_link("down")
            a.host.plug(port, "slot0")
            a.host.until("[ -e /dev/weft0 ] && [ -e /dev/weft1 ]")
            for host in lab.hosts.values():
                host.wait_links(60)
        a.numvfs(2)
        carry(a, b, a.ready(2), b.ready(2))


@test("MR-8: a VF in a stranger's hands floods its PF, and disturbs neither PF nor another VF", long=True)
def stranger(bench):
    with vfs(bench, 2) as (lab, a, b):
        nodes, there = a.ready(2), b.ready(2)
        vf = a.vf(0)
        a.host.run(f"echo {vf} >/sys/bus/pci/drivers/weft/unbind")
        a.state(0, "idle")
        # Memory space and mastership.
        a.host.run(f"setpci -s {vf} COMMAND=6")
        a.state(0, "used")
        if not a.numvfs(0, None).status:
            raise Mismatch("a VF that masters the bus was taken away")
        others = [(side, ports[n]) for side, ports in ((a, nodes), (b, there)) for n in (0, 2)]
        path = a.host.push("stranger.py", STRANGER.encode())
        with undisturbed(*others):
            flood = a.host.start_job(f"exec python3 {path} {vf} {4 * kernel.patience()}")
            try:
                flood.expect("begins", 30)
                carry(a, b, [nodes[0], nodes[2]], [there[0], there[2]], 2 << 20)
            finally:
                done = flood.wait(120)
            bench.note(f"a stranger's {done.must(0).out.strip().splitlines()[-1]}")
            a.state(0, "used")
        a.host.run(f"setpci -s {vf} COMMAND=0 && echo {vf} >/sys/bus/pci/drivers/weft/bind")
        carry(a, b, a.ready(2), b.ready(2))


@test("MR-8: weftctl vf shows the VFs of a port and what they use, and changes what one may use")
def shown(bench):
    with vfs(bench, 2) as (lab, a, b):
        nodes = a.ready(2)
        found = a.host.weftctl_json("vf")["vfs"]
        if [(vf["port"], vf["vf"], vf.get("node")) for vf in found] != [
            ("/dev/weft0", n, f"/dev/weft{nodes[1 + n]}") for n in range(2)
        ]:
            raise Mismatch(f"weftctl vf: {found}")
        if found[1]["function"] != a.vf(1) or found[1]["used"]["apertures"] != 1:
            raise Mismatch(f"weftctl vf: {found[1]}")
        every = a.host.weftctl_json("vf", "--all")["vfs"]
        if len(every) != 2 * VFS or every[-1]["state"] != "off":
            raise Mismatch(f"weftctl vf --all: {len(every)}, {every[-1:]}")
        a.host.weftctl("vf", "set", 0, 1, "links=0xe", "bytes=8M")
        if (a.get(1, "links"), a.get(1, "bytes")) != (f"0x{0xe:016x}", str(8 << 20)):
            raise Mismatch(f"links {a.get(1, 'links')}, {a.get(1, 'bytes')} bytes")
        a.host.wait_link("down", port=nodes[2])
        a.host.weftctl("vf", "set", "weft0", 1, "links=0xf", "bytes=4M")
        a.ready(2)
        for words, status, says in (
            (("0", VFS, "slots=1"), 2, "no VF 16"),
            (("0", 0, "links=0x10"), 2, "no such link"),
            (("0", 0, "slots=8G"), 2, "too large"),
            ((nodes[1], 0, "slots=1"), 2, "no VFs"),
            ((9, 0, "slots=1"), 3, "no such port"),
        ):
            steps.refused(a.host.weftctl("vf", "set", *words, status=None), status, says)
        line = a.host.weftctl_line("vf", "set", 0, 0, "slots=1")
        steps.refused(a.host.run(f"setpriv --bounding-set=-sys_admin {line}", status=None), 4, "CAP_SYS_ADMIN")


@test("MR-8: diagnose says what is wrong with a VF, and the command that it names mends it", long=True)
def diagnosed(bench):
    with vfs(bench, 2) as (lab, a, b):
        nodes = a.ready(2)
        a.host.run("dmesg -C")

        def mend(name, level, *words):
            report = diagnose(a.host)
            named(report, name, level, *words)
            for found in report["findings"]:
                if found["id"] == name:
                    a.host.run(found["mend"].split("`")[1])

        a.set(1, "links", 0)
        mend("vf-no-links", "warning", "VF 1 of weft0", a.vf(1))
        a.set(1, "slots", 1)
        a.set(1, "bytes", 4096)
        mend("vf-quota", "warning", "1 slots of 4", "4096 bytes of")
        a.set(1, "rate", 1 << 20)
        mend("vf-rate", "note", "1048576 bytes")
        if (a.get(1, "rate"), a.get(1, "slots"), a.get(1, "links")) != ("0", "4", f"0x{0xf:016x}"):
            raise Mismatch("what it says does not mend it")
        a.ready(2)
        a.host.run(f"echo {a.vf(0)} >/sys/bus/pci/drivers/weft/unbind")
        a.state(0, "idle")
        mend("vf-idle", "warning", a.vf(0))
        a.ready(2)
        # Neither is one missed that is taken away.
        for count in (2, 1):
            a.numvfs(0)
            a.numvfs(count)
            a.ready(count)
            found = [one for one in diagnose(a.host)["findings"] if one["level"] != "note"]
            if found:
                raise Mismatch(f"{found}")
        a.numvfs(0)
        a.numvfs(2)
        nodes = a.ready(2)
        carry(a, b, nodes, b.ready(2))


@test("MR-8: a VF is given away: a program drives it by vfio-pci, behind the IOMMU, and its neighbour hears it",
      core=True, iommu=True)
def given_away(bench):
    with vfs(bench, 2) as (lab, a, b):
        nodes, there = a.ready(2), b.ready(2)
        vf, hwid = a.lend(0)
        b.host.wait_link("hello", 60, port=there[1])
        with undisturbed((a, nodes[0]), (a, nodes[2])):
            job = a.host.start_job(f"weft-vfio {vf} --seconds 8 --timeout 60")
            job.expect("link 0: ready", 90)
            b.host.wait_link("ready", 60, port=there[1])
            a.state(0, "driven")
            peer = b.host.out(f"cat /sys/class/weft/weft{there[1]}/device/link0/peer_hwid")
            if peer != hwid:
                raise Mismatch(f"the neighbour knows {peer}, not {hwid}")
            done = job.wait(60).must()
            bench.note(f"a VF by vfio-pci: {re.search('.* messages, .*', done.out).group()}")
            b.host.wait_link("hello", 60, port=there[1])
            # A function that vfio-pci is not bound to, and one that is not there.
            for words, says in (("0000:00:00.0", "IOMMU group"), ("0000:ff:1f.7", "no function")):
                failed = a.host.run(f"weft-vfio {words}", 60, None)
                if failed.status != 1 or says not in failed.err:
                    raise Mismatch(f"weft-vfio {words}: {failed.status}, {failed.err}")
        a.take_back(vf)
        carry(a, b, a.ready(2), b.ready(2))
