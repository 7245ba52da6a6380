# SPDX-License-Identifier: GPL-2.0
"""AF_VSOCK over ports, by modules/vsock/weft_vsock.ko: sockets of programs that know no other host than a number."""

import contextlib
import json

from weftlab import kernel, topology
from weftlab.errors import Mismatch, Skip
from weftlab.suite import test

from . import far
from .far import ids

LAB = "pair"
MODULE = "/mnt/module/modules/vsock/weft_vsock.ko"
DEVICE = "/sys/class/weft/weft0/device"
# serve PORT: takes what each connection sends until its end, and answers with how much came and its digest. send CID
# PORT KIB SEED: compares the answer. many CID PORT COUNT: connections one after the other, and 20 at once. refused CID
# PORT. hold CID PORT: until the other end goes. cid: the host's own.
PROGRAM = """import array, fcntl, hashlib, json, random, socket, struct, sys, threading, time
ANY = socket.VMADDR_CID_ANY


def answer(peer):
    digest, count = hashlib.sha256(), 0
    while part := peer.recv(1 << 16):
        digest.update(part)
        count += len(part)
    peer.sendall(json.dumps([count, digest.hexdigest()]).encode())
    peer.close()


def serve(port):
    server = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    server.bind((ANY, int(port)))
    server.listen(64)
    print("listening", flush=True)
    while True:
        peer, address = server.accept()
        threading.Thread(target=answer, args=(peer,)).start()


def connected(cid, port):
    peer = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    peer.settimeout(60)
    peer.connect((int(cid), int(port)))
    return peer


def one(cid, port, payload):
    peer = connected(cid, port)
    peer.sendall(payload)
    peer.shutdown(socket.SHUT_WR)
    told = json.loads(b"".join(iter(lambda: peer.recv(4096), b"")))
    peer.close()
    return told == [len(payload), hashlib.sha256(payload).hexdigest()]


def send(cid, port, kib, seed):
    begun = time.monotonic()
    same = one(cid, port, random.Random(int(seed)).randbytes(int(kib) << 10))
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


def refused(cid, port):
    try:
        connected(cid, port)
    except OSError as error:
        print(error.errno)


def hold(cid, port):
    peer = connected(cid, port)
    print("holding", flush=True)
    try:
        while True:
            peer.sendall(bytes(1000))
            time.sleep(0.01)
    except OSError as error:
        print(error.errno, flush=True)


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
    if kernel.variant():
        raise Skip("this kernel has no AF_VSOCK")
    for host in hosts:
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


def carried(host, cid, port, kib, seed=1):
    done = json.loads(host.out(program(host, "send", cid, port, kib, seed), 120))
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
            said = h1.out(program(h1, "refused", cid, port))
            if said != str(errno):
                raise Mismatch(f"connecting to {cid}:{port} says {said}, not {errno}")


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


@test("AF_VSOCK sockets reach a host over a route", lab="chain")
def route(bench):
    lab = bench.shape("chain", topology.chain(3))
    h1, h3 = lab["h1"], lab["h3"]
    far.met(lab, "h1", "h3")
    with transport((h1, h3)) as (_, other), serving(h3, 1234):
        carried(h1, other, 1234, 1024)
