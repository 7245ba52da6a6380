# SPDX-License-Identifier: GPL-2.0
"""PART=n/m: jobs for several machines, or for several nights.

The same jobs always make the same parts. They are dealt out by what they are expected to take, the
longest first, each to the part that has least so far.
"""

import re


def parse(text):
    """(n, m) of "n/m", counted from one."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    n, m = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= n <= m:
        raise SystemExit(f"check: PART={text}: n/m is meant, such as 1/2, with n from 1 to m")
    return n, m


def split(jobs, count):
    """`count` lists; each job is in exactly one of them."""
    parts = [[] for _ in range(count)]
    taken = [0.0] * count
    for job in sorted(jobs, key=lambda job: (-job.seconds, job.name)):
        least = min(range(count), key=lambda n: (taken[n], n))
        parts[least].append(job)
        taken[least] += job.seconds
    return parts
