# SPDX-License-Identifier: GPL-2.0
"""Requests a second of redis and nginx, as Debian has them: over virtio-net, over the interface of the ports, and under
weft-run. Servers as TCP and servers under weft-run are there all the time, on ports of their own."""

import contextlib
import csv
import re

from .. import paths
from ..errors import LabError
from ..layers import ROOT, inside, mount
from . import network, schedule, ways
from .times import ratio

PREPARE = f"mkdir -p {ROOT}/tmp/www {ROOT}/var/log/nginx {ROOT}/var/lib/nginx/body && echo index >{ROOT}/tmp/www/index"
NGINX = """daemon off; error_log stderr; pid /tmp/nginx-{port}.pid; user root;
events {{}} http {{ server {{ listen {port}; root /tmp/www; access_log off; }} }}
"""
# Ports of servers as TCP; those under weft-run follow them.
REDIS, HTTP = 6379, 8080
# Requests of a run, and clients at once. Those of nginx make a connection each.
ASKED = {"redis": (1500, 10), "nginx": (150, 4)}
COMMANDS = ("set", "get")
# Of both programs, by the names of their figures.
NAMES = (*(f"redis-{command}" for command in COMMANDS), "nginx")


def shares():
    """Folders that the guests need."""
    return {"programs": paths.env("programs")}


def _inside(before, command):
    return f"{inside()}{before} {command}"


@contextlib.contextmanager
def servers(lab):
    """All of them, on h2."""
    h2 = lab["h2"]
    for host in lab.hosts.values():
        mount(host, "/mnt/programs")
        host.run(PREPARE)
    jobs = []
    try:
        for more, before in enumerate(("", ways.RUN)):
            conf = f"/tmp/nginx-{HTTP + more}.conf"
            h2.run(f"cat >{ROOT}{conf} <<'END'\n{NGINX.format(port=HTTP + more)}END")
            redis = f"redis-server --port {REDIS + more} --bind 0.0.0.0 --protected-mode no --save '' --appendonly no"
            for port, command in ((REDIS + more, redis), (HTTP + more, f"nginx -c {conf}")):
                jobs.append(h2.start_job(f"exec {_inside(before, command)}"))
                h2.until(f"grep -q ':{port:04X} 00000000:0000 0A' /proc/net/tcp", 60)
        yield
    finally:
        for job in jobs:
            job.kill()
        for job in jobs:
            job.wait(60)


def _ask(samples, lab, way, address, more=0, before=""):
    """Requests a second, by way and name."""
    host = lab["h1"]
    requests, clients = ASKED["redis"]
    found = {}
    for name in COMMANDS:
        command = f"redis-benchmark -h {address} -p {REDIS + more} -n {requests} -c {clients} -t {name} --csv"
        with schedule.counted(samples, lab.hosts.values(), f"{way}-redis-{name}", requests):
            said = host.out(_inside(before, command), ways.PATIENCE)
        for row in csv.reader(said.splitlines()):
            if row and row[0].lower() == name:
                found[f"redis-{name}"] = float(row[1])
    requests, clients = ASKED["nginx"]
    command = f"ab -q -n {requests} -c {clients} http://{address}:{HTTP + more}/index"
    with schedule.counted(samples, lab.hosts.values(), f"{way}-nginx", requests):
        said = host.out(_inside(before, command), ways.PATIENCE)
    done, failed = (re.search(rf"{what} requests: +(\d+)", said) for what in ("Complete", "Failed"))
    rate = re.search(r"Requests per second: +([\d.]+)", said)
    if not (done and failed and rate) or (int(done[1]), int(failed[1])) != (requests, 0):
        raise LabError(f"nginx was asked {requests} times: {said}")
    found["nginx"] = float(rate[1])
    if set(found) != set(NAMES):
        raise LabError(f"redis-benchmark has said {found}")
    for name, value in found.items():
        samples.add(f"{way}-{name}", value)


def run(samples, lab, backends):
    """Each way once."""
    for way in (*backends, network.WEFT):
        _ask(samples, lab, way, network.address(way, "h2"))
    with network.moved(lab["h1"], ASKED["nginx"][0]):
        _ask(samples, lab, "run", network.address(network.WEFT, "h2"), 1, ways.RUN)


def report(figures, samples, backends):
    for name in NAMES:
        best = [max(of) for of in zip(*(samples[f"{backend}-{name}"] for backend in backends))]
        net, run_ = samples[f"{network.WEFT}-{name}"], samples[f"run-{name}"]
        figures.add(f"virtio-net-{name}-requests", "1/s", best)
        figures.add(f"net-{name}-requests", "1/s", net)
        figures.add(f"run-{name}-requests", "1/s", run_)
        ratio(figures, f"net-{name}-requests-to-virtio-net", net, best)
        ratio(figures, f"run-{name}-requests-to-virtio-net", run_, best)
        ratio(figures, f"run-{name}-requests-to-net", run_, net)
        for way, of in ((backends[-1], "virtio-net"), (network.WEFT, "net"), ("run", "run")):
            schedule.report(figures, samples, f"{way}-{name}", f"{of}-{name}-requests")
