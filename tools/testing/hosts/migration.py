# SPDX-License-Identifier: GPL-2.0
"""Virtual functions that move to others, with the programs that use them."""

import contextlib
import json
import os
import random
import re
import signal
import time

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps

LAB = "twins"
SYSFS = "/sys/bus/pci/devices"
FOLLOW = "/mnt/tools/weft-follow"
POST = "/mnt/tools/weft-post"
SERVICE = 7411
VFS = 4
# How often a function moves in a row: more by hand.
MIGRATIONS = int(os.environ.get("WEFT_MIGRATIONS", "4"))
# Where the migration may find that the source is gone, if users were asked to finish.
GONE = [(None, None), *(("source-gone", step) for step in ("finish", "release", "cut"))]
# A program that has a VF's file open and does not care what it is asked for: says when it is.
CARELESS = """import os, select, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
poll = select.poll()
poll.register(fd, select.POLLPRI)
print("open", flush=True)
seen = 0
while True:
    for _, events in poll.poll(100):
        if events & ~seen:
            seen |= events
            print("events %#x" % events, flush=True)
        if events & select.POLLHUP:
            sys.exit(0)
        time.sleep(0.05)
"""


class Port:
    """A physical function: at first by the number of its device node."""

    def __init__(self, host, number):
        self.host = host
        self.pf = host.out(f"basename $(readlink -f /sys/class/weft/weft{number}/device)")

    @property
    def number(self):
        """It may be another after the function was away."""
        return int(self.host.out(f"basename {SYSFS}/{self.pf}/weft/weft*").removeprefix("weft"))

    def numvfs(self, count):
        self.host.run(f"/bin/echo {count} >{SYSFS}/{self.pf}/sriov_numvfs", 240)

    def vf(self, n):
        return self.host.out(f"basename $(readlink -f {SYSFS}/{self.pf}/virtfn{n})")

    def node(self, n):
        return int(self.host.out(f"basename {SYSFS}/{self.vf(n)}/weft/weft*").removeprefix("weft"))

    def get(self, n, name):
        return self.host.out(f"cat {SYSFS}/{self.pf}/vf{n}/{name}")

    def set(self, n, name, value):
        self.host.run(f"/bin/echo {value} >{SYSFS}/{self.pf}/vf{n}/{name}")

    def state(self, n, wanted, timeout=60):
        self.host.until(f"[ $(cat {SYSFS}/{self.pf}/vf{n}/state) = {wanted} ]", timeout)

    def hwid(self, n):
        """What the driver of VF n reads."""
        return self.host.out(f"cat {SYSFS}/{self.vf(n)}/hwid")


def renumber(host):
    """Has ports be numbered in the order of their addresses: one that was away may have come back by another
    number."""
    have = host.out("for p in /sys/class/weft/*; do echo ${p##*/} $(basename $(readlink -f $p/device)); done")
    places = sorted((int(name.removeprefix("weft")), at) for name, at in map(str.split, have.splitlines()))
    ordered = sorted(at for _, at in places)
    if places != list(enumerate(ordered)):
        # Not by insmod: it takes functions in the order in which they have come to the bus.
        each = " ".join(ordered)
        lines = [f"for f in {each}; do echo $f >{how}; done" for how in ("unbind", "bind")]
        host.run("(set -e; cd /sys/bus/pci/drivers/weft; " + "; ".join(lines) + ")", 60)
        host.wait_links(60)


@contextlib.contextmanager
def moving(bench):
    """The two hosts, with VFs 0 and 1 of the first port and VF 0 of the next two: of the same endpoint,
    and of the other one."""
    lab = bench.twins(VFS)
    ports = {name: [Port(host, n) for n in range(3)] for name, host in lab.hosts.items()}
    for each in ports.values():
        for port, count in zip(each, (2, 1, 1)):
            port.numvfs(count)
    for each in ports.values():
        for port, count in zip(each, (2, 1, 1)):
            for n in range(count):
                port.host.wait_link("ready", 60, port=port.node(n))
    yield lab, ports["h1"], ports["h2"]
    for each in ports.values():
        for port in each:
            port.numvfs(0)
    # The next test looks for the links of each port by its number.
    for host in lab.hosts.values():
        renumber(host)


def migrate(host, source, target, *words, status=0):
    """What became of it. Users may finish late: a test of the limit gives one."""
    if not {"--timeout", "--live"}.intersection(words):
        words += ("--timeout", 60)
    line = host.weftctl_line("--json", "vf", "migrate", source, target, *words)
    done = host.run(line, 180, None)
    if done.status != status:
        raise Mismatch(f"{line}: {done.status}, {done.out} {done.err}")
    return json.loads(done.out.splitlines()[0])["migration"]


class Load:
    """Numbered messages to the other host by the function of that identity, wherever it is."""

    def __init__(self, sender, receiver, hwid):
        self.sender, self.stop = sender, f"/tmp/stop{hwid}"
        sender.run(f"rm -f {self.stop}")
        self.listener = receiver.start_job(f"exec {FOLLOW} listen {SERVICE}")
        self.listener.expect("listening", 30)
        self.job = sender.start_job(f"exec {FOLLOW} send {hwid} {SERVICE} {self.stop}")
        try:
            self.job.expect("sending", 90)
        except Exception as error:
            self.listener.kill(signal.SIGKILL)
            raise Mismatch(f"{error}; the listener: {self.listener.wait(20).err}") from error

    def goes_on(self, times):
        """Until it sends again, after it was asked to finish, or its way broke, so many times."""
        self.job.expect(f"^sending {times}$", 90)

    def whole(self):
        """Ends it; how often it was asked to finish, how often its way broke, and what it says."""
        self.sender.run(f"touch {self.stop}")
        try:
            said = self.job.wait(120).must(0).out.strip().splitlines()[-1]
            came = self.listener.wait(60).must(0).out.strip().splitlines()[-1]
        finally:
            self.end()
        messages, moves, breaks = re.match(r"(\d+) messages, .* (\d+) times, broken (\d+) times", said).groups()
        if int(messages) < 100 or not came.startswith(f"{messages} messages by "):
            raise Mismatch(f"sent: {said}; received: {came}")
        return int(moves), int(breaks), said

    def end(self):
        for job in (self.job, self.listener):
            if job.running:
                job.kill(signal.SIGKILL)
                with contextlib.suppress(Exception):
                    job.wait(20)


@contextlib.contextmanager
def load(sender, receiver, hwid):
    made = Load(sender, receiver, hwid)
    try:
        yield made
    finally:
        made.end()


def there_and_back(bench, lab, ports, one, other):
    """The function moves from one place to another and back, under load; places are (port, VF)."""
    host = lab["h1"]
    hwid = ports[one[0]].hwid(one[1])
    quota = {"bytes": 6 << 20, "rate": 512 << 20, "rings": 100_000}
    for name, value in quota.items():
        ports[one[0]].set(one[1], name, value)
    at, to = one, other
    with load(host, lab["h2"], hwid) as work:
        for times in range(1, MIGRATIONS + 1):
            done = migrate(host, *(f"{port}:{n}" for port, n in (at, to)))
            if (done["outcome"], done["hwid"]) != ("moved", hwid) or "step" in done:
                raise Mismatch(f"{done}")
            if ports[to[0]].hwid(to[1]) != hwid:
                raise Mismatch(f"the target is {ports[to[0]].hwid(to[1])}")
            if any(ports[to[0]].get(to[1], name) != str(value) for name, value in quota.items()):
                raise Mismatch("the quota has stayed behind")
            ports[at[0]].state(at[1], "idle")
            if ports[at[0]].get(at[1], "used_apertures") != "0":
                raise Mismatch("the source has something open")
            at, to = to, at
            # A program that has only opened the function is not asked to finish.
            work.goes_on(times)
            ports[at[0]].state(at[1], "used")
        moves, breaks, said = work.whole()
    if (moves, breaks) != (MIGRATIONS, 0):
        raise Mismatch(f"{MIGRATIONS} migrations: {said}")
    bench.note(f"{MIGRATIONS} migrations: {said}")


@test("MIG-1 (a), MIG-2: a VF moves between the PFs of an endpoint, again and again, under a load that is "
      "checked for content and order", patient=True)
def between_pfs(bench):
    with moving(bench) as (lab, a, b):
        there_and_back(bench, lab, a, (0, 0), (1, 0))


@test("MIG-1 (b), MIG-2: a VF moves between endpoints, again and again, under a load that is checked for "
      "content and order", patient=True)
def between_endpoints(bench):
    with moving(bench) as (lab, a, b):
        there_and_back(bench, lab, a, (0, 0), (2, 0))


def careless(host, node):
    """A program has that device node open, and keeps it."""
    path = host.push("careless.py", CARELESS.encode())
    return steps.user(host, f"exec python3 {path} /dev/weft{node}")


@contextlib.contextmanager
def holding(lab, hwid):
    """A program has a connection by the function of that identity, and keeps it."""
    listener = lab["h2"].start_job(f"exec {FOLLOW} listen {SERVICE + 1}")
    listener.expect("listening", 30)
    job = lab["h1"].start_job(f"exec {FOLLOW} hold {hwid} {SERVICE + 1}")
    try:
        job.expect("holding", 60)
        yield job
    finally:
        for each in (job, listener):
            if each.running:
                each.kill(signal.SIGKILL)
                with contextlib.suppress(Exception):
                    each.wait(20)


def posting(lab, hwid, there, how):
    """Requests are posted to a queue pair by the function of that identity; both ends."""
    listener = lab["h2"].start_job(f"exec {POST} listen {there} {SERVICE + 2}")
    listener.expect("listening", 30)
    job = lab["h1"].start_job(f"exec {POST} {how} {hwid} {SERVICE + 2}")
    job.expect("posting", 60)
    time.sleep(1)
    return job, listener


@test("MIG-2: each request posted has its completion when a VF is taken away: those of a user who finishes "
      "succeed, one who does not finish keeps the VF, or is stopped", patient=True)
def completions(bench):
    with moving(bench) as (lab, a, b):
        host, hwid = lab["h1"], a[0].hwid(0)
        job, listener = posting(lab, hwid, b[0].node(0), "care")
        done = migrate(host, "0:0", "1:0")
        if done["outcome"] != "moved":
            raise Mismatch(f"{done}")
        said = job.wait(60).must(0).out.strip().splitlines()[-1]
        listener.wait(60).must(0)
        bench.note(f"a careful user: {said}")
        if not re.fullmatch(r"([1-9]\d*) posted, \1 done, 0 flushed", said):
            raise Mismatch(said)
        host.wait_link("ready", 60, port=a[1].node(0))
        job, listener = posting(lab, hwid, b[1].node(0), "careless")
        done = migrate(host, "1:0", "0:0", "--timeout", 1, status=1)
        if (done["outcome"], done["step"], done["event"]) != ("stayed", "finish", "timeout") or not done["outstanding"]:
            raise Mismatch(f"{done}")
        if not job.running or a[1].hwid(0) != hwid:
            raise Mismatch("a user who does not finish has lost the VF")
        # He goes on.
        time.sleep(0.5)
        done = migrate(host, "1:0", "0:0", "--timeout", 1, "--stop")
        if (done["outcome"], done["step"], done["event"]) != ("moved", "finish", "timeout"):
            raise Mismatch(f"{done}")
        said = job.wait(60).must(0).out.strip().splitlines()[-1]
        listener.wait(60).must(0)
        bench.note(f"a careless user: {said}")
        posted, finished, flushed = map(int, re.findall(r"\d+", said))
        if posted != finished + flushed or finished < 10:
            raise Mismatch(said)


@test("MIG-2: a target that refuses, is used, or is not there, and a user who changes his mind, leave the "
      "source as it was, under load", patient=True)
def refusing(bench):
    with moving(bench) as (lab, a, b):
        host, hwid = lab["h1"], a[0].hwid(0)
        own = a[1].hwid(0)
        with load(host, lab["h2"], hwid) as work:
            asked = 0
            with careless(host, a[1].node(0)):
                a[1].state(0, "used")
                done = migrate(host, "0:0", "1:0", status=1)
                if (done["outcome"], done["obstacles"]) != ("stayed", ["taken"]):
                    raise Mismatch(f"a used target: {done}")
            a[1].state(0, "driven")
            for target, obstacle in (("0:2", "no-target"), ("0:0", "same")):
                done = migrate(host, "0:0", target, status=1)
                if done["outcome"] != "stayed" or obstacle not in done["obstacles"]:
                    raise Mismatch(f"{target}: {done}")
            # Its driver, when it has the identity already.
            done = migrate(host, "0:0", "1:0", "--driver", "no-such-driver", status=1)
            asked += 1
            if (done["outcome"], done["step"], done["event"]) != ("stayed", "configure", "failed"):
                raise Mismatch(f"{done}")
            if (a[0].hwid(0), a[1].hwid(0)) != (hwid, own):
                raise Mismatch(f"afterwards {a[0].hwid(0)} and {a[1].hwid(0)}")
            work.goes_on(asked)
            # A user who does not finish, and an administrator who does not wait for him.
            with holding(lab, hwid) as other:
                line = host.weftctl_line("vf", "migrate", "0:0", "1:0", "--timeout", 120)
                going = host.start_job(f"exec {line}")
                other.expect("asked", 30)
                other.expect("shutdown", 30)
                # The load may come to it later than the user who does not finish.
                work.job.expect(f"^asked {asked + 1}$", 30)
                going.kill(signal.SIGINT)
                other.expect("goes on", 30)
                with contextlib.suppress(Exception):
                    going.wait(30)
                asked += 1
            moves, breaks, said = work.whole()
            if breaks or moves != asked:
                raise Mismatch(f"{said}, {asked} were expected")
        # And again, with nothing in the way.
        if migrate(host, "0:0", "1:0")["outcome"] != "moved" or a[1].hwid(0) != hwid:
            raise Mismatch("it does not move afterwards")


def gone(port):
    """The kernel takes a PF away: it is as if it were pulled, but for the time that a slot takes."""
    port.host.run(f"echo 1 >{SYSFS}/{port.pf}/remove", 60)


def back(port, count):
    """And finds it again: it is the same."""
    port.host.run("echo 1 >/sys/bus/pci/rescan", 60)
    port.host.until(f"[ -e {SYSFS}/{port.pf}/weft ]")
    port.host.wait_link("ready", 60, port=port.number)
    port.numvfs(count)


def none_twice(*ports):
    hwids = [port.hwid(n) for port, count in ports for n in range(count)]
    if len(set(hwids)) != len(hwids):
        raise Mismatch(f"two functions are the same: {hwids}")


@test("MIG-2: source or target is reset while users finish, and it goes on; the target is taken away, and the "
      "source goes on; the source is taken away, and the target takes its place", patient=True, long=True)
def dying(bench):
    with moving(bench) as (lab, a, b):
        host, hwid = lab["h1"], a[2].hwid(0)
        source, target = lambda: f"{a[2].number}:0", "0:1"
        with load(host, lab["h2"], hwid) as work:

            def while_holding(what, timeout=60):
                with holding(lab, hwid) as other:
                    line = host.weftctl_line("--json", "vf", "migrate", source(), target, "--timeout", timeout)
                    going = host.start_job(f"exec {line}")
                    other.expect("asked", 30)
                    what(other)
                    done = going.wait(90)
                    return json.loads(done.out.splitlines()[0])["migration"]

            # A reset breaks the connections over it; then nothing is outstanding.
            for times, function in enumerate((a[2].vf(0), a[2].pf)):
                done = while_holding(lambda _: host.run(f"echo 1 >{SYSFS}/{function}/reset", 60))
                if done["outcome"] != "moved" or "step" in done:
                    raise Mismatch(f"{function} was reset: {done}")
                work.goes_on(2 * times + 1)
                done = migrate(host, target, source())
                work.goes_on(2 * times + 2)

            def target_goes(other):
                gone(a[1])
                other.expect("goes on", 30)

            target = "1:0"
            done = while_holding(target_goes)
            if (done["outcome"], done["step"], done["event"]) != ("stayed", "finish", "target-gone"):
                raise Mismatch(f"the target is gone: {done}")
            back(a[1], 1)
            a[2].state(0, "used")
            target = "0:1"
            done = while_holding(lambda _: gone(a[2]))
            # Its driver goes first, and nothing is outstanding then: the function may be missed later, or not.
            if done["outcome"] != "moved" or (done.get("event"), done.get("step")) not in GONE:
                raise Mismatch(f"the source is gone: {done}")
            if a[0].hwid(1) != hwid:
                raise Mismatch(f"the target is {a[0].hwid(1)}")
            a[0].state(1, "used")
            back(a[2], 1)
            none_twice((a[0], 2), (a[1], 1), (a[2], 1))
            moves, breaks, said = work.whole()
            # It has moved five times. A reset breaks what has not finished yet; and who is asked for a moment
            # only, as the target goes, may miss it. Nothing is lost, repeated or out of order either way.
            if moves + breaks < 5:
                raise Mismatch(said)
            bench.note(said)


@test("MIG-2: the source is taken away at any moment: its identity is then the target's alone, or gone with it",
      patient=True, long=True)
def any_moment(bench):
    with moving(bench) as (lab, a, b):
        host, outcomes = lab["h1"], []
        # Either takes a moment to begin: when they meet is found out.
        low, high = -200, 200
        for _ in range(max(5, MIGRATIONS)):
            delay = (low + high) // 2 if high - low > 30 else random.randint(low, high)
            hwid, own = a[2].hwid(0), a[0].hwid(1)
            line = host.weftctl_line("--json", "vf", "migrate", f"{a[2].number}:0", "0:1")
            later, sooner = max(delay, 0) / 1000, max(-delay, 0) / 1000
            goes = f"(sleep {later}; echo 1 >{SYSFS}/{a[2].pf}/remove) & sleep {sooner}; {line}; wait"
            done = host.run(goes, 120, None)
            said = json.loads(done.out.splitlines()[0]).get("migration")
            # Nothing is begun if its driver has gone already.
            before = not said or said["obstacles"]
            where = "before" if before else said.get("step", "behind")
            outcomes.append(f"{where} at {delay} ms")
            low = delay if where == "before" and high - low > 30 else low
            high = delay if where == "behind" and high - low > 30 else high
            moved = not before and said["outcome"] == "moved"
            if not before and not moved or a[0].hwid(1) != (hwid if moved else own):
                raise Mismatch(f"{done.out}: the target is {a[0].hwid(1)}, and was {own}; {hwid} moves")
            host.wait_link("ready", 60, port=a[0].node(1))
            back(a[2], 1)
            none_twice((a[0], 2), (a[1], 1), (a[2], 1))
            if (a[2].hwid(0) == hwid) == moved:
                raise Mismatch(f"the source comes back as {a[2].hwid(0)}, after {outcomes[-1]}")
        bench.note(f"outcomes: {', '.join(outcomes)}")
        if len({where.split()[0] for where in outcomes}) < 2:
            raise Mismatch(f"it was always the same moment: {outcomes}")


@test("MIG-3: what can be moved where, and why not, is shown, agrees with sysfs and lspci, and is so")
def possible(bench):
    with moving(bench) as (lab, a, b):
        host = lab["h1"]

        def listed():
            return host.weftctl_json("vf", "migrate", "0:0", "--dry-run")["candidates"]

        host.run(f"echo {a[1].vf(0)} >/sys/bus/pci/drivers/weft/unbind")
        a[1].state(0, "idle")
        with careless(host, a[0].node(1)):
            a[0].state(1, "used")
            found = listed()
            wanted = [("/dev/weft0", 1, "same-port", "used", ["taken"]), ("/dev/weft1", 0, "same-endpoint", "idle", []),
                      ("/dev/weft2", 0, "other-endpoint", "driven", [])]  # fmt: skip
            have = [(to["port"], to["vf"], to["place"], to["state"], to["obstacles"]) for to in found]
            if have != wanted:
                raise Mismatch(f"{have}")
            for to, port, n in zip(found, a, (1, 0, 0)):
                link = port.host.run(f"basename $(readlink -f {SYSFS}/{to['function']}/driver)", status=None).out.strip()
                shown = re.findall(r"driver in use: (\S+)", host.out(f"lspci -k -s {to['function']}"))
                driver = to.get("driver")
                if to["function"] != port.vf(n) or shown != [driver] * bool(driver) or driver and driver != link:
                    raise Mismatch(f"{to}: lspci says {shown}, sysfs {link}")
                if to["state"] != port.get(n, "state") or to["possible"] != (not to["obstacles"]):
                    raise Mismatch(f"{to}")
            table = host.weftctl("vf", "migrate", "0:0", "--dry-run").out
            if "no: the target is used, or another driver has it" not in table or table.count(" yes") != 2:
                raise Mismatch(table)
            # What it says is so.
            if migrate(host, "0:0", "0:1", status=1)["obstacles"] != ["taken"]:
                raise Mismatch("a used target is taken")
        at = "0:0"
        for to in ("1:0", "2:0", "0:0"):
            if migrate(host, at, to)["outcome"] != "moved":
                raise Mismatch(f"{at} does not move to {to}")
            at = to
        # The system's own capability of that name needs a multi-root fabric and its own table; ours does not.
        shown = host.out(f"lspci -vvv -s {a[0].pf}")
        if not re.search(r"IOVCap:\s+Migration-", shown):
            raise Mismatch("lspci says that SR-IOV's own migration is there")
        for words, status, says in (
            (("0:0",), 2, "required"),
            (("0:0", "7:0"), 3, "no such port"),
            (("0:9", "1:0"), 2, "no such VF"),
            (("0", "1:0"), 2, "PORT:VF"),
        ):
            steps.refused(host.weftctl("vf", "migrate", *words, status=None), status, says)
        line = host.weftctl_line("vf", "migrate", "0:0", "1:0")
        steps.refused(host.run(f"setpriv --bounding-set=-sys_admin {line}", status=None), 4, "CAP_SYS_ADMIN")


@test("MIG-1 (c), MIG-2: a VF moves to an image that has it by vfio-pci, and back to the host's driver; the program "
      "that uses it goes on", core=True, iommu=True)
def between_images(bench):
    with moving(bench) as (lab, a, b):
        host, hwid = lab["h1"], a[0].hwid(0)
        steps.vfio(host)
        vf = a[1].vf(0)
        rounds = max(1, MIGRATIONS // 5)
        with load(host, lab["h2"], hwid) as work:
            for times in range(1, rounds + 1):
                done = migrate(host, "0:0", "1:0", "--driver", "vfio-pci")
                if done["outcome"] != "moved" or host.out(f"basename $(readlink -f {SYSFS}/{vf}/driver)") != "vfio-pci":
                    raise Mismatch(f"to the image: {done}")
                image = host.start_job(f"weft-vfio {vf} --seconds 600 --timeout 60")
                image.expect(f"hardware id {hwid}", 60)
                image.expect("link 0: ready", 90)
                there = b[1].node(0)
                b[1].host.wait_link("ready", 60, port=there)
                peer = b[1].host.out(f"cat /sys/class/weft/weft{there}/device/link0/peer_hwid")
                if peer != hwid:
                    raise Mismatch(f"the neighbour knows {peer}, not {hwid}")
                a[1].state(0, "driven")
                done = migrate(host, "1:0", "0:0", "--driver", "weft")
                if done["outcome"] != "moved" or a[0].hwid(0) != hwid:
                    raise Mismatch(f"from the image: {done}")
                if "asked to finish: nothing is outstanding" not in image.wait(30).must(0).out:
                    raise Mismatch("the image was not asked")
                work.goes_on(times)
            moves, breaks, said = work.whole()
            bench.note(f"{rounds} times to the image and back: {said}")
            if (moves, breaks) != (rounds, 0):
                raise Mismatch(said)
        host.run(f"echo {vf} >/sys/bus/pci/drivers/vfio-pci/unbind && echo >{SYSFS}/{vf}/driver_override && "
                 f"echo {vf} >/sys/bus/pci/drivers_probe")  # fmt: skip
