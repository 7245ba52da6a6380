# SPDX-License-Identifier: GPL-2.0
"""The port against the real weft-fabric: both sides of the contract at once."""

import json
import os
import subprocess

import regs as R
from port import MEMORY, PAGE, host
from tap import Skip, equal, until

TOPOLOGY = """
[[host]]
name = "h1"
hwid = 10
[[host]]
name = "h2"
hwid = 11
[[link]]
ends = ["h1:0", "h2:1"]
"""
LIVE = R.SLOT_LIVE | R.SLOT_DIRECT


class Daemon:
    """A weft-fabric process and its command line."""

    def __init__(self, scope, topology=TOPOLOGY):
        self.binary = os.environ["WEFT_FABRIC"]
        if not os.access(self.binary, os.X_OK):
            raise Skip(f"no {self.binary}: build tools/fabric, or set WEFT_FABRIC")
        self.dir = os.path.join(scope.dir, "fabric")
        self.topology = os.path.join(scope.dir, "topology.toml")
        with open(self.topology, "w", encoding="ascii") as file:
            file.write(topology)
        self.port = os.path.join(self.dir, "port.sock")
        self.log = scope.enter_context(open(os.path.join(scope.dir, "fabric.log"), "wb"))
        self.process = None
        scope.callback(self.kill)
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.binary, "--dir", self.dir, "run", self.topology],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until(lambda: self.command("status", check=False), "the daemon to answer")

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def command(self, *words, check=True):
        done = subprocess.run([self.binary, "--dir", self.dir, "--json", *words],
                              capture_output=True, text=True, timeout=30)
        if done.returncode:
            assert not check, f"{words}: {done.stderr}"
            return None
        return json.loads(done.stdout) if done.stdout else {}


def joined(scope):
    """A daemon, and two hosts whose link is up; h2's memory is open to h1."""
    daemon = Daemon(scope)
    a, b = host(scope, "h1", fabric=daemon.port), host(scope, "h2", fabric=daemon.port)
    for port in a, b:
        join(port)
    until(lambda: a.link_up(0) and b.link_up(1), "the link to come up")
    open_up(a, b)
    return daemon, a, b


def join(port):
    until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
    port.write(R.R_CTRL, R.CTRL_ENABLE)


def open_up(a, b):
    b.set_inbound(0, 0, 4 * PAGE, MEMORY, allow=1 << 1)
    a.set_slot(0, R.DEST_LINK, 0, 4 * PAGE)
    until(lambda: not b.inbound_status(0) & R.INBOUND_BUSY, "the aperture to be open")
    equal(a.slot_status(0), LIVE, "slot")


def check_store(a, b, value):
    a.qemu.write(a.slot(0, 8), 8, value)
    equal(b.qemu.read(MEMORY + 8, 8), value, "memory of the peer")


def test_everything(scope):
    """windows, doorbells, messages, links and refusals through the daemon"""
    _, a, b = joined(scope)
    equal((a.read64(R.R_HWID), b.read64(R.R_HWID)), (10, 11), "hardware ids")
    equal((a.link(0) & R.LINK_ROLE_EP, b.link(1) & R.LINK_ROLE_EP), (0, R.LINK_ROLE_EP), "roles")
    check_store(a, b, 0xfab)
    b.write(R.R_DB_ALLOW + 4, 1 << 9)
    a.set_page(0, R.DEST_LINK, 0xffffffff)
    a.ring(0, 9)
    until(lambda: b.read(R.R_DB_PENDING) == 1 << 9, "the doorbell")
    a.send(0, b"hello")
    until(lambda: b.read(R.R_EVENT) & R.EVENT_MBOX, "the message")
    equal(b.receive(), (1, b"hello"), "message")
    a.qemu.write(a.slot(0, 4 * PAGE), 4, 0)
    until(lambda: b.counter(R.CNT_IN_DENIED) == 1, "the owner to be told of a refusal")
    b.close_inbound(0)
    until(lambda: not b.inbound_status(0), "the withdrawal")
    equal(a.slot_status(0), R.SLOT_LOST, "slot after it, of which a store was refused")


def test_link_commands(scope):
    """links follow the command line, and LINK_CTRL"""
    daemon, a, b = joined(scope)
    daemon.command("link", "down", "h2:1")
    until(lambda: not a.link_up(0) and not b.link_up(1), "the link to go down")
    equal(a.qemu.read(a.slot(0), 8), (1 << 64) - 1, "read with the link down")
    daemon.command("link", "up", "h1:0")
    until(lambda: a.slot_status(0) == LIVE, "the slot to live again")
    check_store(a, b, 1)
    a.write(R.R_LINK + R.LINK_CTRL, 2 << 4 | 1 << 8)
    until(lambda: a.link(0) & (R.LINK_SPEED | R.LINK_WIDTH) == 2 << 4 | 1 << 8, "the rate to change")
    b.write(R.R_LINK + R.LINK_STRIDE + R.LINK_CTRL, R.LINK_DISABLE)
    until(lambda: not a.link_up(0), "the link to go down")
    b.write(R.R_LINK + R.LINK_STRIDE + R.LINK_CTRL, 0)
    until(lambda: a.slot_status(0) == LIVE, "the slot to live again")


def test_trace_and_counters(scope):
    """the command line traces a port and reads what it counted"""
    daemon, a, b = joined(scope)
    daemon.command("trace", "h1", "on")
    until(lambda: a.read(R.R_STATUS) & R.STATUS_TRACED, "traced mode")
    a.write(R.R_COUNTERS_CLEAR, 0)
    a.qemu.write_bytes(a.slot(0, wc=True), bytes(256))
    counters = daemon.command("counters", "h1", "--clear")["counters"]
    equal((counters["tx_mwr"], counters["tx_mwr_bytes"]), (4, 256), "TLPs")
    equal(a.counter(R.CNT_TX_MWR), 0, "TLPs afterwards")


def test_daemon_killed(scope):
    """the daemon is killed and returns: no port hangs, ports rejoin under later generations"""
    daemon, a, b = joined(scope)
    before = [port.read(R.R_GENERATION) for port in (a, b)]
    daemon.kill()
    until(lambda: not a.link_up(0) and not b.link_up(1), "the links to go down")
    b.close_inbound(0)
    until(lambda: not b.inbound_status(0), "the withdrawal without a daemon")
    daemon.start()
    until(lambda: a.link_up(0) and b.link_up(1), "the link to come up")
    after = [port.read(R.R_GENERATION) for port in (a, b)]
    assert min(after) > max(before), f"generations {before}, then {after}"
    open_up(a, b)
    check_store(a, b, 2)


def test_peer_killed(scope):
    """a host is killed and returns under a new generation"""
    daemon, a, b = joined(scope)
    before = b.read(R.R_GENERATION)
    b.qemu.kill()
    a.qemu.write_bytes(a.slot(0), bytes(4 * PAGE))
    until(lambda: not a.link_up(0), "the link to go down")
    again = host(scope, "h2-again", node="h2", fabric=daemon.port)
    join(again)
    until(lambda: a.link_up(0) and again.link_up(1), "the link to come up")
    assert again.read(R.R_GENERATION) > before, "generation"
    open_up(a, again)
    check_store(a, again, 3)


def test_reset(scope):
    """a reset of a port gives it a new generation, and nothing of before is open"""
    _, a, b = joined(scope)
    before = b.read(R.R_GENERATION)
    b.write(R.R_CTRL, R.CTRL_RESET)
    until(lambda: not a.link_up(0), "the peer to see the link down")
    until(lambda: b.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
    assert b.read(R.R_GENERATION) > before, "generation"
    b.write(R.R_CTRL, R.CTRL_ENABLE)
    until(lambda: a.link_up(0), "the link to come up")
    equal(a.slot_status(0), 0, "slot of the peer")


def test_stopped_peer(scope):
    """a peer that does not answer keeps a withdrawal BUSY"""
    _, a, b = joined(scope)
    a.qemu.stop()
    b.close_inbound(0)
    equal(b.inbound_status(0), R.INBOUND_BUSY, "entry while the peer is stopped")
    a.qemu.stop(False)
    until(lambda: not b.inbound_status(0), "the withdrawal")
    b.qemu.write(MEMORY + 8, 8, 0)
    a.qemu.write(a.slot(0, 8), 8, 0xbad)
    equal(b.qemu.read(MEMORY + 8, 8), 0, "memory after it")
