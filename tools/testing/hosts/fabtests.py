# SPDX-License-Identifier: GPL-2.0
"""fabtests, the tests of libfabric's own project, over Weft's provider: between two hosts, and within one.

Which there are is read from the list of its own runner. Those that are left out, and why, stand here. All others have
to pass: what a provider says that it does not support is a failure, too."""

import pathlib
import re
import shlex
import signal
import time

from weftlab import paths
from weftlab.errors import CommandTimeout, Mismatch
from weftlab.layers import inside
from weftlab.mpirun import FOLDER, PROVIDER
from weftlab.suite import test

from .libfabric import PINGPONG
from .ofi import WHOLE, hosts, over
from .programs import listens

LAB = "mpi"
# The port where ends exchange addresses.
OUT_OF_BAND = 3000
BIN = "/mnt/fabtests/bin"
# How many of each set are run; the list of another version is looked through anew.
SETS = {"unit": 7, "functional": 26, "short": 24, "standard": 24}
EXCLUDED = {
    r"^fi_msg|-e msg": "connected endpoints: Weft has reliable datagrams alone",
    r"^fi_dgram|-e dgram": "unreliable datagrams, likewise",
    r"^fi_cm_data": "data of a connection request, of which there are none",
    r"^fi_scalable_ep": "scalable endpoints: an endpoint of Weft has one context of each kind",
    r"^fi_shared_ctx": "contexts that endpoints share: of these each has its own lists",
    r"^fi_rdm_shared_av": "clients that find a server by what they were told beforehand: the address of an endpoint "
    "of Weft has its generation in it, and is known when that is open",
    r" -k": "room for a header in front of each buffer (FI_MSG_PREFIX), which Weft does not want",
    r"^fi_av_test": "addresses of the Internet, one after the other; shm, sm2 and lpp leave it out, too",
}
# A program allocates and clears, twice for each message of a window, as many bytes as the longest message of any test
# has: 1 GiB in all, of which two programs need most of a host's memory, and which takes seconds. These words make it
# less. A test of one size is given that which it has in any case. Some can be told neither (see ofi.prepared).
LESS = {
    r"_pingpong": ("-W", 1),
    r"_bw": ("-W", 16),
    r"^fi_inject_test": ("-S", 1024),
    r"^fi_multi_ep": ("-S", 256),
}
# In no list of the runner. Of those that are in none fi_rdm_stress is left out as fi_rdm_shared_av is. fi_rdm_deferred_wq
# is patched before it is compiled (env.d/fabtests.sh), and has no line of tagged messages, which it uses without
# asking for FI_TAGGED.
MORE = (
    "fi_resmgmt_test",
    "fi_rdm_deferred_wq",
    "fi_rdm_deferred_wq -T msg",
    "fi_rdm_deferred_wq -a -T msg",
    "fi_rdm_deferred_wq -T rma",
    "fi_rdm_deferred_wq -a -T rma",
    "fi_rdm_deferred_wq -T atomic",
    "fi_rdm_deferred_wq -T f_atomic",
    "fi_rdm_deferred_wq -T c_atomic",
)
# Of each program one line, if it is not the whole.
SHORT = {
    "two hosts": (
        "fi_getinfo_test -s SERVER_ADDR GOOD_ADDR",
        "fi_cq_test",
        "fi_av_xfer -e rdm",
        "fi_cq_data -e rdm -o senddata",
        "fi_rdm_tagged_peek",
        "fi_recv_cancel -e rdm -V",
        "fi_unexpected_msg -e rdm -I 10 -v",
        "fi_multi_recv -e rdm -I 5",
        "fi_rdm_tagged_pingpong -I 5 -v",
        "fi_rdm_multi_client -C 10 -I 5",
        "fi_inject_test -N -A inj_complete -v",
        "fi_mr_test",
        "fi_multi_mr -e rdm -V",
        "fi_rdm_rma_event",
        "fi_rdm_rma_trigger",
        "fi_rdm_deferred_wq -a -T rma",
        "fi_rdm_deferred_wq -T c_atomic",
        "fi_cq_data -e rdm -o writedata",
        "fi_rma_bw -e rdm -o read -I 5",
        "fi_rma_bw -e rdm -o writedata -I 5 -U",
        "fi_rdm_atomic -I 5 -o all -v",
    ),
    "one host": (
        "fi_rdm_tagged_bw -I 5 -v",
        "fi_rdm_cntr_pingpong -I 5",
        "fi_rdm_rma_trigger",
        "fi_rdm_deferred_wq",
        "fi_rdm_deferred_wq -T msg",
        "fi_rma_bw -e rdm -o write -I 5",
        "fi_rdm_atomic -I 5 -o all",
        "fi_multi_ep -e rdm -v -A -Q",
    ),
}
# As Weft writes them: hardware id, endpoint, generation.
ADDRESSES = ("weft://1/0/0", "weft://2/0/0")
ENDED = "/tmp/fabtests.ended"
# Of the runner's own tests some do a quarter of a million operations, one after the other: on machines that are emulated,
# and beside others, that takes longer than the runner would wait.
LIMIT = 1500 if WHOLE else 300
# So many tests that do not end are enough.
HANGS = 3


def excluded(line):
    return any(re.search(pattern, line) for pattern in EXCLUDED)


def lists():
    """By set, the lines of the runner that are not left out."""
    text = (pathlib.Path(paths.env("fabtests")) / "runfabtests.sh").read_text()
    listed = {}
    for name in SETS:
        body = re.search(rf"^{name}_tests=\((.*?)^\)", text, re.M | re.S)
        listed[name] = re.findall(r'"(.+?)"', body[1]) if body else []
    everything = [line for lines in listed.values() for line in lines]
    unused = [pattern for pattern in EXCLUDED if not any(re.search(pattern, line) for line in everything)]
    if unused:
        raise Mismatch(f"left out, and in no list: {unused}")
    found = {name: [line for line in lines if not excluded(line)] for name, lines in listed.items()}
    counts = {name: len(lines) for name, lines in found.items()}
    if counts != SETS:
        raise Mismatch(f"of the sets {counts} tests remain, not {SETS}")
    return found


def unit(host, line):
    """A test without another end; addresses are those of the ports of h1, where it runs, and of h2."""
    words = line.replace("SERVER_ADDR", ADDRESSES[0]).replace("GOOD_ADDR", ADDRESSES[1]).split()
    return [host.run(over(PROVIDER, f"{BIN}/{words[0]}", *words[1:], "-p", PROVIDER), LIMIT, None)]


def ends(server, client, line, at):
    """A test of two ends, which exchange their addresses by TCP; how both have ended."""
    less = [word for pattern, words in LESS.items() if re.search(pattern, line) for word in words]
    words = [f"{BIN}/{line.split()[0]}", *line.split()[1:], *less, "-p", PROVIDER]
    server.run(f"rm -f {ENDED}")
    job = server.start_job(f"{over(PROVIDER, *words, '-E')}; was=$?; : >{ENDED}; exit $was")
    try:
        # It waits for its client, to exchange addresses; one that cannot even begin has ended.
        server.until(f"{listens(OUT_OF_BAND)} || test -e {ENDED}", 60)
        done = client.run(over(PROVIDER, *words, "-E", at), LIMIT, None)
        if done.status:
            # It may wait for ever for a client that has gone.
            job.kill()
        return [done, job.wait(LIMIT)]
    finally:
        if job.running:
            job.kill(signal.SIGKILL)


def outcomes(server, client, at, lines, units):
    """Runs each; yields what the lab wants to know of a test that is many."""
    where = "two hosts" if server is not client else "one host"
    hangs = 0
    for line in lines:
        begin = time.monotonic()
        try:
            results = unit(client, line) if line in units else ends(server, client, line, at)
            wrong = [one for one in results if one.status]
            why = "\n".join(f"`{one.command}` ended with {one.status}\n{(one.out + one.err)[-1500:]}" for one in wrong)
        except CommandTimeout as error:
            hangs += 1
            if hangs == HANGS:
                raise
            why = str(error)
        yield f"fabtests, {where}: {line}", not why, why, None, time.monotonic() - begin


def chosen(where):
    """The lines to run, and which of them have one end."""
    found = lists()
    everything = [line for lines in found.values() for line in lines] + list(MORE)
    missing = [line for line in SHORT[where] if line not in everything]
    if missing:
        raise Mismatch(f"in no list of fabtests: {missing}")
    return everything if WHOLE else SHORT[where], found["unit"]


@test("fabtests between two hosts")
def two_hosts(bench):
    lines, units = chosen("two hosts")
    with hosts(bench) as (h1, h2, (_, at)):
        yield from outcomes(h2, h1, at, lines, units)


@test("fabtests within one host", long=True)
def one_host(bench):
    lines, units = chosen("one host")
    with hosts(bench) as (h1, _, (at, _)):
        yield from outcomes(h1, h1, at, [line for line in lines if line not in units], units)


@test("fi_pingpong, of another package, by messages and by tags, every size")
def pingpong(bench):
    with hosts(bench) as (h1, h2, (_, at)):
        for kind in ("msg", "tagged"):
            words = ("fi_pingpong", "-p", PROVIDER, "-e", "rdm", "-m", kind, "-c", "-I", 10)
            job = h2.start_job("exec " + over(PROVIDER, *words))
            h2.until(listens(PINGPONG), 60)
            said = h1.out(over(PROVIDER, *words, at), LIMIT)
            job.wait(60).must()
            sizes = [row.split()[0] for row in said.splitlines() if re.match(r"\d", row)]
            if len(sizes) < 3:
                raise Mismatch(f"fi_pingpong -m {kind}: {said}")
            bench.note(f"fi_pingpong -m {kind}: {sizes[0]} to {sizes[-1]} bytes: {shlex.quote(said.splitlines()[-1])}")


@test("fi_info lists the provider, and no layer of libfabric over it")
def info(bench):
    with hosts(bench) as (h1, _, _):
        listed = h1.out(inside("env", f"FI_PROVIDER_PATH={FOLDER}", "fi_info", "-l"))
        if f"{PROVIDER}:" not in listed.split():
            raise Mismatch(f"fi_info -l: {listed}")
        found = h1.out(inside("env", f"FI_PROVIDER_PATH={FOLDER}", "fi_info", "-p", PROVIDER))
        if "type: FI_EP_RDM" not in found or f"{PROVIDER};" in found:
            raise Mismatch(f"fi_info -p {PROVIDER}: {found}")
