# SPDX-License-Identifier: GPL-2.0
"""Endpoints with two PFs and their VFs, as the stock kernel sees and handles them."""

from weftlab import kernel, transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps

LAB = "functions"
VFS = 16
SYSFS = "/sys/bus/pci/devices"
# Reads and writes a register of a function through sysfs: FUNCTION OFFSET [VALUE].
REGISTER = """import mmap, os, struct, sys
fd = os.open(f"/sys/bus/pci/devices/{sys.argv[1]}/resource0", os.O_RDWR)
at = int(sys.argv[2], 0)
page = mmap.mmap(fd, 4096, offset=at & ~4095)
if len(sys.argv) > 3:
    page[at % 4096:at % 4096 + 4] = struct.pack("<I", int(sys.argv[3], 0))
print("%#x" % struct.unpack("<I", page[at % 4096:at % 4096 + 4]))
"""
SCRATCH = 0x44


def endpoints(bench):
    """The lab, its host with two PFs of 16 VFs each, and these functions."""
    lab = bench.endpoints(VFS)
    return lab, lab["h1"], Functions(lab["h1"])


class Functions:
    """The functions of h1's endpoint, as its kernel calls them."""

    def __init__(self, host):
        self.host = host
        port = host.out("basename $(readlink -f /sys/class/weft/weft0/device)")
        self.pf = [port, port[:-1] + "1"]

    def attribute(self, function, name):
        return self.host.out(f"cat {SYSFS}/{function}/{name}")

    def show(self, function):
        return self.host.out(f"lspci -vvv -s {function}")

    def driver(self, function):
        return self.host.out(f"basename $(readlink -f {SYSFS}/{function}/driver)")

    def register(self, function, offset, *value):
        """Read it, or write and read it."""
        path = self.host.push("register.py", REGISTER.encode())
        words = " ".join(hex(word) for word in (offset, *value))
        return int(self.host.out(f"python3 {path} {function} {words}"), 0)


@test("MR-8: lspci and sysfs tell of both PFs what SR-IOV has, and the driver takes both")
def seen(bench):
    lab, host, functions = endpoints(bench)
    for number, pf in enumerate(functions.pf):
        if functions.attribute(pf, "sriov_totalvfs") != str(VFS):
            raise Mismatch(f"{pf}: not {VFS} VFs in sysfs")
        steps.said(
            functions.show(pf),
            r"Single Root I/O Virtualization \(SR-IOV\)",
            rf"Initial VFs: {VFS}, Total VFs: {VFS}, Number of VFs: 0, "
            rf"Function Dependency Link: 0{1 - number}",
            r"VF offset: 16, stride: 2, Device ID: 7ef8",
            # The last one, of the VFs: it has an address.
            r"(?s)Device ID: 7ef8.*Region 2: Memory at 0*[1-9a-f][0-9a-f]+ \(64-bit",
            r"Advanced Error Reporting",
            r"FLReset\+",
            r"MSI-X: Enable\+ Count=16",
        )
        if functions.driver(pf) != "weft":
            raise Mismatch(f"{pf} is bound to {functions.driver(pf)}")
    steps.both_ways(lab)


@test("VFs are enabled by the kernel, nothing takes them for ports, a reset of one is its own")
def enabled(bench):
    lab, host, functions = endpoints(bench)
    pf = functions.pf[1]
    host.stock("pci-pf-stub")
    host.run(
        f"echo {pf} >/sys/bus/pci/drivers/weft/unbind && "
        f"echo pci-pf-stub >{SYSFS}/{pf}/driver_override && echo {pf} >/sys/bus/pci/drivers_probe"
    )
    host.run(f"echo {VFS} >{SYSFS}/{pf}/sriov_numvfs", 120)
    # What the Function Dependency Link is to the kernel.
    on = host.out(f"basename $(readlink -f {SYSFS}/{pf}/dep_link)")
    if on != functions.pf[0]:
        raise Mismatch(f"{pf} depends on {on}")
    vfs = [host.out(f"basename $(readlink -f {SYSFS}/{pf}/virtfn{n})") for n in range(VFS)]
    if len(set(vfs)) != VFS:
        raise Mismatch(f"VFs: {vfs}")
    for vf in vfs:
        if functions.attribute(vf, "vendor") + functions.attribute(vf, "device") != "0x12340x7ef8":
            raise Mismatch(f"{vf} is another device")
        host.run(f"test ! -e {SYSFS}/{vf}/driver")
    steps.said(functions.show(vfs[3]), r"Region 2: Memory at 0*[1-9a-f][0-9a-f]+ \(64-bit",
               r"MSI-X: Enable- Count=16", r"Advanced Error Reporting")  # fmt: skip
    for number in (0, 3, VFS - 1):
        host.run(f"echo 1 >{SYSFS}/{vfs[number]}/enable")
        have = functions.register(vfs[number], 0x50)
        if have != 1 << 31 | 18 + number:
            raise Mismatch(f"FUNCTION of VF {number} is {have:#x}")
        functions.register(vfs[number], SCRATCH, 0x100 + number)
    host.run(f"echo 1 >{SYSFS}/{vfs[3]}/reset")
    values = [functions.register(vfs[number], SCRATCH) for number in (0, 3, VFS - 1)]
    if values != [0x100, 0, 0x100 + VFS - 1]:
        raise Mismatch(f"SCRATCH of three VFs after the reset of one: {values}")
    # All the time the first PF is the driver's.
    steps.both_ways(lab)
    host.run(f"echo 0 >{SYSFS}/{pf}/sriov_numvfs && test ! -e {SYSFS}/{vfs[0]}")
    host.run(
        f"echo {pf} >/sys/bus/pci/drivers/pci-pf-stub/unbind && echo >{SYSFS}/{pf}/driver_override && "
        f"echo {pf} >/sys/bus/pci/drivers_probe"
    )
    if functions.driver(pf) != "weft":
        raise Mismatch("the driver does not take the PF back")
    steps.both_ways(lab)


@test("errors injected by AER are reported, and the driver works again after each")
def injected(bench):
    lab, host, functions = endpoints(bench)
    pf = functions.pf[0]
    for name, words in (
        # What the kernel says, and last of all.
        ("BAD_TLP", ["severity=Correctable", f"{pf}.*BadTLP"]),
        ("POISON_TLP", [r"\(Non-Fatal\)", f"{pf}.* TLP", "device recovery successful"]),
        # The kernel does not ask a function that may not answer for the name of a fatal one.
        ("MALF_TLP", [rf"weft {pf}: .*\(Fatal\)", "link has been reset", "device recovery successful"]),
    ):
        steps.aer(host, name, *words)
        for each in lab.hosts.values():
            each.wait_links(60)
        steps.both_ways(lab)


@test("an error that the bus does not recover from ends what waits, and a driver bound anew works")
def not_recovered(bench):
    lab, host, functions = endpoints(bench)
    pf, other = functions.pf
    # A driver that knows nothing of errors: with it the bus does not recover.
    host.stock("pci-pf-stub")
    host.run(
        f"echo {other} >/sys/bus/pci/drivers/weft/unbind && "
        f"echo pci-pf-stub >{SYSFS}/{other}/driver_override && echo {other} >/sys/bus/pci/drivers_probe"
    )
    receiving = transfer.Receiver(host, ["--timeout", 600 * kernel.patience()])
    steps.aer(host, "POISON_TLP", r"\(Non-Fatal\)", "device recovery failed")
    lost = receiving.job.wait(60)
    steps.refused(lost, lost.status or 1, "port")
    host.run(
        f"echo {other} >/sys/bus/pci/drivers/pci-pf-stub/unbind && echo >{SYSFS}/{other}/driver_override && "
        f"echo {other} >/sys/bus/pci/drivers_probe && "
        f"echo {pf} >/sys/bus/pci/drivers/weft/unbind && echo {pf} >/sys/bus/pci/drivers/weft/bind"
    )
    for each in lab.hosts.values():
        each.wait_links(60)
    steps.both_ways(lab)


@test("HP-2: an endpoint is pulled with VFs enabled, the driver bound and a file open, and put back", long=True)
def pulled(bench):
    lab, host, functions = endpoints(bench)
    port = host.ports[0]
    for _ in range(2):
        # Behind the driver's back, for it does not know VFs: NumVFs, then VF Enable and VF MSE.
        for pf in functions.pf:
            host.run(f"setpci -s {pf} ECAP_SRIOV+10.w={VFS:x} && setpci -s {pf} ECAP_SRIOV+8.w=9")
            steps.said(functions.show(pf), rf"Number of VFs: {VFS}", r"IOVCtl:\s+Enable\+")
        with kernel.slots_at_work(host):
            steps.pull(host, port, patience=60, nodes=("/dev/weft0", "/dev/weft1"))
            lab["h2"].wait_link("down")
            host.plug(port, "slot0")
            host.until("[ -e /dev/weft0 ] && [ -e /dev/weft1 ]")
            for each in lab.hosts.values():
                each.wait_links()
        steps.both_ways(lab)
