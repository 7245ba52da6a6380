# SPDX-License-Identifier: GPL-2.0
"""Functions of a port that reach others behind switches: virtual ones, and the second of an endpoint."""

import contextlib
import time

from weftlab import paths, topology, transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps
from .constants import constants
from .fabric import until
from .live import keeping
from .migration import migrate
from .programs import running
from .sriov import SYSFS, Side

LAB = "functions at switches"
VFS, SLOTS, LINKS = 2, 8, 4
# More VFs than one processor has vectors for.
MANY = 16
HOSTS = {"h1": 1, "h2": 2, "h3": 3}
# Where the number of a function stands in its hardware id.
NUMBER = 58
CONNECT = ("--count", 3, "--timeout", 20)
# A VF in a stranger's hands, by its registers alone: FUNCTION LID HWID PATH. It says hello to its PF, and then, over a
# route, that it is the function with this id, until there is such a file.
STRANGER = """
import mmap, os, struct, sys, time
function, lid, hwid, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
fd = os.open(f"/sys/bus/pci/devices/{function}/resource0", os.O_RDWR)
regs = memoryview(mmap.mmap(fd, 4096)).cast("I")
PF_MBOX = 0x640 // 4


def say(note):
    while regs[PF_MBOX + 0x84 // 4] & 1 << 8:
        time.sleep(0.001)
    for n, (word,) in enumerate(struct.iter_unpack("<I", note.ljust(64, bytes(1)))):
        regs[PF_MBOX + n] = word
    regs[PF_MBOX + 0x80 // 4] = 1 << 8 | 1 << 9 | len(note)


def hello(session):
    head = b"WEFT" + struct.pack("<BBHQIIQQI", WIRE_VERSION, 1, 72, hwid, 7, 0, session, 0, 0)
    return head + struct.pack("<I", crc32c(head + bytes(4 + 24))) + bytes(24)


say(bytes([1, 1, 0, 0]))
said = 0
while not os.path.exists(path):
    message = hello(1)
    for index, at in enumerate(range(0, len(message), 56)):
        last = 0x80 if at + 56 >= len(message) else 0
        say(struct.pack("<BBBBI", 7, 0, said & 0xff, index | last, lid) + message[at:at + 56])
    said += 1
    if said == 5:
        print("said", flush=True)
    time.sleep(0.1)
print("done", flush=True)
"""


def of(host, number):
    """The own hardware id of a function of a host."""
    return HOSTS[host] ^ number << NUMBER


@contextlib.contextmanager
def switches(bench):
    """h1 and h3 at one switch, h2 at another; each has two physical functions, the first of which has VFs."""

    shape = topology.Topology()
    for name, hwid in HOSTS.items():
        shape.host(name, hwid)
    shape.switch("s1", 4).switch("s2", 4)
    shape.link("h1:0", "s1:0").link("h3:0", "s1:1").link("s1:3", "s2:3").link("h2:0", "s2:0")
    lab = bench.shape(LAB, shape, vfs=VFS, vf_slots=SLOTS, cpus=2, memory=320)
    sides = [Side(host) for host in lab.hosts.values()]
    for side in sides:
        side.numvfs(VFS)
        side.host.until("[ $(cat /sys/class/weft/weft0/device/manager/routes) = 4 ]", 120)
    yield lab, {name: side for name, side in zip(HOSTS, sides)}
    for side in sides:
        if side.host.alive:
            side.numvfs(0)


@contextlib.contextmanager
def serving(host, *ports):
    with contextlib.ExitStack() as stack:
        for port in ports:
            line = host.weftctl_line("ping", "--serve", "--port", port)
            stack.enter_context(running(host, line)).expect("listening", 60)
        yield


def reaches(host, port, to):
    done = host.weftctl("ping", "--port", port, "--to", to, *CONNECT, status=None)
    if done.status:
        raise Mismatch(f"port {port} of {host.name} does not reach {to:#x}: {done.err}")
    return done.out


def far_links(host, port):
    """The routed links of a port that lead somewhere: state by the peer's hardware id."""
    links = host.weftctl_json("--port", port, "show")["ports"][0]["links"]
    return {int(link["peer_hwid"] or "0", 0): link["state"] for link in links if link["lid"]}


def lid(host):
    return int(host.out("cat /sys/class/weft/weft0/device/manager/lid"))


def carries(sender, receiver, port, peer, to, size=1 << 20):
    path, source = steps.payload(sender, f"by{port}", size, port + 1)
    inbox = transfer.Receiver(receiver, ["--port", peer], f"inbox{port}")
    try:
        sent = sender.start_job(transfer.send_line(sender, path, "--port", port, "--to", to))
        sent.wait(transfer.patience(size)).must(0)
        inbox.wait(60)
    finally:
        inbox.end()
    arrived = inbox.arrived(source.name)
    if transfer.sha256(arrived) != transfer.sha256(source):
        raise Mismatch(f"{path} arrived as another")
    arrived.unlink()


@test("MR-8, P-5: a VF and a second PF reach those of hosts behind switches, by their ids and by their hosts'", core=True)
def reached(bench):
    with switches(bench) as (lab, sides):
        a, b = sides["h1"], sides["h2"]
        # The number of each function at its port, and its device node at either end.
        ways = [(1, 1, 1), *((2 + n, a.node(n), b.node(n)) for n in range(VFS))]
        with serving(b.host, 0, *(there for _, _, there in ways)):
            for number, here, _ in ways:
                reaches(a.host, here, of("h2", number))
                reaches(a.host, here, HOSTS["h2"])
                if far_links(a.host, here) != {of("h2", number): "ready"}:
                    raise Mismatch(f"function {number} of h1: {far_links(a.host, here)}")
                # Neither the host's first function nor another one is reached.
                for other in {0, 1, 2, 3} - {number}:
                    if other:
                        line = ("ping", "--port", here, "--to", of("h2", other), "--count", 1, "--timeout", 2)
                        steps.refused(a.host.weftctl(*line, status=None), 5, "leads to")
            reaches(a.host, 0, HOSTS["h2"])
        for number, here, there in ways:
            carries(a.host, b.host, here, there, of("h2", number))
            carries(b.host, a.host, there, here, HOSTS["h1"])


@test("MR-8: a VF has routed links back after resets of it and of its PF, and gives its routes back when it is unbound", long=True)
def returned(bench):
    with switches(bench) as (lab, sides):
        a, b = sides["h1"], sides["h2"]
        here, there, to = a.node(0), b.node(0), of("h2", 2)
        with serving(b.host, there):
            for function in (a.vf(0), a.pf):
                reaches(a.host, here, to)
                a.host.run(f"echo 1 >{SYSFS}/{function}/reset", 60)
                until("the link after a reset", lambda: far_links(a.host, here) == {to: "ready"}, 60)
                reaches(a.host, here, to)
        # The other end gives its link back, as that of this end is gone.
        a.host.run(f"echo {a.vf(0)} >/sys/bus/pci/drivers/weft/unbind")
        a.state(0, "idle")
        if int(a.get(0, "used_slots")) or int(a.get(0, "used_bytes")):
            raise Mismatch("a VF that was unbound has slots or memory open")
        until("no link at the other end", lambda: not far_links(b.host, there), 60)
        a.host.run(f"echo {a.vf(0)} >/sys/bus/pci/drivers/weft/bind")
        with serving(b.host, there):
            reaches(a.host, a.node(0), to)


@test("MR-8: a VF moves live with its routed links: queue pairs over switches go on, and not one completion is lost")
def moved(bench):
    with switches(bench) as (lab, sides):
        a, b = sides["h1"], sides["h2"]
        with serving(b.host, b.node(0)):
            reaches(a.host, a.node(0), of("h2", 2))
        # The first of the routed links, which that has aimed.
        with keeping(a.host, f"{of('h1', 2):#x}:{LINKS}", b.host, b.node(0)) as work:
            for source, target in (("0:0", "0:1"), ("0:1", "0:0")):
                time.sleep(0.5)
                found = migrate(a.host, source, target, "--live")
                if found["outcome"] != "moved":
                    raise Mismatch(f"{source} to {target}: {found}")
            counts, pauses = work.whole()
        bench.note(f"a VF that moved live, over switches: {counts}, pauses {pauses} ms")


@test("MR-8, N-5: over a route a VF in a stranger's hands speaks in no other function's name", long=True)
def stranger(bench):
    with switches(bench) as (lab, sides):
        a, b, c = sides.values()
        # Of the function that it is, of another one of its host, and of the same one of another host.
        for name, hwid, believed in (("another", of("h1", 3), False), ("host", of("h3", 2), False), ("own", of("h1", 2), True)):
            vf, there = a.vf(0), b.node(0)
            a.host.run(f"echo {vf} >/sys/bus/pci/drivers/weft/unbind && setpci -s {vf} COMMAND=6; rm -f /tmp/stop")
            program = constants() + paths.CRC.read_text() + STRANGER
            path = a.host.push("stranger.py", program.encode())
            job = a.host.start_job(f"exec python3 {path} {vf} {lid(b.host)} {hwid} /tmp/stop")
            job.expect("said", 60)
            if believed:
                until("a link to it", lambda: far_links(b.host, there), 30)
            elif far_links(b.host, there):
                raise Mismatch(f"{name}: h2 has a link to {far_links(b.host, there)}")
            a.host.run("touch /tmp/stop")
            job.wait(30).must(0)
            a.host.run(f"setpci -s {vf} COMMAND=0 && echo {vf} >/sys/bus/pci/drivers/weft/bind")
            a.state(0, "driven")


@test("MR-8, P-5: a user gets half of the routed links of a VF, and others get theirs", long=True)
def share(bench):
    with switches(bench) as (lab, sides):
        a, *others = sides.values()
        # Room for two routed links.
        a.set(0, "slots", 4 + 2)
        a.host.run(f"echo {a.vf(0)} >/sys/bus/pci/drivers/weft/unbind && echo {a.vf(0)} >/sys/bus/pci/drivers/weft/bind")
        a.state(0, "driven")
        node, user = a.node(0), "setpriv --reuid=1000 --regid=1000 --clear-groups"
        a.host.run(f"chmod o+rw /dev/weft{node}; chmod o+rwx /mnt/run")
        with contextlib.ExitStack() as stack:
            for side in others:
                stack.enter_context(serving(side.host, side.node(0)))
            line = a.host.weftctl_line("ping", "--port", node, "--to", of("h2", 2), "--count", 1200, "--interval", 0.05, "--timeout", 20)
            use = a.host.start_job(f"exec {user} {line} >/mnt/run/use")
            until("the link of the user", lambda: far_links(a.host, node) == {of("h2", 2): "ready"})
            line = a.host.weftctl_line("ping", "--port", node, "--to", of("h3", 2), "--count", 1, "--timeout", 2)
            steps.refused(a.host.run(f"{user} {line}", status=None), 1, "links over routes", "this user has its share")
            reaches(a.host, node, of("h3", 2))
            use.kill()
        a.host.run(f"chmod o-rw /dev/weft{node}")
        a.set(0, "slots", SLOTS)


@test("MR-8: sriov_numvfs refuses VFs that there are no vectors or addresses for, and the log says which and what to do",
      lab="cramped", long=True)
def limits(bench):
    few, narrow = [Side(host) for host in bench.cramped(MANY).hosts.values()]
    # One processor: vectors for some of them.
    few.host.mark("vectors")
    done = few.numvfs(MANY, None)
    told = few.host.out("dmesg | sed -n '/vectors/,$p' | grep 'are too many' | tail -n 1")
    if not done.status or "No space" not in done.err or "write " not in told:
        raise Mismatch(f"{MANY} VFs: {done.status}, {done.err}; the log: {told}")
    few.host.run(f"test ! -e {SYSFS}/{few.pf}/virtfn0 && [ $(cat {SYSFS}/{few.pf}/sriov_numvfs) = 0 ]")
    carried = int(told.split("write ")[1].split()[0])
    bench.note(f"one processor: vectors for {carried} of {MANY} VFs")
    few.numvfs(carried)
    few.state(carried - 1, "driven")
    few.numvfs(0)
    narrow.host.mark("addresses")
    done = narrow.numvfs(1, None)
    told = narrow.host.out("dmesg | sed -n '/addresses/,$p' | grep 'VFs have no addresses' | tail -n 1")
    if not done.status or "No space" not in done.err or "larger window" not in told:
        raise Mismatch(f"VFs without addresses: {done.status}, {done.err}; the log: {told}")
