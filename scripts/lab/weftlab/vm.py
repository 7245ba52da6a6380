# SPDX-License-Identifier: GPL-2.0
"""make vm: shells on emulated hosts joined by Weft ports."""

import argparse
import pathlib
import sys

from . import lab, process, topology
from .errors import LabError
from .fabric import wait_until
from .terminal import Terminal

MOST = 8
SHELL = (
    "while :; do setsid -c sh -c 'cd /root; PS1=\"$(hostname):\\w# \" exec bash --norc -i' "
    "</dev/hvc0 >/dev/hvc0 2>&1; done"
)


def arguments():
    parser = argparse.ArgumentParser(
        prog="vm",
        description="Boots hosts joined by Weft ports in a ring (two: by one link), loads weft.ko "
        "and gives a shell on them. `vm attach HOST`, in another terminal, is one more "
        "way in; it takes the host's terminal over.",
    )
    parser.add_argument("hosts", nargs="?", default="2", help="number of hosts, 1 to 8, or: attach")
    parser.add_argument("host", nargs="?", help="with attach: which")
    parser.add_argument("--topology", metavar="FILE", help="the hosts of this file, and all else that is in it: "
                        "switches, endpoints; in place of a ring")  # fmt: skip
    parser.add_argument("--chain", action="store_true", help="a chain instead of a ring")
    parser.add_argument("--memory", type=int, default=256, help="MiB of RAM of each host")
    parser.add_argument("--cpus", type=int, default=1, help="processors of each host")
    parser.add_argument("--no-module", action="store_true", help="do not load weft.ko")
    parser.add_argument("--run", metavar="COMMAND", help="run this on every host, then end")
    args = parser.parse_args()
    if args.hosts.startswith("HOSTS="):
        args.hosts = args.hosts[6:]
    if args.hosts != "attach" and not (args.hosts.isdigit() and 1 <= int(args.hosts) <= MOST):
        parser.error(f"{args.hosts} hosts: give 1 to {MOST}")
    if args.hosts == "attach" and not args.host:
        parser.error("attach to which host?")
    return args


def marker():
    return pathlib.Path("/tmp") / "weft-vm-terminals"


def attach(name):
    try:
        folder = pathlib.Path(marker().read_text().strip())
    except OSError:
        sys.exit("vm: no hosts run; start them with: make vm")
    names = sorted(path.stem for path in folder.glob("*.terminal"))
    if name not in names:
        sys.exit(f"vm: no host is called {name}; there are: {', '.join(names)}")
    Terminal(names, lambda n: folder / f"{n}.terminal").run(name)


def command(host, text):
    result = host.run(text, 600, None)
    sys.stdout.write("".join(f"{host.name}: {line}\n" for line in result.out.splitlines()))
    sys.stdout.write("".join(f"{host.name}: {line}\n" for line in result.err.splitlines()))
    return result.status


def wanted(args):
    """What is to be booted, which weft-fabric still looks at."""
    if not args.topology:
        return topology.chain(int(args.hosts), close=not args.chain)
    try:
        shape = topology.Written(pathlib.Path(args.topology).read_text())
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise LabError(f"the topology: {error}; `weft-fabric check FILE` says what is wrong") from None
    if not 1 <= len(shape.hosts) <= MOST:
        raise LabError(f"the topology: {len(shape.hosts)} hosts; give 1 to {MOST}")
    return shape


def serve(args, say):
    interactive = sys.stdin.isatty() and sys.stdout.isatty() and not args.run
    if not interactive and not args.run:
        raise LabError("shells need a terminal; for a script there is --run COMMAND")
    with lab.Lab("vm", say) as hosts:
        shape = wanted(args)
        hosts.join(shape)
        # Of so many slots some are left for functions of endpoints.
        slots = 16 if shape.endpoints else None
        for name, _ in shape.hosts:
            hosts.add(name, memory=args.memory, cpus=args.cpus, slots=slots,
                      shell=hosts.sockets / f"{name}.terminal")  # fmt: skip
        hosts.boot()
        if not args.no_module:
            hosts.load()
            say("weft.ko loaded, links between hosts ready")
        if args.run:
            return max([command(host, args.run) for host in hosts.hosts.values()])
        for host in hosts.hosts.values():
            host.start_job(SHELL)
            wait_until(host.shell.exists, 10, f"terminal of {host.name}")
        marker().write_text(str(hosts.sockets))

        def resized(name, rows, columns):
            hosts[name].start_job(f"stty -F /dev/hvc0 rows {rows} cols {columns}")

        try:
            names = list(hosts.hosts)
            print(f"\n  hosts {', '.join(names)}; another terminal: scripts/lab/vm attach {names[-1]}\n"
                  f"  the fabric: weft-fabric --dir {hosts.fabric.dir} status\n")  # fmt: skip
            Terminal(names, lambda n: hosts[n].shell, resized).run(names[0])
        finally:
            marker().unlink(missing_ok=True)
    return 0


def main():
    args = arguments()
    process.on_signals()
    if args.hosts == "attach":
        attach(args.host)
        return 0
    try:
        return serve(args, lab.Progress())
    except LabError as error:
        print(f"vm: {error.kind}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
