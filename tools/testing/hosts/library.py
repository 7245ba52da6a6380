# SPDX-License-Identifier: GPL-2.0
"""The library as a program uses it: messages of every size, sleepers at both ends."""

from weftlab.errors import CommandFailed
from weftlab.suite import test

SOAK = "/mnt/tools/weft-soak"
SERVICE = 7301
MESSAGES = 2000


def soak(lab):
    """Each message wakes somebody: one that is not woken is late, and the program says so."""
    listening = lab["h2"].start_job(f"{SOAK} listen 0 {SERVICE}")
    listening.expect("listening", 30)
    lab["h1"].run(f"{SOAK} connect 0 {SERVICE} {MESSAGES}", timeout=240)
    result = listening.wait(90)
    if result.status:
        raise CommandFailed(f"h2: {result.command} ended with {result.status}: {result.err}")


@test("messages in turn and both ways at once: whole, in order, no sleeper forgotten")
def weft(bench):
    soak(bench.pair())
