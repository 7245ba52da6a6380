# SPDX-License-Identifier: GPL-2.0
"""Sockets between hosts: streams that are pushed and pulled, and what becomes of them when something goes."""

import contextlib
import signal
import time

from weftlab import topology
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import false_master, far, live
from .arenas import given_back
from .fabric import until
from .far import ids
from .migration import SYSFS, migrate, moving
from .programs import running

LAB = "pair"
DEVICE = "/sys/class/weft/weft0/device"
SERVICE = 9000
EPIPE, EOPNOTSUPP, ECONNRESET, ENOBUFS, ECONNREFUSED, ENETDOWN = 32, 95, 104, 105, 111, 100
WAYS = {"pushed": "", "pulled": "pull"}


def stream(*words):
    return f"/mnt/tools/weft-stream {' '.join(str(word) for word in words)}".rstrip()


@contextlib.contextmanager
def serving(host, how="serve", port=0):
    with running(host, f"sh -c 'ulimit -n 10000 && exec {stream(how, port, SERVICE)}'") as job:
        job.expect("listening", 30)
        yield job


@contextlib.contextmanager
def holding(host, hwid, way, port=0):
    with running(host, stream("hold", port, hwid, SERVICE, way)) as job:
        job.expect("holding", 30)
        yield job


def carried(host, hwid, kib, way="", port=0):
    """Seconds that so many bytes took, which arrived as they were."""
    return float(host.out(stream("send", port, hwid, SERVICE, kib, 1, way), 60))


@test("S-1, S-2: sockets carry streams between two hosts, and within one, pushed and pulled", core=True)
def streams(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    other = ids(lab)["h2"]
    with serving(h2):
        for name, way in WAYS.items():
            for kib in (0, 1, 17, 2048):
                bench.note(f"{name}: {kib} KiB in {carried(h1, other, kib, way):.3f} s")
            carried(h2, other, 256, way)
            bench.note(f"{name}: {h1.out(stream('many', 0, other, SERVICE, 100, way), 60)} connections a second")
    for errno, host in ((ECONNREFUSED, h1), (ECONNREFUSED, h2)):
        said = host.out(stream("open", 0, other, SERVICE, 1))
        if said != f"0 {errno}":
            raise Mismatch(f"{host.name}: where nothing listens: {said}")


@test("weftctl ports shows how many sockets and queue pairs a link has")
def shown(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    own, other = ids(lab)["h1"], ids(lab)["h2"]

    def found():
        # A port that has had sockets to itself has a link to itself, too.
        links = [link for host, peer in ((h1, other), (h2, own))
                 for link in host.weftctl_json("ports", "--cabled")["ports"][0]["links"]
                 if int(link["peer_hwid"] or "0", 0) == peer]
        return [(link["queue_pairs"], link["sockets"]) for link in links]

    with serving(h2), holding(h1, other, "pull"), live.keeping(h1, own, h2, 0, 10) as work:
        used = found()
        # It has run for as long as that took, however long.
        work.whole(least=1)
    if used != [(1, 1)] * 2:
        raise Mismatch(f"queue pairs and sockets: {used}")
    until("no queue pair and no socket", lambda: found() == [(0, 0)] * 2, 30)


@test("S-1: two programs of a host have sockets at the same time, hundreds of them, and one more gets ENOBUFS")
def hundreds(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    with given_back(h1, h2), serving(h2):
        # They are closed with the program, and make room.
        for _ in range(2):
            with given_back(h1, h2):
                count, error = opened(h1, ids(lab)["h2"], 1000)
            if error != ENOBUFS or count < 150:
                raise Mismatch(f"{count} sockets, then {error}")
            bench.note(f"{count} sockets in an arena")


def opened(host, hwid, most):
    """How many sockets could be opened at once, and what the next one ended with."""
    line = f"ulimit -n 10000 && {stream('open', 0, hwid, SERVICE, most)}"
    return tuple(map(int, host.out(line, 300).split()))


@test("S-1: 4,000 sockets fit into an arena of 64 MiB", iommu=True, lab="large-arena")
def thousands(bench):
    lab = bench.shape("large-arena", topology.chain(2), memory=768, slot_size=64 << 20)
    h1, h2 = lab["h1"], lab["h2"]
    for host in (h1, h2):
        host.rmmod()
        host.insmod("arena_kib=65536")
    for host in (h1, h2):
        host.wait_link("ready")
    with serving(h2, "keep"):
        count, error = opened(h1, ids(lab)["h2"], 5000)
    if error != ENOBUFS or count < 4000:
        raise Mismatch(f"{count} sockets, then {error}")
    bench.note(f"{count} sockets")
    for host in (h1, h2):
        host.rmmod()
        host.insmod()


@test("sockets whose link, peer or port goes say so, and another one can be made")
def losses(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    address = h1.out(f"basename $(readlink -f {DEVICE})")
    bind = f"cd /sys/bus/pci/drivers/weft && echo {address} >unbind && echo {address} >bind"
    ways = {
        "the cable is pulled": (lambda: lab.fabric.link("down", "h1:0"), ECONNRESET),
        "the peer is reset": (lambda: h2.run(f"echo 1 >{DEVICE}/reset", 60), ECONNRESET),
        "the port is reset": (lambda: h1.run(f"echo 1 >{DEVICE}/reset", 60), ECONNRESET),
        "the port is unbound": (lambda: h1.run(bind, 60), None),
    }
    for way in WAYS.values():
        for name, (go, errno) in ways.items():
            with serving(h2), holding(h1, ids(lab)["h2"], way) as job:
                go()
                said = int(job.wait(60).must().out.split()[-1])
                # A port that was unbound is removed, and its sockets with the link before that.
                if said not in ((errno,) if errno else (ENETDOWN, ECONNRESET, 19)):
                    raise Mismatch(f"{name} ({way}): {said}")
            lab.fabric.link("up", "h1:0")
            for host in (h1, h2):
                host.wait_link("ready")
        with serving(h2):
            with given_back(h1, h2):
                carried(h1, ids(lab)["h2"], 64, way)


@test("a socket whose peer is killed ends, and its memory is given back")
def killed(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    for way in WAYS.values():
        with given_back(h1, h2), serving(h2) as server, holding(h1, ids(lab)["h2"], way) as job:
            server.kill(signal.SIGKILL)
            server.wait(20)
            said = int(job.wait(60).must().out.split()[-1])
            if said != EPIPE:
                raise Mismatch(f"the peer was killed ({way}): {said}")


@test("S-3: a port that says that it supports no sockets has none, and its peers learn that", lab="mute")
def unsupported(bench):
    lab = bench.shape("mute", topology.chain(2), without_sockets=("h2",))
    h1, h2 = lab["h1"], lab["h2"]
    for host, hwid in ((h1, ids(lab)["h2"]), (h2, ids(lab)["h1"]), (h2, ids(lab)["h2"])):
        said = host.out(stream("open", 0, hwid, SERVICE, 1), 60)
        if said != f"0 {EOPNOTSUPP}":
            raise Mismatch(f"{host.name} to {hwid}: {said}")
    done = h2.run(stream("serve", 0, SERVICE), status=None)
    if done.status == 0 or "os error 95" not in done.out + done.err:
        raise Mismatch(f"h2 listens: {done.out} {done.err}")
    with serving(h1):
        carried(h1, ids(lab)["h1"], 16)


@test("S-2: over a route sockets carry streams, also after the link was quiesced", lab="chain")
def over_a_route(bench):
    lab = bench.shape("chain", topology.chain(3))
    h1, h3 = lab["h1"], lab["h3"]
    far.met(lab, "h1", "h3")
    for way in WAYS.values():
        with serving(h1), holding(h3, ids(lab)["h1"], way) as job:
            with false_master.writing("REST", h1, ids(lab)["h3"]):
                since = time.monotonic()
                while time.monotonic() - since < 3:
                    carried(h3, ids(lab)["h1"], 64, way)
            if not job.running:
                raise Mismatch(f"the socket did not outlast the quiesce: {job.wait(5)}")
            carried(h3, ids(lab)["h1"], 512, way)
    # It takes no older write than those of the false master, in this life.
    h3.rmmod()
    h3.insmod()
    far.met(lab, "h1", "h3")


@test("sockets of a virtual function end with its reset, and keep it from moving live; it moves when they are closed",
      lab="twins", patient=True, long=True)
def functions(bench):
    with moving(bench) as (lab, a, b):
        h1, h2 = lab["h1"], lab["h2"]
        hwid, node, other = int(a[0].hwid(0), 0), a[0].node(0), b[0].node(0)

        def carry():
            for host, port in ((h1, node), (h2, other)):
                host.wait_link("ready", 60, port=port)
            for way in WAYS.values():
                carried(h2, hwid, 256, way, other)

        with serving(h1, port=node):
            carry()
            with holding(h2, hwid, "", other) as job:
                h1.run(f"echo 1 >{SYSFS}/{a[0].vf(0)}/reset", 60)
                said = int(job.wait(60).must().out.split()[-1])
            if said != ECONNRESET:
                raise Mismatch(f"after a reset: {said}")
            carry()
            with holding(h2, hwid, "", other) as job:
                obstacles = migrate(h1, "0:0", "0:1", "--live", status=1)["obstacles"]
                if obstacles != ["channels"] or not job.running:
                    raise Mismatch(f"with an open socket: {obstacles}")
            live.moved(h1, 0, 0, 1)
            carry()
            # The next test finds identities where they were.
            live.moved(h1, 0, 1, 0)
            carry()


@test("over ivshmem-doorbell sockets carry streams between hosts likewise", lab="ivshmem", long=True)
def ivshmem(bench):
    lab = bench.ivshmem()
    h1, h2 = lab["h1"], lab["h2"]
    with serving(h2):
        for way in WAYS.values():
            carried(h1, int(h2.out(f"cat {DEVICE}/hwid"), 0), 512, way)
