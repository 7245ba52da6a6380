# SPDX-License-Identifier: GPL-2.0
"""A host that forges what managers and neighbours say: its port is driven by a program, not by weft."""

import contextlib
import json
import shlex

from weftlab import paths
from weftlab.errors import Mismatch
from weftlab.suite import test

from .constants import constants
from .fabric import PORT, figure_5, reaches, settled, standing, two_switches, until
from .live import keeping

LAB = "four-hosts"
# The id of no node while h1 is off, and lower than all others.
NO_NODE = 1
# Between requests of traffic that is not to notice anything, in milliseconds.
PACE = 20
# In the guest that forges: the false hello was heard.
HEARD = "/tmp/heard"
# Of a claim: the mastership in force. Else it is that of this master, in a later term.
IN_FORCE = 0
# Kinds of writes, and the number that says that one is not of the master.
WRITES, STALE = 6, "1"
SYSFS = "/sys/bus/pci/devices"
# What the port of a host can be made to send: FUNCTION WHAT, the latter as JSON.
FORGER = """
import json, mmap, os, struct, sys, time
HOPS, SECONDS = 32, 60
fd = os.open(f"/sys/bus/pci/devices/{sys.argv[1]}/resource0", os.O_RDWR)
regs = memoryview(mmap.mmap(fd, 1 << 17)).cast("I")
xids = iter(range(1, 1 << 30))


def send(link, message):
    message += bytes(-len(message) % 4)
    for at in range(0, len(message), 4):
        regs[(R_MBOX_TX_DATA + at) // 4] = int.from_bytes(message[at:at + 4], "little")
    regs[R_MBOX_TX_CTRL // 4] = link | len(message) << 8


def receive():
    status = regs[R_MBOX_RX_STATUS // 4]
    if not status & MBOX_RX_VALID:
        return b""
    words = range(0, (status & MBOX_LEN) >> 8, 4)
    message = b"".join(regs[(R_MBOX_RX_DATA + at) // 4].to_bytes(4, "little") for at in words)
    regs[R_MBOX_RX_POP // 4] = 0
    return message


def until(link, message, answer):
    '''Sends a message, again and again, until `answer` is something of what comes.'''
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        send(link, message)
        again = time.monotonic() + 0.5
        while time.monotonic() < again:
            found = answer(receive())
            if found:
                return found
            time.sleep(0.005)
    sys.exit("no answer")


def hello(hwid, session):
    '''A HELLO that names no receiver and offers nothing.'''
    head = b"WEFT" + struct.pack("<BBHQIIQQI", WIRE_VERSION, 1, 72, hwid, 7, 0, session, 0, 0)
    return head + struct.pack("<I", crc32c(head + bytes(4 + 24))) + bytes(24)


def packet(path, payload):
    '''From a master, by Table 2 of the seed.'''
    body = bytes([0, 1, len(path), 0]) + bytes(path).ljust(HOPS, b"\\0") + bytes(HOPS)
    body += struct.pack("<H", len(payload)) + payload
    return b"WFNM" + struct.pack("<BBHI", NM_VERSION, 0, 12 + len(body), crc32c(body)) + body


def ask(path, kind, payload, answered):
    '''The payload of the answer, behind its number.'''
    xid = next(xids)

    def answer(message):
        at = 12 + 6 + 2 * HOPS
        mine = message[:4] == b"WFNM" and struct.unpack_from("<BI", message, at) == (answered, xid)
        return mine and message[at + 5:]

    return until(path[0], packet(path, struct.pack("<BI", kind, xid) + payload), answer)


def forge(path, claims):
    '''Every write there is, in the mastership in force and in later ones: how each was taken.'''
    for claim in claims:
        hwid, life, _, _, term, master = struct.unpack_from("<QIIIIQ", ask(path, 1, bytes(1), 2))
        at = (term, master) if claim == 0 else (term + 1, claim)
        write = struct.pack("<IQIQI", *at, 1 << 30, hwid, life)
        for name, kind, more in (
            ("Assign", 3, struct.pack("<II", 4242, 4243)),
            ("Stage", 4, bytes([0, 1])),
            ("Commit", 5, bytes([1])),
            ("Assignments", 6, struct.pack("<IHH", 1 << 30, 1, 0) + b"x"),
            ("Hierarchy", 12, struct.pack("<IHH", 1 << 30, 1, 0) + b"x"),
            ("Rest", 13, bytes([1])),
        ):
            taken = ask(path, kind, write + more, 7)[8]
            print("taken", ".".join(map(str, path)), claim, name, taken, flush=True)


def lie(link, false, true, heard=""):
    '''The neighbour at a link is told this id until that is believed, or until there is a file that says that
    it was heard, for any message may be lost; and then the true one until that is believed.'''
    def named(message):
        session = struct.unpack_from("<Q", message, 32)[0] if message[:4] == b"WEFT" else None
        if session == 1:
            print("believed", false, flush=True)
        return session

    # By a hello of its own it says that it listens.
    until(link, b"", lambda message: named(message) is not None)
    end = time.monotonic() + SECONDS
    while not os.path.exists(heard):
        if time.monotonic() > end:
            sys.exit("not heard")
        send(link, hello(false, 1))
        if named(receive()) == 1:
            break
        time.sleep(0.1)
    until(link, hello(true, 2), lambda message: named(message) == 2)


def greet(link, hwid):
    '''Hellos of a host with this id, and whether the neighbour names their session.'''
    session = 1 << 40
    for _ in range(20):
        send(link, hello(hwid, session))
        time.sleep(0.1)
        message = receive()
        if message[:4] == b"WEFT" and struct.unpack_from("<Q", message, 32)[0] == session:
            print("greeted", hwid, flush=True)


regs[R_CTRL // 4] = CTRL_ENABLE
todo = json.loads(sys.argv[2])
if "greet" in todo:
    greet(*todo["greet"])
if "lie" in todo:
    lie(*todo["lie"])
for path, claims in todo["forge"]:
    forge(path, claims)
print("done", flush=True)
"""


@contextlib.contextmanager
def forger(host):
    """Its port, without weft; returns the function."""
    function = host.out(f"basename $(readlink {PORT})")
    host.run(f"echo {function} >/sys/bus/pci/drivers/weft/unbind && setpci -s {function} COMMAND=6")
    try:
        yield function
    finally:
        host.run(f"setpci -s {function} COMMAND=0 && echo 1 >{SYSFS}/{function}/reset && "
                 f"echo {function} >/sys/bus/pci/drivers/weft/bind")  # fmt: skip


def forges(host, function, meanwhile=lambda: None, **todo):
    """Has the port forge: what it says, and which writes were taken."""
    program = constants() + paths.CRC.read_text() + FORGER
    path = host.push("forger.py", program.encode())
    job = host.start_job(f"exec python3 {path} {function} {shlex.quote(json.dumps(todo))}")
    meanwhile()
    said = job.wait(240).must().out.strip()
    words = [line.split() for line in said.splitlines()]
    if words[-1] != ["done"]:
        raise Mismatch(f"{host.name}: {said}")
    writes = [line[1:] for line in words if line[0] == "taken"]
    if len(writes) != WRITES * sum(len(claims) for _, claims in todo["forge"]):
        raise Mismatch(f"{host.name}: not all that was to be forged: {said}")
    # The refusal of a mastership has a number of its own (manager.rst, Ack).
    taken = [" ".join(write) for write in writes if write[-1] != STALE]
    return words, taken


def link(host, peer):
    """Number of a host's link to another."""
    links = host.weftctl_json("show")["ports"][0]["links"]
    links = [one for one in links if one["state"] == "ready"]
    return next(one["link"] for one in links if int(one["peer_hwid"], 0) == peer)


def refused(host):
    return int(host.out(f"cat {PORT}/manager/writes_refused"))


@test("N-5: writes that a host forges, in the name of no node and in that of the master, change nothing at hosts and switches")
def writes(bench):
    lab = bench.shape("four-hosts", two_switches())
    h1, h2, h3, h4 = lab.hosts.values()
    settled([h1, h2, h3, h4], 1, 6)
    # The next master leaves a lower id free.
    h1.rmmod()
    settled([h2, h3, h4], 2, 5)
    with forger(h3) as function:
        before = settled([h2, h4], 2, 4)

        def ways():
            switches = {s["name"]: (s["master"], s["term"]) for s in lab.fabric.status()["switches"]}
            return switches, lab.fabric.walk("h2", before["h4"]["lid"]), lab.fabric.walk("h4", before["h2"]["lid"])

        until("a link from h2 to h4", lambda: reaches(h2, {4}) and reaches(h4, {2}))
        tables = ways()
        claims = [IN_FORCE, 2, NO_NODE]
        with keeping(h2, f"0x2:{link(h2, 4)}", h4, 0, PACE) as work:
            # h4 and its switch; the other switch, and h2 behind it, which is the master.
            forge = [([0, 1], claims), ([0], claims), ([0, 4], claims), ([0, 4, 1], [NO_NODE])]
            _, taken = forges(h3, function, forge=forge)
            if taken:
                raise Mismatch(f"forged writes were taken: {taken}")
            work.whole()
        now = {host.name: standing(host) for host in (h2, h4)}
        if now != before or ways() != tables:
            raise Mismatch(f"{before}, {tables} became {now}, {ways()}")
        counts = [refused(h2), refused(h4)]
        if counts[0] < WRITES or counts[1] < WRITES * len(claims):
            raise Mismatch(f"refusals that are counted: {counts}")
    settled([h2, h3, h4], 2, 5)


@test("N-5: a neighbour that gives another hardware id than its own is no neighbour, and forges nothing over its link", lab="figure-5")
def neighbour(bench):
    lab = bench.shape("figure-5", figure_5())
    n2, n3, n4 = lab.hosts.values()
    settled([n2, n3, n4], 2, 3)
    with forger(n4) as function:
        before = settled([n2, n3], 2, 2)

        def hellos():
            return int(n3.out(f"cat {PORT}/link0/hellos_refused"))

        def heard():
            until("a hello that n3 refuses", hellos)
            n4.run(f"touch {HEARD}")

        n4.run(f"rm -f {HEARD}")
        words, taken = forges(n4, function, heard, lie=[0, NO_NODE, 4, HEARD], forge=[([0], [IN_FORCE, 2, NO_NODE])])
        if ["believed", str(NO_NODE)] in words or taken:
            raise Mismatch(f"{words}")
        now = {host.name: standing(host) for host in (n2, n3)}
        if now != before:
            raise Mismatch(f"{before} became {now}")
        if not hellos() or refused(n3) < 3 * WRITES:
            raise Mismatch(f"counted: {hellos()} hellos, {refused(n3)} writes")
    settled([n2, n3, n4], 2, 3)
