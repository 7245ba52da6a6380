# SPDX-License-Identifier: GPL-2.0
"""A guest as a Weft host: the driver, its devices and weftctl."""

import json
import lzma
import shlex

from . import kernel, paths
from .errors import CommandTimeout, Skip
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
        # (number of the port, number of its link) wherever a cable is plugged in.
        self.links = options.pop("links", [(0, 0)])
        super().__init__(name, folder, ports, shares=shares, **options)

    def insmod(self, *parameters, status=0):
        return self.run(f"insmod /mnt/module/weft.ko {' '.join(parameters)}", status=status)

    def rmmod(self, status=0):
        return self.run("rmmod weft", status=status)

    def stock(self, driver):
        """Has a PCI driver of the kernel's own there: it may be built in, or a module."""
        if self.run(f"test -d /sys/bus/pci/drivers/{driver}", status=None).status:
            self.stock_module(driver)

    def stock_module(self, name):
        """Loads a module that came with the kernel, and those that it needs."""
        index = next(paths.modules().glob("*/modules.dep"), None)
        for line in index.read_text().splitlines() if index else ():
            file, _, needs = line.partition(":")
            if file.rpartition("/")[2] != f"{name}.ko.xz":
                continue
            for path in [*reversed(needs.split()), file]:
                short = path.rpartition("/")[2].removesuffix(".ko.xz")
                if self.run(f"test -d /sys/module/{short.replace('-', '_')}", status=None).status:
                    unpacked = lzma.decompress((index.parent / path).read_bytes())
                    self.run(f"insmod {self.push(f'{short}.ko', unpacked)}")
            return
        raise Skip(f"this kernel has no module {name}")

    def no_stock(self, driver):
        """Unloads it, if it can be."""
        module = driver.replace("-", "_")
        self.run(f"test ! -e /sys/module/{module}/initstate || rmmod {module}")

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

    def link_state(self, port=0, link=0):
        return self.out(f"cat /sys/class/weft/weft{port}/device/link{link}/state")

    def wait_link(self, state, timeout=90, port=0, link=0):
        """Until the driver says that a link is in that state."""
        timeout *= kernel.patience()
        attribute = f"/sys/class/weft/weft{port}/device/link{link}/state"
        line = self.until_line(f"read -r s <{attribute} && [ $s = {state} ]", timeout, 20)
        result = self.run(f"exec 2>/dev/null; {line}", timeout + 30, None)
        if result.status:
            have = self.run(f"cat {attribute}", status=None)
            raise CommandTimeout(
                f"{self.name}: link {link} of weft{port} is {(have.out + have.err).strip()}, "
                f"not {state}, after {timeout} s"
            )

    def wait_links(self, timeout=90):
        """Until every link that has a cable can carry channels."""
        for port, link in self.links:
            self.wait_link("ready", timeout, port, link)
