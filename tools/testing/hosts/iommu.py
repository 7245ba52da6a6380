# SPDX-License-Identifier: GPL-2.0
"""What only machines with an IOMMU show; everything else runs with one as well (check --iommu)."""

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps

LAB = "pair"
DEVICE = "/sys/class/weft/weft0/device"

# Latches inbound entry 31 of an unbound port at a physical address, as a driver would that has
# not heard of IOMMUs. Prints STATUS of the entry, ERR_STATUS and the entry's faults.
RAW = """import mmap, os, re, struct, sys
device, = sys.argv[1:]
text = open("/mnt/weft/qemu/weft/weft_regs.h").read()
R = {n: int(v, 0) for n, v in re.findall(r"#define\\s+WEFT_(\\w+)\\s+(\\w+)", text) if v[0].isdigit()}
with open(device + "/config", "r+b", buffering=0) as config:
    config.seek(4)
    config.write(struct.pack("<H", 6))
file = os.open(device + "/resource0", os.O_RDWR)
words = memoryview(mmap.mmap(file, R["BAR_CTRL_SIZE"])).cast("I")
entry = R["R_INBOUND"] + 31 * R["INBOUND_STRIDE"]
def put(at, *values):
    for n, value in enumerate(values):
        words[at // 4 + n] = value
put(entry + R["INBOUND_OFFSET"], 0, 0)
put(entry + R["INBOUND_LEN"], 4096, 0)
# RAM of the machine, and not the page of address 0.
put(entry + R["INBOUND_BASE"], 0x1000000, 0)
put(entry + R["INBOUND_RIGHTS"], 3)
put(entry + R["INBOUND_ALLOW"], 15)
put(entry + R["INBOUND_CTRL"], R["INBOUND_ENABLE"])
faults = R["R_COUNTERS"] + 8 * R["CNT_IN_FAULTS"]
print(words[(entry + R["INBOUND_STATUS"]) // 4], words[R["R_ERR_STATUS"] // 4], words[faults // 4])
put(entry + R["INBOUND_CTRL"], 0)
put(R["R_ERR_STATUS"], 0xffffffff)
"""
INVALID, ERR_IN_INVALID = 4, 8


@test("the port's domain translates, in strict mode, and its interrupts are remapped", core=True, iommu=True)
def in_force(bench):
    lab = bench.pair()
    for host in lab.hosts.values():
        kind = host.out(f"cat {DEVICE}/iommu_group/type")
        # DMA-FQ would be a domain that unmaps later.
        if kind != "DMA":
            raise Mismatch(f"{host.name}: the domain of the port is {kind}, not DMA")
        # Those that the driver has asked for are listed.
        vectors = host.out(f"ls {DEVICE}/msi_irqs").split()
        lines = host.out("cat /proc/interrupts").splitlines()
        lines = [line for line in lines if line.split(":")[0].strip() in vectors]
        if len(lines) < 3:
            raise Mismatch(f"{host.name}: of {len(vectors)} interrupts {len(lines)} are asked for")
        for line in lines:
            if "IR-PCI-MSIX" not in line:
                raise Mismatch(f"{host.name}: an interrupt of the port is not remapped: {line}")
    steps.both_ways(lab)


@test("a guest-physical address as the base of an aperture is refused, and the kernel sees the fault",
      core=True, iommu=True)
def physical_address(bench):
    lab = bench.pair()
    h1 = lab["h1"]
    device = h1.out(f"readlink -f {DEVICE}")
    name = device.rpartition("/")[2]
    h1.run(f"echo {name} >/sys/bus/pci/drivers/weft/unbind")
    script = h1.push("raw.py", RAW.encode())
    told = h1.out(f"python3 {script} {device}").split()
    if told != [str(INVALID), str(ERR_IN_INVALID), "1"]:
        raise Mismatch(f"status, errors and faults are {' '.join(told)}")
    # The kernel prints a fault when its interrupt has come.
    fault = f"dmesg | grep -q 'DMAR:.*{name[5:]}.*fault addr 0x1000000'"
    h1.run(f"{h1.until_line(fault, 30)} || {{ dmesg | grep DMAR; exit 1; }}")
    h1.run(f"echo {name} >/sys/bus/pci/drivers/weft/bind")
    for host in lab.hosts.values():
        host.wait_links()
    steps.both_ways(lab)
