# SPDX-License-Identifier: GPL-2.0
"""Programs that touch a channel's window while its link is quiesced: by themselves, and by system calls that
have a buffer there."""

import json
import signal

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import false_master, far

LAB = "chain"
SERVICE = 7451
# At most as long as a link is quiesced (Documentation/protocol.rst), and what a slow machine takes for all else.
LIMIT = 60
CHANNEL = """import ctypes, errno, fcntl, json, mmap, os, signal, struct, sys, time
WEFT_CHAN_LISTEN, WEFT_CHAN_CONNECT, WEFT_CHAN_ACCEPT, WEFT_CHAN_INFO = range(0x5782, 0x5786)
INFO = "<IIIIQIIIIIIQQQQQQ"
PAGE = 4096
DEVICE = "/dev/weft0"
"""
# Accepts a connection, and keeps it: SERVICE.
KEEPER = (
    CHANNEL
    + """listening, end = os.open(DEVICE, os.O_RDWR), os.open(DEVICE, os.O_RDWR)
fcntl.ioctl(listening, WEFT_CHAN_LISTEN, struct.pack("<IIII", 16, 0, int(sys.argv[1]), 1))
print("listening", flush=True)
fcntl.ioctl(end, WEFT_CHAN_ACCEPT, struct.pack("<IIiI", 16, 0, listening, 0))
print("accepted", flush=True)
signal.pause()
"""
)
# Connects, and has processes use the window in every way, again and again, of which some are killed while all of
# them wait: HWID SERVICE SECONDS.
USER = (
    CHANNEL
    + """hwid, service, limit = int(sys.argv[1], 0), int(sys.argv[2]), int(sys.argv[3])
end = os.open(DEVICE, os.O_RDWR)
fcntl.ioctl(end, WEFT_CHAN_CONNECT,
            struct.pack("<IIQIIIIII", 40, 0, hwid, 0xffffffff, service, 16, 16 * PAGE, 20000, 0))


def info():
    told = fcntl.ioctl(end, WEFT_CHAN_INFO, struct.pack(INFO, 96, *[0] * 16))
    return struct.unpack(INFO, told)


window = mmap.mmap(end, info()[13], mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=info()[12])
address = ctypes.addressof(ctypes.c_char.from_buffer(window))
libc = ctypes.CDLL(None, use_errno=True)
# Of each process, how often it has got through.
counts = mmap.mmap(-1, PAGE)


def place(number):
    # In the bulk ring, which no message uses here: a page for each.
    return (2 + number) * PAGE


def store(number, pipe):
    ctypes.c_uint64.from_buffer(window, place(number)).value = 1


def read(number, pipe):
    os.write(pipe[1], bytes(64))
    os.readv(pipe[0], [memoryview(window)[place(number):place(number) + 64]])


def write(number, pipe):
    os.write(pipe[1], memoryview(window)[place(number):place(number) + 64])
    os.read(pipe[0], 64)


def ioctl(number, pipe):
    if libc.ioctl(end, ctypes.c_ulong(WEFT_CHAN_INFO), ctypes.c_void_p(address + place(number))):
        raise OSError(ctypes.get_errno(), "WEFT_CHAN_INFO")


def run(number, work):
    # Its own: a pipe is locked while what is in it is copied.
    pipe = os.pipe()
    struct.pack_into("<II", window, place(number), 96, 0)
    while True:
        try:
            work(number, pipe)
        except OSError as error:
            if error.errno != errno.EFAULT:
                raise
        struct.pack_into("<Q", counts, 8 * number, done(number) + 1)
        time.sleep(0.001)


def done(number):
    return struct.unpack_from("<Q", counts, 8 * number)[0]


def begin(number, work):
    pid = os.fork()
    if not pid:
        try:
            run(number, work)
        except BaseException as error:
            print(work.__name__, repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    return pid


def until(what, condition):
    since = time.monotonic()
    while not condition():
        if time.monotonic() - since > limit:
            for number in users:
                print(names[number], done(number), "handle_mm_fault" in stack(number), file=sys.stderr)
            sys.exit(f"{what}: not within {limit} s")
        time.sleep(0.005)


def stack(number):
    try:
        with open(f"/proc/{users[number]}/stack") as file:
            return file.read()
    except OSError:
        return ""


def waiting(now):
    # For a while, none gets through, and each is found in the handler of a fault: a look may also meet it when it
    # is about to fault again.
    found = set()
    for _ in range(20):
        time.sleep(0.01)
        # On a slow machine many looks at stacks take longer than a link is quiesced.
        found |= {number for number in now if number not in found and "handle_mm_fault" in stack(number)}
        if any(done(number) != count for number, count in now.items()):
            return False
    return len(found) == len(now)


def all_wait():
    now = {number: done(number) for number in users}
    return now if waiting(now) else None


ways = [store, read, write, ioctl]
names = [way.__name__ for way in ways for _ in range(2)]
users = {n: begin(n, ways[n // 2]) for n in range(2 * len(ways))}
until("the processes use the window", lambda: all(done(number) for number in users))
print("using", flush=True)
stopped = {}
until("the link is quiesced", lambda: stopped.update(all_wait() or {}) or stopped)
begun = time.monotonic()
# One of each way.
for number in range(0, len(names), 2):
    os.kill(users[number], signal.SIGKILL)
ended = set()
for number in range(0, len(names), 2):
    until(f"{names[number]} ends when it is killed", lambda: os.waitpid(users[number], os.WNOHANG)[0])
    del users[number]
    ended.add(names[number])
killed = time.monotonic()
left = {number: stopped[number] for number in users}
# What is left waits still: those that were killed did not end because the quiesce did.
meanwhile = waiting(left)
print("killed", flush=True)
until("the others go on", lambda: all(done(number) > stopped[number] for number in users))
print(json.dumps({
    "ended": sorted(ended), "meanwhile": meanwhile, "state": info()[2],
    "kill_ms": round(1000 * (killed - begun)), "bound_ms": round(1000 * (time.monotonic() - begun)),
}), flush=True)
for pid in users.values():
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""
)


@test("a link is quiesced for a while only, whatever its master writes: system calls with buffers in a window go on "
      "then, and processes in them can be killed before")  # fmt: skip
def window(bench):
    lab = far.chain(bench)
    h1, h3 = lab["h1"], lab["h3"]
    far.met(lab, "h1", "h3")
    keeper = h1.start_job(f"exec python3 {h1.push('keeper.py', KEEPER.encode())} {SERVICE}")
    keeper.expect("listening", 30)
    user = h3.start_job(f"exec python3 {h3.push('user.py', USER.encode())} 1 {SERVICE} {LIMIT}")
    try:
        user.expect("using", 60)
        with false_master.writing("REST", h1, far.ids(lab)["h3"]):
            said = user.wait(4 * LIMIT).must()
        found = json.loads(said.out.splitlines()[-1])
        if not found["meanwhile"]:
            raise Mismatch(f"no process ended before the quiesce did: {said.out} {said.err}")
        if found["state"] != 1:
            raise Mismatch(f"the channel is in state {found['state']} afterwards: {found}")
    finally:
        for job in (user, keeper):
            if job.running:
                job.kill(signal.SIGKILL)
                job.wait(20)
    bench.note(f"killed after {found['kill_ms']} ms; the others went on after {found['bound_ms']} ms")
    # It takes no older write than those of the false master, in this life.
    h3.rmmod()
    h3.insmod()
    far.met(lab, "h1", "h3")
    far.there_and_back(lab, "h1", "h3")
