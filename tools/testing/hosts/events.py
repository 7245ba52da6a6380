# SPDX-License-Identifier: GPL-2.0
"""`weftctl ports`, `events` and `tree --svg`: what is there, and what happens, as it happens."""

import json
import re
import signal
import time
from xml.etree import ElementTree

from weftlab import kernel
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import false_master, far, fabric, steps
from .programs import running

LAB = "pair"
CLOSELY = False
DEVICE = "$(basename $(readlink -f /sys/class/weft/weft0/device))"
UNPRIVILEGED = "setpriv --reuid=65534 --regid=65534 --clear-groups "


class Events:
    """`weftctl events` in the background, and what it has said so far."""

    def __init__(self, host, *words):
        self.job = host.start_job(f"exec weftctl --json events {' '.join(words)}")
        self.found = []

    def ready(self, link=0):
        """Until it has said what there is."""
        self.job.expect(f'"link":{link},"event":"seen"', 30)
        return self

    def end(self, status=0):
        result = self.job.wait(60)
        if result.status != status:
            raise Mismatch(f"events ended with {result.status}: {result.err}")
        self.found = [json.loads(line) for line in result.out.splitlines()]
        return self.found

    def has(self, **wanted):
        """The place of an event with these members."""
        for place, event in enumerate(self.found):
            if all(event.get(name) == value for name, value in wanted.items()):
                return place
        raise Mismatch(f"{wanted} is not among {self.found}")


@test("N-1: ports shows each link with what it could do, and counts what ports do")
def ports(bench):
    lab = bench.pair()
    with steps.at_the_most(lab):
        shows_ports(lab)


def shows_ports(lab):
    h1, h2 = lab["h1"], lab["h2"]
    lab.fabric.call("link", "set", "h1:0", "--speed", 3, "--width", 2)
    h1.until("[ $(cat /sys/class/weft/weft0/device/link0/width) = 2 ]")
    (port,) = h1.weftctl_json("ports")["ports"]
    (other,) = h2.weftctl_json("ports", "--cabled")["ports"]
    lab.fabric.call("link", "set", "h1:0", "--speed", 4, "--width", 8)
    link, spare = port["links"][0], port["links"][1]
    have = [link[name] for name in ("state", "speed", "width", "max_speed", "max_width", "peer_hwid")]
    if have != ["ready", 3, 2, 4, 8, other["hwid"]]:
        raise Mismatch(f"link 0: {link}")
    if {link["role"], other["links"][0]["role"]} != {"root", "endpoint"}:
        raise Mismatch(f"the roles: {link}, {other}")
    if spare["cable"] or spare["state"] != "down" or len(other["links"]) != 1:
        raise Mismatch(f"links without a cable: {port}, {other}")
    # A user without rights sees the same, and what has been counted meanwhile.
    server = h2.start_job("weftctl ping --serve --once")
    server.expect("listening on")
    h1.run("weftctl ping --count 5")
    server.wait(20)
    h1.run("cp $(command -v weftctl) /tmp/weftctl; chmod 755 /tmp/weftctl")
    later = json.loads(h1.out(f"{UNPRIVILEGED}/tmp/weftctl --json ports"))["ports"][0]
    for name in ("tx_messages", "rx_messages", "tx_doorbells", "interrupts"):
        if later["counters"][name] <= port["counters"][name]:
            raise Mismatch(f"{name} did not grow: {port['counters']}, {later['counters']}")
    with running(h1, "weftctl ports --watch 0.5 >/tmp/watched"):
        h1.until("[ $(grep -c 'sent/received a second:' /tmp/watched) -ge 2 ]", 60)
    if "gen4 x8  gen4 x8" not in (shown := h1.out("cat /tmp/watched")):
        raise Mismatch(f"watched: {shown}")


@test("N-1: events tells of a link that goes down and comes back, by epoll, and sleeps in between")
def link(bench):
    lab = bench.pair()
    with steps.at_the_most(lab):
        tells_of_a_link(lab)


def tells_of_a_link(lab):
    host = lab["h1"]
    # A program that waits for nothing is told what there is, and for how long to wait.
    quiet = Events(host, "--timeout", "0.2").end()
    if [event["event"] for event in quiet] != ["seen"] * len(quiet) or len(quiet) < 2:
        raise Mismatch(f"at the beginning: {quiet}")
    few = Events(host, "--timeout", "0.2", "--count", "1")
    few.end(status=1)

    events = Events(host, "--port", "0", "--timeout", "60").ready(3)
    switches = "grep ^voluntary_ctxt_switches /proc/$(pidof -s weftctl)/status"
    before = host.out(switches)
    host.run("sleep 2")
    if host.out(switches) != before:
        raise Mismatch("it woke up although nothing happened")
    lab.fabric.link("down", "h1:0")
    host.wait_link("down")
    events.job.expect('"attribute":"state","old":"ready","new":"down"', 30)
    lab.fabric.link("up", "h1:0")
    host.wait_link("ready")
    # What is so for a moment only, as hello, may not be seen.
    events.job.expect('"attribute":"state".*"new":"ready"', 30)
    events.job.kill()
    events.end()
    down = events.has(link=0, attribute="state", old="ready", new="down")
    up = events.has(link=0, attribute="state", new="ready")
    if not events.has(port="weft0", link=0, event="seen") < down < up:
        raise Mismatch(f"the order: {events.found}")
    events.has(link=0, attribute="speed", old="4", new="0")
    if any(event.get("link") == 1 for event in events.found[down:]):
        raise Mismatch(f"of a link to which nothing happened: {events.found}")


@test("events begins before there is a module, and tells of ports that come, go and come back")
def come_and_go(bench):
    lab = bench.pair()
    host = lab["h1"]
    host.rmmod()
    events = Events(host, "--timeout", "120")
    # It says nothing while there is nothing; its socket tells that it listens.
    host.until("grep -q \" $(pidof -s weftctl) \" /proc/net/netlink")
    host.insmod()
    host.wait_link("ready")
    # By the time it looks the link may be ready.
    events.job.expect('"state":"ready"|"new":"ready"', 30)
    device = host.out(f"echo {DEVICE}")
    driver = "/sys/bus/pci/drivers/weft"
    host.run(f"echo {device} >{driver}/unbind")
    events.job.expect('"event":"gone"', 30)
    host.run(f"echo {device} >{driver}/bind")
    host.wait_link("ready")
    host.rmmod()
    host.until("[ ! -e /sys/module/weft ]")
    events.job.expect('"object":"weft.ko","event":"kernel","action":"remove"', 30)
    events.job.kill()
    found = events.end()
    events.has(object="weft.ko", event="kernel", action="add")
    order = [
        events.has(port="weft0", event="kernel", action="add"),
        events.has(port="weft0", link=0, event="seen"),
        events.has(object=device, event="kernel", action="unbind"),
    ]
    if order != sorted(order):
        raise Mismatch(f"the order {order}: {found}")
    for kind, least in (("seen", 2), ("gone", 2)):
        times = sum(event["event"] == kind and event["object"] == "weft0" for event in found)
        if times != least:
            raise Mismatch(f"weft0 was {kind} {times} times, not {least}: {found}")
    host.insmod()
    host.wait_links()


@test("N-1, N-6: events tells of role, local ids, routes, and of links that routes make and take away", lab="two apart")
def manager(bench):
    lab = steps.two_apart(bench)
    far.met(lab, "h1", "h2")
    h1, h2 = lab["h1"], lab["h2"]
    h2.rmmod()
    h1.until("! test -e /sys/class/weft/weft0/device/link4")
    events = Events(h1, "--timeout", "120").ready()
    h2.insmod()
    far.met(lab, "h1", "h2")
    events.job.expect('"link":4,"event":"seen"', 30)
    events.job.expect('"link":4.*"state":.*"ready"|"link":4.*"new":"ready"', 30)
    h2.rmmod()
    events.job.expect('"link":4,"event":"gone"', 30)
    events.job.kill()
    found = events.end()
    first = found[events.has(port="weft0", event="seen")]["state"]
    if first["role"] != "master" or not int(first["lid"]):
        raise Mismatch(f"at first: {first}")
    at_switch = found[events.has(link=0, event="seen")]["state"]
    if at_switch["state"] != "switch":
        raise Mismatch(f"the link to the switch: {at_switch}")
    grew = events.has(object="weft0", attribute="nodes", old="3", new="4")
    if not grew < events.has(object="weft0", attribute="nodes", old="4", new="3"):
        raise Mismatch(f"the order: {found}")
    h2.insmod()
    far.met(lab, "h1", "h2")


@test("N-3, N-5: tree draws the fabric: nodes with their ids, links with speed and width", lab="two apart")
def picture(bench):
    lab = steps.two_apart(bench)
    far.met(lab, "h1", "h2")
    with steps.at_the_most(lab):
        draws(lab["h1"])


def draws(host):
    host.weftctl("tree", "--svg", "/mnt/run/tree.svg")
    drawn = (host.run_dir / "tree.svg").read_text()
    if host.weftctl("tree", "--svg").out != drawn or host.weftctl_json("tree", "--svg")["svg"] != drawn:
        raise Mismatch("the file and the output differ")
    space = "{http://www.w3.org/2000/svg}"
    root = ElementTree.fromstring(drawn)
    words = root.find(f"{space}desc").text
    shown = [text.text for text in root.iter(f"{space}text")]
    nodes = host.weftctl_json("tree")["nodes"]
    for node in nodes:
        # The host that draws is the master, and knows what all are called.
        name, ids = f"{node['kind']} {node['name']}", f"{node['hwid']}, LID {node['lid']}"
        if name not in shown or f"{name}: {ids}" not in words or node["name"] == node["hwid"]:
            raise Mismatch(f"{name}, {ids} is not in {shown}, or not in {words}")
    if shown.count("gen4 x8") != 3 or len(nodes) != 4 or "host h1: 0x1, LID 1, master, this host" not in words:
        raise Mismatch(f"{shown}, {words}")


# Counts uevents of the manager, and says what each has told, and when.
COUNT = """import json, socket, time
NETLINK_KOBJECT_UEVENT, SO_RCVBUFFORCE = 15, 33
events = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_KOBJECT_UEVENT)
events.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
events.bind((0, 1))
since = time.monotonic()
print("watching", flush=True)
count = 0
while True:
    words = events.recv(8192).decode().split(chr(0))
    told = dict(word.split("=", 1) for word in words if word.startswith("WEFT_"))
    if "WEFT_TERM" in told:
        count += 1
        told = [told[f"WEFT_{name}"] for name in ("ROLE", "LID", "MASTER", "TERM", "HIERARCHY")]
        print(json.dumps({"count": count, "seconds": time.monotonic() - since, "told": told}), flush=True)
"""
# So many in any second (Documentation/manager.rst).
MOST = 4
# Changes that a neighbour makes.
CHANGES = 300


@test("N-1: a neighbour that changes the state of a host's manager all the time causes a few uevents a second, and the "
      "last one tells the state that stays", lab="chain")  # fmt: skip
def storm(bench):
    lab = far.chain(bench)
    hosts = list(lab.hosts.values())
    h1, h2, _ = hosts
    fabric.settled(hosts, 1, 3)
    files = [f"{false_master.SYSFS}/manager/{name}" for name in ("role", "lid", "master", "term", "hierarchy")]
    watch = h2.start_job(f"exec python3 {h2.push('count.py', COUNT.encode())}")
    watch.expect("^watching", 30)
    before = fabric.standing(h2)["term"]
    with false_master.writing("TERMS", h1, far.ids(lab)["h2"]):
        h2.until(f"[ $(cat {files[3]}) -ge {before + CHANGES} ]", 120)
    fabric.settled(hosts, 1, 3)
    deadline = time.monotonic() + 30 * kernel.patience()
    while True:
        found = re.findall(r"^\{.*\}$", watch.out, re.M)
        last = json.loads(found[-1]) if found else None
        have = h2.out(f"cat {' '.join(files)}").split()
        if last and last["told"] == have:
            break
        if time.monotonic() > deadline:
            raise Mismatch(f"the last uevent was {last}, and the state is {have}")
        time.sleep(0.2)
    watch.kill(signal.SIGKILL)
    watch.wait(20)
    term = int(have[3]) - before
    bench.note(f"{last['count']} uevents within {last['seconds']:.1f} s, of {term} terms")
    if last["count"] > MOST * (last["seconds"] + 1):
        raise Mismatch(f"{last['count']} uevents within {last['seconds']:.1f} s")
