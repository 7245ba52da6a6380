# SPDX-License-Identifier: GPL-2.0
"""The command line of scripts/check."""

import argparse
import json
import os
import signal
import sys

from . import command, job, part, record, status
from .runner import Runner
from .suite import SETS, SUITES, named

# Guests wait a good deal: with one job more than processors these have enough to do.
LANES = int(os.environ.get("WEFT_LANES", "0")) or (os.cpu_count() or 1) + 1


def arguments():
    table = "\n".join(f"  {suite.name:<16}{suite.what} [{', '.join(suite.sets)}]" for suite in SUITES)
    parser = argparse.ArgumentParser(
        prog="check", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs test suites side by side and counts what they say.",
        epilog=f"suites, and the sets that they belong to:\n{table}",
    )  # fmt: skip
    parser.add_argument("which", nargs="*", metavar="SET|SUITE",
                        help=f"a set ({', '.join(SETS)}) or suites (default: check)")  # fmt: skip
    parser.add_argument("--part", metavar="N/M", default=os.environ.get("PART") or "1/1",
                        help="of these a part, such as 1/2 (default: $PART)")  # fmt: skip
    parser.add_argument("--lanes", type=int, default=LANES, help=f"jobs at a time ({LANES})")
    parser.add_argument("--list", action="store_true", help="print the jobs and their parts, run nothing")
    parser.add_argument("--status", action="store_true", help="print what passed at which commit, run nothing")
    parser.add_argument("--json", action="store_true", help="with --status: an object")
    return parser.parse_args()


def listed(found, count):
    for number, jobs in enumerate(part.split(found, count), 1):
        for each in jobs:
            print(f"{number}/{count} {each.seconds:6.0f} s  {each.name}")
            for test in each.tests:
                print(f"                    {test}")


def interrupt(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def main():
    args = arguments()
    if args.status:
        found = status.status(record.kept())
        print(json.dumps(found, indent=1) if args.json else "\n".join(status.lines(found)))
        return 0
    name, suites = named(args.which)
    if not suites:
        print(f"check: the sets are {', '.join(SETS)}; the suites are {', '.join(s.name for s in SUITES)}",
              file=sys.stderr)  # fmt: skip
        return 2
    number, count = part.parse(args.part)
    # What a shell has started in the background ignores it otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number_ in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number_, interrupt)
    if not args.list:
        # What is missing of the environment is made first, in sight.
        for needs in dict.fromkeys(suite.needs for suite in suites):
            if command.run(f"scripts/env {needs}"):
                return 1
    found = job.jobs(suites)
    if args.list:
        listed(found, count)
        return 0
    chosen = part.split(found, count)[number - 1]
    begin = record.tree()
    runner = Runner(job.builds(chosen), chosen, args.lanes)
    try:
        results = runner.run()
    except KeyboardInterrupt:
        print("check: interrupted", file=sys.stderr)
        return 130
    total, wall, core = runner.summary()
    end = record.tree()
    if name and begin and end:
        record.keep(record.entry(name, (number, count), begin, end, results, wall, core))
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
