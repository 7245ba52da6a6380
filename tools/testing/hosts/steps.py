# SPDX-License-Identifier: GPL-2.0
"""What several tests do: payloads, refusals, waiting for a link's state."""

import hashlib
import random

from weftlab import transfer
from weftlab.errors import Mismatch


def payload(host, name, size, seed=1):
    """A file of noise at `host`; (path there, path here)."""
    path = host.push(name, random.Random(seed).randbytes(size))
    return path, host.run_dir / name


def carry(lab, sender, receiver, size, name="payload", seed=1):
    """A file of noise from host to host: it must arrive as it was."""
    path, source = payload(lab[sender], name, size, seed)
    done = transfer.carry(lab[sender], lab[receiver], path, source)
    if not done.same:
        raise Mismatch(f"{size} bytes: sent {done.sha256_sent}, arrived {done.sha256_arrived}")
    return done


def both_ways(lab, size=1 << 20):
    """Proof that the link works."""
    carry(lab, "h1", "h2", size, "forth", 2)
    carry(lab, "h2", "h1", size, "back", 3)


def refused(result, status, *words):
    """A command must end with `status` and say each of `words` on stderr, in plain language."""
    if result.status != status:
        raise Mismatch(f"`{result.command}` ended with {result.status}, not {status}:\n{result.err}")
    for word in words:
        if word.lower() not in result.err.lower():
            raise Mismatch(f"`{result.command}` does not say {word!r}:\n{result.err}")
    for ugly in ("panicked", "unwrap", "Os {", "os error"):
        if ugly in result.err:
            raise Mismatch(f"`{result.command}` says {ugly!r}:\n{result.err}")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wait_state(host, state, timeout=30, port=0, link=0):
    """Until the driver says so; sysfs tells of changes, so that nobody has to look again and again."""
    attribute = f"/sys/class/weft/weft{port}/device/link{link}/state"
    host.run(
        f"python3 - {attribute} {state} {timeout} <<'E'\n"
        "import os, select, sys, time\n"
        "path, want, limit = sys.argv[1], sys.argv[2], time.monotonic() + float(sys.argv[3])\n"
        "file = os.open(path, os.O_RDONLY)\n"
        "poll = select.poll()\n"
        "poll.register(file, select.POLLPRI)\n"
        "while True:\n"
        "    have = os.pread(file, 64, 0).decode().strip()\n"
        "    left = limit - time.monotonic()\n"
        "    if have == want or left <= 0:\n"
        "        break\n"
        "    poll.poll(left * 1000)\n"
        "sys.exit(0 if have == want else f'{path}: {have}, not {want}')\n"
        "E\n",
        timeout + 30,
    )
