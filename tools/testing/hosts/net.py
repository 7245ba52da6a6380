# SPDX-License-Identifier: GPL-2.0
"""Ethernet interfaces over ports: `ip link add`, and TCP/IP between hosts."""

import contextlib
import json
import os
import time

from weftlab import topology
from weftlab.errors import Mismatch, Skip
from weftlab.suite import test

from . import steps
from .far import ids

LAB = "pair"
NAME = "wire0"
FRAMES = "/mnt/module/tools/testing/modules/weft_frames.ko"
# Of what a hostile neighbour sends.
SEED = int(os.environ.get("WEFT_FRAMES_SEED", 1))
SEEDS = int(os.environ.get("WEFT_FRAMES_SEEDS", 5))
# Of what an interface outlasts in a row.
ROUNDS = int(os.environ.get("WEFT_NET_ROUNDS", 5))
# What page caches and slabs of a guest differ by.
MEMORY_KIB = 16 << 10
DEVICE = "/sys/class/weft/weft0/device"
# serve PORT: takes what each connection sends, and answers with how much came and its digest. send ADDRESS PORT MIB
# SEED: sends noise, and compares the answer. echo PORT, and datagrams ADDRESS PORT SIZE...: datagrams that come back.
# until ADDRESS PORT FILE SEED: sends until there is the file.
# frames NAME TO SOURCE...: a frame from each of these addresses. statistics NAME: what ethtool -S shows.
PROGRAM = """import ctypes, fcntl, hashlib, json, os, random, socket, struct, sys, time


def serve(port):
    # The kernels that look closely have no IPv6.
    if socket.has_dualstack_ipv6():
        server = socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        server = socket.create_server(("", int(port)))
    print("listening", flush=True)
    # Memory of each part of its own would leave the process with ever more: 17 KiB a reset, which are not the kernel's.
    buffer = memoryview(bytearray(1 << 20))
    while True:
        peer, _ = server.accept()
        digest, count = hashlib.sha256(), 0
        while part := peer.recv_into(buffer):
            digest.update(buffer[:part])
            count += part
        peer.sendall(json.dumps([count, digest.hexdigest()]).encode())
        peer.close()


def send(address, port, mib, seed):
    noise, digest = random.Random(int(seed)), hashlib.sha256()
    parts = [noise.randbytes(1 << 20) for _ in range(4)]
    peer = socket.create_connection((address, int(port)), 30)
    peer.settimeout(120)
    begun = time.monotonic()
    for n in range(int(mib)):
        digest.update(parts[n % 4])
        peer.sendall(parts[n % 4])
        if not n:
            print("begun", flush=True)
    peer.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: peer.recv(4096), b""))
    count, came = json.loads(answer)
    print(json.dumps({"same": came == digest.hexdigest(), "bytes": count,
                      "seconds": time.monotonic() - begun}), flush=True)


def until(address, port, end, seed):
    rnd, digest = random.Random(int(seed)), hashlib.sha256()
    parts = [rnd.randbytes(1 << 16) for _ in range(8)]
    peer = socket.create_connection((address, int(port)), 30)
    peer.settimeout(120)
    count = 0
    while not os.path.exists(end):
        digest.update(parts[count % 8])
        peer.sendall(parts[count % 8])
        if not count:
            print("begun", flush=True)
        count += 1
    peer.shutdown(socket.SHUT_WR)
    came = json.loads(b"".join(iter(lambda: peer.recv(4096), b"")))
    print(json.dumps({"same": came == [count << 16, digest.hexdigest()], "bytes": came[0]}), flush=True)


def echo(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", int(port)))
    print("listening", flush=True)
    while True:
        server.sendto(*server.recvfrom(1 << 16))


def datagrams(address, port, *sizes):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect((address, int(port)))
    client.settimeout(10)
    for size in map(int, sizes):
        payload = os.urandom(size)
        client.send(payload)
        if client.recv(1 << 16) != payload:
            sys.exit(f"a datagram of {size} bytes came back as another one")


def frames(name, to, *sources):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind((name, 0))
    for source in sources:
        # An experimental EtherType.
        raw.send(bytes.fromhex((to + source).replace(":", "")) + b"\\x88\\xb5" + bytes(50))


def statistics(name):
    SIOCETHTOOL, GSTRINGS, GSTATS, SS_STATS, COUNT, BYTES = 0x8946, 0x1b, 0x1d, 1, 6, 32
    control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def ask(head, data):
        asked = ctypes.create_string_buffer(head + bytes(data))
        fcntl.ioctl(control, SIOCETHTOOL, struct.pack("16sP16x", name.encode(), ctypes.addressof(asked)))
        return asked.raw[len(head):len(head) + data]

    names = ask(struct.pack("<III", GSTRINGS, SS_STATS, COUNT), COUNT * BYTES)
    names = [names[n * BYTES:(n + 1) * BYTES].rstrip(bytes(1)).decode() for n in range(COUNT)]
    values = struct.unpack(f"<{COUNT}Q", ask(struct.pack("<II", GSTATS, COUNT), 8 * COUNT))
    print(json.dumps(dict(zip(names, values))))


globals()[sys.argv[1]](*sys.argv[2:])
"""


def address(lab, host):
    return f"10.87.0.{list(lab.hosts).index(host.name) + 1}"


def up(lab, hosts=None, mtu=None):
    """An interface at each host, with an address each."""
    hosts = hosts or list(lab.hosts.values())
    for host in hosts:
        host.run(f"ip link add {NAME} parentdev weft0 type weft && ip addr add {address(lab, host)}/24 dev {NAME} && "
                 f"ip link set {NAME} {f'mtu {mtu}' if mtu else ''} up", 30)  # fmt: skip
    return hosts


def await_carrier(hosts):
    for host in hosts:
        host.until(f"[ $(cat /sys/class/net/{NAME}/carrier) = 1 ]", 30)


def down(hosts):
    for host in hosts:
        host.run(f"! ip link show {NAME} >/dev/null 2>&1 || ip link del {NAME}", 60)


@contextlib.contextmanager
def interfaces(lab, hosts=None, mtu=None):
    hosts = up(lab, hosts, mtu)
    try:
        await_carrier(hosts)
        yield hosts
    finally:
        down(hosts)


@contextlib.contextmanager
def program(host, *words):
    job = host.start_job(f"exec python3 {host.push('net.py', PROGRAM.encode())} {' '.join(map(str, words))}")
    try:
        job.expect("listening|begun", 60)
        yield job
    finally:
        if job.running:
            job.kill()
            job.wait(20)


def carry(lab, sender, receiver, mib, to=None):
    """Noise by TCP: it arrives as it was."""
    with program(receiver, "serve", 5201):
        path = sender.push("net.py", PROGRAM.encode())
        said = sender.out(f"python3 {path} send {to or address(lab, receiver)} 5201 {mib} 7", 200)
    done = json.loads(said.splitlines()[-1])
    if not done["same"] or done["bytes"] != mib << 20:
        raise Mismatch(f"{mib} MiB did not arrive as they were: {done}")
    return done


def counters(host):
    """What the interface has counted."""
    stats = f"/sys/class/net/{NAME}/statistics"
    names = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_bytes", "tx_bytes")
    return {name: int(host.out(f"cat {stats}/{name}")) for name in names}


@test("an interface carries TCP and datagrams of all sizes between two hosts, over IPv4 and IPv6", core=True)
def both(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    with interfaces(lab):
        for host in (h1, h2):
            mac = host.out(f"cat /sys/class/net/{NAME}/address")
            if mac != f"02:00:00:00:00:{ids(lab)[host.name]:02x}":
                raise Mismatch(f"{host.name}: address {mac}, hardware id {ids(lab)[host.name]:#x}")
        carry(lab, h1, h2, 16)
        carry(lab, h2, h1, 16)
        if not h1.run("test -e /proc/net/if_inet6", status=None).status:
            local = h2.out(f"ip -6 -o addr show dev {NAME} scope link | tr -s ' ' | cut -d' ' -f4 | cut -d/ -f1")
            carry(lab, h1, h2, 4, f"{local}%{NAME}")
        with program(h2, "echo", 5202):
            path = h1.push("net.py", PROGRAM.encode())
            sizes = (0, 1, 17, 18, 19, 1472, 1473, 9000, 40000, 65507)
            h1.run(f"python3 {path} datagrams {address(lab, h2)} 5202 {' '.join(map(str, sizes))}", 60)
        found = counters(h1)
        # Segments were put together before they were sent.
        if found["tx_bytes"] <= 1514 * found["tx_packets"]:
            raise Mismatch(f"packets are no larger than segments: {found}")
        bench.note(f"h1: {found}")


@test("an interface carries frames of its largest and of its least MTU")
def mtu(bench):
    lab = bench.pair()
    for size in (576, 9000, 65521):
        with interfaces(lab, mtu=size):
            carry(lab, lab["h1"], lab["h2"], 8)
    refused = lab["h1"].run(f"ip link add {NAME} mtu 65522 parentdev weft0 type weft", status=None)
    down([lab["h1"]])
    if not refused.status:
        raise Mismatch("an MTU of 65522 was taken")


@test("a frame from another address than that of the host that sends it is dropped, and counted")
def forged(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]

    if h1.run("test -e /proc/net/packet", status=None).status:
        raise Skip("the kernel has no packet sockets")

    def statistics():
        return json.loads(h2.out(f"python3 {h2.push('net.py', PROGRAM.encode())} statistics {NAME}"))

    with interfaces(lab):
        before = statistics()
        own, other = ("02:00:00:00:00:01", "02:00:00:00:00:02")
        path = h1.push("net.py", PROGRAM.encode())
        h1.run(f"python3 {path} frames {NAME} {other} 02:00:00:00:00:03 {other} 00:00:00:00:00:00 {own}", 30)
        # Behind these frames, in order, come those of the transfer.
        carry(lab, h1, h2, 1)
        after = statistics()
        if after["rx_foreign_source"] - before["rx_foreign_source"] != 3 or after["rx_malformed"]:
            raise Mismatch(f"of 4 frames 3 were forged: {before}, then {after}")
        if after["peers"] != 1 or not after["connections"]:
            raise Mismatch(f"{after}")


@test("anything that a neighbour's kernel sends to an interface harms nothing, and is counted")
def anything(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    up(lab, [h2])
    for seed in range(SEED, SEED + SEEDS):
        h1.run(f"insmod {FRAMES} peer={ids(lab)['h2']} seed={seed}", 120)
        h1.run("rmmod weft_frames")
    stats = json.loads(h2.out(f"python3 {h2.push('net.py', PROGRAM.encode())} statistics {NAME}"))
    down([h2])
    if not stats["rx_malformed"] or not stats["rx_foreign_source"]:
        raise Mismatch(f"nothing was malformed, or foreign: nothing was tested: {stats}")
    bench.note(f"seeds {SEED} to {SEED + SEEDS - 1}: {stats}")
    with interfaces(lab):
        carry(lab, h1, h2, 2)


@test("an interface outlasts resets, a link that flaps and its peer's module; TCP goes on")
def outlasts(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    ways = {
        "flap": lambda: (lab.fabric.link("down", "h1:0"), h1.wait_link("down"), lab.fabric.link("up", "h1:0")),
        "own reset": lambda: h1.run(f"echo 1 >{DEVICE}/reset", 60),
        "peer's reset": lambda: h2.run(f"echo 1 >{DEVICE}/reset", 60),
    }
    with interfaces(lab), program(h2, "serve", 5201):
        path = h1.push("net.py", PROGRAM.encode())
        job = h1.start_job(f"exec python3 {path} send {address(lab, h2)} 5201 128 3")
        job.expect("begun", 60)
        for name, way in ways.items():
            if not job.running:
                raise Mismatch(f"{name}: the transfer was over before: nothing was tested")
            way()
            time.sleep(1)
        done = json.loads(job.wait(200).must().out.splitlines()[-1])
        if not done["same"]:
            raise Mismatch(f"{done}")
        bench.note(f"{done}")
    with interfaces(lab):
        # The peer's interface goes with its module, and comes anew.
        h2.rmmod()
        h1.until(f"[ $(cat /sys/class/net/{NAME}/carrier) = 0 ]", 30)
        h2.insmod()
        up(lab, [h2])
        h1.until(f"[ $(cat /sys/class/net/{NAME}/carrier) = 1 ]", 60)
        carry(lab, h1, h2, 2)


def in_a_row(bench, rounds, way):
    """A stream that outlasts so many of these; the interface is the same one afterwards, and no memory is gone."""
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    which = f"cat /sys/class/net/{NAME}/ifindex /sys/class/net/{NAME}/address"
    came = f"cat /sys/class/net/{NAME}/statistics/rx_bytes"
    end = "/tmp/net-end"
    with interfaces(lab), program(h2, "serve", 5201):
        before = [host.out(which) for host in (h1, h2)]
        kib = [steps.available(host) for host in (h1, h2)]
        path = h1.push("net.py", PROGRAM.encode())
        h1.run(f"rm -f {end}")
        job = h1.start_job(f"exec python3 {path} until {address(lab, h2)} 5201 {end} 5")
        job.expect("begun", 60)
        for _ in range(rounds):
            way(lab)
            h2.until(f"[ $({came}) -gt {int(h2.out(came)) + (1 << 20)} ]", 60)
        h1.run(f"touch {end}")
        done = json.loads(job.wait(200).must().out.splitlines()[-1])
        if not done["same"]:
            raise Mismatch(f"what was acknowledged is lost: {done}")
        if [host.out(which) for host in (h1, h2)] != before:
            raise Mismatch("an interface is another one")
        lost = [was - steps.available(host) for was, host in zip(kib, (h1, h2))]
    bench.note(f"{rounds} times, {done['bytes'] >> 20} MiB; KiB less than before: {lost}")
    if max(lost) > MEMORY_KIB:
        raise Mismatch(f"of the memory of the hosts {lost} KiB are gone")


def flap(lab):
    lab.fabric.link("down", "h1:0")
    lab["h1"].wait_link("down")
    lab.fabric.link("up", "h1:0")
    lab["h1"].wait_link("ready")


def peer_reset(lab):
    lab["h2"].run(f"echo 1 >{DEVICE}/reset", 60)
    lab["h1"].wait_link("ready")


@test("an interface outlasts a link that flaps again and again under load: no acknowledged byte is lost, no memory")
def flaps(bench):
    in_a_row(bench, ROUNDS, flap)


@test("an interface outlasts resets of its peer again and again under load: no acknowledged byte is lost, no memory")
def resets(bench):
    in_a_row(bench, ROUNDS, peer_reset)


@test("an interface that goes, comes and is moved between namespaces under load harms nothing")
def goes(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    with interfaces(lab), program(h2, "serve", 5201):
        path = h1.push("net.py", PROGRAM.encode())
        for n in range(5):
            job = h1.start_job(f"exec python3 {path} send {address(lab, h2)} 5201 4096 {n}")
            job.expect("begun", 60)
            down([h1])
            job.kill()
            job.wait(30)
            up(lab, [h1])
            await_carrier([h1])
        said = h1.run("ip link add other0 parentdev weft0 type weft", status=None)
        if not said.status or "has an interface" not in said.err:
            raise Mismatch(f"a second interface of a port: {said}")
        said = h1.run("ip link add other0 parentdev weft77 type weft", status=None)
        if not said.status or "no such port" not in said.err:
            raise Mismatch(f"an interface of no port: {said}")
        if not h1.run("test -e /proc/self/ns/net", status=None).status:
            h1.run(f"ip netns add n1 && ip link set {NAME} netns n1 && ip netns del n1", 30)
    # It went with its namespace; with the module it goes, too.
    up(lab, [h1, h2])
    h1.rmmod()
    h1.insmod()
    down([h2])
    h1.wait_link("ready")


@test("three hosts of which two are no neighbours reach each other, and all hear what is sent to all", lab="chain")
def three(bench):
    lab = bench.shape("chain", topology.chain(3))
    with interfaces(lab) as (h1, h2, h3):
        for host in (h1, h2, h3):
            host.until(f"[ $(ip neigh flush dev {NAME}; ls {DEVICE}/link*/channels | xargs cat | grep -c 1) -ge 2 ]", 60)
        for one, other in ((h1, h2), (h2, h3), (h1, h3), (h3, h1)):
            carry(lab, one, other, 2)
