# SPDX-License-Identifier: GPL-2.0
"""Machines without a fabric, fabrics without sense."""

import re
import signal
import subprocess

from weftlab import lab as labs
from weftlab import paths, topology
from weftlab.errors import CommandTimeout, Mismatch
from weftlab.guest import Port
from weftlab.host import Host
from weftlab.suite import test

from . import steps

LAB = "own"
WRONG = {
    "an unknown host": ('[[host]]\nname = "a"\n[[link]]\nends = ["a:0", "b:0"]\n', "wrong.toml:3: "),
    "a link of one end": ('[[host]]\nname = "a"\n[[link]]\nends = ["a:0"]\n', "two"),
    "a name given twice": ('[[host]]\nname = "a"\n[[host]]\nname = "a"\n', "taken"),
    "a speed of no generation": (
        '[[host]]\nname = "a"\n[[host]]\nname = "b"\n[[link]]\nends = ["a:0", "b:0"]\nspeed = 9\n',
        "generation",
    ),
    "no TOML at all": ("hosts?\n", "wrong.toml:1: "),
}


@test("a wrong topology is refused with the line and what to do", closely=False)
def wrong_topology(bench):
    folder = labs.run_folder("topology")
    for what, (text, word) in WRONG.items():
        file = folder / "wrong.toml"
        file.write_text(text)
        done = subprocess.run(
            [paths.tool("weft-fabric"), "run", file, "--dir", folder / "d"],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        if not done.returncode:
            raise Mismatch(f"{what}: was taken")
        if word not in done.stderr or "wrong.toml" not in done.stderr or "panicked" in done.stderr:
            raise Mismatch(f"{what}: {done.stderr}")


@test("a port without a fabric: the driver loads, the link is down, weftctl says why; one comes")
def no_fabric(bench):
    bench.close()
    with labs.Lab("alone", bench.say) as lab:
        # The daemon's socket is not there yet when the machine starts.
        port = Port("h1", "weft-port", fabric=lab.sockets / "port.sock", node="h1")
        without = Port("bare", "weft-port")
        host = Host("h1", lab.folder / "h1", [port, without])
        host.dir.mkdir()
        lab.hosts["h1"] = host
        lab.boot()
        host.insmod()
        result = host.run("weftctl wait --timeout 1", 60, None)
        steps.refused(result, 5, "link")
        if "down" not in host.out("weftctl show"):
            raise Mismatch("weftctl show does not say that the link is down")
        for n in range(2):
            host.run(f"test -e /dev/weft{n}")
        steps.refused(host.run("weftctl send --timeout 1 /etc/hostname", 60, None), 5, "link")
        host.rmmod()
        host.insmod()
        # The fabric comes at last, and with it a peer.
        lab.join(topology.chain(2))
        lab.add("h2")
        lab.boot()
        lab["h2"].insmod()
        lab["h2"].wait_links()
        host.wait_link("ready")


@test("a port that claims to be another host is refused, and its machine runs on")
def name_taken(bench):
    bench.close()
    with labs.Lab("taken", bench.say) as lab:
        lab.join(topology.chain(2))
        host = lab.add("h1")
        host.ports.append(Port("again", "weft-port", fabric=lab.fabric.port_socket, node="h1"))
        lab.boot()
        host.insmod()
        states = host.out("cat /sys/class/weft/weft*/device/link0/state").split()
        if "ready" in states:
            raise Mismatch(f"a link is ready without a peer: {states}")
        nodes = {n["name"]: n["connected"] for n in lab.fabric.status()["nodes"]}
        if nodes != {"h1": True, "h2": False}:
            raise Mismatch(f"connected: {nodes}")


@test("a machine that is stuck tells what its programs wait for", closely=False)
def stuck(bench):
    bench.close()
    with labs.Lab("stuck", bench.say) as lab:
        host = Host("h1", lab.folder / "h1", [])
        host.dir.mkdir()
        lab.hosts["h1"] = host
        lab.boot()
        try:
            host.run("mkfifo /run/fifo && exec cat /run/fifo", 2)
        except CommandTimeout as error:
            said = str(error)
        else:
            raise Mismatch("a command that did not end has ended")
        if not re.search(r"^cat \d+ \(of \d+\) S: .*fifo_open", said, re.M):
            raise Mismatch(f"what it waits for is not in the report:\n{said}")
        shares = sum("virtio-9p-pci" in str(arg) for arg in host.args)
        if said.count(": 0 requests not taken, 0 not answered") != shares:
            raise Mismatch(f"how far the queues of its shares are is not in the report:\n{said}")
        # That was asked for: the kernel has nothing to complain of.
        host.check_dmesg()


@test("a command that is killed has ended when the last of its processes has", closely=False)
def killed(bench):
    bench.close()
    with labs.Lab("killed", bench.say) as lab:
        host = Host("h1", lab.folder / "h1", [])
        host.dir.mkdir()
        lab.hosts["h1"] = host
        lab.boot()
        for number in (signal.SIGKILL, signal.SIGTERM):
            # The shell is the first of them to go.
            job = host.start_job("for n in $(seq 100); do sleep 1000 & done; echo ready; wait")
            job.expect("^ready", 60)
            job.kill(number)
            if job.wait(60).status != 128 + number:
                raise Mismatch(f"signal {number}: the command ended with {job.status}")
            left = host.out("cat /proc/[0-9]*/comm 2>/dev/null || true").split().count("sleep")
            if left:
                raise Mismatch(f"signal {number}: {left} of 100 processes are there yet")
