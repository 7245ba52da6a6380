# SPDX-License-Identifier: GPL-2.0
"""A file from host to host, and the proof that it came as it was."""

import contextlib
import hashlib
import json
import shutil
import signal

from . import kernel
from .errors import CommandFailed, LabError, Mismatch
from .fabric import wait_until

# A file travels at megabytes a second even here, through a port that is adversarial, on a
# machine that has other things to do, at less than one.
SLOWEST = 256 << 10


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
    """`weftctl recv` in the background; it listens when this is made.

    Files arrive in a folder of the host's that both sides see.
    """

    def __init__(self, host, options=(), inbox="inbox"):
        self.host = host
        self.folder = host.run_dir / inbox
        self.there = f"/mnt/run/{inbox}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.job = host.start_job(host.weftctl_line("--json", "recv", "--once", *options, self.there))
        self.job.expect("listening on", 30)

    def has(self, size, timeout=60):
        """Waits until so many bytes of a file have come: of the folder as the host has it, which costs the guest
        nothing."""
        wait_until(
            lambda: self._most() >= size, timeout * kernel.patience(),
            f"{self.host.name}: {size} bytes of a file in {self.folder.name}", every=0.02,
        )  # fmt: skip

    def _most(self):
        sizes = [0]
        for file in self.folder.rglob("*"):
            # One that has come is named anew.
            with contextlib.suppress(FileNotFoundError):
                sizes.append(file.stat().st_size if file.is_file() else 0)
        return max(sizes)

    def wait(self, timeout):
        """Until it ends by itself, with success."""
        result = self.job.wait(timeout)
        if result.status:
            raise CommandFailed(
                f"{self.host.name}: weftctl recv ended with {result.status}:\n{result.err}{result.out}"
            )
        return result

    def end(self):
        """Whatever it does: it is to end now."""
        if self.job.running:
            self.job.kill(signal.SIGTERM)
            try:
                self.job.wait(20)
            except LabError:
                if self.host.alive:
                    raise

    def arrived(self, name):
        path = self.folder / name
        if not path.exists():
            names = ", ".join(p.name for p in self.folder.iterdir())
            raise Mismatch(f"no {name} arrived at {self.host.name}, only: {names or 'nothing'}")
        return path


def send_line(host, path, *options):
    return host.weftctl_line("--json", "send", *options, "--", path)


def report(result):
    """What `weftctl --json` said last."""
    return json.loads(result.out.strip().splitlines()[-1])


def carry(sender, receiver, path, source, *options):
    """Carries `path` of the sender, which is `source` here; the Transfer. `options`: of the sender."""
    size = source.stat().st_size
    receiving = Receiver(receiver)
    try:
        sent = sender.run(send_line(sender, path, *options), patience(size))
        receiving.wait(60)
    finally:
        receiving.end()
    arrived = receiving.arrived(source.name)
    if arrived.stat().st_size != size:
        raise Mismatch(f"{arrived.stat().st_size} bytes arrived, not {size}")
    done = Transfer(size, report(sent)["seconds"], sha256(source), sha256(arrived))
    arrived.unlink()
    return done


def traced(lab, sender, receiver, path, source):
    """A transfer of which every TLP is counted: (Transfer, {node: counters})."""
    nodes = [sender.name, receiver.name]
    for node in nodes:
        lab.fabric.trace(node, True)
        lab.fabric.counters(node, clear=True)
    try:
        done = carry(sender, receiver, path, source)
        counted = {node: lab.fabric.counters(node) for node in nodes}
    finally:
        for node in nodes:
            lab.fabric.trace(node, False)
    return done, counted
