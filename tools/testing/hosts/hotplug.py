# SPDX-License-Identifier: GPL-2.0
"""Hosts, switches, endpoints and cables of a fabric that come and go while others work.

Traffic that others run is a queue pair that is busy both ways and checks every completion, or a file
that has to arrive whole. That it was not disturbed the links say: none of theirs was trained again, or
has begun another session.
"""

import contextlib
import os

from weftlab import kernel
from weftlab.errors import Mismatch
from weftlab.fabric import wait_until
from weftlab.suite import test

from . import sharing, steps
from .events import Events
from .live import keeping
from .plant import Moment, Plant, triangle

LAB = "triangle"
# How many additions and removals in a row: more by hand.
PLUGS = int(os.environ.get("WEFT_PLUGS", "6"))
# Milliseconds from request to request of traffic that others run. As many requests as an end can post would
# leave four hosts no time on two processors for what the tests are about.
PACE = 60
SEED = int(os.environ.get("WEFT_SEED", "29"))
# So many parts are out at a time, at the most.
MOST_OUT = 4
# Whose the virtual endpoints are to be, whenever both are there.
ASSIGNMENTS = [("e1", 0, "h1"), ("e1", 1, "h4"), ("e3", 0, "h2"), ("e3", 1, "h3")]
TRACING = "/sys/kernel/tracing"
UNPRIVILEGED = "setpriv --reuid=65534 --regid=65534 --clear-groups"
# The port of the switch s3 that the endpoint e3 is at.
PORT_OF_E3 = 1


def plant(bench):
    made = Plant(bench.shape("triangle", triangle()))
    made.settle()
    return made


@contextlib.contextmanager
def undisturbed(made, *pairs):
    """Meanwhile queue pairs between these hosts are busy, and nothing happens to their links."""
    lab = made.lab
    before = made.sessions()
    with contextlib.ExitStack() as stack:
        work = []
        for one, other in pairs:
            place = f"{made.hwids[one]:#x}:{made.link(one, other)}"
            work.append(stack.enter_context(keeping(lab[one], place, lab[other], 0, PACE)))
        yield
        for one in work:
            one.whole()
    now = made.sessions()
    for pair in [*pairs, *(pair[::-1] for pair in pairs)]:
        if now[pair] != before[pair]:
            raise Mismatch(f"{pair}: trained, readied, ended were {before[pair]}, and are {now[pair]}")


def changed(made, *parts, announced=False):
    """A change, and what has to hold when all have seen it."""
    before = Moment(made)
    for part in parts:
        made.toggle(part, announced)
    made.settle()
    now = Moment(made)
    now.outlasts(before)
    return now


def carried(made, one, other):
    for sender, receiver in (one, other), (other, one):
        steps.carry(made.lab, sender, receiver, 256 << 10, "there", options=("--to", made.hwids[receiver]))


@test("HP-1: the master is told by a switch's hot-plug controller what will come, comes and goes")
def controller(bench):
    made = plant(bench)
    master = made.lab["h1"]
    if master.run(f"test -d {TRACING}/events", status=None).status:
        master.run(f"mount -t tracefs tracefs {TRACING}")
    master.run(f"echo 1 >{TRACING}/events/weft/weft_port_event/enable")
    try:
        for words in (
            ("unplug", "e3", "--announce"), ("unplug", "e3"),
            ("plug", "e3", "--announce"), ("plug", "e3"),
        ):  # fmt: skip
            master.run(f"echo >{TRACING}/trace")
            made.fabric.call(*words)
            master.until(f"grep -q 'what=plug' {TRACING}/trace", 30)
    finally:
        master.run(f"echo 0 >{TRACING}/events/weft/weft_port_event/enable")
    made.settle()


def slot_of_e3(host):
    """As the master sees it; nothing, while a new one has not come to that switch yet."""
    slots = [s for s in host.weftctl_json("slots", "s3")["slots"] if s["switch_port"] == PORT_OF_E3]
    return slots[0] if slots else {}


def at_switch(made):
    """The same, as the switch has it."""
    (switch,) = (s for s in made.fabric.status()["switches"] if s["name"] == "s3")
    (slot,) = (s for s in switch["slots"] if s["port"] == PORT_OF_E3)
    return slot


def slot_is(made, host, **expected):
    """Until the master sees it so."""
    wait_until(
        lambda: expected.items() <= slot_of_e3(host).items(), 60 * kernel.patience(),
        f"{host.name} to see the slot of e3 as {expected}",
    )  # fmt: skip


@test("HP-1: what the administrator announces at the master is kept by the switch, also for the next master, until the "
      "component comes")  # fmt: skip
def announced(bench):
    made = plant(bench)
    h1, h2 = made.lab["h1"], made.lab["h2"]
    e3 = ("announce", "s3", PORT_OF_E3)
    steps.refused(h1.weftctl(*e3, status=None), 1, "port 1 of switch", "a component is plugged in there", "weftctl slots")
    made.toggle("e3")
    made.settle()
    slot_is(made, h1, occupied=False)
    # Not for any user, not at any host, not for what there is not.
    h1.run("cp $(command -v weftctl) /tmp/weftctl; chmod 755 /tmp/weftctl")
    for result, status, words in (
        (h1.run(f"{UNPRIVILEGED} /tmp/weftctl announce s3 1", status=None), 4, ("weft0",)),
        (h2.weftctl(*e3, status=None), 1, ("not the master", "run this there")),
        (h1.weftctl("announce", "s3", 15, status=None), 2, ("no port 15 of a switch", "weftctl slots")),
        (h1.weftctl("announce", "s9", 1, status=None), 2, ("no switch s9", "s1, s2, s3")),
        (h1.weftctl("announce", "h2", 1, status=None), 2, ("h2 is a host, no switch",)),
    ):
        steps.refused(result, status, *words)
    if at_switch(made)["announced"]:
        raise Mismatch("a refused announcement is at the switch")
    told = h1.weftctl(*e3).out
    if told != "switch s3 port 1: empty, a component is announced\n" or not at_switch(made)["announced"]:
        raise Mismatch(f"announced: {told!r}, at the switch {at_switch(made)}")
    slot_is(made, h1, announced=True)
    # Twice is once, and it can be withdrawn.
    h1.weftctl(*e3)
    told = h1.weftctl(*e3, "--withdraw").out
    if told != "switch s3 port 1: empty\n" or at_switch(made)["announced"]:
        raise Mismatch(f"withdrawn: {told!r}, at the switch {at_switch(made)}")
    h1.weftctl(*e3)
    events = Events(h2).ready()
    made.toggle("h1")
    made.settle()
    events.job.expect('"WEFT_PLUG":"announced"', 30)
    slot_is(made, h2, occupied=False, announced=True)
    made.toggle("e3")
    events.job.expect('"WEFT_PLUG":"came"', 30)
    events.job.kill()
    events.job.wait(30)
    slot_is(made, h2, occupied=True, announced=False)
    if at_switch(made)["announced"]:
        raise Mismatch("it has come, and the switch still announces it")
    made.toggle("h1")
    made.settle()


@test("HP-1: the virtual hot-plug controllers of a port connect the hierarchies that have something there, and no other")
def planes(bench):
    made = plant(bench)
    h1 = made.lab["h1"]
    sharing.assign(made.lab, h1, [])
    sharing.become(made.lab, h1, {})

    def given(*assignments):
        sharing.assign(made.lab, h1, assignments)
        sharing.become(made.lab, h1, {assignment: "done" for assignment in assignments})
        return {
            vp: vh
            for (_, port, vp), vh in sharing.planes(made.lab, ["s3"]).items()
            if port == PORT_OF_E3
        }

    one, other = ("e3", 0, "h2"), ("e3", 1, "h3")
    for assignments in ((one, other), (other,), (one, other), ()):
        mine = given(*assignments)
        if len(mine) != len(assignments):
            raise Mismatch(f"{assignments}: the planes are {mine}")
        slot_is(made, h1, planes=sorted(mine))
        # What is connected is on: traffic passes there. What was connected is off.
        off = set(at_switch(made)["disconnected"])
        if off & set(mine) or (len(assignments) < 2 and not off):
            raise Mismatch(f"{assignments}: the planes are {mine}, and {off} are disconnected")


@test("HP-2: a host is pulled and put back, by surprise and announced; others' traffic does not notice", core=True)
def host(bench):
    made = plant(bench)
    with undisturbed(made, ("h1", "h3")):
        way = steps.UnderWay(made.lab, "others", by="h2", to="h1", options=("--to", made.hwids["h1"]))
        lid = Moment(made).lids["h4"]
        for announced in (False, True):
            changed(made, "h4", announced=announced)
            again = changed(made, "h4", announced=announced).lids["h4"]
            if again != lid:
                raise Mismatch(f"h4, whose driver has lived all the time, had LID {lid} and has {again}")
        report = way.whole(resumed=False)
    if report.get("resumed"):
        raise Mismatch(f"a host came and went, and others' transfer was broken: {report}")
    carried(made, "h4", "h2")


@test("HP-2: a switch is pulled with the host below it and put back: traffic elsewhere does not notice, "
      "what went through it goes on", long=True)  # fmt: skip
def switch(bench):
    made = plant(bench)
    with undisturbed(made, ("h1", "h2"), ("h3", "h1")):
        way = steps.UnderWay(made.lab, "through", by="h2", to="h4", options=("--to", made.hwids["h4"]))
        changed(made, "s3")
        changed(made, "s3", announced=True)
        way.whole(resumed=True)


@test("HP-2, N-6: a cable that makes a way shorter is put in: traffic takes that way, and no session ends", long=True)
def shorter(bench):
    made = plant(bench)
    lab, cable = made.lab, "s1:5"
    pairs = [(a, b) for one in ("h1", "h2") for a, b in ((one, "h4"), ("h4", one))]
    for _ in range(2):
        changed(made, cable)
        before = Moment(made)
        way = steps.UnderWay(lab, "shorter", 24 << 20, by="h2", to="h4", options=("--to", made.hwids["h4"]))
        place = f"{made.hwids['h1']:#x}:{made.link('h1', 'h4')}"
        with keeping(lab["h1"], place, lab["h4"], 0) as work:
            now = changed(made, cable)
            for pair in pairs:
                if len(before.ways[pair]) != 4 or len(now.ways[pair]) != 3:
                    raise Mismatch(f"{pair}: the way was {before.ways[pair]}, and is {now.ways[pair]}")
            _, pauses = work.whole()
        report = way.whole(resumed=False)
        if report.get("resumed"):
            raise Mismatch(f"a way became shorter, and a transfer over it was broken: {report}")
        for pair in pairs:
            # The way was trained anew, and that is all.
            was, life = before.sessions[pair], made.sessions()[pair]
            if life[1:] != was[1:] or life[0] != was[0] + 1:
                raise Mismatch(f"{pair}: trained, readied, ended were {was}, and are {life}")
        bench.note(f"the longest pause of queue pairs was {max(pauses, default=0)} ms")


@test("HP-2: an endpoint comes and goes; a host with one at the same switch does not notice")
def endpoint(bench):
    made = plant(bench)
    with undisturbed(made, ("h1", "h2"), ("h3", "h4")):
        lid = Moment(made).lids["e1"]
        for announced in (False, True):
            if "e1" in changed(made, "e1", announced=announced).lids:
                raise Mismatch("an endpoint that is not there has a local id")
            again = changed(made, "e1").lids["e1"]
            if again == lid:
                raise Mismatch(f"an endpoint that was away has LID {lid} as before")
            lid = again


@test("N-5, HP-2: the master is pulled and put back: live nodes keep their local ids, traffic does not notice")
def master(bench):
    made = plant(bench)
    with undisturbed(made, ("h2", "h3"), ("h4", "h2")):
        changed(made, "h1")
        changed(made, "h1")
    carried(made, "h1", "h4")


@test("HP-2: the master's port is pulled out of its slot with a channel open, and put back; others' traffic "
      "does not notice")  # fmt: skip
def function(bench):
    made = plant(bench)
    h1 = made.lab["h1"]
    port = h1.ports[0]
    before = Moment(made)
    with undisturbed(made, ("h2", "h3"), ("h4", "h2")), kernel.slots_at_work(h1):
        steps.pull(h1, port, patience=30)
        made.out.add("h1")
        made.settle(but=["h1"])
        h1.plug(port, "slot0")
        made.out.clear()
        h1.until("[ -e /dev/weft0 ]")
        made.settle()
    now = Moment(made)
    del before.lids["h1"]
    before.ways = {pair: way for pair, way in before.ways.items() if "h1" not in pair}
    now.outlasts(before)
    carried(made, "h1", "h3")


def fresh(made):
    """All begin anew: no switch, no port and no driver knows anything. The tables then."""
    for host in made.lab.hosts.values():
        host.rmmod()
    made.fabric.stop()
    made.fabric.start()
    for host in made.lab.hosts.values():
        host.insmod()
    made.settle()
    sharing.assign(made.lab, made.lab["h1"], ASSIGNMENTS)
    return tables(made)


def tables(made):
    """What they are when the assignments are carried out."""
    sharing.become(made.lab, made.lab["h1"], {assignment: "done" for assignment in ASSIGNMENTS})
    return made.tables()


def differences(one, other):
    return "\n".join(f"{k}: {one[k]}\n  not {other[k]}" for k in one if one[k] != other[k])


@test(f"HP-2, N-6: {PLUGS} additions and removals in a row leave the tables of a fresh start; nodes that "
      "stay keep their local ids", patient=True)  # fmt: skip
def at_random(bench):
    made = plant(bench)
    expected = fresh(made)
    trunks = [end for end, other in made.cables if end.startswith("s") and other.startswith("s")]
    with made.at_random(SEED) as rng:
        for _ in range(PLUGS):
            away = sorted(made.out | made.cut)
            part = rng.choice(away if len(away) >= MOST_OUT else made.parts + trunks)
            before = Moment(made)
            made.toggle(part, announced=":" not in part and rng.random() < 0.5)
            made.settle()
            Moment(made).outlasts(before)
        made.restore()
        found = tables(made)
        if found != expected:
            raise Mismatch(f"tables are not those of a fresh start:\n{differences(found, expected)}")
        for one, other in (("h1", "h4"), ("h2", "h3")):
            carried(made, one, other)
    bench.note(f"{len(made.done)} additions and removals, WEFT_SEED={SEED}")
