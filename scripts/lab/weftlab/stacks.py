# SPDX-License-Identifier: GPL-2.0
"""What a guest that is stuck waits for: its kernel is asked over the keyboard."""

import os
import re
import time

# To say it on the console; tasks with their stacks; timers that are armed; and a word that ends it.
# Asked for one by one: each takes a while to be said on a serial line.
KEYS = ("7", "t", "q", "7")
# It has said all when nothing has come for so long.
SETTLED, LIMIT = 3, 60

TASK = re.compile(r"\btask:(\S+)\s+state:(\S+).*?\bpid:(\d+).*?\bppid:(\d+)")
FRAME = re.compile(r"\] +(\? )?([\w.]+)\+0x[0-9a-f]+/0x")


def ask(guest):
    """Has the kernel tell on its console; returns what it said there."""
    begin = _size(guest)
    for key in KEYS:
        guest.qmp.human(f"sendkey alt-sysrq-{key}", 5)
        _settle(guest)
    with open(guest.console_log, "rb") as log:
        log.seek(begin)
        return log.read().decode(errors="replace")


def _size(guest):
    return os.path.getsize(guest.console_log)


def _settle(guest):
    end = time.monotonic() + LIMIT
    last, since = _size(guest), time.monotonic()
    while (now := time.monotonic()) < end and now - since < SETTLED:
        time.sleep(0.2)
        if (size := _size(guest)) != last:
            last, since = size, time.monotonic()


def waiting(text):
    """A line for each task that is a program's, or that may not be disturbed: who it is, in which
    state, and where, the innermost function first."""
    found, frames = [], None
    for line in text.splitlines():
        if match := TASK.search(line):
            name, state, pid, parent = match.groups()
            frames = []
            # Of the kernel's own threads (children of 2) only those that wait for good.
            if state == "D" or parent not in ("0", "2"):
                found.append((f"{name} {pid} (of {parent}) {state}", frames))
        elif frames is not None and (match := FRAME.search(line)) and not match.group(1):
            frames.append(match.group(2))
    return [f"{who}: {' < '.join(frames[:12])}" for who, frames in found]
