# SPDX-License-Identifier: GPL-2.0
"""The arenas of links, from which tests take memory, and get it back."""

import contextlib

from .fabric import until


def room(host):
    """Bytes of the arena of the link to the neighbour that are free."""
    return host.weftctl_json("show")["ports"][0]["links"][0]["arena_free"]


@contextlib.contextmanager
def given_back(*hosts):
    """All that sockets have of the arenas meanwhile is given back."""
    before = [room(host) for host in hosts]
    yield

    def now():
        return [room(host) for host in hosts]

    until(f"free bytes of arenas to be {before}", lambda: now() == before, 30, now)
