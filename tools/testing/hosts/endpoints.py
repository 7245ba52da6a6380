# SPDX-License-Identifier: GPL-2.0
"""Functions of shared endpoints in the hands of programs: two hosts at the same endpoint, and what is taken
away under way."""

import contextlib
import json
import signal
import time

from weftlab import tap
from weftlab.errors import Mismatch
from weftlab.suite import test
from weftlab.topology import Topology

from . import far, selftests, sharing, steps
from .diagnose import diagnose, injected, named
from .events import Events
from .fabric import settled, until

LAB = "endpoints"
PROGRAM = "/mnt/tools/weft-endpoint"
DEVICE = "/sys/class/weft/weft0/device"
GIVEN = [("ep", 0, "h1"), ("ep", 1, "h2")]
NODES = 5
# Where programs keep how many pieces are done, and how many can be under way.
COUNT = "/tmp/count"
MOST = 32
# How programs say that they have ended: weft-endpoint.
OK, NOT_GIVEN, WITHDRAWN, LOST = 0, 1, 3, 4
PROTOCOLS = [
    " ".join(flag for n, flag in enumerate(("--push-work", "--push-data", "--pull-done")) if mode & 1 << n)
    for mode in range(8)
]  # fmt: skip


def shape():
    """h1 and h2 at one switch, behind it another with an endpoint."""
    made = Topology().host("h1", 1).host("h2", 2).switch("s1", 4).switch("s2", 4).endpoint("ep", 2)
    made.link("h1:0", "s1:0").link("h2:0", "s1:1").link("s1:2", "s2:0")
    return made.link("s2:1", "ep:0")


def given(bench, assignments=GIVEN):
    """The lab, with a virtual endpoint for each host."""
    lab = bench.shape("endpoints", shape())
    settled(list(lab.hosts.values()), 1, NODES)
    become(lab, assignments)
    return lab


def become(lab, assignments):
    sharing.assign(lab, lab["h1"], assignments)
    sharing.become(lab, lab["h1"], {assignment: "done" for assignment in assignments})


def name(lab, ve):
    return f"{sharing.hwids(lab)['ep']:x}.{ve}"


def line(lab, host, *options, place=None):
    """How a host's part is used: of the endpoint of this lab, if no other place is named."""
    place = place or name(lab, {"h1": 0, "h2": 1}[host])
    return " ".join(map(str, (PROGRAM, 0, place, "--json", "--wait", 20, *options)))


class Working:
    """A program that uses its host's function, and works on it now: for so many seconds, or until it is
    told, by a file, that it is enough."""

    def __init__(self, lab, host, seconds=None, *options, place=None, limit=120):
        self.host, self.guest = host, lab[host]
        self.enough = lambda: None
        long = ("--seconds", seconds)
        lab[host].run(f"rm -f /tmp/enough {COUNT}")
        if seconds is None:
            long = ("--until", "/tmp/enough", "--seconds", limit)
            self.enough = lambda: lab[host].run("touch /tmp/enough")
        options = (*long, "--count", COUNT, *options)
        self.job = lab[host].start_job(line(lab, host, *options, place=place) + " 2>&1")
        self.job.expect("^working", 60)

    def count(self):
        """How many pieces are done."""
        return int(self.guest.run(f"cat {COUNT}", status=None).out or 0)

    def stands(self):
        """Nothing is done, once what came before has been told."""
        time.sleep(0.5)
        before = self.count()
        time.sleep(0.5)
        if self.count() != before:
            raise Mismatch(f"{self.host} works")

    def goes_on(self, patience=60):
        """More is done than was under way."""
        before = self.count()

        def more():
            self.still()
            return self.count() >= before + MOST

        until(f"{self.host} goes on, {before} pieces were done", more, patience, self.count)

    def still(self):
        if not self.job.running:
            raise Mismatch(f"{self.host} was done before the fault: nothing was tested")

    def ends(self, status=OK, end="ok", patience=60):
        """What it has done, when it has ended so."""
        done = self.job.wait(patience)
        report = next((json.loads(l) for l in done.out.splitlines() if l.startswith("{")), None)
        if done.status != status or report is None or report["end"] != end:
            raise Mismatch(f"{self.host} ended with {done.status}, not {status}, {end!r}:\n{done.out}")
        return report

    def whole(self):
        """It has worked on, and all that it got was right."""
        self.enough()
        report = self.ends()
        if not report["done"] or report["unreachable"] or report["flushed"]:
            raise Mismatch(f"{self.host} did not work on as if nothing were: {report}")
        return report


def works(lab, host, *options):
    lab[host].run(line(lab, host, *options), 90)


def table(lab, node):
    return json.loads(lab.fabric.call("vp", "show", node, "--json").stdout)


def hierarchy(host):
    """The number of its hierarchy."""
    return sharing.ask(host, "vh", 0)[0]["vh"]


@test("MR-6, MR-7: two hosts use an endpoint at the same time, and carry a file to each other meanwhile", core=True)
def together(bench):
    lab = given(bench)
    far.met(lab, "h1", "h2")
    both = [Working(lab, host) for host in ("h1", "h2")]
    for sender, receiver in (("h1", "h2"), ("h2", "h1")):
        steps.carry(lab, sender, receiver, 4 << 20, "beside", options=("--to", far.ids(lab)[receiver]))
    for working in both:
        working.still()
    for working in both:
        working.whole()


@test("Q-3: every combination of push and pull works, of both hosts at the same time")
def protocols(bench):
    lab = given(bench)
    for protocol in PROTOCOLS:
        for working in [Working(lab, host, 1, protocol) for host in ("h1", "h2")]:
            working.whole()


@test("MR-6: a file is copied piece by piece, with as many pieces under way as there is room for")
def file(bench):
    lab = given(bench)
    lab["h1"].run("head -c 3000001 /dev/urandom >/tmp/endpoint")
    works(lab, "h1", "--file", "/tmp/endpoint", "--piece", 100003, "--pieces", 32)
    lab["h1"].run("rm /tmp/endpoint")


@test("MR-7: what is taken from one host stops with that one alone, and is told; given back, it works", core=True)
def withdrawn(bench):
    lab = given(bench)
    mine, others = Working(lab, "h1", 60), Working(lab, "h2")
    sharing.assign(lab, lab["h1"], GIVEN[1:])
    report = mine.ends(WITHDRAWN, "withdrawn")
    if not report["done"]:
        raise Mismatch(f"nothing was done before: {report}")
    sharing.become(lab, lab["h1"], {GIVEN[1]: "done"})
    lab["h1"].run(line(lab, "h1").replace("--wait 20", ""), status=NOT_GIVEN)
    others.still()
    others.whole()
    become(lab, GIVEN)
    works(lab, "h1")


@test("MR-7: a function is one program's at a time, and the next one's when that is killed in mid-work")
def one_user(bench):
    lab = given(bench)
    for _ in range(3):
        first = Working(lab, "h1", 60)
        refused = lab["h1"].run(line(lab, "h1") + " 2>&1", status=NOT_GIVEN)
        if "another program uses it" not in refused.out:
            raise Mismatch(f"a second program was told {refused.out!r}")
        first.job.kill(signal.SIGKILL)
        with contextlib.suppress(Exception):
            first.job.wait(20)
        works(lab, "h1")


@test("MR-5: an area that is taken away under way is unreachable at once, and all else goes on")
def area(bench):
    lab = given(bench)
    others = Working(lab, "h2")
    for pieces, size in ((16, 1 << 16), (16, 1 << 18)):
        lab["h1"].run("rm -f /tmp/drop")
        mine = Working(lab, "h1", None, "--drop-area", "/tmp/drop", "--pieces", pieces, "--piece", size)
        # The endpoint does eight steps at the most before it looks whether it is to stop.
        with injected(lab, "stalled-endpoint", "ep"):
            lab["h1"].run("touch /tmp/drop")
            mine.job.expect("^dropped", 60)
        mine.enough()
        report = mine.ends()
        if not report["done"] or not 0 < report["unreachable"] <= pieces:
            raise Mismatch(f"of {pieces} pieces under way: {report}")
    others.still()
    others.whole()


@test("MR-5: what may not be written is not, whatever the endpoint tries")
def rights(bench):
    lab = given(bench)
    report = Working(lab, "h1", 1, "--deny-write").ends()
    if report["done"] or not report["unreachable"]:
        raise Mismatch(f"it was not refused: {report}")
    works(lab, "h1")


def ways(lab):
    """What the first host's work goes by, and only that: how to take it away, and how to give it back."""
    vh = hierarchy(lab["h1"])
    lid = far.lid_of(lab, "h1")
    plane = next(p for p in table(lab, "s2") if p["vh"] == vh and p["port"] == 0)
    return [
        (("vp", "del", "s2:0", plane["vp"]), ("vp", "set", "s2:0", plane["vp"], vh)),
        (("route", "del", "s2", lid), ("route", "set", "s2", lid, 0)),
    ]


def is_held(host, held):
    """So many of one function that is open, says what an administrator sees."""
    host.until(f"grep -qx {held} {DEVICE}/endpoint_held", 20)
    (port,) = host.weftctl_json("ports")["ports"]
    told = port["endpoint_functions"], port["endpoint_held"]
    if told != (1, held):
        raise Mismatch(f"{told} functions are open and held, not {(1, held)}")


@test("MR-5, MR-7: a virtual plane, or a route, deleted at a switch stops exactly that host's work", core=True)
def deleted(bench):
    lab = given(bench)
    h1 = lab["h1"]
    mine, others = Working(lab, "h1"), Working(lab, "h2")
    for take, give in ways(lab):
        mine.goes_on()
        lab.fabric.call(*take)
        mine.stands()
        is_held(h1, 1)
        others.goes_on()
        lab.fabric.call(*give)
        mine.goes_on()
        is_held(h1, 0)
    # Who pushes data does so by the route: what was stored meanwhile is lost.
    mine.whole()
    take, give = ways(lab)[0]
    mine = Working(lab, "h1", 60, "--push-data")
    lab.fabric.call(*take)
    done = mine.job.wait(60)
    lab.fabric.call(*give)
    if done.status != LOST:
        raise Mismatch(f"h1 ended with {done.status}: {done.out}")
    others.still()
    others.whole()
    works(lab, "h1")


@test("MR-7, HP-2: a program is killed while its function has no route: the next one can have it")
def killed_without_route(bench):
    lab = given(bench)
    others = Working(lab, "h2")
    for take, give in ways(lab):
        mine = Working(lab, "h1")
        lab.fabric.call(*take)
        mine.stands()
        mine.job.kill(signal.SIGKILL)
        with contextlib.suppress(Exception):
            mine.job.wait(20)
        lab.fabric.call(*give)
        works(lab, "h1")
    others.still()
    others.whole()


@test("HP-2: a function whose route does not come back is lost after half a minute, and its program told", long=True)
def gone(bench):
    lab = given(bench)
    others = Working(lab, "h2")
    for (take, give), end in zip(ways(lab), ("reset", "failed")):
        mine = Working(lab, "h1")
        lab.fabric.call(*take)
        mine.ends(LOST, end)
        lab.fabric.call(*give)
        works(lab, "h1")
    others.still()
    others.whole()


@test("MR-7: a function that fails is told to the administrator, too: event, log, count and diagnose")
def failed(bench):
    lab = given(bench)
    h1 = lab["h1"]
    lid = far.lid_of(lab, "h1")

    def told():
        return [f for f in diagnose(h1)["findings"] if f["id"] == "endpoint-failed"]

    before = int(h1.out(f"cat {DEVICE}/endpoint_failures"))
    if bool(told()) != bool(before):
        raise Mismatch(f"{before} have failed, and diagnose says {told()}")
    events = Events(h1).ready()
    # One that does not hold.
    mine, others = Working(lab, "h1", 60, "--push-data"), Working(lab, "h2")
    # The way there stays: only the endpoint does not get back, and its function says so.
    lab.fabric.call("route", "del", "s2", lid)
    events.job.expect('"WEFT_FAILURE":"[a-z]*-queue"', 60)
    mine.ends(LOST, "failed")
    named(diagnose(h1), "endpoint-failed", "note", f"{before + 1} functions", "virtual endpoint 0",
          f"{sharing.hwids(lab)['ep']:#x}", "route walk ENDPOINT LID")  # fmt: skip
    if lab.fabric.walk("ep", lid)["at"] != "s2":
        raise Mismatch("what it says does not show where the way back ends")
    lab.fabric.call("route", "set", "s2", lid, 0)
    works(lab, "h1")
    if int(h1.out(f"cat {DEVICE}/endpoint_failures")) != before + 1:
        raise Mismatch("what works is counted as failed")
    events.job.kill()
    said = events.job.wait(30).out
    for words in ('"WEFT_VE":"0"', f'"WEFT_ENDPOINT":"{sharing.hwids(lab)["ep"]:#018x}"'):
        if words not in said:
            raise Mismatch(f"events do not say {words}: {said}")
    others.whole()


@test("MR-6: a port is reset under a function: its program is told, opens it again, and no other host notices")
def reset(bench):
    lab = given(bench)
    mine, others = Working(lab, "h1", 60), Working(lab, "h2")
    lab["h1"].run(f"echo 1 >{DEVICE}/reset")
    done = mine.job.wait(60)
    if done.status != LOST:
        raise Mismatch(f"h1 ended with {done.status}: {done.out}")
    works(lab, "h1")
    others.still()
    others.whole()


@test("the driver is taken from a port under an open function, and unloaded: nothing is left open")
def unbound(bench):
    lab = given(bench)
    h2 = lab["h2"]
    mine, others = Working(lab, "h2", 60), Working(lab, "h1")
    h2.run(f"d=$(readlink -f {DEVICE}); echo ${{d##*/}} >$d/driver/unbind")
    mine.ends(LOST, "gone")
    h2.rmmod()
    others.still()
    others.whole()
    h2.insmod()
    settled(list(lab.hosts.values()), 1, NODES)
    sharing.become(lab, lab["h1"], {assignment: "done" for assignment in GIVEN})
    works(lab, "h2")


@test("the driver is taken from a port while a function is opened that does not answer: neither waits for it")
def unbound_early(bench):
    lab = given(bench)
    h2 = lab["h2"]
    # In one go, for no more than seconds are waited for it. A route that is deleted does not do: if the master
    # looks at the fabric just then, it takes the function away.
    with injected(lab, "stalled-endpoint", "ep"):
        done = h2.run(
            f"d=$(readlink -f {DEVICE}); {PROGRAM} 0 {name(lab, 1)} 2>&1 & p=$!; "
            "until grep -q '^16 ' /proc/$p/syscall || ! kill -0 $p; do :; done; "
            "echo ${d##*/} >$d/driver/unbind; wait $p; echo status $?; echo ${d##*/} >/tmp/unbound",
            60,
        )
    settled([lab["h1"]], 1, NODES - 1)
    h2.run("cat /tmp/unbound >/sys/bus/pci/drivers/weft/bind")
    settled(list(lab.hosts.values()), 1, NODES)
    sharing.become(lab, lab["h1"], {assignment: "done" for assignment in GIVEN})
    works(lab, "h2")
    if f"status {LOST}" not in done.out.splitlines():
        raise Mismatch(f"the program that waited for the endpoint was not told of the port: {done.out}")


@test("the endpoint is cut off, and joined again: programs that worked with it are told, and can go on")
def cut_off(bench):
    lab = given(bench)
    both = [Working(lab, host, 60) for host in ("h1", "h2")]
    lab.fabric.link("down", "s2:1")
    for working in both:
        done = working.job.wait(60)
        if done.status not in (WITHDRAWN, LOST):
            raise Mismatch(f"{working.host} ended with {done.status}: {done.out}")
    lab.fabric.link("up", "s2:1")
    deadline = time.monotonic() + 60
    for host in ("h1", "h2"):
        while lab[host].run(line(lab, host), 90, status=None).status != OK:
            if time.monotonic() > deadline:
                raise Mismatch(f"{host} does not get to the endpoint any more")


@test("MR-5: areas are made, however long the fabric takes to let the endpoint reach them")
def slow(bench):
    lab = given(bench)
    h1 = lab["h1"]
    selftests.copy(h1, selftests.build(lab)[0])
    settings = f"export WEFT_ENDPOINT={name(lab, 0)}"
    job = h1.start_job(f"cd /tmp/kselftest/weft && {settings} && exec ./endpoint -t areas_come_and_go")
    try:
        while job.running:
            lab.fabric.freeze()
            time.sleep(0.5)
            lab.fabric.freeze(False)
            time.sleep(0.1)
    finally:
        lab.fabric.freeze(False)
    job.wait(10).must()


@test("a program that asks a function for nonsense is told so, and nothing else happens")
def nonsense(bench):
    lab = given(bench)
    installed, _ = selftests.build(lab)
    h1 = lab["h1"]
    selftests.copy(h1, installed)
    found = h1.run(f"cd /tmp/kselftest/weft && WEFT_ENDPOINT={name(lab, 0)} ./endpoint", 120, status=None)
    parsed = tap.Parsed(found.out)
    for (ok, what, skip), account in zip(parsed.results, parsed.accounts, strict=True):
        yield what, ok, account, skip, None
    if not parsed.complete or found.status:
        raise Mismatch(f"it ended with {found.status}:\n{found.out}{found.err}")
