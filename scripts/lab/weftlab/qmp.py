# SPDX-License-Identifier: GPL-2.0
"""QEMU's machine protocol, as far as it is needed: one command at a time."""

import json
import socket
import threading
import time

from .errors import CommandTimeout, GuestDied, LabError


class Qmp:
    def __init__(self, sock):
        self._sock = sock
        self._buffer = b""
        self._lock = threading.Lock()
        self.events = []
        self._ready = False

    def _line(self, deadline):
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise CommandTimeout("QEMU does not answer on QMP")
            self._sock.settimeout(left)
            try:
                data = self._sock.recv(65536)
            except socket.timeout:
                continue
            except OSError as error:
                raise GuestDied(f"QMP: {error}") from error
            if not data:
                raise GuestDied("QEMU closed QMP")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)

    def _call(self, name, args, deadline):
        request = {"execute": name}
        if args:
            request["arguments"] = args
        try:
            self._sock.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise GuestDied(f"QMP: {error}") from error
        while True:
            answer = self._line(deadline)
            if "event" in answer:
                self.events.append(answer)
            elif "error" in answer:
                raise LabError(f"QMP {name}: {answer['error'].get('desc')}")
            elif "return" in answer:
                return answer["return"]

    def call(self, name, /, timeout=10.0, **args):
        """Runs a command; underscores in names of arguments mean dashes."""
        deadline = time.monotonic() + timeout
        args = {key.replace("_", "-"): value for key, value in args.items()}
        with self._lock:
            if not self._ready:
                self._call("qmp_capabilities", {}, deadline)
                self._ready = True
            return self._call(name, args, deadline)

    def human(self, line, timeout=10.0):
        return self.call("human-monitor-command", timeout, command_line=line)

    def wait_event(self, name, timeout=30.0, match=lambda data: True):
        """The data of an event that came since the last look, or that comes."""
        deadline = time.monotonic() + timeout
        with self._lock:
            while True:
                for event in self.events:
                    if event["event"] == name and match(event.get("data", {})):
                        self.events.remove(event)
                        return event.get("data", {})
                answer = self._line(deadline)
                if "event" in answer:
                    self.events.append(answer)
