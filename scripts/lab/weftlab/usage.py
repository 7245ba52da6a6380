# SPDX-License-Identifier: GPL-2.0
"""Processor time of this process and of all that it has started."""

import os
import time

from . import process

_TICK = os.sysconf("SC_CLK_TCK")


def _of(pid):
    """Processor seconds of a child and of its own children that have ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            # The name of a program may hold spaces and brackets.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / _TICK


def core_seconds():
    """Processor seconds so far, with those of children that have ended, and of those that run."""
    return sum(os.times()[:4]) + sum(_of(child.pid) for child in process.running())


class Meter:
    """Wall and processor seconds between two looks."""

    def __init__(self):
        self._wall, self._core = time.monotonic(), core_seconds()

    def lap(self):
        """Seconds since the last look: wall clock, processors."""
        wall, core = self._wall, self._core
        self._wall, self._core = time.monotonic(), core_seconds()
        # A child that ends between two readings may be missed in the later one.
        return self._wall - wall, max(0.0, self._core - core)
