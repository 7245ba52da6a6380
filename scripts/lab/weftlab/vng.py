# SPDX-License-Identifier: GPL-2.0
"""make vng: the kselftests under virtme-ng, as kernel developers run them.

virtme-ng boots the kernel on the root that it runs in, with two ports of one fabric in it,
joined by a link. What is run is an installed copy, by the kernel's own run_kselftest.sh.
What the kernel says goes to a file, is looked through at the end, and is shown of a guest
that hangs.
"""

import argparse
import os
import select
import shlex
import socket
import subprocess
import sys
import textwrap

from . import console, dmesg, guest, kernel, lab, paths, process, topology
from .errors import DmesgError, GuestHang, LabError, SetupError
from .qmp import Qmp

# The last of several log levels counts: virtme-ng asks for silence.
APPEND = f"{guest.EVERYWHERE} loglevel=7"
# Longer than any test is silent, and than a task has to be stuck for the kernel to say where.
SILENCE = 480
# virtme-ng puts a watchdog into every machine, of a kind that this QEMU does not have, and throws
# away what the kernel says.
QEMU = """#!/bin/bash
args=()
while [ $# -gt 0 ]; do
	case "$1 $2" in
	"-device i6300esb"*) shift ;;
	"-chardev file,id=console,"*) shift; args+=(-chardev file,id=console,path={console}) ;;
	*) args+=("$1") ;;
	esac
	shift
done
exec {qemu} "${{args[@]}}"
"""
SCRIPT = """set -e
cp -r {installed} /run/kselftest
cp {module} /run/weft.ko
export WEFT_KO=/run/weft.ko
insmod $WEFT_KO
exec /run/kselftest/run_kselftest.sh {chosen}
"""


def arguments():
    parser = argparse.ArgumentParser(
        prog="vng",
        description="Runs the kselftests under virtme-ng, in a guest with two ports joined by a link.",
    )
    parser.add_argument("tests", nargs="*", metavar="TEST", help="programs (default: all)")
    parser.add_argument("--memory", type=int, default=512, help="MiB of RAM of the guest")
    parser.add_argument("--dry-run", action="store_true", help="print QEMU's command line only")
    return parser.parse_args()


def environment():
    """virtme-ng is unpacked beside the root, not installed in it."""
    vng = paths.env("vng")
    found = dict(os.environ)
    found["PATH"] = f"{vng}/usr/bin:{found['PATH']}"
    found["PYTHONPATH"] = f"{vng}/usr/lib/python3/dist-packages"
    found["LD_LIBRARY_PATH"] = f"{vng}/usr/lib/x86_64-linux-gnu"
    found["MAGIC"] = f"{vng}/usr/lib/file/magic.mgc"
    return found


def options(fabric, memory, monitor):
    """Options of QEMU: the ports, RAM that can be handed to the fabric, and a monitor."""
    words = [
        "-L", "/usr/share/seabios", "-L", "/usr/share/qemu",
        "-object", f"memory-backend-memfd,id=ram,size={memory}M,share=on",
        "-machine", "memory-backend=ram",
        "-qmp", f"unix:{monitor},server=on,wait=off",
    ]  # fmt: skip
    if not guest.kvm():
        words += ["-cpu", guest.CPU]
    for number, node in enumerate(("n1", "n2")):
        bus = f"slot{number}"
        words += ["-device", f"{guest.ROOT_PORT},id={bus},chassis={number + 1},slot={number + 1},"
                  "pref64-reserve=1G"]  # fmt: skip
        words += ["-device", guest.Port.weft(fabric, node).device(bus)]
    return shlex.join(map(str, words))


def wrapper(folder):
    path = folder / "qemu"
    log = shlex.quote(str(folder / "console.log"))
    path.write_text(QEMU.format(qemu=paths.env("qemu"), console=log))
    path.chmod(0o755)
    return str(path)


def command(args, fabric, installed, monitor):
    chosen = " ".join(f"-t weft:{shlex.quote(name)}" for name in args.tests) or "-c weft"
    script = SCRIPT.format(installed=installed, module=paths.module(), chosen=chosen)
    memory = kernel.memory(args.memory)
    words = ["vng", "--run", paths.env("kernel"), "--qemu", wrapper(fabric.folder), "--force-9p",
             "--memory", f"{memory}M", "--cpus", "1", "--user", "root", "--append", APPEND + guest.clock(),
             f"--qemu-opts={options(fabric, memory, monitor)}", "--exec", script]  # fmt: skip
    if not guest.kvm():
        words.append("--disable-kvm")
    if args.dry_run:
        words.append("--dry-run")
    return words


def install(run):
    installed = run.folder / "kselftest"
    with paths.alone():
        done = subprocess.run([paths.TOP / "scripts" / "kselftest", installed], stdout=sys.stderr)
    if done.returncode:
        raise SetupError("the kselftests do not build")
    return installed


class Machine:
    """What virtme-ng has started."""

    def __init__(self, args, run, installed):
        self.name = "vng"
        self.dir = run.folder
        self.console_log = run.folder / "console.log"
        self.console_log.touch()
        monitor = run.sockets / "monitor.sock"
        self.args = command(args, run.fabric, installed, monitor)
        # Its standard streams must be no terminals.
        self.child = process.spawn(self.args, env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        self._monitor = str(monitor)

    @property
    def qmp(self):
        """A monitor, for who needs one: QEMU is not a child of ours."""
        monitor = socket.socket(socket.AF_UNIX)
        monitor.settimeout(5)
        try:
            monitor.connect(self._monitor)
        except OSError as error:
            raise LabError(f"no monitor: {error}") from error
        return Qmp(monitor)

    def follow(self):
        """Passes on what the tests say, as long as they say something."""
        out = self.child.stdout.fileno()
        while True:
            if not select.select([out], [], [], SILENCE)[0]:
                why = f"nothing was said for {SILENCE} s"
                last = self.last_words()
                evidence = console.capture(self, why)
                process.end(self.child)
                raise GuestHang(f"{last}\n{why}; {evidence}")
            said = os.read(out, 1 << 16)
            if not said:
                return self.child.wait()
            sys.stdout.buffer.write(said)
            sys.stdout.buffer.flush()

    def complaints(self):
        return "\n--\n".join(dmesg.complaints(console.tail(self.console_log, 1 << 24)))

    def last_words(self):
        return self.complaints() or console.tail(self.console_log, 4000)

    def check_dmesg(self):
        found = self.complaints()
        if found:
            raise DmesgError(f"the kernel complained:\n{found}")


def main():
    args = arguments()
    process.on_signals()
    say = lab.Progress()
    try:
        with lab.Lab("vng", say) as run:
            installed = install(run)
            run.join(topology.chain(2, prefix="n"))
            say("starting virtme-ng")
            machine = Machine(args, run, installed)
            status = machine.follow()
            say(f"virtme-ng ended with {status}")
            if not args.dry_run:
                machine.check_dmesg()
                print("ok - the kernel has nothing to complain of")
    except LabError as error:
        # Seen with the tests that failed, whatever they had begun to say.
        print("\n" + textwrap.indent(f"{error.kind}: {error}", "# ", lambda line: True))
        print("not ok - virtme-ng")
        return 1
    except KeyboardInterrupt:
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
