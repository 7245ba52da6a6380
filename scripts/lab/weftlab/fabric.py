# SPDX-License-Identifier: GPL-2.0
"""weft-fabric: the daemon of a run, and its command line."""

import json
import signal
import subprocess
import time

from . import paths, process
from .errors import CommandTimeout, FabricError


class Fabric:
    # The seed of adversarial mode in which ports are unless a test says otherwise.
    adversarial_seed = None

    def __init__(self, topology, folder, sockets):
        self.topology = topology
        self.folder = folder
        self.dir = sockets
        self.port_socket = sockets / "port.sock"
        self.log = folder / "weft-fabric.log"
        self._file = folder / "topology.toml"
        self.written(topology.toml())
        self._child = None

    def written(self, text):
        """Another topology, from the next start on."""
        self._file.write_text(text)

    def start(self, timeout=20.0):
        """Returns when the daemon says that it is ready."""
        log = open(self.log, "ab")
        with log:
            self._child = process.spawn(
                [paths.tool("weft-fabric"), "run", self._file, "--dir", self.dir],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        line = self._child.stdout.readline().decode().strip()
        if line != "ready":
            status = process.end(self._child)
            raise FabricError(
                f"weft-fabric said {line!r}, not 'ready', and ended with {status}; {self.log}:\n"
                + self.log.read_text()[-2000:]
            )
        if self.adversarial_seed is not None:
            for name, _ in self.topology.hosts:
                self.adversarial(name, self.adversarial_seed)
        return self

    def freeze(self, frozen=True):
        """Nothing of it happens meanwhile."""
        self._child.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    @property
    def alive(self):
        return self._child is not None and self._child.poll() is None

    def call(self, *words, timeout=30.0, check=True):
        """Runs `weft-fabric --dir DIR words…`; the completed process."""
        args = [paths.tool("weft-fabric"), "--dir", str(self.dir), *map(str, words)]
        try:
            done = subprocess.run(args, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise CommandTimeout(f"weft-fabric {' '.join(words)}: no end within {timeout:.0f} s")
        if check and done.returncode:
            raise FabricError(
                f"weft-fabric {' '.join(map(str, words))} ended with {done.returncode}: "
                f"{done.stderr.strip()}"
            )
        return done

    def status(self):
        return json.loads(self.call("status", "--json").stdout)

    def link(self, state, end):
        self.call("link", state, end)

    def walk(self, host, lid):
        """The route of a host's traffic to a local id."""
        return json.loads(self.call("route", "walk", host, lid, "--json").stdout)

    def tables(self, node):
        """Local id, routes and planes of a host or switch."""
        return json.loads(self.call("route", "show", node, "--json").stdout)

    def trace(self, node, on):
        self.call("trace", node, "on" if on else "off")

    def adversarial(self, node, seed):
        """Adversarial mode with that seed, or, with None, not."""
        state = ["off"] if seed is None else ["on", "--seed", seed]
        self.call("adversarial", node, *state)

    def inject(self, *words):
        """A fault; its number."""
        return json.loads(self.call("inject", *words, "--json").stdout)["number"]

    def faults(self):
        return json.loads(self.call("inject", "list", "--json").stdout)["faults"]

    def clear(self):
        """Ends all faults."""
        self.call("inject", "clear")

    def counters(self, node, clear=False):
        """Counters by name."""
        answer = json.loads(
            self.call("counters", node, "--json", *(["--clear"] if clear else [])).stdout
        )
        return answer.get("counters", answer)

    def kill(self):
        process.kill(self._child)
        self._child.stdout.close()

    def stop(self):
        if self._child is not None:
            process.end(self._child)
            if not self._child.stdout.closed:
                self._child.stdout.close()
            self._child = None


def wait_until(condition, timeout, what, every=0.05):
    """Polls the host's own state (not a guest's), where nothing announces it."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise CommandTimeout(f"{what}: not within {timeout:.0f} s")
        time.sleep(every)
