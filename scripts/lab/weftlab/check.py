# SPDX-License-Identifier: GPL-2.0
"""make check, suite lab: the tests that need running guests, as TAP on stdout."""

import argparse
import json
import re
import sys

from . import kernel, lab, machine, paths, process, suite, tap
from .bench import Bench
from .errors import LabError
from .fabric import Fabric

PACKAGE = "hosts"
# Tests that fail by a fault that is known: their names, and why. See Documentation/testing.rst.
KNOWN = paths.TOP / "tools" / "testing" / "hosts" / "known"


def known():
    """Name by name, why it fails."""
    if not KNOWN.exists():
        return {}
    lines = (line for line in KNOWN.read_text().splitlines() if line and not line.startswith("#"))
    return {name.strip(): why.strip() for name, _, why in (line.partition("|") for line in lines)}


def arguments(tests):
    suites = list(dict.fromkeys(test.module for test in tests))
    parser = argparse.ArgumentParser(
        prog="check",
        description="Boots guests and tests what runs in them; TAP on stdout, progress on stderr. "
        f"Suites: {', '.join(suites)}.",
    )
    parser.add_argument("which", nargs="*", metavar="SUITE|PATTERN",
                        help="suites, or regular expressions of test names (default: all)")  # fmt: skip
    parser.add_argument("--kernel", metavar="KERNEL",
                        help="the kernel to boot: a series, debug or kasan (default: $KERNEL)")  # fmt: skip
    parser.add_argument("--adversarial", action="store_true",
                        help="with every port in adversarial mode")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of adversarial mode (1)")
    parser.add_argument("--list", action="store_true", help="print the names, run nothing")
    parser.add_argument("--core", action="store_true",
                        help="of these only the few that touch most of the driver")  # fmt: skip
    parser.add_argument("--iommu", action="store_true",
                        help="machines with an Intel IOMMU in strict mode")  # fmt: skip
    return parser.parse_args(), suites


def chosen(tests, args, suites):
    def wanted(t):
        if args.core and not t.core or t.iommu and not args.iommu:
            return False
        if t.patient and args.adversarial:
            return False
        which = args.which
        if not which:
            return t.closely or not kernel.variant()
        return any(
            t.module == w if w in suites else re.search(w, t.full_name, re.I) for w in which
        )

    return [t for t in tests if wanted(t)]


def main():
    tests = suite.find(PACKAGE)
    args, suites = arguments(tests)
    machine.iommu = args.iommu
    if args.kernel:
        kernel.use(args.kernel)
    tests = chosen(tests, args, suites)
    if args.list:
        print("\n".join(t.full_name for t in tests))
        return 0
    if not tests:
        print(f"check: no test is called {' or '.join(args.which) or 'so'}", file=sys.stderr)
        return 2
    Fabric.adversarial_seed = args.seed if args.adversarial else None
    process.on_signals()
    say = lab.Progress()
    out = tap.Writer(sys.stdout)
    results = []
    faults = known()
    bench = Bench(say)

    def tell(outcome):
        todo = faults.get(outcome.name)
        for note in bench.notes:
            out.note(note)
        bench.notes.clear()
        out.result(outcome.ok, outcome.name, outcome.why, outcome.skip, outcome.seconds, todo)
        verdict = "skip" if outcome.skip is not None else "ok" if outcome.ok else "FAILED"
        if verdict == "FAILED" and todo:
            verdict = "known"
        results.append({"name": outcome.name, "verdict": verdict, "seconds": outcome.seconds})
        say(f"{verdict:6} {outcome.name}" + (f" ({outcome.seconds:.1f} s)" if outcome.seconds else ""))

    try:
        for test in tests:
            for outcome in suite.run(test, bench):
                tell(outcome)
        try:
            bench.close()
        except LabError as error:
            tell(suite.Outcome("end: the guests end without a complaint", False, str(error)))
    except KeyboardInterrupt:
        bench.abandon()
        print("Bail out! interrupted", flush=True)
        return 130
    finally:
        bench.abandon()
    out.plan(out.count)
    out.note(f"{out.passed} passed, {out.failed} failed, {out.skipped} skipped, {say.seconds:.0f} s")
    paths.BUILD.mkdir(parents=True, exist_ok=True)
    (paths.BUILD / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    return 1 if out.failed else 0


if __name__ == "__main__":
    sys.exit(main())
