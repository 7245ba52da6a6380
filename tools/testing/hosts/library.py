# SPDX-License-Identifier: GPL-2.0
"""The library as a program uses it: messages of every size, sleepers at both ends, TLPs a message."""

from weftlab.errors import CommandFailed
from weftlab.speed import tlps, ways
from weftlab.suite import test

LAB = "pair"
SOAK = "/mnt/tools/weft-soak"
SERVICE = 7301
MESSAGES = 2000


def soak(lab):
    """Each message wakes a thread: one that is not woken is late, and the program says so."""
    listening = lab["h2"].start_job(f"{SOAK} listen 0 {SERVICE}")
    listening.expect("listening", 30)
    lab["h1"].run(f"{SOAK} connect 0 {SERVICE} {MESSAGES}", timeout=240)
    result = listening.wait(90)
    if result.status:
        raise CommandFailed(f"h2: {result.command} ended with {result.status}: {result.err}")


@test("messages in turn and both ways at once: whole, in order, no sleeper forgotten")
def weft(bench):
    soak(bench.pair())


@test("what messages of a channel cost")
def costs(bench):
    """Each TLP of the library is counted. The least of a few: a sender that does not get its processor for
    a while has lines closed half full."""
    lab = bench.pair()
    for size, most in ((48, 2), (64, 3)):
        load = [f"flood:{size}:{tlps.LOADED}"]
        counted = [tlps.count(lab, ways.channel, "polled", load)[:2] for _ in range(3)]
        there, back = min(counted, key=lambda each: each[0]["tx_mwr"])
        posted = there["tx_mwr"] / tlps.LOADED
        yield (
            f"a message of {size} bytes: {most} posted writes, no read",
            most - 0.1 < posted <= most + 1 / 16 and not there["tx_mrd"] and not back["tx_mrd"],
            f"a message: {posted} posted writes; {there['tx_mrd']}, {back['tx_mrd']} reads",
            None,
            None,
        )
        yield (
            f"of {size} bytes: one write in 16 messages gives credit back",
            0 < back["tx_mwr"] <= tlps.LOADED / 16,
            f"{back['tx_mwr']} writes back for {tlps.LOADED} messages",
            None,
            None,
        )
