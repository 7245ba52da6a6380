# SPDX-License-Identifier: GPL-2.0
"""Clients in the kernel, by samples/weft_echo.c: a module that sends back what comes, and connects to another."""

import contextlib
import time

from weftlab import topology
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import false_master, far
from .far import ids

LAB = "pair"
ECHO = "/mnt/module/samples/weft_echo.ko"
SAYS = "/sys/module/weft_echo/parameters"
DEVICE = "/sys/class/weft/weft0/device"
EPIPE, ECONNRESET = 32, 104


@contextlib.contextmanager
def echo(*hosts, **parameters):
    """The module at these hosts; the last one with the parameters."""
    loaded = []
    try:
        for host in hosts:
            words = [f"{name}={value}" for name, value in parameters.items()] if host is hosts[-1] else []
            host.run(f"insmod {ECHO} {' '.join(words)}", 30)
            loaded.append(host)
        yield
    finally:
        for host in reversed(loaded):
            host.run("! [ -d /sys/module/weft_echo ] || rmmod weft_echo", 60)


def says(host):
    """How many messages came back, how many of them as others, and why it stopped."""
    return [int(word) for word in host.out(f"cd {SAYS} && cat echoed wrong error").split()]


def expect(host, condition, what, patience=60):
    """Until the module says that, as long as messages come back within `patience`; what it says then.

    No message came back as another one.
    """
    since, before = time.monotonic(), None
    while True:
        echoed, wrong, error = found = says(host)
        if echoed != before:
            since, before = time.monotonic(), echoed
        if wrong:
            raise Mismatch(f"{host.name}: {wrong} of {echoed + wrong} messages came back as others")
        if condition(echoed, error):
            return found
        if time.monotonic() - since > patience:
            raise Mismatch(f"{host.name}: {found}, not {what}")
        time.sleep(0.1)


def whole(host, count):
    expect(host, lambda echoed, error: error, "at its end")
    if says(host) != [count, 0, 1]:
        raise Mismatch(f"{host.name}: of {count} messages came back, wrong, error: {says(host)}")


def under_load(host):
    expect(host, lambda echoed, error: echoed > 500, "under load")


@test("a client in the kernel answers programs of another host, and of its own", core=True)
def programs(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    with echo(h2):
        for size in (0, 8, 48, 49, 4096, 65521):
            h1.weftctl("ping", "--to", ids(lab)["h2"], "--count", 20, "--interval", 0, "--size", size)
        h2.weftctl("ping", "--to", ids(lab)["h2"], "--count", 20, "--interval", 0)
        # It has the port's symbols, and goes first.
        if not h2.rmmod(status=None).status:
            raise Mismatch("weft.ko is gone, and a client of it is there")
    h2.rmmod()
    h2.insmod()
    lab["h1"].wait_link("ready")


@test("two kernels carry messages of all lengths to each other, and one to itself")
def kernels(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    with echo(h1, h2, peer=ids(lab)["h1"], count=5000, bytes=200000):
        whole(h2, 5000)
    with echo(h2, peer=ids(lab)["h2"], count=5000, bytes=200000):
        whole(h2, 5000)
    with echo(h2, peer=ids(lab)["h1"]):
        expect(h2, lambda echoed, error: error, "refused")
        if says(h2)[2] != -111:
            raise Mismatch(f"nothing listens at the peer, and it says {says(h2)}")


@test("a client in the kernel whose peer goes, or whose link, learns why; what it has is given back")
def losses(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    ways = {
        "the peer's module goes": (lambda: h1.run("rmmod weft_echo", 60), EPIPE),
        "the cable is pulled": (lambda: lab.fabric.link("down", "h1:0"), ECONNRESET),
        "the peer is reset": (lambda: h1.run(f"echo 1 >{DEVICE}/reset", 60), ECONNRESET),
        "the port is reset": (lambda: h2.run(f"echo 1 >{DEVICE}/reset", 60), ECONNRESET),
    }
    for name, (way, errno) in ways.items():
        with echo(h1, h2, peer=ids(lab)["h1"], count=0):
            under_load(h2)
            way()
            expect(h2, lambda echoed, error: error, f"at an end ({name})")
            if says(h2)[2] != -errno:
                raise Mismatch(f"{name}: {says(h2)}, not {-errno}")
        lab.fabric.link("up", "h1:0")
        for host in (h1, h2):
            host.wait_link("ready")
            host.until(f"[ $(cat {DEVICE}/link0/channels) = 0 ]", 30)


@test("clients in the kernel go and come under load, and so does the port under them")
def coming_and_going(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    address = h2.out(f"basename $(readlink -f {DEVICE})")
    for _ in range(5):
        with echo(h1, h2, peer=ids(lab)["h1"], count=0):
            under_load(h2)
    with echo(h1, h2, peer=ids(lab)["h1"], count=0):
        under_load(h2)
        h2.run(f"cd /sys/bus/pci/drivers/weft && echo {address} >unbind && echo {address} >bind", 60)
        h2.wait_link("ready")
        # It has connected again, when the port was added again.
        before = says(h2)[0]
        expect(h2, lambda echoed, error: echoed > before + 500, "under load again")


def stood_still(looks):
    """Whether the count stayed the same for two seconds. Each line says when, and the count."""
    first = {}
    for at, count in (line.split() for line in looks.splitlines()):
        if float(at) - first.setdefault(count, float(at)) >= 2:
            return True
    return False


@test("over a route two kernels carry messages to each other, also after the link was quiesced", lab="chain")
def over_a_route(bench):
    lab = bench.shape("chain", topology.chain(3))
    h1, h3 = lab["h1"], lab["h3"]
    far.met(lab, "h1", "h3")
    with echo(h1, h3, peer=ids(lab)["h1"], count=0):
        under_load(h3)
        # Looks while the link is quiesced: a look from here may come too late.
        look = f"read now rest </proc/uptime && read count <{SAYS}/echoed"
        watch = h3.start_job(f"while {look}; do echo $now $count; /mnt/lab/nap 100; done >/tmp/echoed 2>/dev/null")
        h3.mark("to be quiesced")
        with false_master.writing("REST", h1, ids(lab)["h3"]):
            h3.until("dmesg | sed -n '/lab: to be quiesced/,$p' | grep -q 'it has been quiesced'")
            before = says(h3)[0]
            expect(h3, lambda echoed, error: echoed > before + 500, "under load again")
        watch.kill()
        watch.wait(20)
        if not stood_still(h3.out("cat /tmp/echoed")):
            raise Mismatch("messages came back while the link was quiesced")
        expect(h3, lambda echoed, error: echoed, "under load")
        if says(h3)[2]:
            raise Mismatch(f"{says(h3)}: the channel did not outlast the quiesce")
    # It takes no older write than those of the false master, in this life.
    h3.rmmod()
    h3.insmod()
    far.met(lab, "h1", "h3")
