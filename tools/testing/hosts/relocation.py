# SPDX-License-Identifier: GPL-2.0
"""Virtual functions that move to another host: three hosts behind two switches, each with VFs. h1 has the lowest
hardware id and is the master."""

import contextlib
import json
import signal

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import scale, steps
from .beyond import LAB, of, reaches, serving, switches
from .fabric import until
from .programs import running
from .sriov import SYSFS

# VF 0 of the first PF.
NUMBER = 2
QUOTA = {"bytes": 6 << 20, "rate": 512 << 20, "rings": 100_000}


def ident(side):
    """What the PF has VF 0 be."""
    return int(side.host.out(f"cat {SYSFS}/{side.vf(0)}/hwid"), 0)


def lines(side, first):
    """The words of the lines of the assignments that begin so, as this host keeps them."""
    text = side.host.weftctl("assignments", "--save", "-").out
    return [line.split() for line in text.splitlines() if line.startswith(first)]


def stage(side, wanted):
    """Waits until this host sees the migration at that stage; "": at none."""

    def seen():
        found = [line[4] for line in lines(side, "move ")]
        return found == [wanted] * bool(wanted)

    until(f"{side.host.name} sees {wanted or 'no migration'}", seen, 60, lambda: lines(side, "move "))


class Migration:
    """VF 0 of one host moves to another host."""

    def __init__(self, source, target, *words):
        self.hwid = ident(source)
        to = ident(target)
        line = target.host.weftctl_line("--json", "vf", "receive", "0:0", "--timeout", 60)
        self.there = target.host.start_job(f"exec {line}")
        line = source.host.weftctl_line("--json", "vf", "migrate", "0:0", "--to", to, "--timeout", 60, *words)
        self.here = source.host.start_job(f"exec {line}")

    @staticmethod
    def said(job, status):
        done = job.wait(150)
        if done.status != status:
            raise Mismatch(f"{done.status}: {done.out} {done.err}")
        return json.loads(done.out.splitlines()[0])["migration"]

    @staticmethod
    def cancelled(job):
        """^C: the signal ends the program when the migration has ended."""
        job.kill(signal.SIGINT)
        job.wait(60)

    def ends(self, here=None, there=None):
        """Either host says that outcome; one that is dead says nothing."""
        for job, outcome in ((self.here, here), (self.there, there)):
            if outcome:
                done = self.said(job, int(outcome != "moved"))
                if (done["outcome"], int(done["hwid"], 0)) != (outcome, self.hwid):
                    raise Mismatch(f"{done}")


@contextlib.contextmanager
def held(source, peer):
    """A program of the source has a connection and does not care what it is asked for. What ends it."""
    with serving(peer.host, peer.node(0)):
        node = source.node(0)
        # Functions may have the ids that migrations left them.
        to = ident(peer)
        reaches(source.host, node, to)
        line = source.host.weftctl_line("ping", "--port", node, "--to", to,
                                        "--count", 100000, "--interval", 0.05, "--timeout", 100)  # fmt: skip
        with running(source.host, line) as job:
            source.state(0, "used")
            yield lambda: job.kill(signal.SIGKILL)


def found(peer, side, hwid):
    """The peer reaches that identity, which that host has."""
    with serving(side.host, side.node(0)):
        reaches(peer.host, peer.node(0), hwid)


@test("MIG-1 (c), MIG-2: a VF moves to another host, and on, and back; identity and quota follow, and a third host finds "
      "it there", core=True, lab=LAB)  # fmt: skip
def between_hosts(bench):
    with switches(bench) as (lab, sides):
        a, b, c = sides.values()
        before = {name: b.get(0, name) for name in QUOTA}
        for name, value in QUOTA.items():
            a.set(0, name, value)
        hwid = ident(a)
        for source, target, peer in ((a, b, c), (b, c, a), (c, a, b)):
            Migration(source, target).ends("moved", "moved")
            if ident(target) != hwid:
                raise Mismatch(f"the target is {ident(target):#x}")
            have = {name: target.get(0, name) for name in QUOTA}
            if have != {name: str(value) for name, value in QUOTA.items()}:
                raise Mismatch(f"the target may use {have}")
            source.state(0, "idle")
            if int(source.get(0, "used_apertures")):
                raise Mismatch("the source has something open")
            source.host.run(f"echo {source.vf(0)} >/sys/bus/pci/drivers_probe")
            source.state(0, "driven")
            ids = [ident(side) for side in sides.values()]
            if sorted(ids) != sorted(of(name, NUMBER) for name in sides):
                raise Mismatch(f"the functions are {ids}")
            # Each has the number of the function that it reaches.
            found(peer, target, hwid)
            for side in sides.values():
                stage(side, "")
                if {(int(of_, 16), int(id_, 16)) for _, of_, id_ in lines(side, "carries ")} != {
                    (of(name, NUMBER), id_) for name, id_ in zip(sides, ids) if id_ != of(name, NUMBER)
                }:
                    raise Mismatch(f"{side.host.name} keeps {lines(side, 'carries ')}")
        for name, value in before.items():
            a.set(0, name, value)


@test("MIG-2: a user that does not finish, an administrator who cancels, a target that is used or away leave the source "
      "as it was", lab=LAB)  # fmt: skip
def refusing(bench):
    with switches(bench) as (lab, sides):
        a, b, c = sides.values()
        ids = [ident(a), ident(b)]
        with held(a, c) as let_go:
            going = Migration(a, b)
            stage(b, "ready")
            going.cancelled(going.here)
            going.ends(there="stayed")
            stage(b, "")
            going = Migration(a, b)
            stage(a, "ready")
            going.cancelled(going.there)
            going.ends("stayed")
            let_go()
        b.state(0, "driven")
        a.state(0, "driven")
        with held(b, c):
            line = b.host.weftctl("--json", "vf", "receive", "0:0", "--timeout", 5, status=None)
            if json.loads(line.out.splitlines()[0])["migration"]["obstacles"] != ["taken"]:
                raise Mismatch(line.out)
        for to, obstacle in ((ids[1] ^ 0x70, "no-target"), (of("h1", NUMBER + 1), "same")):
            done = a.host.weftctl("--json", "vf", "migrate", "0:0", "--to", to, status=1)
            if json.loads(done.out.splitlines()[0])["migration"]["obstacles"] != [obstacle]:
                raise Mismatch(f"{to:#x}: {done.out}")
        steps.refused(b.host.weftctl("vf", "receive", "0:0", "--timeout", 1, status=None), 1, "no host has asked")
        # Only another one may come: what asks is told so at once.
        line = b.host.weftctl_line("vf", "receive", "0:0", "--from", ident(c), "--timeout", 60)
        with running(b.host, line):
            done = a.host.weftctl("--json", "vf", "migrate", "0:0", "--to", ids[1], status=1)
            if json.loads(done.out.splitlines()[0])["migration"]["outcome"] != "stayed":
                raise Mismatch(done.out)
        if [ident(a), ident(b)] != ids:
            raise Mismatch(f"the functions are {ident(a):#x} and {ident(b):#x}")


@test("MIG-2: the target's host dies before it has the identity: the source goes on", patient=True, lab=LAB)
def target_dies_before(bench):
    with switches(bench) as (lab, sides):
        a, b, c = sides.values()
        with held(a, c):
            going = Migration(a, b)
            stage(a, "ready")
            b.host.kill()
            going.ends("stayed")
        stage(c, "")
        found(c, a, going.hwid)


@test("MIG-2: the target's host dies when it has the identity: the source gets it back", patient=True, lab=LAB)
def target_dies_after(bench):
    with switches(bench) as (lab, sides):
        a, b, c = sides.values()
        before = sorted(lines(c, "carries "))
        with held(a, c) as let_go:
            going = Migration(a, b)
            stage(a, "ready")
            b.host.freeze()
            let_go()
            stage(c, "given")
            b.host.kill()
            going.ends("stayed")
        stage(c, "")
        found(c, a, going.hwid)
        # The lines are written anew.
        carries = sorted(lines(c, "carries "))
        if carries != before:
            raise Mismatch(f"{carries}, and {before} before")


@test("MIG-2, N-6: the source's host, which is the master, dies before the target has the identity: it is released",
      patient=True, lab=LAB)
def source_dies_before(bench):
    with switches(bench) as (lab, sides):
        a, b, c = sides.values()
        before = ident(b)
        with held(a, c):
            going = Migration(a, b)
            stage(b, "ready")
            a.host.kill()
            going.ends(there="stayed")
            b.state(0, "driven")
            stage(c, "")
            if ident(b) != before:
                raise Mismatch(f"the target is {ident(b):#x}")


@test("MIG-2, N-6: the source's host, which is the master, dies when the target has the identity: that works",
      patient=True, lab=LAB)
def source_dies_after(bench):
    with switches(bench) as (lab, sides):
        a, b, c = sides.values()
        with held(a, c) as let_go:
            going = Migration(a, b)
            stage(b, "ready")
            b.host.freeze()
            let_go()
            stage(c, "given")
            a.host.kill()
            b.host.freeze(False)
            going.ends(there="moved")
        found(c, b, going.hwid)


@test("MIG-2, N-6: another host becomes the master, and the link between the switches flaps, while a VF moves: it moves",
      patient=True, lab=LAB)
def elected(bench):
    with switches(bench) as (lab, sides):
        a, b, c = sides.values()
        with held(b, a):
            hwid = ident(b)
            going = Migration(b, c)
            stage(b, "ready")
            lab.fabric.link("down", "s1:3")
            lab.fabric.link("up", "s1:3")
            # What is held ends with it.
            a.host.kill()
            going.ends("moved", "moved")
            if ident(c) != hwid:
                raise Mismatch(f"the target is {ident(c):#x}")


@test("MIG-1 (c), P-5: at scale a VF that has moved is found where it is, and no other moves to another host, which is said",
      lab=LAB, long=True)  # fmt: skip
def at_scale(bench):
    with switches(bench) as (lab, sides):
        a, b, c = sides.values()
        hwid = ident(a)
        Migration(a, b).ends("moved", "moved")
        a.host.run(f"echo 1 >{scale.PORT}/full_nodes")
        for side in sides.values():
            side.host.until(f"cd {scale.PORT} && [ $(cat mode) = scale ] && [ $(cat lid) != 0 ]", scale.PATIENCE)
        found(c, b, hwid)
        if ident(b) != hwid:
            raise Mismatch(f"the function is {ident(b):#x}")
        done = a.host.weftctl("vf", "migrate", "0:0", "--to", of("h3", NUMBER), status=None)
        steps.refused(done, 2, "at scale")
        steps.refused(c.host.weftctl("vf", "receive", "0:0", status=None), 2, "at scale")
    scale.anew(lab)
