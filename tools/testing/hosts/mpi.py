# SPDX-License-Identifier: GPL-2.0
"""MPI programs over Weft's provider of libfabric: Debian's Open MPI with HPC Challenge, NetPIPE and mpi4py, unmodified,
and what MPI promises, by tools/testing/mpi. What they compute is verified; the interface beside has not carried it."""

import contextlib
import re
import shlex
import time

from weftlab import tap
from weftlab.errors import Mismatch
from weftlab.layers import ROOT
from weftlab.mpirun import CHOSEN, MATCHED, PROGRAMS, TCP, WINDOWS, Job
from weftlab.suite import test

from .net import address, await_carrier, counters, up
from .ofi import WHOLE, hosts, prepared

LAB = "mpi"
# What Open MPI's ob1 does of itself, over any BTL: a message of 70,000 bytes received into 100 is written whole.
NOT_OB1 = "nothing is written behind"
# What the interface may carry beside: what the daemons tell each other, and what ranks print.
BESIDE = 1_000_000
# What posts many receives, or searches, and has no more messages come early than there are entries.
FEW = ("many receives", "posted first", "a probe tells", "that a probe has taken", "cancelled", "persistent",
       "some and all", "used again", "three threads")
# Seconds in which a job ends whose rank or host has died.
DEATH = 60
# Errors of RandomAccess, as a share of its updates, that HPC Challenge takes for none.
ALLOWED = 0.01
# Its lines are read by their numbers.
HPCC = """HPL input file
of a test
HPL.out
6 device
1 sizes
{size} Ns
1 blocks
{block} NBs
0 mapping
1 grids
{rows} Ps
{columns} Qs
16.0 threshold
1 panel
2 PFACTs
1 recursive
4 NBMINs
1 panels
2 NDIVs
1 RFACTs
1 RFACTs
1 broadcasts
1 BCASTs
1 lookahead
1 DEPTHs
2 SWAP
64 swapping
0 L1
0 U
1 equilibration
8 alignment
##### ignored
0 more sizes
{size} Ns
0 more blocks
{block} NBs
"""


def carried(host):
    return counters(host)["tx_bytes"]


@contextlib.contextmanager
def beside(at, what):
    """While it runs, the interfaces carry next to nothing."""
    before = [carried(host) for host, _ in at]
    yield
    for (host, _), was in zip(at, before):
        grown = carried(host) - was
        if grown > BESIDE:
            raise Mismatch(f"{host.name}: {grown} bytes of {what} went over the interface")


def run(at, ranks, transport, *words, folder="/tmp"):
    """A job to its end. Over Weft, the interfaces carry next to nothing meanwhile."""
    with contextlib.nullcontext() if transport is TCP else beside(at, shlex.join(map(str, words))):
        return Job(at, ranks, transport, *words, folder=folder).wait()


def told(done, where):
    """What semantics says of its tests, as the lab wants to know of a test that is many."""
    parsed = tap.Parsed(done.out)
    for (ok, name, skip), why in zip(parsed.results, parsed.accounts):
        yield f"MPI, {where}: {name}", ok, why, skip, done.seconds / len(parsed.results)
    failed = any(not ok for ok, _, _ in parsed.results)
    yield (f"MPI, {where}: each test has ended", parsed.complete and (failed or not done.status),
           f"{parsed.planned} planned, {len(parsed.results)} told of, status {done.status}\n{done.out[-1000:]}"
           f"{done.err[-3000:]}", None, 0)  # fmt: skip


# Of each of two hosts.
RANKS = 4 if WHOLE else 2


def semantics(*more, programs=PROGRAMS):
    return (f"{programs}/semantics", *(("-x", 3) if WHOLE else ("-b",)), *more)


# Windows are made of a BTL, of which there is none with pml=cm: they have a test of their own.
@test("MPI between two hosts")
def two_hosts(bench):
    with hosts(bench) as (h1, h2, (a1, a2)):
        yield from told(run([(h1, a1), (h2, a2)], RANKS, MATCHED, *semantics("-n", "windows:")), "two hosts")


@test("MPI between two hosts with 64 list entries: more receives than these wait for them")
def few_entries(bench):
    few = (*MATCHED, "-x", "FI_WEFT_ENTRIES=64")
    with hosts(bench) as (h1, h2, (a1, a2)):
        yield from told(run([(h1, a1), (h2, a2)], 2, few, *semantics(*FEW)), "64 entries")


@test("MPI within one host, four ranks")
def one_host(bench):
    with hosts(bench) as (h1, _, (a1, _)):
        yield from told(run([(h1, a1)], 4, MATCHED, *semantics("-n", "windows:")), "one host")


@test("MPI windows between two hosts, two ranks each")
def windows(bench):
    with hosts(bench) as (h1, h2, (a1, a2)):
        done = run([(h1, a1), (h2, a2)], 2, WINDOWS, *semantics("windows:"))
        if CHOSEN not in done.err + done.out:
            raise Mismatch(f"messages went another way: {done.err[-2000:]}")
        parsed = tap.Parsed(done.out)
        skipped = [name for _, name, skip in parsed.results if skip]
        if skipped or not parsed.results:
            raise Mismatch(f"there are no windows: {skipped}, {done.err[-2000:]}")
        yield from told(done, "two hosts")


@test("MPI between two hosts over TCP, beside which the others are to be seen", long=True)
def tcp(bench):
    with hosts(bench) as (h1, h2, (a1, a2)):
        yield from told(run([(h1, a1), (h2, a2)], 4, TCP, *semantics("-n", NOT_OB1)), "over TCP")


def hpcc(at, ranks, size):
    """HPC Challenge; what its report says, by name."""
    rows, count = 1, ranks * len(at)
    while count % (2 * rows) == 0 and (2 * rows) ** 2 <= count:
        rows *= 2
    text = HPCC.format(size=size, block=32, rows=rows, columns=count // rows)
    place = f"{ROOT}/tmp/hpcc"
    for host, _ in at:
        host.run(f"rm -rf {place} && mkdir {place} && cat >{place}/hpccinf.txt <<'END'\n{text}END")
    run(at, ranks, MATCHED, "hpcc", folder="/tmp/hpcc").must()
    report = at[0][0].out(f"cat {place}/hpccoutf.txt")
    found = dict(re.findall(r"^(\w+)=(\S+)$", report, re.M))
    failed = [line for line in report.splitlines() if "FAILED" in line]
    if found.get("Success") != "1" or failed or "PASSED" not in report:
        raise Mismatch(f"hpcc: {failed or report[-3000:]}")
    # It loses updates itself, over any transport: of its 16 receives it takes those that have ended in their order in
    # memory, and none behind what says that the last rank has finished. A share is allowed by its rules.
    if float(found["MPIRandomAccess_ErrorsFraction"]) > ALLOWED:
        raise Mismatch(f"hpcc: RandomAccess has {found['MPIRandomAccess_Errors']} errors")
    return found


@test("HPC Challenge over two hosts: each of its checks passes")
def challenge(bench):
    with hosts(bench) as (h1, h2, (a1, a2)):
        found = hpcc([(h1, a1), (h2, a2)], 4 if WHOLE else 1, 1000 if WHOLE else 100)
        bench.note(", ".join(f"{name} {found[name]}" for name in ("HPL_Tflops", "PTRANS_GBs", "MPIRandomAccess_GUPs")))


@test("NetPIPE between two hosts: each size is what it was, and is timed")
def netpipe(bench):
    with hosts(bench) as (h1, h2, (a1, a2)):
        at, most = [(h1, a1), (h2, a2)], 4 << 20 if WHOLE else 64 << 10
        run(at, 1, MATCHED, "NPopenmpi", "-i", "-u", most, "-n", 3, "-o", "/tmp/np.out").must()
        said = run(at, 1, MATCHED, "NPopenmpi", "-u", most, "-n", 3, "-o", "/tmp/np.out").must()
        rows = [line.split() for line in h1.out(f"cat {ROOT}/tmp/np.out").splitlines()]
        if not rows or int(rows[-1][0]) < most // 2:
            raise Mismatch(f"NetPIPE: {rows[-3:]}, {said.out[-1000:]}")
        least, most = rows[0], rows[-1]
        bench.note(f"NetPIPE: {least[0]} bytes in {float(least[2]) * 1e6:.0f} us, {most[0]} at {most[1]} Mbit/s")


@test("mpi4py's bench over two hosts: bytes go round as they were, objects there and back")
def python(bench):
    with hosts(bench) as (h1, h2, (a1, a2)):
        at, ranks, times = [(h1, a1), (h2, a2)], 2, 10 if WHOLE else 1

        def told_by(*words):
            return run(at, ranks, MATCHED, "python3", "-W", "error", "-m", "mpi4py.bench", *words).must().out

        if WHOLE:
            hello = sorted(re.findall(r"I am process (\d+) of 4 on (\w+)\.", told_by("helloworld")))
            if hello != [("0", "h1"), ("1", "h1"), ("2", "h2"), ("3", "h2")]:
                raise Mismatch(f"of the ranks these say hello: {hello}")
        # Other bytes than were sent are a warning, and with -W an error.
        for size in (1, 5000, 300_000) if WHOLE else (300_000,):
            said = told_by("ringtest", "-n", size, "-l", 20 * times)
            if f"(4 processes, {size} bytes)" not in said:
                raise Mismatch(f"ringtest says {said!r}")
        said = told_by("pingpong", "-p", "-o", "-a", "none", "-n", 1 << 16, "-s", 1, "-l", 5 * times)
        if len(re.findall(r"^ +\d+ ", said, re.M)) != 17:
            raise Mismatch(f"pingpong says {said!r}")


def going(at, ranks):
    job = Job(at, ranks, MATCHED, f"{PROGRAMS}/pairs", "forever")
    job.job.expect("^going", 120)
    return job


def ends_with_an_error(bench, job, what):
    """Of a lost daemon Open MPI says so, whatever status it ends with."""
    begin = time.monotonic()
    done = job.wait(DEATH)
    if not done.status and "lost communication" not in done.out + done.err:
        raise Mismatch(f"mpirun ends well after {what}: {done.out[-1000:]}{done.err[-1000:]}")
    bench.note(f"{what}: mpirun ended with {done.status} after {time.monotonic() - begin:.1f} s")


@test("a rank that is killed: mpirun ends with an error, at both hosts, and the next job runs")
def killed(bench):
    with hosts(bench) as (h1, h2, (a1, a2)):
        at = [(h1, a1), (h2, a2)]
        for host in (h1, h2):
            job = going(at, 2)
            host.run("kill -9 $(pidof pairs | cut -d' ' -f1)")
            ends_with_an_error(bench, job, f"a rank at {host.name} was killed")
            for each in (h1, h2):
                each.until("! pidof pairs >/dev/null", 30)
        run(at, 1, MATCHED, f"{PROGRAMS}/pairs", "latency:64:10").must()


@test("a host that is switched off: mpirun at the other one ends with an error, and not never")
def lost(bench):
    lab = prepared(bench)
    try:
        h1, h2 = up(lab)
        await_carrier((h1, h2))
        # What mpirun has said to the daemon of a host that is gone is repeated for a quarter of an hour otherwise.
        h1.run("echo 3 >/proc/sys/net/ipv4/tcp_retries2")
        job = going([(host, address(lab, host)) for host in (h1, h2)], 2)
        # It is none of those that are ended when all is over.
        lab.hosts.pop(h2.name).kill()
        job.daemons = []
        ends_with_an_error(bench, job, "a host was switched off")
        h1.until("! pidof pairs >/dev/null", 30)
    finally:
        # It has one host less.
        bench.close()
