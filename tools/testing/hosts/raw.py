# SPDX-License-Identifier: GPL-2.0
"""A port in the hands of a program that stores to it at random, beside a host that is busy with a third one.

The program runs as root without weft.ko. It has all of BAR 0 and BAR 2 mapped and may master the bus, so that it
reaches what a kernel module would: every register, every doorbell page, every byte of windows and mailboxes. What
the device may reach of the program's own memory is alone not random: addresses, and lengths and orders that go with
them, keep to pages of its own, as its own kernel would not survive others. For the same reason it leaves the
MSI-X table alone.
"""

import os

from weftlab import topology
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps
from .far import ids
from .hostile import GO, neighbour, number

LAB = "chain"
SECONDS = float(os.environ.get("WEFT_RAW_SECONDS", 8))
SEED = int(os.environ.get("WEFT_RAW_SEED", 1))
# FILE GO SECONDS SEED. It resets the port now and then, and prints how often it has done what.
PROGRAM = """import ctypes, mmap, os, random, struct, sys, time
PAGE, PAGES = 4096, 16
HOW_LONG = float(sys.argv[3])
rnd = random.Random(int(sys.argv[4]))
file = os.open(sys.argv[1], os.O_RDWR)
regs = memoryview(mmap.mmap(file, BAR_CTRL_SIZE)).cast("I")
windows = sys.argv[1].replace("resource0", "resource2")
size = os.stat(windows).st_size
window = memoryview(mmap.mmap(os.open(windows, os.O_RDWR), size)).cast("I")
memory = mmap.mmap(-1, PAGES * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
if libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(len(memory))):
    raise OSError(ctypes.get_errno(), "mlock")
memory[:] = bytes(len(memory))
# Written to, all pages are there.
pages = []
with open("/proc/self/pagemap", "rb", buffering=0) as frames:
    for page in range(PAGES):
        frames.seek((at // PAGE + page) * 8)
        pages.append((struct.unpack("<Q", frames.read(8))[0] & (1 << 55) - 1) * PAGE)
if not all(pages):
    raise OSError("pagemap shows no frames")
# Memory space and bus master.
os.pwrite(os.open(sys.argv[1].replace("resource0", "config"), os.O_RDWR), struct.pack("<H", 6), 4)
SLOTS, LINKS = regs[R_CAP0 // 4] & CAP0_SLOTS, regs[R_CAP1 // 4] & CAP1_LINKS
SHIFT = regs[R_SLOT_SHIFT // 4]
DB_PAGES_AT = BAR_CTRL_SIZE - DB_PAGES * PAGE
# Descriptors are only where nothing but the program writes: the engine would follow what it has read itself.
RINGS, DATA = pages[:PAGES // 2], pages[PAGES // 2:]
# What may be stored where the device takes addresses and sizes of memory: 64 bits by place.
OWN = {}
for n in range(MAX_DMA):
    OWN[R_DMA + n * DMA_STRIDE + DMA_BASE] = RINGS
for n in range((R_DB_VECTOR - R_INBOUND) // INBOUND_STRIDE):
    OWN[R_INBOUND + n * INBOUND_STRIDE + INBOUND_BASE] = DATA
    OWN[R_INBOUND + n * INBOUND_STRIDE + INBOUND_LEN] = (0, PAGE)
# A ring of at most one page.
ORDERS = {R_DMA + n * DMA_STRIDE + DMA_ORDER for n in range(MAX_DMA)}


def word():
    kind = rnd.randrange(4)
    if kind == 0:
        return rnd.getrandbits(32)
    if kind == 1:
        return rnd.randrange(64)
    if kind == 2:
        return 1 << rnd.randrange(32)
    return 0xffffffff


def store(place, value):
    low = place & ~7
    if low in OWN:
        whole = rnd.choice(OWN[low])
        regs[low // 4], regs[low // 4 + 1] = whole & 0xffffffff, whole >> 32
    elif place in ORDERS:
        regs[place // 4] = rnd.randrange(7)
    elif place == R_CTRL:
        # Without links nothing comes to the neighbour.
        regs[place // 4] = CTRL_ENABLE | (CTRL_RESET if rnd.random() < 0.01 else 0)
    else:
        regs[place // 4] = value


def register():
    store(4 * rnd.randrange(DB_PAGES_AT // 4), word())


def known():
    base, stride, count = rnd.choice([(R_LINK, LINK_STRIDE, LINKS), (R_INBOUND, INBOUND_STRIDE, 8),
                                      (R_SLOT, SLOT_STRIDE, SLOTS), (R_DB_PAGE, DB_PAGE_STRIDE, DB_PAGES),
                                      (R_ROUTE, ROUTE_STRIDE, 8), (R_CFG_PATH, 0x40, 1), (R_MBOX_TX_CTRL, 16, 1)])
    store(base + rnd.randrange(max(count, 1)) * stride + 4 * rnd.randrange(stride // 4), word())


def read():
    return regs[rnd.randrange(BAR_CTRL_SIZE // 4)]


# A slot that leads to the neighbour, and stores all over it.
def windowed():
    slot = rnd.randrange(SLOTS)
    base = R_SLOT + slot * SLOT_STRIDE
    fields = ((SLOT_DEST, DEST_LINK), (SLOT_OFFSET, rnd.randrange(1 << 12) * PAGE), (SLOT_OFFSET + 4, 0),
              (SLOT_LEN, 1 << SHIFT), (SLOT_LEN + 4, 0), (SLOT_CTRL, SLOT_ENABLE))
    for field, value in fields:
        regs[(base + field) // 4] = value & 0xffffffff
    for _ in range(64):
        place = (slot << SHIFT) + 4 * rnd.randrange(1 << SHIFT - 2)
        if rnd.random() < 0.1:
            window[place % size // 4]
        else:
            window[place % size // 4] = word()


def bell():
    page = rnd.randrange(DB_PAGES)
    regs[(R_DB_PAGE + page * DB_PAGE_STRIDE + DB_PAGE_DEST) // 4] = DEST_LINK
    regs[(R_DB_PAGE + page * DB_PAGE_STRIDE + DB_PAGE_ALLOW) // 4] = 0xffffffff
    for _ in range(16):
        regs[(DB_PAGES_AT + page * PAGE) // 4 + rnd.randrange(PAGE // 4)] = rnd.randrange(40)


# A channel of the engine whose descriptors are random but for their addresses.
def dma():
    base = R_DMA + rnd.randrange(MAX_DMA) * DMA_STRIDE
    ring = rnd.randrange(len(RINGS))
    for n in range(PAGE // DMA_DESC_BYTES):
        desc = bytearray(rnd.randbytes(DMA_DESC_BYTES))
        struct.pack_into("<IIQQI", desc, 0, rnd.choice((DMA_WRITE, DMA_READ, rnd.getrandbits(8))) | DMA_BELL,
                         rnd.randrange(SLOTS), rnd.randrange(1 << SHIFT), rnd.choice(DATA), rnd.randrange(PAGE + 1))
        # Half of them have no reserved bits.
        if rnd.random() < 0.5:
            struct.pack_into("<III", desc, DMA_DESC_COUNT, 0, rnd.randrange(DB_PAGES) << 16 | rnd.randrange(32), 0)
            struct.pack_into("<QQ", desc, DMA_DESC_ZERO2, 0, 0)
        memory[ring * PAGE + n * DMA_DESC_BYTES:ring * PAGE + (n + 1) * DMA_DESC_BYTES] = bytes(desc)
    fields = ((DMA_CTRL, DMA_RESET), (DMA_BASE, RINGS[ring] & 0xffffffff), (DMA_BASE + 4, RINGS[ring] >> 32),
              (DMA_ORDER, 6), (DMA_CTRL, DMA_ENABLE), (DMA_TAIL, rnd.randrange(64)))
    for field, value in fields:
        regs[(base + field) // 4] = value


def send(data):
    for n in range(0, len(data), 4):
        regs[(R_MBOX_TX_DATA + n) // 4] = int.from_bytes(data[n:n + 4].ljust(4, bytes(1)), "little")
    regs[R_MBOX_TX_CTRL // 4] = len(data) << 8


def garbage():
    send(rnd.randbytes(rnd.randrange(1, MBOX_BYTES + 1)))


# rust/proto/wire.rs: the checksum is right, all else may be anything.
def message():
    body = rnd.randbytes(rnd.choice((0, 24, 24, rnd.randrange(200))))
    hwid = regs[R_HWID // 4] | regs[R_HWID // 4 + 1] << 32
    kind = 1 if rnd.random() < 0.3 else rnd.randrange(256)
    head = struct.pack("<4sBBHQIIQQII", b"WEFT", WIRE_VERSION, kind, 48 + len(body), hwid, rnd.randrange(4), word(),
                       word(), word(), word(), 0)[:44]
    send(head + struct.pack("<I", crc32c(head + bytes(4) + body)) + body)


# rust/proto/nm/packet.rs, likewise.
def manager():
    payload = bytes([rnd.randrange(24)]) + rnd.randbytes(rnd.randrange(120))
    body = struct.pack("<BBBB", 0, rnd.randrange(3), 1, 0) + bytes(64) + struct.pack("<H", len(payload)) + payload
    send(b"WFNM" + struct.pack("<BBHI", NM_VERSION, 0, 12 + len(body), crc32c(body)) + body)


# So that the link comes back, whatever was stored.
def enable():
    for link in range(LINKS):
        regs[(R_LINK + link * LINK_STRIDE + LINK_CTRL) // 4] = 0
    regs[R_CTRL // 4] = CTRL_ENABLE


KINDS = (register, known, read, windowed, bell, dma, garbage, message, manager, enable)
enable()
while not regs[R_LINK // 4] & LINK_UP:
    time.sleep(0.01)
print("begins", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
done, end = dict.fromkeys(KINDS, 0), time.monotonic() + HOW_LONG
while time.monotonic() < end:
    kind = rnd.choice(KINDS)
    kind()
    done[kind] += 1
print("done:", " ".join(f"{kind.__name__}={count}" for kind, count in done.items()), flush=True)
"""


def finished(way):
    """The transfer ends whole; its files go, as there may be hundreds."""
    way.whole(resumed=False)
    for path in (way.source, way.receiving.arrived(way.name)):
        path.unlink()


@test("a program that stores at random to all of a port harms no transfer of its neighbour, and a driver follows it")
def at_random(bench):
    lab = bench.shape("chain", topology.chain(3))
    h1, h2, h3 = (lab[name] for name in ("h1", "h2", "h3"))
    bench.note(f"WEFT_RAW_SEED={SEED} WEFT_RAW_SECONDS={SECONDS:g}")
    # Link 0 of h2 leads to h3, link 1 to h1.
    readied = number(h2, "link0/readied")
    took = [number(h2, name) for name in ("counters/rx_messages", "counters/rx_doorbells")]
    way = steps.UnderWay(lab, "beside", by="h2", to="h3", options=("--to", ids(lab)["h3"]), size=24 << 20)
    transfers = 1
    with neighbour(h1, PROGRAM, SECONDS, SEED) as job:
        h1.run(f"touch {GO}")
        while job.running:
            finished(way)
            way = steps.UnderWay(lab, f"beside{transfers}", by="h2", to="h3", options=("--to", ids(lab)["h3"]),
                                 size=24 << 20)
            transfers += 1
        job.expect("^done:", 60)
        done = job.out
    finished(way)
    took = [number(h2, name) - old for name, old in zip(("counters/rx_messages", "counters/rx_doorbells"), took)]
    bench.note(f"{done.split('done:')[1].strip()}; h2 took {took[0]} messages, {took[1]} doorbells, "
               f"{transfers} transfers")  # fmt: skip
    if not took[0]:
        raise Mismatch("nothing reached the neighbour: nothing was tested")
    if number(h2, "link0/readied") != readied:
        raise Mismatch("the session with h3 ended")
    for host in (h2, h3):
        host.check_dmesg()
    h1.insmod()
    for host in (h1, h2, h3):
        host.wait_links()
    steps.carry(lab, "h1", "h2", 1 << 20, "after", 4, options=("--to", ids(lab)["h2"]))
