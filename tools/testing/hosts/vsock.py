# SPDX-License-Identifier: GPL-2.0
"""AF_VSOCK over ports, by modules/vsock/weft_vsock.ko: sockets of programs that know no other host than a number."""

import contextlib
import json
import time

from weftlab import kernel, topology
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import false_master, far, live
from .arenas import given_back
from .far import ids
from .migration import SYSFS, migrate, moving

LAB = "pair"
MODULE = "/mnt/module/modules/vsock/weft_vsock.ko"
DEVICE = "/sys/class/weft/weft0/device"
ENODEV, ENOBUFS, ETIMEDOUT, ECONNREFUSED = 19, 105, 110, 111
# serve PORT: takes what each connection sends until its end, and answers with how much came and its digest. send CID
# PORT KIB SEED SECONDS: connects within that time, and compares the answer. many CID PORT COUNT: connections one after
# the other, and 20 at once. refused CID PORT COUNT: the errors of as many connections. hold CID PORT: until the other
# end goes. one_end PORT: accepts one connection, and receives until it ends. room CID PORT SIZE: how many there are at
# once with a buffer of that size, and the error of the next one. attempt CID PORT: the error of a connection, or 0.
# calls CID: of two ends in this process. cid: the host's own.
PROGRAM = """import array, contextlib, ctypes, errno, fcntl, hashlib, json, mmap, random, select, selectors, socket
import struct, sys, threading, time
ANY = socket.VMADDR_CID_ANY
# SO_VM_SOCKETS_BUFFER_SIZE, SO_VM_SOCKETS_CONNECT_TIMEOUT_NEW, SO_BUSY_POLL.
BUFFER_SIZE, CONNECT_TIMEOUT, BUSY_POLL = 0, 8, 46


class Answer:
    # To what one connection sends, when that has ended.

    def __init__(self, peer):
        self.peer, self.digest, self.count = peer, hashlib.sha256(), 0

    def readable(self):
        # Takes what has come; false at the end.
        # That the peer goes before it has its answer is no error.
        with contextlib.suppress(ConnectionError):
            if part := self.peer.recv(1 << 16):
                self.digest.update(part)
                self.count += len(part)
                return True
            self.peer.sendall(json.dumps([self.count, self.digest.hexdigest()]).encode())
        return False


def serve(port):
    # One thread for all: 192 of Python that end at once take half a minute of a guest to hand their lock around.
    server = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    server.bind((ANY, int(port)))
    server.listen(64)
    sockets = selectors.DefaultSelector()
    sockets.register(server, selectors.EVENT_READ)
    print("listening", flush=True)
    while True:
        for key, _ in sockets.select():
            if key.data is None:
                peer, address = server.accept()
                sockets.register(peer, selectors.EVENT_READ, Answer(peer))
            elif not key.data.readable():
                sockets.unregister(key.fileobj)
                key.fileobj.close()


def connected(cid, port, size=0, seconds=2):
    peer = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    if size:
        peer.setsockopt(socket.AF_VSOCK, BUFFER_SIZE, size)
    # Python has numbers alone for this family.
    timeout = struct.pack("qq", int(seconds), 0)
    assert not ctypes.CDLL(None).setsockopt(peer.fileno(), socket.AF_VSOCK, CONNECT_TIMEOUT, timeout, len(timeout))
    peer.settimeout(60)
    peer.connect((int(cid), int(port)))
    return peer


def one(cid, port, payload, seconds=2):
    peer = connected(cid, port, 0, seconds)
    peer.sendall(payload)
    peer.shutdown(socket.SHUT_WR)
    told = json.loads(b"".join(iter(lambda: peer.recv(4096), b"")))
    peer.close()
    return told == [len(payload), hashlib.sha256(payload).hexdigest()]


def send(cid, port, kib, seed, seconds):
    begun = time.monotonic()
    same = one(cid, port, random.Random(int(seed)).randbytes(int(kib) << 10), seconds)
    print(json.dumps({"same": same, "seconds": time.monotonic() - begun}))


def many(cid, port, count):
    good = [one(cid, port, b"x" * n) for n in range(int(count))]
    lock, together = threading.Barrier(20), []
    threads = [threading.Thread(target=lambda n=n: (lock.wait(), together.append(one(cid, port, bytes([n]) * 20000))))
               for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps([sum(good), sum(together)]))


def refused(cid, port, count):
    # A poll may come at any moment: before the answer, after it, and before it is taken over.
    errors = set()
    for _ in range(int(count)):
        peer = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
        peer.setblocking(False)
        error, seen = peer.connect_ex((int(cid), int(port))), select.poll()
        seen.register(peer, select.POLLIN | select.POLLOUT)
        while error == errno.EINPROGRESS and not seen.poll(0):
            pass
        errors.add(peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if error == errno.EINPROGRESS else error)
        peer.close()
    print(*errors)


def hold(cid, port):
    peer = connected(cid, port)
    print("holding", flush=True)
    try:
        while True:
            peer.sendall(bytes(1000))
            time.sleep(0.01)
    except OSError as error:
        print(error.errno, flush=True)


def one_end(port):
    server = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    server.bind((ANY, int(port)))
    server.listen(1)
    print("listening", flush=True)
    peer, (cid, _) = server.accept()
    print("accepted", cid, flush=True)
    try:
        while peer.recv(1 << 16):
            pass
        print(0, flush=True)
    except OSError as error:
        print(error.errno, flush=True)


def room(cid, port, size):
    peers, refused = [], 0
    while len(peers) < 1000 and refused < 100:
        try:
            peers.append(connected(cid, port, int(size)))
        except ConnectionRefusedError:
            # The backlog is full for a moment.
            refused += 1
            time.sleep(0.05)
        except OSError as error:
            print(json.dumps([len(peers), error.errno]))
            break


def attempt(cid, port):
    try:
        connected(cid, port)
        print(0)
    except OSError as error:
        print(error.errno)


def says(wanted, call, *words):
    try:
        found = call(*words)
    except OSError as error:
        found = error
        wanted = wanted or error.errno
    assert isinstance(found, OSError) and found.errno == wanted, f"{found}, not {errno.errorcode[wanted]}"


def ready(peer, events, patience=0):
    waits = select.poll()
    waits.register(peer, events)
    return sum(found for _, found in waits.poll(patience))


def filled(peer):
    # Until there is no room; how many bytes that took.
    count = 0
    try:
        while True:
            count += peer.send(bytes(1000), socket.MSG_DONTWAIT)
    except BlockingIOError:
        return count


def receives(peer, count):
    found = peer.recv(count, socket.MSG_WAITALL)
    assert len(found) == count, f"{len(found)} bytes of {count}"
    return found


def step(what):
    print(what, flush=True)


def calls(cid):
    server = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    server.bind((ANY, 77))
    server.listen(1)

    def pair(size=0):
        one = connected(cid, 77, size)
        other, _ = server.accept()
        one.setblocking(True)
        return one, other

    one, other = pair()
    step("nothing has come")
    says(errno.EAGAIN, other.recv, 1, socket.MSG_DONTWAIT)
    assert ready(other, select.POLLIN | select.POLLOUT) == select.POLLOUT
    other.settimeout(0.2)
    says(None, other.recv, 1)
    other.setblocking(True)
    step("what is looked at stays")
    one.sendmsg([b"he", b"l", b"lo w", b"orld"])
    assert ready(other, select.POLLIN, 5000) == select.POLLIN
    for count, wanted in ((5, b"hello"), (100, b"hello world"), (11, b"hello world")):
        assert other.recv(count, socket.MSG_PEEK) == wanted
    assert other.recv(6) == b"hello "
    step("a low water mark")
    other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 100)
    assert not ready(other, select.POLLIN, 200)
    waiting = threading.Timer(0.3, one.sendall, [b"x" * 94])
    waiting.start()
    assert not ready(other, select.POLLIN, 1000)
    waiting.join()
    one.sendall(b"y")
    assert ready(other, select.POLLIN, 5000) == select.POLLIN
    assert other.recv(1000) == b"world" + b"x" * 94 + b"y"
    other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 200000)
    assert filled(one) <= 65536 and ready(other, select.POLLIN, 5000) == select.POLLIN
    other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    step("no room, and room again")
    assert not ready(one, select.POLLOUT, 200)
    other.recv(65536)
    assert ready(one, select.POLLOUT, 5000) == select.POLLOUT
    while ready(other, select.POLLIN):
        other.recv(65536)
    # Of memory that is not there yet, to such memory, in pieces of any length.
    step("more than a half")
    with open("/tmp/vsock.bytes", "w+b") as file:
        file.write(random.Random(3).randbytes(1000003))
        file.flush()
        payload = memoryview(mmap.mmap(file.fileno(), 0))
        sending = threading.Thread(target=one.sendall, args=(payload[1:],))
        sending.start()
        place = memoryview(mmap.mmap(-1, 1 << 20))
        got = 5
        for length in [3, 4097, 70000, 300001, 625901]:
            assert other.recv_into(place[got:got + length], 0, socket.MSG_WAITALL) == length
            got += length
        sending.join()
        assert place[5:got] == payload[1:] and got == 1000007, got
    step("a call that looks before it sleeps")
    for end in (one, other):
        end.setsockopt(socket.SOL_SOCKET, BUSY_POLL, 1000)
    echo = threading.Thread(target=lambda: [other.sendall(receives(other, 8)) for _ in range(100)])
    echo.start()
    for n in range(100):
        one.sendall(struct.pack("Q", n))
        assert receives(one, 8) == struct.pack("Q", n)
    echo.join()
    step("edges of epoll")
    waits = select.epoll()
    waits.register(other, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
    for count in (1000, 300, 5000):
        one.sendall(bytes(1000))
        assert waits.poll(5) == [(other.fileno(), select.EPOLLIN)], count
        # Less than there is, and more.
        other.recv(count, socket.MSG_DONTWAIT)
        assert not waits.poll(0.1)
    one.sendall(bytes(1000))
    assert waits.poll(5)
    other.recv(300)
    one.shutdown(socket.SHUT_WR)
    assert waits.poll(5) == [(other.fileno(), select.EPOLLIN | select.EPOLLRDHUP)]
    assert receives(other, 700) and other.recv(1) == b""
    waits.close()
    one, other = pair()
    step("one direction ends, and then the other one")
    one.sendall(b"last")
    one.shutdown(socket.SHUT_WR)
    says(errno.EPIPE, one.send, b"x")
    assert ready(other, select.POLLRDHUP, 5000) == select.POLLRDHUP
    assert receives(other, 4) == b"last" and other.recv(1) == b"" and other.recv(1) == b""
    other.sendall(b"still")
    other.close()
    assert receives(one, 5) == b"still" and one.recv(1) == b""
    assert ready(one, select.POLLIN, 5000) & select.POLLHUP
    step("what was sent before an end is closed, and an end whose peer is closed")
    one, other = pair(16384)
    assert filled(one) <= 16384
    one.close()
    ready(other, select.POLLHUP | select.POLLRDHUP, 5000)
    count = 0
    while part := other.recv(1000):
        count += len(part)
    assert count > 15000, count
    for _ in range(100):
        try:
            other.send(b"x")
        except BrokenPipeError:
            break
        time.sleep(0.02)
    else:
        raise AssertionError("an end whose peer is closed still sends")
    # A backlog of one has room for two, as with TCP.
    step("a backlog")
    peers = [connected(cid, 77) for _ in range(2)]
    says(errno.ECONNREFUSED, connected, cid, 77)
    server.close()
    # Nothing listens any more; both were never accepted.
    for peer in peers:
        assert peer.recv(1) == b""
    says(errno.ECONNREFUSED, connected, cid, 77)
    print("good")


def cid():
    found = array.array("I", [0])
    with open("/dev/vsock") as device:
        fcntl.ioctl(device, 0x7b9, found)
    print(found[0])


globals()[sys.argv[1]](*sys.argv[2:])
"""


def program(host, *words):
    return f"python3 {host.push('vsock.py', PROGRAM.encode())} {' '.join(map(str, words))}"


@contextlib.contextmanager
def transport(hosts):
    for host in hosts:
        # The kernels that look closely have it built in.
        if not kernel.variant():
            host.stock_module("vsock")
        host.run(f"insmod {MODULE}", 30)
    try:
        yield [int(host.out(program(host, "cid"))) for host in hosts]
    finally:
        for host in hosts:
            # A socket that was closed may be there for a moment.
            host.until("! [ -d /sys/module/weft_vsock ] || rmmod weft_vsock 2>/dev/null", 30)


@contextlib.contextmanager
def serving(host, port):
    job = host.start_job(f"exec {program(host, 'serve', port)}")
    job.expect("listening", 30)
    try:
        yield
    finally:
        job.kill()
        job.wait(20)


def carried(host, cid, port, kib, seed=1, seconds=2):
    done = json.loads(host.out(program(host, "send", cid, port, kib, seed, seconds), 120))
    if not done["same"]:
        raise Mismatch(f"{kib} KiB did not arrive as they were")
    return done


@test("AF_VSOCK sockets carry streams between two hosts, and within one; each end goes when it likes")
def streams(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    with transport((h1, h2)) as (one, other), serving(h2, 1234):
        if (one, other) != tuple(4096 + ids(lab)[name] for name in ("h1", "h2")):
            raise Mismatch(f"CIDs: {one}, {other}")
        for kib in (0, 1, 63, 4096):
            bench.note(f"{kib} KiB in {carried(h1, other, 1234, kib)['seconds']:.2f} s")
        carried(h2, other, 1234, 256)
        found = json.loads(h1.out(program(h1, "many", other, 1234, 50), 120))
        if found != [50, 20]:
            raise Mismatch(f"of 50 and of 20 connections worked: {found}")
        for cid, port, errno in ((other, 4321, 111), (9999, 1234, 19)):
            said = h1.out(program(h1, "refused", cid, port, 300))
            if said != str(errno):
                raise Mismatch(f"connecting to {cid}:{port} says {said}, not {errno}")


@test("AF_VSOCK sockets: calls that wait, look, poll and find no room, low water marks, page faults, ends and backlogs")
def calls(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    with transport((h1, h2)) as (own, _), given_back(h1, h2):
        said = h1.start_job(f"exec {program(h1, 'calls', own)}").wait(120).must().out.split("\n")
        if "good" not in said:
            raise Mismatch(said)


@test("AF_VSOCK sockets take as much of an arena as the size of their buffer says, and give it back")
def room(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    with transport((h1, h2)) as (_, other), serving(h2, 1234):
        # The last size is more than a program may have, unless it asks for that, too.
        for size, least, most in ((262144, 40, 48), (16384, 150, 192), (4 << 20, 40, 48)):
            with given_back(h1, h2):
                count, errno = json.loads(h1.out(program(h1, "room", other, 1234, size), 120))
            if errno != ENOBUFS or not least <= count <= most:
                raise Mismatch(f"with a buffer of {size} bytes {count} connections, then {errno}")
            bench.note(f"{count} connections with a buffer of {size} bytes")


@test("AF_VSOCK sockets learn of a link, a function and a module that go under them")
def losses(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    address = h1.out(f"basename $(readlink -f {DEVICE})")
    ways = {
        "flap": lambda: lab.fabric.link("down", "h1:0"),
        "reset": lambda: h2.run(f"echo 1 >{DEVICE}/reset", 60),
        "unbind": lambda: h1.run(f"cd /sys/bus/pci/drivers/weft && echo {address} >unbind && echo {address} >bind", 60),
    }
    with transport((h1, h2)) as (_, other), serving(h2, 1234):
        for name, way in ways.items():
            job = h1.start_job(f"exec {program(h1, 'hold', other, 1234)}")
            job.expect("holding", 30)
            # A socket keeps its transport.
            if not h1.run("rmmod weft_vsock", status=None).status:
                raise Mismatch("the module went under a socket")
            way()
            said = job.wait(60).must().out.split()[-1]
            if said not in ("104", "32"):
                raise Mismatch(f"{name}: the socket says {said}")
            lab.fabric.link("up", "h1:0")
            for host in (h1, h2):
                host.wait_link("ready")
            carried(h1, other, 1234, 64)


def cid_of(hwid):
    """As Documentation/vsock.rst says."""
    bits = hwid & (1 << 46) - 1 ^ hwid >> 46 << 28
    return 4096 + ((bits ^ bits >> 32 << 18) & 0xFFFFFFFF)


def room_of(host, node):
    """Bytes of the arena of the first link of a function that are free."""
    return host.weftctl_json("--port", node, "show")["ports"][0]["links"][0]["arena_free"]


@contextlib.contextmanager
def connected(here, cid, there, port=1235):
    """A connection to a function: the jobs at either end."""
    listener = there.start_job(f"exec {program(there, 'one_end', port)}")
    listener.expect("listening", 30)
    job = here.start_job(f"exec {program(here, 'hold', cid, port)}")
    try:
        job.expect("holding", 30)
        listener.expect("accepted", 30)
        yield job, listener
    finally:
        for each in (job, listener):
            if each.running:
                each.kill()
                each.wait(20)


def at_function(host, ports):
    """The first virtual function: its number as a port, its CID, and that of the physical one."""
    vf, pf = int(ports[0].hwid(0), 0), int(host.out(f"cat {SYSFS}/{ports[0].pf}/hwid"), 0)
    return ports[0].node(0), cid_of(vf), cid_of(pf)


@test("AF_VSOCK sockets of a virtual function have a CID of their own, in either direction; its reset ends them at both "
      "ends, and those of other functions go on", lab="twins", patient=True, long=True)
def functions(bench):
    with moving(bench) as (lab, a, b):
        sides = [(lab["h1"], a), (lab["h2"], b)]
        with transport((lab["h1"], lab["h2"])), serving(lab["h1"], 1234), serving(lab["h2"], 1234):
            for (here, mine), (there, its) in (sides, sides[::-1]):
                node, cid, physical = at_function(there, its)
                own, own_cid, _ = at_function(here, mine)
                # Of the other host, by either function, and the own one.
                for each in (cid, physical, own_cid):
                    carried(here, each, 1234, 256)
                before = room_of(here, own)
                with connected(here, physical, there, 1236) as (other, _), connected(here, cid, there) as (job, listener):
                    # That function carries it, and says so at the other end.
                    if room_of(here, own) >= before or f"accepted {own_cid}" not in listener.out:
                        raise Mismatch(f"not over weft{own}, {own_cid}: {listener.out}, {before} bytes were free")
                    begin = time.monotonic()
                    there.run(f"echo 1 >{SYSFS}/{its[0].vf(0)}/reset", 60)
                    said = [end.wait(60).must().out.split()[-1] for end in (job, listener)]
                    bench.note(f"both ends learnt of it within {time.monotonic() - begin:.1f} s")
                    if not set(said) <= {"104", "32"}:
                        raise Mismatch(f"after a reset the ends say {said}")
                    if not other.running:
                        raise Mismatch(f"the physical function's socket has ended: {other.out}")
                for host, port in ((here, own), (there, node)):
                    host.wait_link("ready", 60, port=port)
                carried(here, cid, 1234, 256)


@test("AF_VSOCK: the module at rest keeps no virtual function from moving live, an open socket does; new ones find it "
      "where it is", lab="twins", patient=True, long=True)
def moves(bench):
    with moving(bench) as (lab, a, b):
        h1, h2 = lab["h1"], lab["h2"]
        node, cid, _ = at_function(h1, a)

        def carry(neighbour=0):
            for host, port in ((h1, node), (h2, b[0].node(neighbour))):
                host.wait_link("ready", 60, port=port)
            carried(h2, cid, 1234, 256)

        with transport((h1, h2)), serving(h1, 1234):
            for n in (0, 1):
                a[0].state(n, "driven")
            carry()
            live.moved(h1, 0, 0, 1)
            carry()
            live.moved(h1, 0, 1, 0)
            carry()
            with connected(h2, cid, h1) as ends:
                a[0].state(0, "used")
                for words, wanted in ((("0:0", "0:1"), "channels"), (("0:1", "0:0"), "taken")):
                    found = migrate(h1, *words, "--live", status=1)["obstacles"]
                    if wanted not in found:
                        raise Mismatch(f"{words} with an open socket: {found}, not {wanted}")
                # It is waited for, and new ones are not made meanwhile; then it may go on.
                done = migrate(h1, "0:0", "0:1", "--timeout", 1, status=1)
                if (done["outcome"], done["event"], done["outstanding"]) != ("stayed", "timeout", 1):
                    raise Mismatch(f"a migration with an open socket: {done}")
                if not all(end.running for end in ends):
                    raise Mismatch(f"a socket did not outlast what did not take place: {[end.out for end in ends]}")
            a[0].state(0, "driven")
            migrate(h1, "0:0", "0:1")
            a[0].state(1, "driven")
            node = a[0].node(1)
            carry(1)
            # The next test finds identities where they were.
            migrate(h1, "0:1", "0:0")


@test("AF_VSOCK: a CID that two hosts have means neither of them", lab="same CID", long=True)
def same_cid(bench):
    topology_of = topology.chain(3)
    # That of h3 is the CID of h1 otherwise.
    topology_of.hosts[2] = ("h3", 1 << 58 | 1 << 26 | 1)
    lab = bench.shape("same CID", topology_of)
    h1, h2, h3 = (lab[name] for name in ("h1", "h2", "h3"))
    for host in (h1, h2, h3):
        host.wait_links()
    with transport((h1, h2, h3)) as cids, serving(h2, 1234):
        if cids != [4097, 4098, 4097]:
            raise Mismatch(f"CIDs: {cids}")
        said = h2.out(program(h2, "attempt", 4097, 1234)), h1.out(program(h1, "attempt", 4098, 1234))
        if said != (str(ENODEV), str(ECONNREFUSED)):
            raise Mismatch(f"to a CID of two, and from it: {said}")


@test("AF_VSOCK sockets reach a host over a route", lab="chain")
def route(bench):
    lab = bench.shape("chain", topology.chain(3))
    h1, h3 = lab["h1"], lab["h3"]
    far.met(lab, "h1", "h3")
    with transport((h1, h3)) as (_, other), serving(h3, 1234):
        carried(h1, other, 1234, 1024)


@test("AF_VSOCK sockets outlast a link that is quiesced; a request that has no answer meanwhile times out", lab="chain", long=True)
def quiesced(bench):
    lab = bench.shape("chain", topology.chain(3))
    h1, h3 = lab["h1"], lab["h3"]
    far.met(lab, "h1", "h3")
    with transport((h1, h3)) as (other, _), serving(h1, 1234):
        carried(h3, other, 1234, 64)
        job = h3.start_job(f"exec {program(h3, 'hold', other, 1234)}")
        job.expect("holding", 30)
        with false_master.writing("REST", h1, ids(lab)["h3"]):
            since, timeouts = time.monotonic(), 0
            while timeouts < 1:
                errno = int(h3.out(program(h3, "attempt", other, 1234)))
                if errno not in (0, ETIMEDOUT) or time.monotonic() - since > 60:
                    raise Mismatch(f"connecting to a host whose link is quiesced says {errno}")
                timeouts += errno == ETIMEDOUT
        if not job.running:
            raise Mismatch(f"a socket did not outlast the quiesce: {job.wait(5)}")
        job.kill()
        job.wait(20)
        # The quiesce ends 3 s after it was asked for last; a request waits for that.
        carried(h3, other, 1234, 512, seconds=10)
    # It takes no older write than those of the false master, in this life.
    h3.rmmod()
    h3.insmod()
    far.met(lab, "h1", "h3")
