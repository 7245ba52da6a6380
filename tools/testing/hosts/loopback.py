# SPDX-License-Identifier: GPL-2.0
"""Programs of one host reach each other by the host's own hardware id: over links of the port to itself."""

import contextlib
import signal
import time

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import live, steps
from .migration import SYSFS, moving

LAB = "pair"
DEVICE = "/sys/class/weft/weft0/device"


def own(host):
    return host.out(f"cat {DEVICE}/hwid")


@contextlib.contextmanager
def serving(host):
    job = host.start_job("exec weftctl ping --serve")
    try:
        job.expect("listening", 30)
        yield job
    finally:
        if job.running:
            job.kill(signal.SIGTERM)
            job.wait(20)


def itself(host, count=20):
    with serving(host):
        host.weftctl("ping", "--to", own(host), "--count", count)


def loops(host):
    """The links of the port to itself: number, state, peer."""
    (port,) = host.weftctl_json("show")["ports"]
    links = [link for link in port["links"] if link["role"] == "loopback"]
    return [(link["link"], link["state"], int(link["peer_hwid"], 16)) for link in links]


@test("programs of one host reach each other by its own hardware id; what asks for no host gets another one", core=True)
def by_its_own_id(bench):
    lab = bench.pair()
    host, other = lab["h1"], lab["h2"]
    itself(host)
    found = loops(host)
    if [link[1:] for link in found] != [("ready", int(own(host), 16))] * 2:
        raise Mismatch(f"{found}")
    for number, _, _ in found:
        role = host.out(f"cat {DEVICE}/link{number}/role")
        if role != "loopback":
            raise Mismatch(f"link {number} is said to be {role}")
    # Two links are ready to this host, and one to the other.
    with serving(host), serving(other):
        said = host.weftctl_json("ping", "--count", 3)
        if int(said["peer"], 16) != int(own(other), 16):
            raise Mismatch(f"a program that names no host got {said}")
    (port,) = host.weftctl_json("list")["ports"]
    if port["ready"] != 1:
        raise Mismatch(f"links to hosts: {port}")
    host.weftctl("diagnose")
    host.weftctl("wait", "--timeout", 10)


@test("a file travels from a program to another one of the same host")
def a_file(bench):
    host = bench.pair()["h1"]
    path, here = steps.payload(host, "to-itself", 3 << 20, 7)
    host.run("rm -rf /tmp/inbox && mkdir /tmp/inbox")
    job = host.start_job("exec weftctl recv --once /tmp/inbox")
    job.expect("listening", 30)
    host.run(f"weftctl send --to {own(host)} {path}", 120)
    job.wait(60)
    if host.out("sha256sum </tmp/inbox/to-itself").split()[0] != steps.digest(here):
        raise Mismatch("it arrived as another one")


@test("no other host is there, and programs of this one reach each other")
def without_a_peer(bench):
    lab = bench.pair()
    lab["h2"].rmmod()
    lab["h1"].wait_link("down", 60)
    itself(lab["h1"])
    if lab["h1"].weftctl("wait", "--timeout", "0", status=None).status == 0:
        raise Mismatch("weftctl wait takes the port's links to itself for those to a host")
    lab["h2"].insmod()
    lab["h1"].wait_link("ready", 60)


@test("the function is reset, and unbound, while programs of one host have a channel: they learn of it, and go on")
def taken_away(bench):
    host = bench.pair()["h1"]
    itself(host, 3)
    address = host.out(f"basename $(readlink -f {DEVICE})")
    ways = (
        f"echo 1 >{SYSFS}/{address}/reset",
        f"cd /sys/bus/pci/drivers/weft && echo {address} >unbind && echo {address} >bind",
    )
    for way in ways:
        with serving(host) as server:
            job = host.start_job(f"exec weftctl ping --to {own(host)} --count 100000 --interval 0.01")
            host.until(f"[ $(cat {DEVICE}/link*/channels | grep -c 1) -ge 2 ]", 30)
            host.run(way, 60)
            done = job.wait(60)
            if not done.status:
                raise Mismatch(f"{way}: {done.out}")
            if server.running:
                server.kill(signal.SIGTERM)
                server.wait(20)
        host.wait_link("ready", 60)
        itself(host)


@test("over ivshmem-doorbell programs of one host reach each other likewise", lab="ivshmem")
def ivshmem(bench):
    itself(bench.ivshmem()["h1"])


@test("MR-8, MIG-2: a VF is reset, and moves live, while two programs of its host have a queue pair over it: not one "
      "completion is lost, repeated or out of order", lab="twins", patient=True)
def outlasting(bench):
    with moving(bench) as (lab, a, _):
        host, hwid, node = lab["h1"], a[0].hwid(0), a[0].node(0)
        for way in ("reset", "move"):
            with live.keeping(host, f"{hwid}:self", host, node) as work:
                for at in (0, 1):
                    time.sleep(0.5)
                    if way == "reset":
                        host.run(f"echo 1 >{SYSFS}/{a[0].vf(0)}/reset", 60)
                    else:
                        live.moved(host, 0, at, 1 - at)
                    host.wait_link("ready", 60, port=node)
                time.sleep(0.5)
                counts, pauses = work.whole()
            bench.note(f"{way}: {counts}, pauses {pauses} ms")
