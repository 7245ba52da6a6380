# SPDX-License-Identifier: GPL-2.0
"""The host's end of scripts/vm/agent.c: commands in a guest, many at a time."""

import re
import signal
import threading
import time

from . import kernel
from .errors import CommandFailed, CommandTimeout, GuestDied, GuestRebooted

PROTOCOL = 1


class Result:
    """How a command ended."""

    def __init__(self, command, status, out, err, seconds):
        self.command = command
        self.status = status
        self.out = out
        self.err = err
        self.seconds = seconds

    def must(self, status=0):
        if self.status != status:
            raise CommandFailed(
                f"`{self.command}` ended with {self.status}, not {status}\n"
                f"{self.out[-2000:]}{self.err[-2000:]}".rstrip()
            )
        return self


class Job:
    """A command that runs in a guest."""

    def __init__(self, agent, number, command, capture=None):
        self._agent = agent
        self.number = number
        self.command = command
        self._capture = capture
        self.started = time.monotonic()
        self.seconds = None
        self.status = None
        self.error = None
        self._out = bytearray()
        self._err = bytearray()

    @property
    def out(self):
        return self._out.decode(errors="replace")

    @property
    def err(self):
        return self._err.decode(errors="replace")

    def out_from(self, offset):
        """Output from a byte on, and the byte to ask from next time."""
        with self._agent.changed:
            return self._out[offset:].decode(errors="replace"), len(self._out)

    @property
    def running(self):
        return self.status is None and self.error is None

    def _wait(self, ready, timeout, what):
        timeout *= kernel.patience()
        deadline = time.monotonic() + timeout
        with self._agent.changed:
            while not ready():
                if self.error:
                    raise self.error
                left = deadline - time.monotonic()
                if left <= 0:
                    raise CommandTimeout(
                        f"{self._agent.name}: `{self.command}`: {what} not within "
                        f"{timeout:.0f} s\n{self.out[-2000:]}{self.err[-2000:]}".rstrip()
                    )
                self._agent.changed.wait(min(left, 1.0))

    def wait(self, timeout=60.0):
        """Waits for the end; a command that takes longer is captured, then killed."""
        try:
            self._wait(lambda: self.status is not None, timeout, "ended")
        except CommandTimeout as error:
            evidence = self._capture() if self._capture else ""
            self.kill(signal.SIGKILL)
            raise CommandTimeout(f"{error}\n{evidence}".rstrip()) from None
        return Result(self.command, self.status, self.out, self.err, self.seconds)

    def expect(self, pattern, timeout=30.0):
        """Waits until stdout or stderr matches; an early end is a failure."""
        found = []

        def ready():
            match = re.search(pattern, self.out, re.M) or re.search(pattern, self.err, re.M)
            if match:
                found.append(match)
            return match or self.status is not None

        self._wait(ready, timeout, f"/{pattern}/ seen")
        if not found:
            raise CommandFailed(
                f"{self._agent.name}: `{self.command}` ended with {self.status} before "
                f"/{pattern}/ was seen\n{self.out[-2000:]}{self.err[-2000:]}".rstrip()
            )
        return found[0]

    def kill(self, number=signal.SIGTERM):
        self._agent.send(f"kill {self.number} {int(number)}\n".encode())


class Agent:
    def __init__(self, name, sock):
        self.name = name
        self._sock = sock
        self._file = sock.makefile("rb")
        self._jobs = {}
        self._next = 1
        self._send_lock = threading.Lock()
        self.changed = threading.Condition()
        self.hellos = 0
        self.boot_seconds = None
        self.gone = None
        self._thread = threading.Thread(target=self._read, name=f"agent-{name}", daemon=True)
        self._thread.start()

    def _read(self):
        try:
            while True:
                line = self._file.readline()
                if not line:
                    break
                self._frame(line.split())
        except OSError:
            pass
        self.fail(GuestDied(f"{self.name}: the agent's channel closed"))

    def _frame(self, words):
        if words[0] == b"hello":
            with self.changed:
                self.hellos += 1
                self.boot_seconds = int(words[2]) / 1000
                self._fail_jobs(GuestRebooted(f"{self.name}: the guest started anew"))
                self.changed.notify_all()
        elif words[0] in (b"out", b"err"):
            data = self._file.read(int(words[2]))
            with self.changed:
                job = self._jobs.get(int(words[1]))
                if job:
                    (job._out if words[0] == b"out" else job._err).extend(data)
                self.changed.notify_all()
        elif words[0] == b"end":
            with self.changed:
                job = self._jobs.pop(int(words[1]), None)
                if job:
                    job.seconds = time.monotonic() - job.started
                    job.status = int(words[2])
                self.changed.notify_all()

    def _fail_jobs(self, error):
        for job in self._jobs.values():
            job.error = error
        self._jobs.clear()

    def fail(self, error):
        """Ends everything that runs: the guest is not there any more."""
        with self.changed:
            self.gone = self.gone or error
            self._fail_jobs(error)
            self.changed.notify_all()

    def send(self, data):
        try:
            with self._send_lock:
                self._sock.sendall(data)
        except OSError as error:
            raise self.gone or GuestDied(f"{self.name}: agent: {error}") from error

    def start(self, command, capture=None):
        """Starts a command; `capture` returns the evidence if it does not end in time."""
        data = command.encode()
        with self.changed:
            if self.gone:
                raise self.gone
            job = Job(self, self._next, command, capture)
            self._next += 1
            self._jobs[job.number] = job
        self.send(f"run {job.number} {len(data)}\n".encode() + data)
        return job

    def close(self):
        self._sock.close()
