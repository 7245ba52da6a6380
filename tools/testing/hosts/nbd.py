# SPDX-License-Identifier: GPL-2.0
"""A network block device between two hosts: by the kernel's client over an Ethernet interface, with a file system on it
whose files are compared, and by one of user space under weft-run."""

import contextlib

from weftlab.errors import Mismatch
from weftlab.suite import test

from .programs import ROOT, TIMES, daemon, digest, hosts, inside, noise
from .run import RUN, all_moved, beside, moving, run, serving

LAB = "programs"
PORT = 10809
# MiB of the largest file, and of the device.
LARGE = 4 * min(TIMES, 3)
DEVICE = 20 + 4 * LARGE
PLACE = "/tmp/nbd"
IMAGE = f"{PLACE}/image"
MOUNTED = "/tmp/mounted"
SERVER = ("nbdkit", "--foreground", "--ip-addr=0.0.0.0", f"--port={PORT}", "file", IMAGE)
# make FOLDER SEED MIB: folders, files and links, one of them of so many MiB. digest FOLDER: of names and contents.
TREE = """import hashlib, os, random, sys


def make(top, seed, mib):
    rnd = random.Random(int(seed))
    os.makedirs(top)
    for n in range(100):
        folder = os.path.join(top, *(f"folder {rnd.randrange(3)}" for _ in range(rnd.randrange(4))))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"file-{n}"), "wb") as file:
            file.write(rnd.randbytes(rnd.choice((0, 1, 4095, 4096, 20_000, 65_537))))
    with open(os.path.join(top, "large"), "wb") as file:
        for _ in range(int(mib)):
            file.write(rnd.randbytes(1 << 20))
    os.symlink("large", os.path.join(top, "link"))


def digest(top):
    found, count = hashlib.sha256(), 0
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                content = os.readlink(path).encode()
            else:
                with open(path, "rb") as file:
                    content = file.read()
            found.update(f"{os.path.relpath(path, top)} {len(content)}\\n".encode() + content)
            count += 1
    assert count == 102, count
    print(found.hexdigest())


globals()[sys.argv[1]](*sys.argv[2:])
"""


def tree(host, *words):
    return host.out(f"python3 {host.push('tree.py', TREE.encode())} {' '.join(map(str, words))}", 120)


@contextlib.contextmanager
def image(host):
    """A file system with a tree `first` at the server, and the digest of that."""
    host.run(f"mkdir {ROOT}{PLACE}")
    tree(host, "make", f"{ROOT}{PLACE}/files/first", 1, LARGE)
    host.run(inside("mke2fs", "-q", "-t", "ext4", "-d", f"{PLACE}/files", IMAGE, f"{DEVICE}M"), 60)
    yield tree(host, "digest", f"{ROOT}{PLACE}/files/first")
    host.run(f"rm -r {ROOT}{PLACE}")


@contextlib.contextmanager
def attached(host, at, *under):
    """The device at the client, with the file system mounted, until all of that is written; `under`: what runs the
    client."""
    for module in ("nbd", "ext4"):
        host.stock_module(module)
    host.run(inside(*under, "nbd-client", at, PORT, "/dev/nbd0", "-connections", 2))
    host.run(f"mkdir -p {MOUNTED} && mount -t ext4 /dev/nbd0 {MOUNTED}")
    yield
    host.run(f"umount {MOUNTED}", 120)
    host.run(inside("nbd-client", "-d", "/dev/nbd0"))


@test("a file system of a network block device over an interface: files are read and written as they are", long=True)
def interface(bench):
    with hosts(bench) as (h1, h2, at), image(h2) as first, daemon(h2, PORT, *SERVER):
        for seed in range(2, 2 + TIMES):
            with attached(h1, at):
                if tree(h1, "digest", f"{MOUNTED}/first") != first:
                    raise Mismatch("the client reads other files than the server has")
                h1.run(f"rm -rf {MOUNTED}/copy {MOUNTED}/second && cp -a {MOUNTED}/first {MOUNTED}/copy", 120)
                tree(h1, "make", f"{MOUNTED}/second", seed, LARGE)
                second = tree(h1, "digest", f"{MOUNTED}/second")
            h2.run(inside("e2fsck", "-f", "-n", IMAGE), 60)
            out = f"{PLACE}/out"
            h2.run(f"mkdir {ROOT}{out}")
            for name, want in (("copy", first), ("second", second)):
                h2.run(inside("debugfs", "-R", f"rdump /{name} {out}", IMAGE), 60)
                if tree(h2, "digest", f"{ROOT}{out}/{name}") != want:
                    raise Mismatch(f"the server has other files in {name} than the client has written")
            h2.run(f"rm -r {ROOT}{out}")


def copied_whole(client, server, device):
    """Both ways, by four connections each."""
    copy = run("nbd", "nbdcopy", "--connections=4", "--threads=4", "--requests=8")
    client.run(f"mkdir {ROOT}{PLACE}")
    for _ in range(TIMES):
        client.run(inside(*copy, device, f"{PLACE}/read"), 120)
        if digest(client, f"{PLACE}/read") != digest(server, IMAGE):
            raise Mismatch("the client reads another image than the server has")
        path, _ = noise(client, "nbd/written", 4)
        client.run(f"truncate -s {DEVICE}M {ROOT}{path}")
        client.run(inside(*copy, path, device), 120)
        if digest(server, IMAGE) != digest(client, path):
            raise Mismatch("the server has another image than the client has written")
    client.run(f"rm -r {ROOT}{PLACE}")
    if all_moved(client, "nbd", PORT) < 2 * 4 * TIMES:
        raise Mismatch("of the connections some are missing")


@test("a network block device under weft-run is read and written as it is; the kernel's own client stays with TCP")
def moved(bench):
    with moving(bench) as (h1, h2, at), image(h2) as first, serving(h2, PORT, *SERVER):
        # The kernel's client takes a socket of TCP alone: its port is left out.
        with attached(h1, at, RUN, "--ports=1"):
            if tree(h1, "digest", f"{MOUNTED}/first") != first:
                raise Mismatch("the client reads other files than the server has")
        with beside(h1, h2):
            copied_whole(h1, h2, f"nbd://{at}:{PORT}")
