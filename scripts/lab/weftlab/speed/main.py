# SPDX-License-Identifier: GPL-2.0
"""make bench: runs the parts and writes the report."""

import argparse
import sys
import time

from .. import guest, paths, process
from ..errors import LabError
from ..lab import Progress
from . import parts, report, tree
from .figures import Figures

LEAST = 7


def arguments():
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Measures Weft between two emulated hosts, beside TCP over virtio-net and "
        "Soft-RoCE, and writes bench/results.json, bench/results.md and plots.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*parts.ALL, []],
                        help=f"of {', '.join(parts.ALL)} (default: all); the figures of the others stay")  # fmt: skip
    parser.add_argument("--runs", type=int, default=LEAST,
                        help=f"of each figure ({LEAST}); fewer only to see whether it works")  # fmt: skip
    args = parser.parse_args()
    if args.runs < 1:
        parser.error("there has to be a run")
    return args


def main():
    args = arguments()
    process.on_signals()
    say = Progress(prefix="bench: ")
    figures = Figures(tree.name())
    folder = paths.TOP / "bench"
    if args.parts:
        figures.keep(folder / "results.json")
    accel = "KVM" if guest.kvm() else "TCG"
    today = time.strftime("%Y-%m-%d")
    failed = []
    try:
        for name in args.parts or parts.ALL:
            say(f"part {name}: {parts.ALL[name].__doc__}")
            try:
                parts.ALL[name](figures, say, args.runs)
            except LabError as error:
                # What the others measure is worth having.
                print(f"bench: {name}: {error.kind}: {error}", file=sys.stderr)
                failed.append(name)
            # Of a run that is interrupted what it has got this far is kept.
            report.write(folder, figures, args.runs, paths.env("kver"), accel, today)
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    missed = [figure.id for figure in figures if figure.met is False]
    say(f"{folder}/results.md and results.json written; " +
        (f"not met: {', '.join(missed)}" if missed else "all targets met"))  # fmt: skip
    if failed:
        say(f"parts that failed, and have no figures: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
