# SPDX-License-Identifier: GPL-2.0
"""Programs under weft-run: their TCP connections go over AF_VSOCK where they can, what they carry is compared, and the
interface has not seen it."""

import contextlib
import json

from weftlab.errors import Mismatch
from weftlab.suite import test

from .net import NAME, counters
from .programs import CLIENTS, NGINX, ROOT, SSH, SSHD, TIMES, daemon, digest, hosts, inside, keys, noise
from .vsock import transport

LAB = "programs"
RUN = "/mnt/tools/weft-run"
# Milliseconds that a program that does not wait leaves for the answer: hosts may be loaded here.
WAIT = 20_000
# What the interface may carry beside: to find out Ethernet addresses.
BESIDE = 100_000
# More connections than the 4 MiB of an arena have room for.
MANY = 80
# serve PORT HOW: takes what each connection sends until its end, and sends it back behind its size and the peer's
# address, by processes (fork) or a loop of epoll. send ADDRESS PORT HOW...: compares, by sockets that block or do not.
# many ADDRESS PORT COUNT: connections that are there at the same time. refused ADDRESS PORT COUNT: the errors of as
# many of each kind.
# learns ADDRESS PORT INTERFACE: connects before and after the address becomes another host's, and its own again.
PROGRAM = """import errno, os, select, socket, struct, sys

PAYLOAD = bytes(range(256)) * 1024


def whole(peer):
    return b"".join(iter(lambda: peer.recv(1 << 16), b""))


def answer(peer, address):
    peer.setblocking(True)
    found = whole(peer)
    assert peer.getpeername() == address
    peer.sendall(f"{len(found)} {address[0]}\\n".encode() + found)
    peer.close()


def serve(port, how):
    server = socket.create_server(("", int(port)))
    if how == "epoll":
        server.setblocking(False)
        waits = select.epoll()
        waits.register(server, select.EPOLLIN | select.EPOLLET | select.EPOLLEXCLUSIVE)
    while True:
        if how == "epoll":
            waits.poll()
        try:
            while True:
                peer, address = server.accept()
                if how == "fork" and os.fork():
                    peer.close()
                    continue
                answer(peer, address)
                if how == "fork":
                    os._exit(0)
        except BlockingIOError:
            pass


def connected(address, port, how):
    peer = socket.socket()
    peer.setblocking(how != "nonblocking")
    error = peer.connect_ex((address, int(port)))
    if error == errno.EINPROGRESS:
        select.select([], [peer], [], 30)
        error = peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    peer.setblocking(True)
    return peer, error


def send(address, port, *ways):
    for how in ways:
        peer, error = connected(address, port, how)
        assert not error, os.strerror(error)
        assert peer.getpeername() == (address, int(port)) and peer.family == socket.AF_INET
        peer.sendall(PAYLOAD)
        peer.shutdown(socket.SHUT_WR)
        head, found = whole(peer).split(b"\\n", 1)
        assert found == PAYLOAD, len(found)
        assert head.decode().split() == [str(len(PAYLOAD)), peer.getsockname()[0]], head
        print("same", flush=True)


def many(address, port, count):
    peers = [connected(address, port, "blocking")[0] for _ in range(int(count))]
    for n, peer in enumerate(peers):
        peer.sendall(b"%d" % n)
        peer.shutdown(socket.SHUT_WR)
    # They are answered in any order.
    for n, peer in enumerate(peers):
        assert whole(peer).endswith(b"\\n%d" % n)
    print("same")


def refused(address, port, count):
    print(*{connected(address, port, how)[1] for _ in range(int(count)) for how in ("blocking", "nonblocking")})


def once(address, port):
    with socket.socket() as peer:
        peer.settimeout(0.3)
        try:
            peer.connect((address, int(port)))
            peer.settimeout(30)
            peer.shutdown(socket.SHUT_WR)
            whole(peer)
        except TimeoutError:
            pass


def learns(address, port, interface):
    def replace(mac):
        # RTM_NEWNEIGH, to be acknowledged: asked for by ip, it would come too late to tell.
        body = struct.pack("=BxxxiHxx", socket.AF_INET, socket.if_nametoindex(interface), 2)
        body += struct.pack("=HH4s", 8, 1, socket.inet_aton(address)) + struct.pack("=HH6sxx", 10, 2, mac)
        kernel.send(struct.pack("=IHHII", 16 + len(body), 28, 0x505, 1, 0) + body)
        assert struct.unpack_from("=i", kernel.recv(4096), 16) == (0,)

    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    for _ in range(3):
        once(address, port)
    for mac in (bytes([2, 0, 0, 0, 0x77, 0x77]), bytes([2, 0, 0, 0, 0, 2])):
        replace(mac)
        once(address, port)


globals()[sys.argv[1]](*sys.argv[2:])
"""


@contextlib.contextmanager
def moving(bench):
    """h1, h2 and the address of h2, with interfaces, programs and AF_VSOCK; nothing is explained yet."""
    with hosts(bench) as (h1, h2, at), transport((h1, h2)):
        for host in (h1, h2):
            host.run(f"rm -f {ROOT}/tmp/*.said")
        yield h1, h2, at


def run(name, *words):
    """A command under weft-run, which explains into a file of that name."""
    return ("env", f"WEFT_SOCKETS_WAIT={WAIT}", RUN, f"--explain=/tmp/{name}.said", *words)


def said(host, name):
    return host.out(f"cat {ROOT}/tmp/{name}.said").splitlines()


@contextlib.contextmanager
def serving(host, port, *words):
    """A program that listens on a port of TCP, and of AF_VSOCK."""
    host.run(f"rm -f {ROOT}/tmp/served.said")
    with daemon(host, port, *run("served", *words)) as job:
        host.until(f"grep -q ':{port}: on AF_VSOCK' {ROOT}/tmp/served.said", 30)
        yield job


def all_moved(host, name, port):
    """Each connection to a port."""
    lines = [line for line in said(host, name) if f":{port}: " in line and " connect " in line]
    stayed = [line for line in lines if ": moved to CID " not in line]
    if stayed or not lines:
        raise Mismatch(f"connections that were not moved: {stayed or said(host, name)}")
    return len(lines)


@contextlib.contextmanager
def beside(*at):
    """The interfaces carry next to nothing meanwhile."""
    before = [counters(host)["tx_bytes"] for host in at]
    yield
    for host, was in zip(at, before):
        grown = counters(host)["tx_bytes"] - was
        if grown > BESIDE:
            raise Mismatch(f"{host.name}: {grown} bytes went over the interface")


@test("iperf3 under weft-run: its connections go over AF_VSOCK, and next to nothing over the interface")
def iperf3(bench):
    with moving(bench) as (h1, h2, at), beside(h1, h2):
        # Nothing is known of the other end yet.
        h1.run(f"ip neigh flush dev {NAME}")
        local = h2.out(f"ip -6 -o addr show dev {NAME} scope link | tr -s ' ' | cut -d' ' -f4 | cut -d/ -f1")
        for to, *options in ((f"{local}%{NAME}",), (at, "-R", "-P", 4)):
            words = run("iperf3", "iperf3", "-c", to, "-t", TIMES, "-J", *options)
            # A server each, as in `programs`.
            with serving(h2, 5201, "iperf3", "-s", "-1"):
                end = json.loads(h1.out(inside(*words), 60 * TIMES))["end"]
            found = end["sum_received"]
            if found["bytes"] < 10 * BESIDE:
                raise Mismatch(f"iperf3 to {to} {options}: {found}")
            bench.note(f"iperf3 to {to} {' '.join(map(str, options))}: {found['bits_per_second'] / 8e6:.1f} MB/s")
        # The one for control, and those for data.
        if all_moved(h1, "iperf3", 5201) != 2 + 5:
            raise Mismatch(f"{said(h1, 'iperf3')}")


@test("ssh and scp under weft-run: a file both ways, as it was, and a command that knows both addresses")
def ssh(bench):
    with moving(bench) as (h1, h2, at):
        keys(h1, h2)
        words = ("/usr/sbin/sshd", "-D", "-e", "-p", 2222, *SSHD, "-o", "Subsystem=sftp internal-sftp")
        with serving(h2, 2222, *words), beside(h1, h2):
            path, want = noise(h1, "forth", 4)
            h1.run(inside(*run("ssh", "scp", *SSH, "-P", 2222, path, f"root@{at}:/tmp/arrived")), 120)
            command = "echo $(hostname) $SSH_CONNECTION >/tmp/told; cat /tmp/arrived"
            back = inside(*run("ssh", "ssh", *SSH, "-p", 2222, f"root@{at}", command))
            h1.run(f"{back} >{ROOT}/tmp/back", 120)
            told = h2.out(f"cat {ROOT}/tmp/told")
            name, client, _, server, port = told.split()
            if [name, client, server, port] != ["h2", address_of(h1), at, "2222"]:
                raise Mismatch(f"a command by ssh says {told!r}")
            for host, file in ((h2, "/tmp/arrived"), (h1, "/tmp/back")):
                if digest(host, file) != want:
                    raise Mismatch(f"{host.name}: {file} is not what was sent")
            all_moved(h1, "ssh", 2222)


def address_of(host):
    return host.out(f"ip -4 -o addr show dev {NAME} | tr -s ' ' | cut -d' ' -f4 | cut -d/ -f1").strip()


@test("redis under weft-run: its benchmark, a large value, as it was, and the client's address")
def redis(bench):
    serve = ("redis-server", "--port", 6379, "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "",
             "--appendonly", "no")  # fmt: skip
    with moving(bench) as (h1, h2, at), serving(h2, 6379, *serve), beside(h1, h2):
        path, want = noise(h1, "value", 4)
        client = run("redis", "redis-cli", "-h", at)
        h1.run(f"{inside(*client, '-x', 'set', 'value')} <{ROOT}{path}", 60)
        h1.run(f"{inside(*client, '--raw', 'get', 'value')} | head -c -1 >{ROOT}/tmp/got", 60)
        if digest(h1, "/tmp/got") != want:
            raise Mismatch("the value is another one")
        listed = h1.out(inside(*client, "client", "list"), 60)
        if f" addr={address_of(h1)}:" not in listed or f" laddr={at}:6379 " not in listed:
            raise Mismatch(f"the server knows its clients as {listed!r}")
        words = ("redis-benchmark", "-h", at, "-n", 300 * TIMES, "-c", 10, "-t", "set,get", "--csv")
        lines = h1.out(inside(*run("redis", *words)), 180 * TIMES).splitlines()[1:]
        if len(lines) != 2:
            raise Mismatch(f"the benchmark says {lines}")
        bench.note("requests a second: " + ", ".join(" ".join(line.split(",")[:2]) for line in lines).replace('"', ""))
        all_moved(h1, "redis", 6379)


@test("nginx with two processes, and a load generator, under weft-run: no request fails, a file is what it was")
def nginx(bench):
    with moving(bench) as (h1, h2, at):
        _, want = noise(h2, "www/file", 2)
        conf = "worker_processes 2; " + NGINX.replace("8080;", "8081; sendfile on;")
        h2.run(f"echo index >{ROOT}/tmp/www/small && cat >{ROOT}/tmp/nginx-run.conf <<'END'\n{conf}END")
        with serving(h2, 8081, "nginx", "-c", "/tmp/nginx-run.conf"), beside(h1, h2):
            for name, requests in (("small", 60 * TIMES), ("file", 8 * TIMES)):
                words = ("ab", "-q", "-n", requests, "-c", 2 * CLIENTS, f"http://{at}:8081/{name}")
                lines = h1.out(inside(*run("ab", *words)), 180 * TIMES).splitlines()
                told = dict(line.split(":", 1) for line in lines if ":" in line)
                done, failed = int(told["Complete requests"]), int(told["Failed requests"])
                if (done, failed) != (requests, 0):
                    raise Mismatch(f"{name}: of {requests} requests {done} were done, {failed} failed")
                bench.note(f"{name}: {told['Requests per second'].split()[0]} requests a second")
            fetch = "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())"
            words = run("ab", "python3", "-c", fetch, f"http://{at}:8081/file")
            h1.run(f"{inside(*words)} >{ROOT}/tmp/fetched", 60)
            if digest(h1, "/tmp/fetched") != want:
                raise Mismatch("the file is another one")
            all_moved(h1, "ab", 8081)


def python(host, *words):
    return ("python3", host.push("run.py", PROGRAM.encode()), *words)


def stayed(host, name, count):
    """So many connections, each because only TCP listens there."""
    lines = said(host, name)
    if len(lines) != count or not all("stays TCP: nothing listens on that port of AF_VSOCK" in line for line in lines):
        raise Mismatch(f"{name}: {lines}")


def beyond(bench, host, at, port):
    """More connections than the arena of the link has room for: the rest are of TCP."""
    host.run(inside(*run("many", *python(host, "many", at, port, MANY))), 120)
    lines = said(host, "many")
    moved = sum(": moved to CID " in line for line in lines)
    bench.note(f"of {len(lines)} connections at once {moved} were moved; {lines[-1]}")
    if len(lines) != MANY or not MANY // 3 < moved < MANY:
        raise Mismatch(f"of {len(lines)} connections {moved} were moved: {lines[-1]}")
    if not any("stays TCP: no room for another connection" in line for line in lines):
        raise Mismatch(f"{lines[-1]}")


@test("under weft-run servers of processes and of epoll are reached, waiting and not; what cannot be moved stays TCP")
def servers(bench):
    with moving(bench) as (h1, h2, at):
        send = python(h1, "send", at, 5301, "blocking", "nonblocking")
        for how in ("fork", "epoll"):
            with serving(h2, 5301, *python(h2, "serve", 5301, how)):
                with beside(h1, h2):
                    h1.run(inside(*run(how, *send)), 60)
                all_moved(h1, how, 5301)
                if how == "epoll":
                    beyond(bench, h1, at, 5301)
                    # It is one of TCP for programs that know nothing else.
                    h1.run(inside(*python(h1, "send", at, 5301, "blocking")), 60)
        # Only TCP listens.
        send = python(h1, "send", at, 5302, "blocking", "nonblocking")
        serve = python(h2, "serve", 5302, "fork")
        with daemon(h2, 5302, *serve):
            h1.run(inside(*run("tcp", *send)), 60)
            stayed(h1, "tcp", 2)
        told = h1.out(inside(*run("refused", *python(h1, "refused", at, 5303, 200))), 60)
        if told.split() != ["111"]:
            raise Mismatch(f"where nothing listens: {told!r}")
        stayed(h1, "refused", 400)
        # The other end has no transport: it is as if nothing listened.
        h2.until("rmmod weft_vsock 2>/dev/null", 30)
        with daemon(h2, 5302, *run("without", *serve)):
            h1.run(inside(*run("none", *python(h1, "send", at, 5302, "blocking"))), 60)
            stayed(h1, "none", 1)
            h2.until(f"grep -q ':5302: stays TCP: weft_vsock.ko is not loaded' {ROOT}/tmp/without.said", 30)


@test("under weft-run a program that goes on learns at once that an address has become another host's")
def learns(bench):
    with moving(bench) as (h1, h2, at):
        with serving(h2, 5304, *python(h2, "serve", 5304, "fork")):
            h1.run(inside(*run("learns", *python(h1, "learns", at, 5304, NAME))), 60)
        lines = said(h1, "learns")
        moved = [": moved to CID 4098" in line for line in lines]
        if moved != [True, True, True, False, True]:
            raise Mismatch(f"connections, the fourth to a host that is not there: {lines}")
