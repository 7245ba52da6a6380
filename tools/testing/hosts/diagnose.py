# SPDX-License-Identifier: GPL-2.0
"""`weftctl diagnose`: each fault is made for real, and has to be called by its name."""

import contextlib
import json
import pathlib
import signal

from weftlab import lab as labs
from weftlab import paths, topology
from weftlab.errors import Mismatch
from weftlab.guest import Port
from weftlab.host import Host
from weftlab.suite import test

from . import far, steps

LAB = "pair"
# Of weftctl's words; the faults are made with users at work by `faults`, `links`, `lifecycle`.
CLOSELY = False
UNPRIVILEGED = "setpriv --reuid=65534 --regid=65534 --clear-groups "
DEVICE = "$(basename $(readlink -f /sys/class/weft/weft0/device))"
DRIVER = "/sys/bus/pci/drivers/weft"
LINK = "/sys/class/weft/weft0/device/link0"


def diagnose(host, prefix="", program="weftctl"):
    """The report, and what kept with it: the exit status has to fit."""
    result = host.run(f"{prefix}{program} --json diagnose", 60, None)
    if result.err or result.status not in (0, 1):
        raise Mismatch(f"{host.name}: diagnose ended with {result.status}: {result.err}")
    report = json.loads(result.out)
    wrong = any(found["level"] != "note" for found in report["findings"])
    if (result.status == 1) != wrong or report["ok"] == wrong:
        raise Mismatch(f"{host.name}: exit status {result.status} does not fit: {report}")
    return report


def named(report, name, level, *words):
    """A finding has to be there, at its level, and to say each of `words`."""
    found = [f for f in report["findings"] if f["id"] == name]
    if not found:
        raise Mismatch(f"{name} is not among {report['findings']}")
    text = " ".join(f"{f['at']} {f['what']} {f['mend']}" for f in found).lower()
    if {f["level"] for f in found} != {level}:
        raise Mismatch(f"{name} is no {level}: {found}")
    for word in words:
        if word.lower() not in text:
            raise Mismatch(f"{name} does not say {word!r}: {text}")


def only(report, name, *words):
    """It is the one fault: what follows from it is not told as well."""
    faults = [f for f in report["findings"] if f["level"] == "fault"]
    if [f["id"] for f in faults] != [name]:
        raise Mismatch(f"the one fault is not {name}: {faults}")
    named(report, name, "fault", *words)


@test("diagnose: two hosts that are well have nothing wrong, and a picture that says so")
def well(bench):
    # New machines: what earlier tests did to the bus is still counted.
    bench.close()
    lab = bench.pair()
    for host in lab.hosts.values():
        steps.powers(host, "performance")
    for host in lab.hosts.values():
        host.until(f"({steps.FAST})", 20)
        report = diagnose(host)
        if not report["ok"] or report["unseen"]:
            raise Mismatch(f"{host.name}: {report}")
        shown = host.out("LC_ALL=C.UTF-8 weftctl diagnose")
        plain = host.out("LC_ALL=C weftctl diagnose")
        if "══ gen4 x8 ══" not in shown or "== gen4 x8 ==" not in plain:
            raise Mismatch(f"the picture: {shown}\n{plain}")
        if not plain.isascii() or "nothing is wrong: 1 of" not in plain:
            raise Mismatch(f"in the locale C: {plain}")
    # A link that is slow because it has nothing to carry is well.
    for host in lab.hosts.values():
        steps.powers(host, "auto")
    for host in lab.hosts.values():
        host.until(f"[ $(cat {LINK}/speed) = 1 ]", 60)
        report = diagnose(host)
        if not report["ok"] or any(found["id"] == "slow-link" for found in report["findings"]):
            raise Mismatch(f"{host.name}: {report}")


@test("diagnose: no module, a module of another kernel, a module that does not load")
def no_module(bench):
    host = bench.pair()["h1"]
    host.rmmod()
    # What else the log says of modules is from other tests.
    host.run("dmesg -C")
    only(diagnose(host), "module-not-loaded", "insmod weft.ko")
    data = pathlib.Path(paths.module()).read_bytes()
    release = paths.env("kver").encode()
    if data.count(b"vermagic=" + release) != 1:
        raise Mismatch("the module does not say for which kernel it is")
    other = host.push("other.ko", data.replace(b"vermagic=" + release, b"vermagic=" + b"6" + release[1:]))
    if not host.run(f"insmod {other}", status=None).status:
        raise Mismatch("a module of another kernel was loaded")
    only(diagnose(host), "module-other-kernel", "version magic", "make modules")


@test("diagnose: a port that is not bound, whose probe fails, by a step or a parameter")
def not_bound(bench):
    host = bench.pair()["h1"]
    device = host.out(f"echo {DEVICE}")
    host.run(f"echo {device} >{DRIVER}/unbind")
    only(diagnose(host), "port-unbound", device, f"{DRIVER}/bind")
    host.rmmod()
    # Each step in turn, whatever their number, until the driver binds.
    failed = []
    for step in range(1, 32):
        host.insmod(f"fail_probe={step}")
        if not host.run("test -e /dev/weft0", status=None).status:
            host.wait_links()
        report = diagnose(host)
        host.rmmod()
        if report["ok"]:
            break
        only(report, "probe-failed", "fail_probe")
        failed += [f["what"] for f in report["findings"]]
    for name in ("registers", "windows", "interrupts", "character device"):
        if not any(f'"{name}"' in what for what in failed):
            raise Mismatch(f"no step is called {name!r}: {failed}")
    host.insmod("arena_kib=300")
    only(diagnose(host), "bad-parameter", "arena_kib=300", "power of two")
    host.rmmod()


@test("diagnose: a port that another driver has, or may have alone")
def other_driver(bench):
    host = bench.pair()["h1"]
    device = host.out(f"echo {DEVICE}")
    folder = f"/sys/bus/pci/devices/{device}"
    host.stock("pci-stub")
    host.run(f"echo {device} >{DRIVER}/unbind; echo pci-stub >{folder}/driver_override")
    only(diagnose(host), "driver-override", "pci-stub", f"{folder}/driver_override")
    host.run(f"echo {device} >/sys/bus/pci/drivers_probe")
    report = diagnose(host)
    only(report, "other-driver", "bound to pci-stub")
    # What it says mends it.
    (mend,) = (f["mend"] for f in report["findings"])
    host.run(mend.strip("`"))
    host.wait_links()
    host.no_stock("pci-stub")
    host.run(f"echo >{folder}/driver_override")


@test("diagnose: memory decoding and bus mastering switched off behind the driver's back")
def switched_off(bench):
    host = bench.pair()["h1"]
    device = host.out(f"echo {DEVICE}")
    was = host.out(f"setpci -s {device} COMMAND")
    for bit, name in ((4, "bus-master-off"), (2, "memory-off")):
        host.run(f"setpci -s {device} COMMAND={int(was, 16) & ~bit:04x}")
        named(diagnose(host), name, "fault", "setpci", device)
        host.run(f"setpci -s {device} COMMAND={was}")


@test("diagnose: a user who may not open the port is told of rule and group, and what was not seen")
def permission(bench):
    host = bench.pair()["h1"]
    host.run("chmod 600 /dev/weft0; cp $(command -v weftctl) /tmp/weftctl; chmod 755 /tmp/weftctl")
    host.run("sysctl -q kernel.dmesg_restrict=1")
    report = diagnose(host, UNPRIVILEGED, "/tmp/weftctl")
    only(report, "permission", "/dev/weft0", "group", "0600")
    unseen = [u["what"] for u in report["unseen"]]
    if not any("log" in what for what in unseen) or not any("MSI-X" in what for what in unseen):
        raise Mismatch(f"it does not say what it could not look at: {unseen}")
    # Without the module as well there is something to say.
    host.rmmod()
    only(diagnose(host, UNPRIVILEGED, "/tmp/weftctl"), "module-not-loaded")


@test("diagnose: too few open files")
def limits(bench):
    host = bench.pair()["h1"]
    named(diagnose(host, "ulimit -n 32; "), "few-files", "warning", "ulimit")


@test("diagnose: a peer whose driver is gone, or was never there")
def no_peer_driver(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    h2.rmmod()
    h1.wait_link("down")
    only(diagnose(h1), "peer-unloaded", "link 0", "modprobe weft", "good-bye")
    h1.rmmod()
    h1.insmod()
    h1.until(f"[ $(cat {LINK}/present) = 1 ]")
    report = diagnose(h1)
    only(report, "peer-not-enabled", "link 0", "modprobe weft")
    if not any("X" in line or "✗" in line for line in report["picture"]):
        raise Mismatch(f"no mark in the picture: {report['picture']}")
    h2.insmod()
    h1.wait_link("ready")


@test("diagnose: a peer whose driver goes while this host does not run: good-bye and link down come at once")
def no_peer_driver_at_once(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    h1.qmp.call("stop")
    try:
        h2.rmmod()
    finally:
        h1.qmp.call("cont")
    h1.wait_link("down")
    only(diagnose(h1), "peer-unloaded", "link 0", "good-bye")
    h2.insmod()
    h1.wait_link("ready")


@test("diagnose: a link that is switched off, and one that came back")
def link_down(bench):
    lab = bench.pair()
    host = lab["h1"]
    lab.fabric.link("down", "h1:0")
    host.wait_link("down")
    only(diagnose(host), "link-lost", "link 0", "weft-fabric")
    lab.fabric.link("up", "h1:0")
    host.wait_link("ready")
    report = diagnose(host)
    named(report, "link-flapped", "note", "came up")
    named(report, "peer-returned", "note", "the link went down")
    if not report["ok"]:
        raise Mismatch(f"a link that is back is called wrong: {report}")


@test("diagnose: a link slower and narrower than it can be")
def slow(bench):
    lab = bench.pair()
    with steps.at_the_most(lab):
        lab.fabric.call("link", "set", "h1:0", "--speed", 1, "--width", 2)
        for host in lab.hosts.values():
            host.until(f"[ $(cat {LINK}/width) = 2 ]")
            named(diagnose(host), "slow-link", "warning", "gen1 x2", "gen4 x8")
    lab.fabric.call("link", "set", "h1:0", "--speed", 4, "--width", 8)


@test("diagnose: the fabric's daemon was killed")
def daemon(bench):
    lab = bench.pair()
    host = lab["h1"]
    lab.fabric.kill()
    host.wait_link("down")
    only(diagnose(host), "fabric-gone", "weft-fabric run")


@test("diagnose: less memory than asked for")
def arena(bench):
    host = bench.pair()["h1"]
    host.rmmod()
    host.insmod("arena_kib=65536")
    named(diagnose(host), "arena-small", "warning", "65536 KiB", "arena_kib")
    host.rmmod()


@test("diagnose: a peer that is up and silent, as its host hangs, and as its port does, too")
def silent(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    h2.qmp.call("stop")
    h1.wait_link("hello", 60)
    only(diagnose(h1), "peer-silent", "fell silent")
    h2.qmp.call("cont")
    h1.wait_link("ready", 60)
    named(diagnose(h1), "peer-returned", "note", "silent")
    h2.child.send_signal(signal.SIGSTOP)
    try:
        h1.wait_link("hello", 60)
        only(diagnose(h1), "arena-held", "fell silent")
    finally:
        h2.child.send_signal(signal.SIGCONT)
    h1.wait_link("ready", 60)


# A peer without a driver, or with another one: what a user's program at the registers can do.
PEER = """import mmap, struct, sys, time
CTRL, HWID, LINK_STATUS, ENABLE, UP = 0x30, 0x20, 0x100, 1, 1
TX_DATA, TX_CTRL, RX_DATA, RX_STATUS, RX_POP, VALID = 0x200, 0x300, 0x400, 0x500, 0x504, 1 << 31
file = open(sys.argv[1], "r+b")
words = memoryview(mmap.mmap(file.fileno(), 0x40000)).cast("I")

# proto/wire.rs: in the version of the other's hello, to the generation and session that it came from.
def hello(wake, version, generation, session):
    body = struct.pack("<QQII", 0, 1 << 20, wake, 1)
    # With the port's own hardware id: the fabric attests no other.
    hwid = words[HWID // 4] | words[HWID // 4 + 1] << 32
    head = struct.pack("<4sBBHQIIQQII", b"WEFT", version, 1, 48 + len(body), hwid, 1, generation, 1, session, 1, 0)
    return head[:44] + struct.pack("<I", crc32c(head + body)) + body

# The next message between drivers; the manager's go the same way.
def heard():
    message = b""
    while message[:4] != b"WEFT":
        while not words[RX_STATUS // 4] & VALID:
            time.sleep(0.01)
        message = struct.pack("<12I", *words[RX_DATA // 4 : RX_DATA // 4 + 12])
        words[RX_POP // 4] = 1
    return (message[4],) + struct.unpack_from("<I", message, 16) + struct.unpack_from("<Q", message, 24)

words[CTRL // 4] = ENABLE
while not words[LINK_STATUS // 4] & UP:
    time.sleep(0.01)
print("up", flush=True)
what, data = sys.argv[2], b""
# A node that is not answered says it again.
while True:
    if what.startswith("wake="):
        data = hello(int(what[5:]), *heard())
    elif what:
        data = bytes.fromhex(what)
    for n, (word,) in enumerate(struct.iter_unpack("<I", data)):
        words[TX_DATA // 4 + n] = word
    if data:
        words[TX_CTRL // 4] = len(data) << 8
    time.sleep(0.2)
"""


@test(
    "diagnose: a port that is up and says no hello, one of another version, one that talks rubbish, "
    "one that wants to be rung by what is no doorbell"
)
def strangers(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    device = h2.out(f"echo {DEVICE}")
    folder = f"/sys/bus/pci/devices/{device}"
    h2.rmmod()
    h2.run(f"echo 1 >{folder}/enable")
    program = h2.push("peer.py", (paths.CRC.read_text() + PEER).encode())
    magic = b"WEFT"
    newer = (magic + bytes([99]) + bytes(59)).hex()
    rubbish = bytes(range(64)).hex()
    cases = (
        ("", "state", "peer-silent", ["no hello"]),
        (newer, "peer_version", "version-mismatch", ["version 99", "weft.ko here"]),
        (rubbish, "messages_bad", "mailbox-corrupt", ["messages came that are none"]),
        # By a number that names a page of another link.
        (f"wake={1 << 16}", "hello_error", "arena-too-large", ["doorbells that no port has"]),
    )
    for says, shown, name, wanted in cases:
        h1.wait_link("down")
        h1.rmmod()
        h1.insmod()
        job = h2.start_job(f"exec python3 {program} {folder}/resource0 '{says}'")
        job.expect("^up")
        h1.wait_link("hello")
        h1.until(f"! grep -qxE '0|none' {LINK}/{shown}")
        only(diagnose(h1), name, *wanted)
        job.kill()
        job.wait(20)
        h2.run(f"echo 1 >{folder}/reset")
    h2.run(f"echo 0 >{folder}/enable")


@test("diagnose: a port that was pulled out")
def pulled_out(bench):
    lab = bench.pair()
    host = lab["h1"]
    device = host.out(f"echo {DEVICE}")
    port = host.ports[0]
    host.unplug(port.name)
    only(diagnose(host), "port-removed", device, "rescan")
    host.plug(port, "slot0")
    host.until("[ -e /dev/weft0 ]")
    host.wait_link("ready", 60)
    if not diagnose(host)["ok"]:
        raise Mismatch("it is back, and something is said to be wrong")


@contextlib.contextmanager
def injected(lab, *fault):
    """A fault of the emulated hardware, as long as this lasts."""
    lab.fabric.call("inject", *fault)
    try:
        yield
    finally:
        lab.fabric.call("inject", "clear")


@test("diagnose: messages that are lost: the peer is silent")
def nothing_arrives(bench):
    lab = bench.pair()
    host = lab["h1"]
    with injected(lab, "mailbox", "drop", "h2:0"):
        host.wait_link("hello", 60)
        only(diagnose(host), "peer-silent", "fell silent")
    host.wait_link("ready")


@test("diagnose: messages that come damaged")
def damaged(bench):
    lab = bench.pair()
    host = lab["h1"]
    with injected(lab, "mailbox", "corrupt", "h2:0"):
        host.wait_link("hello", 60)
        host.until(f"[ $(cat {LINK}/messages_bad) != 0 ]")
        found = {f["id"]: f["mend"] for f in diagnose(host)["findings"]}
        if not found.get("mailbox-corrupt"):
            raise Mismatch(f"mailbox-corrupt is not among {found}")


@test("diagnose: a doorbell that is stuck, while a program waits for it")
def stuck(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    server = h2.start_job("weftctl ping --serve")
    server.expect("listening on")
    with injected(lab, "stuck-doorbell", "h1:0"):
        # The port may hear of the fault late: of messages without end, one is asked for behind that.
        waiting = h1.start_job("weftctl ping --timeout 60 --count 100000")
        h1.until(f"[ $(cat {LINK}/echo_overdue) -gt 1000 ]")
        only(diagnose(h1), "doorbell-stuck", "ring back")
        waiting.kill()
        waiting.wait(20)
    server.kill()
    server.wait(20)


@test("diagnose: a port that answers nothing any more")
def all_ones(bench):
    lab = bench.pair()
    host = lab["h1"]
    with injected(lab, "all-ones", "h1"):
        only(diagnose(host), "function-gone", "all ones", "rescan")
        host.rmmod()
    # What the function has lost, a machine that boots gives it again.
    bench.close()


@test("diagnose: an ivshmem is not taken by itself; what it says mends it", lab="ivshmem")
def ivshmem(bench):
    lab = bench.ivshmem()
    host = lab["h1"]
    if not diagnose(host)["ok"]:
        raise Mismatch(f"two hosts that are well: {diagnose(host)}")
    host.rmmod()
    host.run("for d in /sys/bus/pci/devices/*; do echo >$d/driver_override; done")
    host.insmod()
    report = diagnose(host)
    named(report, "ivshmem-unbound", "fault", "weft-ivshmem", "driver_override", "drivers_probe")
    named(report, "no-port", "fault", "ivshmem")
    mend = next(f["mend"] for f in report["findings"] if f["id"] == "ivshmem-unbound")
    for command in mend.split("`")[1::2]:
        host.run(command)
    host.wait_links(60)
    if not diagnose(host)["ok"]:
        raise Mismatch("it is bound, and something is said to be wrong")


@test("diagnose: a machine without a port, with a port without a cable, with one without room", lab="own")
def alone(bench):
    bench.close()
    with labs.Lab("diagnose", bench.say) as lab:
        slots = []
        for number, name in ((9, "tight"), (10, "free")):
            slots += ["-device", f"pcie-root-port,id={name},chassis={number},slot={number},"
                      "pref64-reserve=1G"]  # fmt: skip
        host = Host("h1", lab.folder / "h1", [], links=[], extra=slots)
        host.dir.mkdir()
        lab.hosts["h1"] = host
        lab.boot()
        for name in ("module-not-loaded", "no-port"):
            named(diagnose(host), name, "fault")
        host.insmod()
        only(diagnose(host), "no-port", "1234:7ef7", "lspci")

        lab.join(topology.Topology().host("h1", 1).host("h2", 2).link("h1:0", "h2:0"))
        # Its windows are 256 GiB, more than the machine has addresses for.
        host.plug(Port("big", "weft-port", **{"slots": 32, "slot-size": 4 << 30}), "tight")
        host.until('dmesg | grep -q "weft .* probe: step"')
        only(diagnose(host), "bar-unassigned", "BAR 2", "pref64-reserve")
        host.unplug("big")

        host.plug(Port.weft(lab.fabric, "h1"), "free")
        host.until("[ $(cat /sys/class/weft/weft0/device/fabric) = 1 ] 2>/dev/null")
        only(diagnose(host), "peer-absent", "link 0", "weft-fabric status")
        host.unplug("h1")
        host.plug(Port("bare", "weft-port"), "free")
        host.until("[ -e /dev/weft0 ]")
        only(diagnose(host), "fabric-gone", "weft-fabric run")


def behind_switches(bench):
    """h1 and h2 with two switches between them, who have found each other."""
    lab = steps.two_apart(bench)
    far.met(lab, "h1", "h2")
    return lab


@test("diagnose: hosts behind switches are well; one of them goes, and the other is alone", lab="two apart")
def at_a_switch(bench):
    lab = behind_switches(bench)
    h1, h2 = lab["h1"], lab["h2"]
    report = diagnose(h1)
    if not report["ok"]:
        raise Mismatch(f"nothing is wrong, but: {report}")
    if not any("switch" in line for line in report["picture"]):
        raise Mismatch(f"the picture has no switch: {report['picture']}")
    h2.rmmod()
    h1.until("! test -e /sys/class/weft/weft0/device/link4")
    only(diagnose(h1), "no-host", "link 0", "behind the switch", "modprobe weft")
    h2.insmod()
    far.met(lab, "h1", "h2")


@test("diagnose: an entry of a switch's table is missing: the route gets nowhere", lab="two apart")
def no_entry(bench):
    lab = behind_switches(bench)
    host = lab["h1"]
    (link,) = (link for link in host.weftctl_json("show")["ports"][0]["links"] if link["lid"])
    lab.fabric.call("route", "del", "s2", link["lid"])
    host.wait_link("down", link=link["link"])
    try:
        only(diagnose(host), "no-route", f"link {link['link']}", "weft-fabric route walk")
        if lab.fabric.walk("h1", link["lid"])["at"] != "s2":
            raise Mismatch("what it says does not show where the route ends")
    finally:
        lab.fabric.call("route", "set", "s2", link["lid"], 1)
    host.wait_link("ready", link=link["link"])


@test("diagnose: a neighbour that may not take part in the fabric, and a link that carries no routes", lab="chain")
def kept_out(bench):
    lab = far.chain(bench)
    far.met(lab, "h1", "h3")
    h1, h2 = lab["h1"], lab["h2"]
    manager = "/sys/class/weft/weft0/device/manager"
    h1.run(f"echo 1 >{manager}/excluded")
    named(diagnose(h1), "link-excluded", "note", "link 0", "manager/excluded")
    h1.run(f"echo 0 >{manager}/excluded")
    far.met(lab, "h1", "h3")
    h2.run(f"echo 2 >{manager}/allow; echo 3 >{manager}/allow")
    h2.until(f"[ $(cat {manager}/nodes) = 2 ]")
    report = diagnose(h2)
    named(report, "not-allowed", "warning", "host 0x1", "manager/allow")
    # What it says mends it.
    (mend,) = (f["mend"] for f in report["findings"] if f["id"] == "not-allowed")
    h2.run(f"cd {manager}/.. && {mend.split('`')[1]}")
    h2.until(f"[ $(cat {manager}/nodes) = 3 ]")
    h2.run(f"echo 0 >{manager}/allow")
    far.met(lab, "h1", "h3")
    if not diagnose(h1)["ok"]:
        raise Mismatch("everybody takes part, and something is said to be wrong")


@test("diagnose: a host that can be reached, and a port that has no window left for it", lab="few windows")
def no_window(bench):
    lab = bench.shape("few windows", topology.chain(3), slots=4)
    h1 = lab["h1"]
    h1.until("[ $(cat /sys/class/weft/weft0/device/manager/routes) = 2 ]")
    only(diagnose(h1), "no-window", "host 0x3", "2 links away", "slots")


@test("diagnose: a switch that the master may not program", lab="switch that obeys another")
def not_obeyed(bench):
    shape = topology.Topology().host("h1", 1).host("h2", 2).switch("s1", 4)
    shape.link("h1:0", "s1:0").link("s1:1", "h2:0").managers = ["h2"]
    lab = bench.shape("switch that obeys another", shape)
    report = diagnose(lab["h1"])
    named(report, "switch-unmanaged", "fault", "link 0", "managers")
