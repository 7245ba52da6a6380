# SPDX-License-Identifier: GPL-2.0
"""ivshmem-server: joins ivshmem-doorbell devices, QEMU's own shared memory."""

import os
import subprocess

from . import paths, process
from .errors import FabricError
from .fabric import wait_until

VECTORS = 8
VENDOR_DEVICE = "1af4:1110"


class IvshmemServer:
    def __init__(self, folder, sockets, size="32M", name="ivshmem"):
        self.socket = sockets / f"{name}.sock"
        self.log = folder / f"{name}-server.log"
        self._shm = sockets / name
        self._size = size
        self._child = None

    def start(self):
        self._shm.mkdir(exist_ok=True)
        with open(self.log, "ab") as log:
            self._child = process.spawn(
                [
                    paths.env("ivshmem-server"), "-F",
                    "-S", self.socket, "-m", self._shm,
                    "-l", self._size, "-n", VECTORS,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

        def up():
            if self._child.poll() is not None:
                raise FabricError(f"ivshmem-server ended:\n{self.log.read_text()[-2000:]}")
            return os.path.exists(self.socket)

        wait_until(up, 10, "ivshmem-server's socket")
        return self

    @property
    def memory(self):
        """The file that is the shared memory. It has no name any more: the server has it open."""
        files = f"/proc/{self._child.pid}/fd"
        (number,) = {n for n in os.listdir(files) if os.readlink(f"{files}/{n}").startswith(str(self._shm))}
        return f"{files}/{number}"

    def stop(self):
        if self._child is not None:
            process.end(self._child)
            self._child = None
