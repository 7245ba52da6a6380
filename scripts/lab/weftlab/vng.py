# SPDX-License-Identifier: GPL-2.0
"""make vng: the kselftests under virtme-ng, as kernel developers run them.

virtme-ng boots the kernel on the root that it runs in, with two ports of one fabric in it,
joined by a link. What is run is an installed copy, by the kernel's own run_kselftest.sh.
"""

import argparse
import os
import shlex
import subprocess
import sys

from . import guest, kernel, lab, paths, process, topology
from .errors import LabError, SetupError

APPEND = "no_timer_check tsc=reliable mitigations=off random.trust_cpu=on"
# virtme-ng puts a watchdog into every machine, of a kind that this QEMU does not have.
QEMU = """#!/bin/bash
args=()
while [ $# -gt 0 ]; do
	if [ "$1 ${{2%%,*}}" = "-device i6300esb" ]; then shift; else args+=("$1"); fi
	shift
done
exec {qemu} "${{args[@]}}"
"""
SCRIPT = """set -e
cp -r {installed} /run/kselftest
export WEFT_KO={module}
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


def ports(fabric, memory):
    """Options of QEMU: the ports, and RAM that can be handed to the fabric."""
    words = [
        "-L", "/usr/share/seabios", "-L", "/usr/share/qemu",
        "-object", f"memory-backend-memfd,id=ram,size={memory}M,share=on",
        "-machine", "memory-backend=ram",
    ]  # fmt: skip
    if not guest.kvm():
        words += ["-cpu", guest.CPU]
    for number, node in enumerate(("n1", "n2")):
        bus = f"slot{number}"
        words += ["-device", f"pcie-root-port,id={bus},chassis={number + 1},slot={number + 1},"
                  "pref64-reserve=1G"]  # fmt: skip
        words += ["-device", guest.Port.weft(fabric, node).device(bus)]
    return shlex.join(map(str, words))


def wrapper(folder):
    path = folder / "qemu"
    path.write_text(QEMU.format(qemu=paths.env("qemu")))
    path.chmod(0o755)
    return str(path)


def command(args, fabric, installed):
    chosen = " ".join(f"-t weft:{shlex.quote(name)}" for name in args.tests) or "-c weft"
    script = SCRIPT.format(installed=installed, module=paths.module(), chosen=chosen)
    memory = kernel.memory(args.memory)
    words = ["vng", "--run", paths.env("kernel"), "--qemu", wrapper(fabric.folder), "--force-9p",
             "--memory", f"{memory}M", "--cpus", "1", "--user", "root", "--append", APPEND + guest.clock(),
             f"--qemu-opts={ports(fabric, memory)}", "--exec", script]  # fmt: skip
    if not guest.kvm():
        words.append("--disable-kvm")
    if args.dry_run:
        words.append("--dry-run")
    return words


def install():
    installed = paths.BUILD / "kselftest"
    done = subprocess.run([paths.TOP / "scripts" / "kselftest", installed], stdout=sys.stderr)
    if done.returncode:
        raise SetupError("the kselftests do not build")
    return installed


def main():
    args = arguments()
    process.on_signals()
    say = lab.Progress()
    try:
        installed = install()
        with lab.Lab("vng", say) as run:
            fabric = run.join(topology.chain(2, prefix="n"))
            say("starting virtme-ng")
            # Its standard streams must be no terminals.
            child = process.spawn(command(args, fabric, installed), env=environment(),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
            for line in child.stdout:
                sys.stdout.write(line.decode(errors="replace"))
                sys.stdout.flush()
            status = child.wait()
        say(f"virtme-ng ended with {status}")
    except LabError as error:
        print(f"vng: {error.kind}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
