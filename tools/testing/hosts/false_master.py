# SPDX-License-Identifier: GPL-2.0
"""A master that writes what it likes: raw packets of the network manager, through the registers of a host's
port and beside its driver. Of the fabric it knows what every host does (Documentation/manager.rst)."""

import contextlib
import json
import signal

from weftlab import paths
from weftlab.errors import Mismatch

from .constants import constants

SYSFS = "/sys/class/weft/weft0/device"
# REST sends "come to rest" in the term of the true master, again and again; TERMS writes in one term after the
# other, as fast as it can: WHAT TERM MASTER HWID LIFE PORT...
SCRIPT = """import ctypes, mmap, os, struct, sys, time
TX_DATA, TX_CTRL = 0x200, 0x300
FROM_MASTER, REST = 1, 13
# Later than any version that the true master comes to (Documentation/manager.rst).
NEWEST = 0x7fffffff
what = sys.argv[1]
term, master, to, life = (int(word, 0) for word in sys.argv[2:6])
path = bytes(map(int, sys.argv[6:]))
file = os.open("/sys/class/weft/weft0/device/resource0", os.O_RDWR)
regs = mmap.mmap(file, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


def store(at, value):
    ctypes.c_uint32.from_buffer(regs, at).value = value


def rest(number, term, version, on):
    payload = struct.pack("<BIIQIQIB", REST, number, term, master, version, to, life, on)
    body = struct.pack("<BBBB", 0, FROM_MASTER, len(path), 0) + path.ljust(32, bytes(1)) + bytes(32)
    body += struct.pack("<H", len(payload)) + payload
    packet = b"WFNM" + struct.pack("<BBHI", NM_VERSION, 0, 12 + len(body), crc32c(body)) + body
    padded = packet.ljust(-len(packet) % 4 + len(packet), bytes(1))
    for at in range(0, len(padded), 4):
        store(TX_DATA + at, int.from_bytes(padded[at:at + 4], "little"))
    store(TX_CTRL, path[0] | len(packet) << 8)


number = 0
while True:
    number += 1
    if what == "REST":
        rest(number, term, NEWEST, 1)
        # Well within the time for which a host rests unless it is asked again.
        time.sleep(0.25)
    else:
        rest(number, term + number, 0, 0)
        # The driver sends by the same registers.
        time.sleep(0.002)
    if number == 4:
        print("writing", flush=True)
"""


def standing(host, victim):
    """Term and id of the master, and life and path of the victim, as the host's driver knows them."""
    term, master = host.out(f"cat {SYSFS}/manager/term {SYSFS}/manager/master").split()
    known = {int(node["hwid"], 0): node for node in host.weftctl_json("tree")["nodes"]}
    life = host.out(f"cat $(dirname $(grep -l '0x{victim:016x}' {SYSFS}/link*/peer_hwid))/peer_generation")
    return term, master, life.split()[-1], known[victim]["path"]


@contextlib.contextmanager
def writing(what, host, victim):
    """Meanwhile the host, which has to be the master, writes to a host with that hardware id."""
    term, master, life, path = standing(host, victim)
    if int(master, 0) != int(host.out(f"cat {SYSFS}/hwid"), 0):
        raise Mismatch(f"{host.name} is not the master, {master} is")
    script = host.push("false_master.py", (constants() + paths.CRC.read_text() + SCRIPT).encode())
    words = " ".join(map(str, [what, term, master, victim, life, *path]))
    job = host.start_job(f"exec python3 {script} {words}")
    job.expect("^writing", 30)
    try:
        yield job
        if not job.running:
            raise Mismatch(f"the false master ended: {json.dumps([job.status, job.out, job.err])}")
    finally:
        if job.running:
            job.kill(signal.SIGKILL)
            job.wait(20)
