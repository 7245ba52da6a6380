# SPDX-License-Identifier: GPL-2.0
"""The measurements in two guests: weft-bench over channels, queue pairs and TCP, perftest over Soft-RoCE."""

import json

from ..errors import CommandFailed
from . import network

PROGRAM = "/mnt/tools/weft-bench"
# What moves the TCP connections of a program to AF_VSOCK.
RUN = "/mnt/tools/weft-run"
FOLDER = "/mnt/bench/usr"
LIBRARIES = f"{FOLDER}/lib/x86_64-linux-gnu"
RDMA = f"LD_LIBRARY_PATH={LIBRARIES} RDMAV_DRIVERS={LIBRARIES}/libibverbs/librxe"
PATIENCE = 300
# Microseconds that a call may look; one that does not wait looks once.
BUSY_READ = 50


def serve(lab, way, before=""):
    """Has h2 do what h1 is going to tell it. `before`: what runs the program."""
    serving = lab["h2"].start_job(f"{before} {PROGRAM} serve {way}")
    serving.expect("^listening", 60)
    return serving


def lines(lab, served, run, words, before=""):
    """Does jobs between h1 and h2; what is said of each."""
    serving = serve(lab, served, before)
    done = lab["h1"].run(f"{before} {PROGRAM} run {run} {' '.join(words)}", PATIENCE)
    serving.wait(60).must()
    return parsed(done.out)


def parsed(out):
    """What weft-bench says of jobs."""
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def jobs(lab, served, run, words, before=""):
    """The same by (job, bytes)."""
    return {(one["job"], one["bytes"]): one for one in lines(lab, served, run, words, before)}


def single(lab, count, service=7101):
    """Messages of 64 bytes over a queue pair, each only when the one before is done: what both ports
    have sent for all of them, as they count it: posted writes, non-posted requests, doorbells."""
    way = f"qp 0 {service} polled 1"
    (one,) = lines(lab, way, way, [f"single:64:{count}"])
    return one["counted"]


def tcp(lab, backend, how, words, port=7000):
    """Polled: in the kernel as well, which looks into the queue of the network card at each call."""
    for host in lab.hosts.values():
        host.run(f"echo {BUSY_READ if how == 'polled' else 0} >/proc/sys/net/core/busy_read")
    at = f"tcp {network.address(backend, 'h2')}:{port} {how}"
    return jobs(lab, at, at, words)


def channel(lab, how, words, service=7100):
    way = f"channel 0 {service} {how}"
    return jobs(lab, way, way, words)


def qp(lab, how, words, pairs=1, service=7101):
    way = f"qp 0 {service} {how} {pairs}"
    return jobs(lab, way, way, words)


def soft_roce(host, backend):
    """Makes rxe0 of a NIC; whether there is one."""
    return not host.run(
        "modprobe -a rdma_rxe ib_uverbs rdma_ucm && "
        f"rdma link add rxe0 type rxe netdev {backend} && test -e /dev/infiniband/uverbs0",
        status=None,
    ).status


def perftest_ends(lab, backend, test, options, before=""):
    """What a program of perftest says on h1, and on h2. Both ends sleep. `before`: what runs the program."""
    # The first test is over when the second begins: its port is free by then.
    command = f"{before} env {RDMA} {FOLDER}/bin/{test} -F -e -d rxe0 {options}"
    serving = lab["h2"].start_job(command)
    lab["h2"].until("ss -Hltn 'sport = :18515' | grep -q .")
    done = lab["h1"].run(f"{command} {network.address(backend, 'h2')}", PATIENCE)
    return done.out, serving.wait(60).must().out


def perftest(lab, backend, test, column, options):
    """The number in a column of what a program of perftest reports."""
    out, _ = perftest_ends(lab, backend, test, options)
    for line in reversed(out.splitlines()):
        words = line.split()
        if words and words[0].isdigit():
            return float(words[column])
    raise CommandFailed(f"{test} reports nothing:\n{out}")


def interrupts(host):
    """How many the ports of a host have taken."""
    lines = host.out("grep weft /proc/interrupts || :").splitlines()
    return sum(int(word) for line in lines for word in line.split()[1:] if word.isdigit())
