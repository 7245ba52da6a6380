# SPDX-License-Identifier: GPL-2.0
"""Topologies for weft-fabric: which ports there are and how they are cabled."""


class Topology:
    def __init__(self):
        self.hosts = []
        self.links = []

    def host(self, name, hwid):
        self.hosts.append((name, hwid))
        return self

    def link(self, a, b, speed=4, width=8):
        """Ends are NODE:PORT; the first is the root complex side."""
        self.links.append((a, b, speed, width))
        return self

    def links_of(self, name):
        """Numbers of a host's links that have a cable."""
        ends = [end.rpartition(":") for link in self.links for end in link[:2]]
        return sorted(int(number) for node, _, number in ends if node == name)

    def toml(self):
        lines = []
        for name, hwid in self.hosts:
            lines += ["[[host]]", f'name = "{name}"', f"hwid = {hwid}", ""]
        for a, b, speed, width in self.links:
            lines += [
                "[[link]]",
                f'ends = ["{a}", "{b}"]',
                f"speed = {speed}",
                f"width = {width}",
                "",
            ]
        return "\n".join(lines)


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
