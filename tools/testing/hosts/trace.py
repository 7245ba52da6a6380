# SPDX-License-Identifier: GPL-2.0
"""What weftctl draws of requests, beside the figures of EP 3 025 241 that they follow."""

import json

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import selftests

LAB = "loopback"
TRACING = "/sys/kernel/tracing"
PROGRAM = "cd /tmp/kselftest/weft && ./figures"
BYTES = 40000
TRACE = "/mnt/tools/weftctl --json trace"

# Who sends, to which of the other's queues (or data, to the addresses that were listed), what. The
# numbers are the figures'; memory is taken, and lists are made, without a message (303, 305, 505 …).
# The last message of Figs 5 and 6 (515, 615) is optional, and is not sent.
FIGURES = {
    "P-2 a write, as in Figs 3 and 4": [
        ("initiator", "receive", "WRITE_LONG", BYTES),  # 301, 401: intent, with the size
        ("responder", "transmit", "LEND", BYTES),  # 307, 403: the list of destinations
        ("initiator", "data", "data", BYTES),  # 309, 405
        ("initiator", "completion", "DONE", None),  # 311, 407
        ("responder", "completion", "ACK", None),  # 313, 409
    ],
    "P-3 a read of known size, as in Fig. 5": [
        ("initiator", "transmit", "READ", BYTES),  # 509: what, and the list of destinations
        ("responder", "data", "data", BYTES),  # 511
        ("responder", "completion", "DONE", None),  # 513
    ],
    "P-4 a read of unknown size, as in Figs 6 and 7": [
        ("initiator", "transmit", "SIZE", None),  # 601, 703: what
        ("responder", "receive", "SIZE_IS", BYTES),  # 603, 705: how much there is
        ("initiator", "transmit", "READ", BYTES),  # 609, 709
        ("responder", "data", "data", BYTES),  # 611, 711
        ("responder", "completion", "DONE", None),  # 613, 713
    ],
}


def steps(sequence):
    return [(s["from"], s["way"], s["name"], s.get("bytes")) for s in sequence["steps"]]


def prepared(bench):
    lab = bench.loopback()
    host, (installed, _) = lab["host"], selftests.build(lab)
    selftests.copy(host, installed)
    if host.run(f"test -d {TRACING}/events", status=None).status:
        host.run(f"mount -t tracefs tracefs {TRACING}")
    return host


@test("requests beside the figures", core=True)
def figures(bench):
    """Both ends of each request are on this host: they must have seen the same."""
    host = prepared(bench)
    said = host.run(f"{TRACE} -- sh -c '{PROGRAM}'", 300).out
    sequences = [json.loads(line) for line in said.splitlines()]
    drawn = host.run(f"/mnt/tools/weftctl trace -- sh -c '{PROGRAM}'", 300).out
    for name, wanted in FIGURES.items():
        begin = wanted[0][2]
        found = [s for s in sequences if s["steps"][0]["name"] == begin]
        good = (
            sorted(s["initiator_here"] for s in found) == [False, True]
            and all(s["complete"] and steps(s) == wanted for s in found)
            and {(s["qpn"], s["peer_qpn"]) for s in found}
            == {(s["peer_qpn"], s["qpn"]) for s in found}
        )
        yield name, good, f"{json.dumps(found, indent=1)}\n{drawn}", None, None
    lines = [line for line in drawn.splitlines() if "|" in line]
    arrows = sum(len(wanted) for wanted in FIGURES.values())
    yield "weftctl trace draws each message once an end", len(lines) >= 2 * arrows, drawn, None, None


@test("weftctl trace leaves nothing behind and says what is wrong")
def errors(bench):
    host = prepared(bench)
    done = host.run(f"{TRACE} --seconds 0.2", 60)
    if done.out:
        raise Mismatch(f"something was traced while nothing moved:\n{done.out}")
    left = host.out(f"ls {TRACING}/instances")
    if left.strip():
        raise Mismatch(f"instances that are left: {left}")
    done = host.run(f"{TRACE} -- /nowhere", 60, status=None)
    if done.status != 1 or "/nowhere" not in done.err:
        raise Mismatch(f"a command that is not there: {done.status}, {done.err}")
    done = host.run(f"{TRACE} -- false", 60, status=None)
    if done.status != 1 or "false" not in done.err:
        raise Mismatch(f"a command that fails: {done.status}, {done.err}")
