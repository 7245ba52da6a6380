# SPDX-License-Identifier: GPL-2.0
"""make bench: runs the parts and writes the report."""

import argparse
import sys
import time

from .. import guest, paths, process
from ..errors import LabError
from ..lab import Progress
from . import parts, report
from .figures import Figures

LEAST = 7


def arguments():
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Measures Weft between two emulated hosts, beside TCP over virtio-net and "
        "Soft-RoCE, and writes bench/results.json, bench/results.md and plots.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*parts.ALL, []],
                        help=f"of {', '.join(parts.ALL)} (default: all)")  # fmt: skip
    parser.add_argument("--runs", type=int, default=LEAST, help=f"of each figure, {LEAST} or more")
    args = parser.parse_args()
    if args.runs < LEAST:
        parser.error(f"{args.runs} runs: a median needs {LEAST} at least")
    return args


def main():
    args = arguments()
    process.on_signals()
    say = Progress(prefix="bench: ")
    figures = Figures()
    try:
        for name in args.parts or parts.ALL:
            say(f"part {name}: {parts.ALL[name].__doc__}")
            parts.ALL[name](figures, say, args.runs)
    except LabError as error:
        print(f"bench: {error.kind}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    folder = paths.TOP / "bench"
    accel = "KVM" if guest.kvm() else "TCG"
    report.write(folder, figures, args.runs, paths.env("kver"), accel, time.strftime("%Y-%m-%d"))
    missed = [figure.id for figure in figures if figure.met is False]
    say(f"{folder}/results.md and results.json written; " +
        (f"not met: {', '.join(missed)}" if missed else "all targets met"))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
