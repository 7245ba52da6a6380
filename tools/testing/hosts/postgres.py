# SPDX-License-Identifier: GPL-2.0
"""PostgreSQL with pgbench between two hosts, over an Ethernet interface and under weft-run: afterwards the database has
what pgbench has done, and the client reads what the server has."""

import contextlib
import re

from weftlab.errors import Mismatch
from weftlab.suite import test

from .programs import CLIENTS, ROOT, TIMES, daemon, hosts, inside
from .run import address_of, all_moved, beside, moving, run, serving

LAB = "programs"
PORT = 5432
BIN = "/usr/lib/postgresql/17/bin"
PLACE = "/srv/postgres"
DATA = f"{PLACE}/data"
# The server does not run as root.
USER = 175
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", "TZ=UTC", "LC_ALL=C")
INITDB = ("--no-sync", "--no-instructions", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username=postgres",
          "--wal-segsize=1")  # fmt: skip
SETTINGS = {
    "listen_addresses": "0.0.0.0",
    "unix_socket_directories": "/tmp",
    "shared_buffers": "16MB",
    "max_connections": 40,
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "autovacuum": "off",
    "jit": "off",
}
SECONDS = 3 * TIMES
# Accounts are 100,000 times as many.
SCALE = min(TIMES, 3)
# Of these the client reads all.
READ = 20_000 * TIMES
BALANCES = """select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
(select sum(bbalance) from pgbench_branches), (select sum(delta) from pgbench_history)"""
WRONG = """select count(*) from pgbench_accounts left join
(select aid, sum(delta) as sum from pgbench_history group by aid) using (aid) where abalance <> coalesce(sum, 0)"""
COUNTS = "select (select count(*) from pgbench_accounts), (select count(*) from pgbench_history)"
ADDRESSES = "select host(inet_client_addr()), host(inet_server_addr()), inet_server_port()"
ROWS = f"copy (select * from pgbench_accounts where aid <= {READ} order by aid) to stdout"


def cluster(host):
    """What the server has, in memory, as long as the lab lasts."""
    if not host.run(f"test -e {ROOT}{DATA}/PG_VERSION", status=None).status:
        return
    host.run(f"echo 'postgres:x:{USER}:{USER}::/tmp:/bin/sh' >>{ROOT}/etc/passwd && mkdir -p {ROOT}{PLACE} && "
             f"mount -t tmpfs -o uid={USER},gid={USER} postgres {ROOT}{PLACE}")  # fmt: skip
    host.run(inside(*AS_USER, f"{BIN}/initdb", "-D", DATA, *INITDB), 180)
    host.run(f"echo 'host all all 10.87.0.0/24 trust' >>{ROOT}{DATA}/pg_hba.conf")


@contextlib.contextmanager
def server(host, listening):
    """Runs it by `daemon` or `serving`; its end is an orderly one."""
    cluster(host)
    settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    with listening(host, PORT, *AS_USER, f"{BIN}/postgres", "-D", DATA, *settings) as job:
        job.expect("database system is ready to accept connections", 60)
        yield
        # Clients are disconnected.
        host.run(f"kill -INT $(head -n 1 {ROOT}{DATA}/postmaster.pid)")
        job.wait(60).must()


def query(at, text):
    return inside(f"{BIN}/psql", "-X", "-h", at, "-U", "postgres", "-At", "-c", text)


def client(at, name, *words):
    return f"{BIN}/{name}", "-h", at, "-U", "postgres", *words, "postgres"


def exercise(bench, client_host, server_host, at, under):
    """Makes tables, reads and writes them by several clients; `under` changes the command of a client."""
    client_host.run(inside(*under(*client(at, "pgbench", "-i", "-q", "-I", "dtgp", "-s", SCALE))), 120 * TIMES)
    done = {}
    for script in ("select-only", "tpcb-like"):
        words = client(at, "pgbench", "-n", "-b", script, "-c", CLIENTS, "-T", SECONDS)
        told = client_host.out(inside(*under(*words)), 60 + 2 * SECONDS)
        done[script] = int(re.search(r"actually processed: (\d+)", told)[1])
        if not done[script] or int(re.search(r"failed transactions: (\d+)", told)[1]):
            raise Mismatch(f"{script}: {told}")
        bench.note(f"{script}, {CLIENTS} clients: {re.search(r'tps = ([0-9.]+)', told)[1]} transactions a second")
    # As read at the server, by a UNIX socket.
    balances = server_host.out(query("/tmp", BALANCES), 120).split("|")
    counts = server_host.out(query("/tmp", COUNTS), 120)
    wrong = server_host.out(query("/tmp", WRONG), 120)
    if len(set(balances)) != 1 or wrong != "0":
        raise Mismatch(f"sums of accounts, tellers, branches and history: {balances}; {wrong} accounts are wrong")
    if counts != f"{100_000 * SCALE}|{done['tpcb-like']}":
        raise Mismatch(f"accounts and history: {counts}, of {done['tpcb-like']} transactions")
    digests = [host.out(f"{command} | sha256sum", 120) for host, command in (
        (server_host, query("/tmp", ROWS)),
        (client_host, inside(*under(*client(at, "psql", "-X", "-c", ROWS)))),
    )]  # fmt: skip
    if digests[0] != digests[1]:
        raise Mismatch("the client reads other rows than the server has")


@test("PostgreSQL and pgbench run over an interface: what was done is there, and rows are read as they are")
def interface(bench):
    with hosts(bench) as (h1, h2, at), server(h2, daemon):
        exercise(bench, h1, h2, at, lambda *words: words)


@test("PostgreSQL and pgbench under weft-run: what was done is there, rows are read as they are, the client's address", long=True)
def moved(bench):
    def under(*words):
        return run("postgres", *words)

    with moving(bench) as (h1, h2, at), server(h2, serving):
        with beside(h1, h2):
            exercise(bench, h1, h2, at, under)
            told = h1.out(inside(*under(*client(at, "psql", "-X", "-At", "-c", ADDRESSES))), 60)
        if told != f"{address_of(h1)}|{at}|{PORT}":
            raise Mismatch(f"the server knows the connection as {told!r}")
        # One that makes the tables, two that read the rows and the addresses, and one of each script that sees whether
        # there are tables.
        if all_moved(h1, "postgres", PORT) != 5 + 2 * CLIENTS:
            raise Mismatch("of the connections some are missing")
