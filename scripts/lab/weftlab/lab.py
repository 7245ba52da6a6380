# SPDX-License-Identifier: GPL-2.0
"""A lab: hosts, what joins them, and a folder that keeps what they said."""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
import time

from . import kernel, paths, topology
from .errors import LabError
from .fabric import Fabric
from .guest import Port, start_all
from .host import Host
from .ivshmem import IvshmemServer

KEEP = 8


def run_folder(name):
    """A fresh folder under build/lab; the oldest of the same name go."""
    paths.BUILD.mkdir(parents=True, exist_ok=True)
    old = sorted(paths.BUILD.glob(f"{name}.*"), key=lambda p: p.stat().st_mtime)
    for folder in old[: max(0, len(old) - KEEP)]:
        shutil.rmtree(folder, ignore_errors=True)
    folder = paths.BUILD / f"{name}.{time.strftime('%m%d-%H%M%S')}.{os.getpid()}"
    folder.mkdir()
    return folder


class Progress:
    """Lines with the time since the start, for people."""

    def __init__(self, stream=sys.stderr, prefix=""):
        self._stream = stream
        self._prefix = prefix
        self.begin = time.monotonic()

    def __call__(self, text):
        now = time.monotonic() - self.begin
        print(f"{self._prefix}[{now:6.1f}s] {text}", file=self._stream, flush=True)

    @property
    def seconds(self):
        return time.monotonic() - self.begin


class Lab(contextlib.AbstractContextManager):
    """Hosts by name; `with` ends everything, whatever happens in between."""

    def __init__(self, name, progress=lambda text: None):
        self.folder = run_folder(name)
        self.say = progress
        # Paths of sockets are short by nature.
        self.sockets = pathlib.Path(tempfile.mkdtemp(prefix="weft-lab-"))
        self.fabric = None
        self.server = None
        self.hosts = {}

    def __getitem__(self, name):
        return self.hosts[name]

    def join(self, shape):
        """Starts weft-fabric with a topology."""
        self.fabric = Fabric(shape, self.folder, self.sockets).start()
        return self.fabric

    def join_ivshmem(self, size="32M"):
        """Starts ivshmem-server instead."""
        self.server = IvshmemServer(self.folder, self.sockets, size).start()
        return self.server

    def add(self, name, nodes=None, vfs=None, vf_slots=1, slots=None, slot_size=None, without_sockets=(), **options):
        """A host with a port a node; by default one, called as the host. With `vfs` each is
        an endpoint of two physical functions that can have so many virtual ones each, of so
        many slots; a dictionary has the number by node, and leaves the other nodes as they are. The
        driver needs a slot a link, and windows of that size would not all fit.
        `slots`: of a port without virtual functions, another number than the device's own.
        `slot_size`: bytes of a slot of such a port, so of the largest arena of its peers.
        `without_sockets`: nodes whose vital product data say that they support none."""
        if self.server:
            ports = [Port.ivshmem(self.server, f"{name}-port")]
        else:
            nodes = nodes or [name]
            vfs = vfs if isinstance(vfs, dict) else dict.fromkeys(nodes, vfs)
            props = {} if slots is None else {"slots": slots}
            props |= {} if slot_size is None else {"slot_size": slot_size}
            size = {} if vf_slots == 1 else {"slot_size": 4 << 20}
            mute = {node: {"sockets": "0"} for node in nodes if node in without_sockets}
            ports = [
                Port.weft(self.fabric, node, **props, **mute.get(node, {})) if vfs.get(node) is None
                else Port.endpoint(self.fabric, node, vfs=vfs[node], vf_slots=vf_slots, **size)
                for node in nodes
            ]  # fmt: skip
            for port in ports:
                if slot_size is not None:
                    port.room = "pref64-reserve=4G"
            options["links"] = [
                (number, link)
                for number, node in enumerate(nodes)
                for link in self.fabric.topology.links_of(node)
            ]
        self.hosts[name] = Host(name, self.folder / name, ports, **options)
        self.hosts[name].dir.mkdir(exist_ok=True)
        return self.hosts[name]

    def boot(self):
        """Boots the hosts that are not up."""
        hosts = [host for host in self.hosts.values() if not host.alive]
        seconds = start_all(hosts)
        self.say(f"{', '.join(h.name for h in hosts)} booted in {seconds:.1f} s")
        return self

    def load(self, *parameters):
        """insmod everywhere, then waits for the links."""
        for host in self.hosts.values():
            host.insmod(*parameters)
            if self.server:
                host.bind_ivshmem()
        for host in self.hosts.values():
            host.wait_links()
        return self

    def check_dmesg(self):
        errors = []
        for host in self.hosts.values():
            try:
                host.check_dmesg()
            except (LabError, OSError) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def close(self):
        """Ends everything; raises what was found on the way."""
        errors = []
        for host in self.hosts.values():
            try:
                kernel.last_look(host)
            except (LabError, OSError) as error:
                errors.append(error)
            try:
                host.stop()
            except (LabError, OSError) as error:
                errors.append(error)
        for part in (self.fabric, self.server):
            if part:
                part.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)
        if errors:
            raise errors[0]

    def abandon(self):
        """Ends everything, nothing asked."""
        for host in self.hosts.values():
            host.kill()
        for part in (self.fabric, self.server):
            if part:
                part.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)

    @staticmethod
    def _diagnose(host):
        """What the host itself says is wrong, if it still can say something."""
        if host.alive:
            found = host.weftctl("diagnose", timeout=20, status=None)
            if found.status == 1:
                print(f"{host.name}: weftctl diagnose:\n{found.out}", file=sys.stderr)

    def __exit__(self, kind, error, _trace):
        if kind is None:
            self.close()
            return
        if isinstance(error, LabError):
            for host in self.hosts.values():
                with contextlib.suppress(LabError):
                    for complaint in host.complaints():
                        print(f"{host.name}: the kernel complained:\n{complaint}", file=sys.stderr)
                    self._diagnose(host)
        self.abandon()


@contextlib.contextmanager
def making(name, progress=lambda text: None):
    """A lab that is put together, or abandoned; not booted yet."""
    lab = Lab(name, progress)
    try:
        yield lab
    except BaseException:
        lab.abandon()
        raise


def pair(name, progress=lambda text: None, ivshmem=False, **options):
    """Two hosts, h1 and h2, joined by one link; not booted yet."""
    with making(name, progress) as lab:
        if ivshmem:
            lab.join_ivshmem()
        else:
            lab.join(topology.chain(2))
        for host in ("h1", "h2"):
            lab.add(host, **options)
    return lab
