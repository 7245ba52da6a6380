# SPDX-License-Identifier: GPL-2.0
"""Programs that know nothing of Weft, over an Ethernet interface: Debian's own, as they come, and what they carry
compared."""

import contextlib
import json
import os
import shlex

from weftlab import kernel, paths, topology
from weftlab.errors import Mismatch, Skip
from weftlab.layers import ROOT, inside, mount
from weftlab.suite import test

from .net import address, interfaces
from .vsock import transport

LAB = "programs"
# How many times as long, and as much, as in `make check`; and clients at once.
TIMES = int(os.environ.get("WEFT_WORKLOAD", 1))
CLIENTS = 4 if TIMES == 1 else 16
PREPARE = f"""mkdir -p {ROOT}/run/sshd {ROOT}/root/.ssh {ROOT}/var/log/nginx {ROOT}/var/lib/nginx/body
chmod 755 {ROOT}/run/sshd && chmod 700 {ROOT}/root/.ssh
echo 'sshd:x:174:65534::/run/sshd:/usr/sbin/nologin' >>{ROOT}/etc/passwd
"""
SSH = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")
SSHD = ("-f", "/dev/null", "-h", "/root/hostkey", "-o", "UsePAM=no", "-o", "StrictModes=no", "-o", "PidFile=none")
NGINX = """daemon off; error_log stderr; pid /tmp/nginx.pid; user root;
events {} http { server { listen 8080; root /tmp/www; access_log off; } }
"""


@contextlib.contextmanager
def hosts(bench):
    """h1, h2 and the address of h2, with interfaces and programs."""
    if kernel.variant():
        raise Skip("this kernel has no overlay file system")
    shares = {"programs": paths.env("programs"), "servers": paths.env("servers")}
    lab = bench.shape("programs", topology.chain(2), shares=shares, memory=512)
    for host in lab.hosts.values():
        if mount(host, "/mnt/servers", "/mnt/programs"):
            host.run(PREPARE)
    with interfaces(lab) as (h1, h2):
        yield h1, h2, address(lab, h2)


@contextlib.contextmanager
def running(host, command):
    job = host.start_job(f"exec {command}")
    try:
        yield job
    finally:
        if job.running:
            job.kill()
            job.wait(20)


def listens(port):
    """The condition that a program listens on a port of TCP."""
    return (f"grep -q ':{port:04X} 00000000:0000 0A' /proc/net/tcp || "
            f"grep -q ':{port:04X} 00000000000000000000000000000000:0000 0A' /proc/net/tcp6")  # fmt: skip


@contextlib.contextmanager
def daemon(host, port, *words):
    """A program that listens on a port of TCP."""
    with running(host, inside(*words)) as job:
        host.until(listens(port), 60)
        yield job


def keys(client, server):
    """The key of the server, and one by which the client gets in."""
    for host, key in ((client, "/root/.ssh/id_ed25519"), (server, "/root/hostkey")):
        host.run(f"[ -e {ROOT}{key} ] || {inside('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', key)}", 60)
    public = client.out(f"cat {ROOT}/root/.ssh/id_ed25519.pub")
    server.run(f"echo {shlex.quote(public)} >{ROOT}/root/.ssh/authorized_keys")


def noise(host, name, mib):
    """A file of noise, and its digest. There is memory for several of three times as much, and not more."""
    path = f"{ROOT}/tmp/{name}"
    host.run(f"mkdir -p $(dirname {path}) && head -c {mib * min(TIMES, 3)}M /dev/urandom >{path}")
    return f"/tmp/{name}", digest(host, f"/tmp/{name}")


def digest(host, path):
    return host.out(f"sha256sum <{ROOT}{path}").split()[0]


@test("iperf3 runs over an interface, both ways and with four streams")
def iperf3(bench):
    with hosts(bench) as (h1, h2, at):
        for options in ((), ("-R",), ("-P", 4), ("-u", "-b", "50M")):
            # A server each: one that goes on closes its listener and opens another, and a client between is reset.
            with daemon(h2, 5201, "iperf3", "-s", "-1"):
                said = json.loads(h1.out(inside("iperf3", "-c", at, "-t", 2 * TIMES, "-J", *options), 60 * TIMES))
            end = said["end"]
            found = end.get("sum_received") or end["sum"]
            if not found["bytes"]:
                raise Mismatch(f"iperf3 {options}: nothing came: {end}")
            bench.note(f"iperf3 {' '.join(map(str, options))}: {found['bits_per_second'] / 8e6:.1f} MB/s")


@test("ssh and scp run over an interface: a command, and files both ways, as they were")
def ssh(bench):
    with hosts(bench) as (h1, h2, at):
        keys(h1, h2)
        with daemon(h2, 2222, "/usr/sbin/sshd", "-D", "-e", "-p", 2222, *SSHD, "-o", "Subsystem=sftp internal-sftp"):
            said = h1.out(inside("ssh", *SSH, "-p", 2222, f"root@{at}", "hostname"), 120)
            if said.strip() != "h2":
                raise Mismatch(f"a command by ssh says {said!r}")
            path, want = noise(h1, "forth", 8)
            h1.run(inside("scp", *SSH, "-P", 2222, path, f"root@{at}:/tmp/arrived"), 120)
            h1.run(inside("scp", *SSH, "-P", 2222, f"root@{at}:/tmp/arrived", "/tmp/back"), 120)
            for host, file in ((h2, "/tmp/arrived"), (h1, "/tmp/back")):
                if digest(host, file) != want:
                    raise Mismatch(f"{host.name}: {file} is not what was sent")


@test("socat and ssh run over AF_VSOCK: a file, and a command, as they were")
def socat(bench):
    with hosts(bench) as (h1, h2, _), transport((h1, h2)) as (_, other):
        path, want = noise(h1, "by-socat", 4)
        job = h2.start_job(f"exec {inside('socat', '-u', 'VSOCK-LISTEN:2000', 'CREATE:/tmp/by-socat')}")
        # Until it listens, it is refused.
        send = inside("socat", "-u", f"OPEN:{path}", f"VSOCK-CONNECT:{other}:2000")
        h1.until(f"{send} 2>/dev/null", 60)
        job.wait(60).must()
        if digest(h2, "/tmp/by-socat") != want:
            raise Mismatch("the file is another one")
        keys(h1, h2)
        # What the client finds, and what listens, where systemd has started the machine.
        h1.run(inside("systemd-tmpfiles", "--create", "20-systemd-ssh-generator.conf"))
        serve = ("systemd-socket-activate", "--listen=vsock::22", "--accept", "--inetd", "/usr/sbin/sshd", "-i", *SSHD)
        with running(h2, inside(*serve)) as job:
            job.expect("Listening on vsock::22", 30)
            there = inside("ssh", "-o", "LogLevel=ERROR", f"root@vsock/{other}", "cat >/tmp/by-ssh; hostname")
            said = h1.out(f"{there} <{ROOT}{path}", 120)
            if said != "h2" or digest(h2, "/tmp/by-ssh") != want:
                raise Mismatch(f"a command by ssh says {said!r}, or its input is another one")


@test("redis runs over an interface: its benchmark, and a large value, as it was")
def redis(bench):
    with hosts(bench) as (h1, h2, at):
        serve = ("redis-server", "--port", 6379, "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "",
                 "--appendonly", "no")  # fmt: skip
        with daemon(h2, 6379, *serve):
            path, want = noise(h1, "value", 4)
            client = ("redis-cli", "-h", at)
            h1.run(f"{inside(*client, '-x', 'set', 'value')} <{ROOT}{path}", 60)
            # What it prints ends with a line feed.
            h1.run(f"{inside(*client, '--raw', 'get', 'value')} | head -c -1 >{ROOT}/tmp/got", 60)
            if digest(h1, "/tmp/got") != want:
                raise Mismatch("the value is another one")
            words = ("redis-benchmark", "-h", at, "-n", 2000 * TIMES, "-c", 10, "-t", "set,get,lrange_100", "--csv")
            said = h1.out(inside(*words), 180 * TIMES)
            rates = [line.split(",")[:2] for line in said.splitlines()[1:]]
            if len(rates) < 3:
                raise Mismatch(f"the benchmark says {said!r}")
            bench.note("requests a second: " + ", ".join(f"{name} {rate}" for name, rate in rates).replace('"', ""))


@test("nginx and a load generator run over an interface: no request fails, a file is what it was")
def nginx(bench):
    with hosts(bench) as (h1, h2, at):
        _, want = noise(h2, "www/file", 2)
        h2.run(f"echo index >{ROOT}/tmp/www/small && cat >{ROOT}/tmp/nginx.conf <<'END'\n{NGINX}END")
        with daemon(h2, 8080, "nginx", "-c", "/tmp/nginx.conf"):
            # The windows of more clients of the file are more than TCP has memory for in a guest: it drops segments.
            for name, requests, clients in (("small", 1000 * TIMES, 2 * CLIENTS), ("file", 20 * TIMES, 8)):
                words = ("ab", "-q", "-n", requests, "-c", clients, f"http://{at}:8080/{name}")
                said = h1.out(inside(*words), 180 * TIMES)
                told = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
                done, failed = int(told["Complete requests"]), int(told["Failed requests"])
                if (done, failed) != (requests, 0):
                    raise Mismatch(f"{name}: of {requests} requests {done} were done, {failed} failed")
                bench.note(f"{name}: {told['Requests per second'].split()[0]} requests a second")
            fetch = "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())"
            h1.run(f"python3 -c {shlex.quote(fetch)} http://{at}:8080/file >{ROOT}/tmp/fetched", 60)
            if digest(h1, "/tmp/fetched") != want:
                raise Mismatch("the file is another one")
