# SPDX-License-Identifier: GPL-2.0
"""Topologies for weft-fabric: which ports there are and how they are cabled."""


import tomllib


class Topology:
    def __init__(self):
        self.hosts = []
        self.switches = []
        self.endpoints = []
        self.links = []
        # Who may program switches; by default all.
        self.managers = None
        # What the fabric says of hardware ids is true.
        self.attests = True

    def host(self, name, hwid):
        self.hosts.append((name, hwid))
        return self

    def switch(self, name, ports):
        """One that routes."""
        self.switches.append((name, ports))
        return self

    def endpoint(self, name, ves):
        """One that hosts share: so many virtual endpoints."""
        self.endpoints.append((name, ves))
        return self

    def link(self, a, b, speed=4, width=8):
        """Ends are NODE:PORT; the first is the root complex side."""
        self.links.append((a, b, speed, width))
        return self

    def links_of(self, name):
        """Numbers of a host's links that have a cable to another host."""
        hosts = [host for host, _ in self.hosts]
        pairs = [[end.rpartition(":") for end in link[:2]] for link in self.links]
        ways = [(a, b) for pair in pairs for a, b in (pair, pair[::-1])]
        found = [int(a[2]) for a, b in ways if a[0] == name and b[0] in hosts]
        return sorted(found)

    def toml(self):
        lines = []
        if self.managers is not None:
            lines += [f"managers = {self.managers!r}".replace("'", '"'), ""]
        if not self.attests:
            lines += ["attests = false", ""]
        for name, hwid in self.hosts:
            lines += ["[[host]]", f'name = "{name}"', f"hwid = {hwid}", ""]
        for name, ports in self.switches:
            lines += ["[[switch]]", f'name = "{name}"', f"ports = {ports}", "routes = true", ""]
        for name, ves in self.endpoints:
            lines += ["[[endpoint]]", f'name = "{name}"', 'kind = "copy"', f"ves = {ves}", ""]
        for a, b, speed, width in self.links:
            lines += [
                "[[link]]",
                f'ends = ["{a}", "{b}"]',
                f"speed = {speed}",
                f"width = {width}",
                "",
            ]
        return "\n".join(lines)


class Written(Topology):
    """A topology that another author has written, as weft-fabric reads it."""

    def __init__(self, text):
        super().__init__()
        self._text = text
        read = tomllib.loads(text)
        self.hosts = [(host["name"], host.get("hwid")) for host in read.get("host", [])]
        self.switches = [(switch["name"], switch["ports"]) for switch in read.get("switch", [])]
        self.endpoints = [(each["name"], each["ves"]) for each in read.get("endpoint", [])]
        kinds = [read.get(kind, []) for kind in ("host", "switch", "endpoint")]
        gone = [each["name"] for kind in kinds for each in kind if not each.get("plugged", True)]
        for link in read.get("link", []):
            nodes = [end.rpartition(":")[0] for end in link["ends"]]
            # Nothing waits for the others.
            if link.get("state", "up") == "up" and not set(nodes) & set(gone):
                self.link(*link["ends"])

    def toml(self):
        return self._text


def chain(count, prefix="h", base=1, close=False):
    """h1 - h2 - … ; with `close` the last is joined to the first (3 hosts or more)."""
    topology = Topology()
    for number in range(1, count + 1):
        topology.host(f"{prefix}{number}", base + number - 1)
    for number in range(1, count):
        # Link 0 leads on, link 1 leads back; an end of a chain has link 0 only.
        back = 0 if number + 1 == count and not close else 1
        topology.link(f"{prefix}{number}:0", f"{prefix}{number + 1}:{back}")
    if close and count > 2:
        topology.link(f"{prefix}{count}:0", f"{prefix}1:1")
    return topology


def switched(count):
    """h1 and h2 at s1, h3 and h4 at s2, …; the switches in a row."""
    topology = Topology()
    for number in range(1, count + 1):
        topology.host(f"h{number}", number)
    switches = (count + 1) // 2
    for number in range(1, switches + 1):
        topology.switch(f"s{number}", 4)
    for number in range(count):
        topology.link(f"h{number + 1}:0", f"s{number // 2 + 1}:{number % 2}")
    for number in range(1, switches):
        topology.link(f"s{number}:3", f"s{number + 1}:2", speed=5, width=16)
    return topology
