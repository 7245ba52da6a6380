# SPDX-License-Identifier: GPL-2.0
"""A guest as a Weft host: the driver, its devices and weftctl."""

import json
import shlex

from . import paths
from .guest import Guest

IVSHMEM_BIND = """set -e
for dev in /sys/bus/pci/devices/*; do
	[ "$(cat $dev/vendor):$(cat $dev/device)" = 0x1af4:0x1110 ] || continue
	echo weft-ivshmem >$dev/driver_override
	echo ${dev##*/} >/sys/bus/pci/drivers_probe
	[ "$(basename "$(readlink $dev/driver)")" = weft-ivshmem ]
done
"""


class Host(Guest):
    def __init__(self, name, folder, ports, **options):
        shares = options.pop("shares", {})
        shares = {"tools": paths.tools_dir(), "module": paths.module().parent, **shares}
        super().__init__(name, folder, ports, shares=shares, **options)

    def insmod(self, *parameters, status=0):
        return self.run(f"insmod /mnt/module/weft.ko {' '.join(parameters)}", status=status)

    def rmmod(self, status=0):
        return self.run("rmmod weft", status=status)

    def bind_ivshmem(self):
        """Foreign ids are taken only where the administrator says so."""
        self.run(IVSHMEM_BIND)

    def weftctl(self, *words, timeout=60.0, status=0):
        return self.run(self.weftctl_line(*words), timeout, status)

    @staticmethod
    def weftctl_line(*words):
        return "weftctl " + " ".join(shlex.quote(str(word)) for word in words)

    def weftctl_json(self, *words, timeout=60.0):
        return json.loads(self.weftctl("--json", *words, timeout=timeout).out)

    def wait_links(self, timeout=30):
        """Until every link of every port can carry channels."""
        self.weftctl("wait", "--timeout", timeout, timeout=timeout + 15)
