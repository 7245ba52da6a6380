# SPDX-License-Identifier: GPL-2.0
"""Pieces of a run: tests that stand on the same lab, in one process, so that it boots once.

Pieces run side by side, in any order, and on different machines (scripts/checks). Every test is in
exactly one of them. How long each test takes is in tools/testing/hosts/weights, as measured, so that
the same tests always make the same pieces.
"""

import math
import re

from . import paths

WEIGHTS = paths.TOP / "tools" / "testing" / "hosts" / "weights"
# Of a test that has not been measured, in seconds.
UNKNOWN = 10
# The boot of a piece.
BOOT = 8
# A piece that takes longer is cut, where it has more than one test.
LONGEST = 180


def weights(path=WEIGHTS):
    """Seconds by the full name of a test."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if line and not line.startswith("#"):
            seconds, _, name = line.partition(" | ")
            found[name] = float(seconds)
    return found


def weigh(costs, path=WEIGHTS):
    """Writes the weights anew, of tests that were measured; those of others stay."""
    measured = {}
    for cost in costs:
        measured[cost["test"]] = measured.get(cost["test"], 0.0) + cost["wall"]
    found = weights(path) | measured
    lines = [
        "# SPDX-License-Identifier: GPL-2.0",
        "# Seconds that tests take, without the boot of their lab: scripts/lab/check --weigh.",
        *(f"{seconds:.1f} | {name}" for name, seconds in found.items()),
    ]
    path.write_text("\n".join(lines) + "\n")


class Piece:
    def __init__(self, name, tests, seconds):
        self.name = name
        self.tests = tests
        self.seconds = seconds


def _cut(tests, known):
    """Runs of tests, none of which is much longer than LONGEST; the order stays."""
    total = sum(known.get(t.full_name, UNKNOWN) for t in tests)
    share = total / math.ceil(total / LONGEST) if total else 0
    runs, so_far = [[]], 0.0
    for each in tests:
        seconds = known.get(each.full_name, UNKNOWN)
        # A test belongs to the run in which most of it falls.
        if runs[-1] and so_far + seconds / 2 > share * len(runs):
            runs.append([])
        runs[-1].append(each)
        so_far += seconds
    return runs


def pieces(tests, known=None):
    """Cuts tests into pieces, the longest first."""
    known = weights() if known is None else known
    labs = {}
    for each in tests:
        labs.setdefault(each.lab, []).append(each)
    found = []
    for lab, its in labs.items():
        runs = _cut(its, known)
        for number, run in enumerate(runs, 1):
            name = re.sub(r"[^\w-]+", "-", lab) + (f".{number}" if len(runs) > 1 else "")
            seconds = BOOT + sum(known.get(t.full_name, UNKNOWN) for t in run)
            found.append(Piece(name, run, seconds))
    return sorted(found, key=lambda piece: (-piece.seconds, piece.name))
