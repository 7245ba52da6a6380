# SPDX-License-Identifier: GPL-2.0
"""Where the instructions of a message are spent, function by function: bench/profile.md.

It is what explains the counts of part `instructions`, and with them the times: the work that is traced is
the same, in a machine like that, but a few batches of it.
"""

import collections

from .. import paths
from . import instructions, trace, tree, ways

FOLDER = "/tmp"
# By what weft-bench calls it: what stands between two looks at the clock. None is left out.
PORTS = {
    "qp": ("64 B, sent alone", "64 B, received", "64 B, sent alone", None),
    "qp-batched": ("64 B, sent in batches", "64 B, received", "64 B, sent in batches", None),
    "qp-sleeping": ("round trip of 64 B, both ends asleep", None),
    "socket": ("64 B, sent by a socket", "64 B, received by a socket", None),
    "socket-1m": ("1 MiB by sockets, both ends", None),
    "socket-sleeping": ("round trip of 64 B by sockets, both ends asleep", None),
    "socket-connection": ("connection of sockets, both ends", None),
    # Between two looks at the clock: buffers, messages, what their target does, what their source learns.
    "match": ("buffer for 64 B with match bits", "64 B with match bits, sent", "64 B with match bits, received",
              "64 B with match bits, that its source learns of", None),
}


def _tcp(over):
    """TCP over a kind of interface."""
    return {
        "tcp-sleeping": (f"round trip of 64 B by TCP over {over}, both ends asleep", None),
        "tcp-1m": (f"1 MiB by TCP over {over}, both ends", None),
        "tcp-connection": (f"connection of TCP over {over}, both ends", None),
    }


RUN = {"tcp-connection": ("connection under weft-run, both ends", None)}
# The figures that they explain.
EXPLAINED = {
    "64 B, sent alone": "qp-send-64-instructions",
    "64 B, sent in batches": "qp-batched-send-64-instructions",
    "64 B, received": "qp-batched-receive-64-instructions",
    "64 B with match bits, received": "match-exact-1-64-instructions",
}
# What takes less than this share is not listed.
LEAST = 0.01

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0 -->
# Where the instructions of a message go

Written by `make bench` (part *profile*) of {tree}: each instruction that a guest executes, by the function that it is
a part of, per message or round trip, both ends in one guest. What a compiler has put into another function counts
as that one's. Functions below {least:.0%} are in the sums only. *program* is weft-bench with the library,
*weft* the module.
"""


def _median(rounds, phase):
    """Of the rounds that one in which it takes as many instructions as in most: others had an interrupt more."""
    return sorted((one[phase] for one in rounds), key=lambda one: sum(one.values()))[len(rounds) // 2]


def _traced(host, command, jobs):
    """Instructions a message by (where, function) for each of the phases."""
    host.run(f"rm -f {FOLDER}/*.begin {FOLDER}/*.end")
    job = host.start_job(command)
    found, symbols = {}, None
    for name, phases in jobs.items():
        file, messages, clock = trace.record(host, job, name, FOLDER)
        # It is one process: its functions stay where they are.
        symbols = symbols or trace.Symbols(host.out("cat /proc/kallsyms"), paths.tools_dir() / "weft-bench", clock)
        rounds = trace.rounds(file, symbols, phases)
        file.unlink()
        for phase in filter(None, dict.fromkeys(phases)):
            found[phase] = {key: count / messages for key, count in _median(rounds, phase).items()}
    job.wait(60).must()
    return found


def _sums(functions):
    whole = sum(functions.values())
    layers = collections.Counter()
    for (where, _), count in functions.items():
        layers[where] += count
    return ", ".join(f"{where} {count:.0f}" for where, count in layers.most_common() if count >= LEAST * whole)


def _table(phase, functions):
    whole = sum(functions.values())
    lines = [f"\n## {phase[0].upper()}{phase[1:]}\n", f"{whole:.0f} instructions: {_sums(functions)}.\n"]
    lines += ["| instructions | | function |", "|---:|---|---|"]
    for (where, name), count in sorted(functions.items(), key=lambda one: -one[1]):
        if count >= LEAST * whole:
            lines.append(f"| {count:.0f} | {where} | `{name}` |")
    return "\n".join(lines) + "\n"


def measure(figures, say, _runs):
    """where the instructions of a message are spent"""
    found = {}
    with instructions.machine("bench-traced", say) as (_, host, missing):
        found |= _traced(host, f"{ways.PROGRAM} profile {FOLDER} 0 1", PORTS)
        instructions.join_by_interfaces(host)
        found |= _traced(host, f"{ways.PROGRAM} profile {FOLDER} {instructions.NET_ENDS}", _tcp("the ports"))
        instructions.under_run(host)
        with instructions.moved(host):
            command = f"{ways.RUN} {ways.PROGRAM} profile {FOLDER} {instructions.RUN_ENDS}"
            found |= _traced(host, command, RUN)
        if not missing:
            instructions.join_by_tcp(host)
            found |= _traced(host, f"{ways.PROGRAM} profile {FOLDER} {instructions.TCP_ENDS}", _tcp("virtio-net"))
    for phase, name in EXPLAINED.items():
        if figures.get(name):
            figures.get(name).reason = f"{_sums(found[phase])} instructions; by functions in [profile.md](profile.md)"
    text = HEAD.format(tree=tree.name() or "a tree without a name", least=LEAST)
    text += "".join(_table(phase, functions) for phase, functions in found.items())
    (paths.TOP / "bench" / "profile.md").write_text(text)
