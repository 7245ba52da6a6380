# SPDX-License-Identifier: GPL-2.0
"""A QEMU whose CPU does nothing: the test does the bus accesses, by the qtest protocol."""

import json
import os
import select
import signal
import socket
import subprocess

from tap import PATIENCE, until

RAM_BYTES = 64 << 20


class Died(Exception):
    """QEMU is gone."""


class _Line:
    """A connection that QEMU opened to us, of lines."""

    def __init__(self, scope, qemu, path):
        self.qemu = qemu
        self.path = path
        self.buffer = b""
        self.socket = None
        self.listener = scope.enter_context(socket.socket(socket.AF_UNIX))
        self.listener.bind(path)
        self.listener.listen(1)
        self.listener.settimeout(0.05)
        self.scope = scope

    def accept(self):
        def attempt():
            if self.qemu.process.poll() is not None:
                raise Died(self.qemu.obituary())
            try:
                return self.listener.accept()[0]
            except TimeoutError:
                return None
        self.socket = self.scope.enter_context(until(attempt, f"QEMU to connect to {self.path}"))
        self.socket.settimeout(PATIENCE)

    def send(self, text):
        try:
            self.socket.sendall(text.encode() + b"\n")
        except OSError as error:
            raise Died(self.qemu.obituary()) from error

    def receive(self):
        while b"\n" not in self.buffer:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionError:
                data = b""
            except TimeoutError:
                raise AssertionError(f"{self.qemu.name}: QEMU hangs") from None
            if not data:
                raise Died(self.qemu.obituary())
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()


class Qemu:
    """One QEMU process. With accel="tcg" its CPU runs what it is given, and so does its clock."""

    def __init__(self, scope, name, *args, accel="qtest", ram="memory-backend-memfd,id=ram,share=on", fails=False):
        self.name = name
        self.events = []
        self.complains = False      # whether it has reason to
        path = os.path.join(scope.dir, name)
        self.log = path + ".log"
        self.qtest = _Line(scope, self, path + ".qtest")
        self.qmp_line = _Line(scope, self, path + ".qmp")
        command = [
            os.environ["WEFT_QEMU"], "-name", name, "-nodefaults", "-display", "none",
            "-L", "/usr/share/seabios", "-L", "/usr/share/qemu",
            "-machine", f"q35,accel={accel},memory-backend=ram", "-m", str(RAM_BYTES >> 20),
            "-object", f"{ram},size={RAM_BYTES}",
            "-qtest", f"unix:{path}.qtest", "-qtest-log", "none",
            "-qmp", f"unix:{path}.qmp", *args,
        ]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        scope.callback(self.kill)
        if fails:
            return
        self.qtest.accept()
        self.qmp_line.accept()
        self.qmp_line.receive()
        self.qmp("qmp_capabilities")
        scope.at_end(self.quit)

    def errors(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def obituary(self):
        code = self.process.wait(PATIENCE)
        return f"QEMU {self.name} ended with {code}:\n{self.errors()}"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self, stop=True):
        self.process.send_signal(signal.SIGSTOP if stop else signal.SIGCONT)

    def quit(self):
        """End in order: leaving must not be a crash either."""
        if self.process.poll() == -signal.SIGKILL:
            return
        self.qmp_line.send(json.dumps({"execute": "quit"}))
        if self.process.wait(PATIENCE):
            raise Died(self.obituary())
        if self.errors() and not self.complains:
            raise AssertionError(f"QEMU {self.name} complains:\n{self.errors()}")

    def mappings(self, name):
        """How many of its mappings are of a file of that name."""
        with open(f"/proc/{self.process.pid}/maps", encoding="utf-8", errors="replace") as maps:
            return sum(name in line for line in maps)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    # ---- qtest

    def command(self, text):
        self.qtest.send(text)
        reply = self.qtest.receive()
        while reply.startswith("IRQ "):
            reply = self.qtest.receive()
        if not reply.startswith("OK"):
            raise AssertionError(f"{text}: {reply}")
        return reply[3:]

    def begin(self, text):
        """A command that takes its time; finish() takes its answer."""
        self.qtest.send(text)

    def finished(self):
        """Whether there is one."""
        return bool(self.qtest.buffer or select.select([self.qtest.socket], [], [], 0)[0])

    def finish(self):
        reply = self.qtest.receive()
        if not reply.startswith("OK"):
            raise AssertionError(reply)

    def read(self, address, size):
        return int(self.command(f"read{'?bw?l???q'[size]} {address:#x}"), 0)

    def write(self, address, size, value):
        self.command(f"write{'?bw?l???q'[size]} {address:#x} {value:#x}")

    def readl(self, address):
        return self.read(address, 4)

    def writel(self, address, value):
        self.write(address, 4, value)

    def read_bytes(self, address, size):
        return bytes.fromhex(self.command(f"read {address:#x} {size:#x}")[2:])

    def write_bytes(self, address, data):
        self.command(f"write {address:#x} {len(data):#x} 0x{data.hex()}")

    def clock_step(self, ns):
        self.command(f"clock_step {ns}")

    # ---- QMP

    def qmp(self, execute, **arguments):
        self.qmp_line.send(json.dumps({"execute": execute, "arguments": arguments}))
        while True:
            reply = json.loads(self.qmp_line.receive())
            if "event" in reply:
                self.events.append(reply)
            elif "error" in reply:
                raise AssertionError(f"{execute}: {reply['error']['desc']}")
            else:
                return reply["return"]

    def wait_event(self, name):
        def seen():
            self.qmp("query-version")
            return [event for event in self.events if event["event"] == name]
        return until(seen, f"QMP event {name}")
