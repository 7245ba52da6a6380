# SPDX-License-Identifier: GPL-2.0
"""Runs suites of tests side by side, counts what they say and keeps what passed at which commit.

Used by scripts/check. One noun a module; arrows point down:

    __main__   the command line                 status    what passed at which commit
    runner     jobs side by side                record    results by commit
    job        pieces of suites, and builds     part      jobs for several machines or nights
    suite      the table of suites              output    what a log says of tests
    command    a process on the machine that was asked

Standard library only; runs inside the Debian 13 root (scripts/in-root).
"""
