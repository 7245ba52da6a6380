# SPDX-License-Identifier: GPL-2.0
"""A fabric whose parts come and go: what is plugged in, what follows from that, and what there is."""

import contextlib
import random
import re
import time

from weftlab import kernel
from weftlab.errors import LabError, Mismatch
from weftlab.topology import Topology

from . import sharing, steps

PORT = "/sys/class/weft/weft0/device"
# The hierarchy of traffic between hosts, by the same number wherever it is.
COMMON_VH = 1
LOOK = (
    f"cd {PORT} && grep -sH . manager/role manager/lid manager/master manager/nodes manager/routes "
    + " ".join(f"link*/{file}" for file in ("peer_hwid", "state", "trained", "readied", "ended"))
    + "; true"
)


def triangle():
    """Three switches joined to each other: h1, h2 and an endpoint at the first, h3 at the second, h4 and
    an endpoint at the third."""
    shape = Topology().switch("s1", 8).switch("s2", 8).switch("s3", 8)
    for number in range(1, 5):
        shape.host(f"h{number}", number)
    shape.endpoint("e1", ves=2).endpoint("e3", ves=2)
    shape.link("h1:0", "s1:0").link("h2:0", "s1:1").link("s1:2", "e1:0")
    shape.link("h3:0", "s2:0").link("h4:0", "s3:0").link("s3:1", "e3:0")
    return shape.link("s1:4", "s2:4").link("s1:5", "s3:5").link("s2:6", "s3:6")


class Plant:
    """What is plugged in, by what was done, and what the fabric says of it."""

    def __init__(self, lab):
        self.lab, self.fabric = lab, lab.fabric
        shape = lab.fabric.topology
        self.hwids = dict(shape.hosts)
        self.switches = [name for name, _ in shape.switches]
        self.endpoints = [name for name, _ in shape.endpoints]
        self.cables = [(a, b) for a, b, _, _ in shape.links]
        self.parts = [*self.hwids, *self.switches, *self.endpoints]
        self.out, self.cut = set(), set()
        # In words, for a test that fails.
        self.done = []

    # ---- what is done ---------------------------------------------------

    def toggle(self, part, announced=False):
        """A part comes or goes: a node by its name, a cable by one of its ends."""
        if ":" in part:
            word = "up" if part in self.cut else "down"
            self.fabric.link(word, part)
            self.cut ^= {part}
            said = f"cable {part} {word}"
        else:
            word = "plug" if part in self.out else "unplug"
            if announced:
                self.fabric.call(word, part, "--announce")
            self.fabric.call(word, part)
            self.out ^= {part}
            said = f"{word} {part}{' announced' if announced else ''}"
        self.done.append(said)

    def restore(self):
        """All parts are there again."""
        for part in sorted(self.out | self.cut):
            self.toggle(part)
        self.settle()

    @contextlib.contextmanager
    def at_random(self, seed):
        """What fails meanwhile says by which seed, and what was done before."""
        try:
            yield random.Random(seed)
        except LabError as error:
            done = ", ".join(self.done)
            raise type(error)(f"WEFT_SEED={seed}, after {len(self.done)} steps ({done}): {error}")

    # ---- what follows ---------------------------------------------------

    def group(self, part):
        """All that can talk to a part, itself included."""
        found = [part]
        for at in found:
            for ends in self.cables:
                if self.cut.intersection(ends):
                    continue
                names = [end.partition(":")[0] for end in ends]
                if at in names and not self.out.intersection(names):
                    found += [name for name in names if name not in found]
        return set(found)

    # ---- what there is --------------------------------------------------

    def look(self, name):
        """What a host's driver says: of the manager, and of its links by the peer's hardware id."""
        manager, links = {}, {}
        for line in self.lab[name].out(LOOK).splitlines():
            folder, file, value = re.fullmatch(r"([^/]+)/(\w+):(.*)", line).groups()
            value = int(value, 0) if re.fullmatch(r"0x\w+|\d+", value) else value
            (manager if folder == "manager" else links.setdefault(folder, {}))[file] = value
        known = {}
        for folder, link in links.items():
            if link.get("peer_hwid"):
                known[link["peer_hwid"]] = link | {"number": int(folder.removeprefix("link"))}
        return manager, known

    def link(self, name, peer):
        """Number of a host's link to another."""
        return self.look(name)[1][self.hwids[peer]]["number"]

    def _misfit(self, name):
        """What is not as it has to be at a host, if something is not."""
        manager, links = self.look(name)
        group = self.group(name)
        hosts = {self.hwids[n] for n in group if n in self.hwids}
        want = {
            "role": "master" if min(hosts) == self.hwids[name] else "standby",
            "master": min(hosts), "nodes": len(group), "routes": len(group) - 1,
        }  # fmt: skip
        ready = {hwid for hwid, link in links.items() if link["state"] == "ready"}
        have = {file: manager[file] for file in want}
        if have != want or (len(group) > 1 and not manager["lid"]):
            return f"{name}: {manager}, not {want}"
        if ready != hosts - {self.hwids[name]}:
            return f"{name}: ready with {ready}, not with {hosts - {self.hwids[name]}}"
        return None

    def meet(self, names):
        """Has hosts connect to all that they can reach: links over routes lead there then, and stay."""

        def others(name):
            return {self.hwids[n] for n in self.group(name) if n in self.hwids} - {self.hwids[name]}

        steps.meet({self.lab[name]: others(name) for name in names})

    def settle(self, timeout=60, but=()):
        """Until every host knows its group and is ready with all hosts of it, but for some that have no
        driver now."""
        deadline = time.monotonic() + timeout * kernel.patience()
        waiting = [name for name in self.hwids if name not in but]
        everyone = waiting
        self.meet(everyone)
        while waiting:
            misfits = {name: self._misfit(name) for name in waiting}
            waiting = [name for name, misfit in misfits.items() if misfit]
            if waiting:
                # A link has two ends: of one that is missing the other may be at any host.
                self.meet(everyone)
                time.sleep(0.1)
            if waiting and time.monotonic() > deadline:
                raise Mismatch(f"not within {timeout} s: {[misfits[name] for name in waiting]}")

    def looks(self):
        """What each host's driver says. A look is a second of a guest that has much to do."""
        return {name: self.look(name) for name in self.hwids}

    def lids(self, looks=None):
        """Local ids of all that is plugged in, by name."""
        found = {name: manager["lid"] for name, (manager, _) in (looks or self.looks()).items()}
        found |= {name: self.fabric.tables(name)["lid"] for name in self.switches}
        for node in self.fabric.status()["nodes"]:
            if node["endpoint"]:
                found[node["name"]] = node["endpoint"]["lid"]
        return {name: lid for name, lid in found.items() if name not in self.out and lid}

    def ways(self, lids):
        """The ends by which traffic from host to host leaves nodes."""
        found = {}
        hosts = set(self.hwids) - self.out
        for source in hosts:
            for target in hosts & self.group(source) - {source}:
                walk = self.fabric.walk(source, lids[target])
                if walk["at"] != target:
                    raise Mismatch(f"{source} to {target}, LID {lids[target]}: {walk}")
                found[source, target] = tuple(hop["from"] for hop in walk["hops"])
        return found

    def sessions(self, looks=None):
        """What each host says of the life of its links that are ready."""
        found = {}
        names = {hwid: name for name, hwid in self.hwids.items()}
        for name, (_, links) in (looks or self.looks()).items():
            for hwid, link in links.items():
                if link["state"] == "ready":
                    life = (link["trained"], link["readied"], link["ended"])
                    found[name, names[hwid]] = life
        return found

    def tables(self):
        """All tables, by names in place of local ids, and without the numbers of hierarchies and planes."""
        lids = self.lids()
        names = {lid: name for name, lid in lids.items()}
        found = {"ways": self.ways(lids)}
        for node in [*self.hwids, *self.switches]:
            table = self.fabric.tables(node)
            routes = [
                (names.get(lid, f"LID {lid}"), r["port"], bool(r["vp"]), r["own"], r["from_links"])
                for r in table["routes"] for lid in range(r["first"], r["last"] + 1)
            ]  # fmt: skip
            found[node] = sorted(routes)
        places = {}
        for switch in self.switches:
            for plane in self.fabric.tables(switch)["vps"]:
                common = plane["vh"] == COMMON_VH
                where = (switch, plane["port"], plane["vp"] if common else None)
                places.setdefault(plane["vh"], set()).add(where)
        found["hierarchies"] = sorted(sorted(map(str, each)) for each in places.values())
        bases = sharing.bases(self.lab).items()
        found["bases"] = {end: names.get(root) for end, (_, root) in bases}
        for name in self.hwids:
            found[f"hierarchy of {name}"] = sharing.tree(self.lab, self.lab[name])
        return found


class Moment:
    """What has to outlast a change: local ids, and the sessions of links whose way is the same."""

    def __init__(self, plant):
        looks = plant.looks()
        self.lids = plant.lids(looks)
        self.ways = plant.ways(self.lids)
        self.sessions = plant.sessions(looks)

    def outlasts(self, before):
        """Compares with the moment before a change."""
        for name in before.lids.keys() & self.lids.keys():
            lid = before.lids[name]
            # Of two that were given one id in groups of their own, one keeps it.
            twin = any(lid == other for n, other in before.lids.items() if n != name)
            if self.lids[name] != lid and not twin:
                raise Mismatch(f"{name} had LID {lid}: {before.lids}, and now {self.lids}")
        for pair, way in before.ways.items():
            back = self.ways.get(pair[::-1])
            same = self.ways.get(pair) == way and back == before.ways[pair[::-1]]
            if same and self.sessions[pair] != before.sessions[pair]:
                raise Mismatch(f"{pair}, by {way}: trained, readied, ended were {before.sessions[pair]}, "
                               f"and are {self.sessions[pair]}")  # fmt: skip
