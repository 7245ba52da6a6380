# SPDX-License-Identifier: GPL-2.0
"""A file from host to host, and the proof that it came as it was."""

import hashlib
import json

from . import fabric
from .errors import CommandFailed, Mismatch

# A file travels at megabytes a second even here.
SLOWEST = 1 << 20


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def patience(size):
    return 60 + size / SLOWEST


class Transfer:
    """What became of one file."""

    def __init__(self, size, seconds, sent, arrived):
        self.bytes = size
        self.seconds = seconds
        self.sha256_sent = sent
        self.sha256_arrived = arrived

    @property
    def same(self):
        return self.sha256_sent == self.sha256_arrived

    @property
    def bytes_per_second(self):
        return self.bytes / self.seconds if self.seconds else 0.0


class Receiver:
    """`weftctl recv` in the background; ready when this is made."""

    def __init__(self, host, into, service=None, options=()):
        self.host = host
        words = ["--json", "recv", *(["--service", service] if service else []), *options, into]
        self.job = host.start_job(host.weftctl_line(*words) + "; s=$?; sync -f /mnt/run; exit $s")
        self.job.expect(r"[Ll]istening|waiting for", 30)

    def wait(self, timeout):
        result = self.job.wait(timeout)
        if result.status:
            raise CommandFailed(
                f"{self.host.name}: weftctl recv ended with {result.status}:\n{result.err}{result.out}"
            )
        return result


def send_words(path, peer=None, service=None):
    words = ["--json", "send"]
    if peer:
        words += ["--peer", peer]
    if service:
        words += ["--service", service]
    return [*words, path]


def carry(sender, receiver, path, source, service=None, name="received"):
    """Carries `path` of the sender, `source` on this machine; the Transfer."""
    size = source.stat().st_size
    into = receiver.run_dir / name
    into.unlink(missing_ok=True)
    receiving = Receiver(receiver, f"/mnt/run/{name}", service)
    sent = sender.weftctl(*send_words(path, service=service), timeout=patience(size))
    receiving.wait(30)
    report = json.loads(sent.out.strip().splitlines()[-1])
    if not into.exists():
        raise Mismatch(f"nothing arrived at {into}")
    if into.stat().st_size != size:
        raise Mismatch(f"{into.stat().st_size} bytes arrived, not {size}")
    return Transfer(size, report.get("seconds", sent.seconds), sha256(source), sha256(into))


def traced(lab, sender, receiver, path, source):
    """A transfer of which every TLP is counted: (Transfer, {node: counters})."""
    nodes = [sender.name, receiver.name]
    before = {}
    for node in nodes:
        lab.fabric.trace(node, True)
        before[node] = lab.fabric.counters(node, clear=True)
    try:
        done = carry(sender, receiver, path, source, name="traced")
        counted = {node: lab.fabric.counters(node) for node in nodes}
    finally:
        for node in nodes:
            lab.fabric.trace(node, False)
    return done, {node: fabric.tlps({}, counted[node]) for node in nodes}
