# SPDX-License-Identifier: GPL-2.0
"""make check, suite lab: the tests that need running guests, as TAP on stdout."""

import argparse
import json
import pathlib
import re
import sys

from . import guest, kernel, lab, machine, paths, plan, process, suite, tap, usage
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
    parser.add_argument("--plan", action="store_true",
                        help="print the pieces that can run side by side, as JSON; run nothing")  # fmt: skip
    parser.add_argument("--piece", metavar="NAME", help="of these only those of a piece of the plan")
    parser.add_argument("--results", metavar="FILE", type=pathlib.Path,
                        default=paths.BUILD / "results.json", help="what each test took, as JSON")  # fmt: skip
    parser.add_argument("--weigh", metavar="FILE", nargs="+", type=pathlib.Path,
                        help="take the weights of tests from such files; run nothing")  # fmt: skip
    parser.add_argument("--lab", metavar="NAME", action="append",
                        help="of these only those that ask for a lab of that name, or of these names")  # fmt: skip
    parser.add_argument("--patient", action="store_true",
                        help="with --adversarial: also what takes very long so")  # fmt: skip
    parser.add_argument("--long", action="store_true",
                        help="of these only what takes too long for every change")  # fmt: skip
    parser.add_argument("--core", action="store_true",
                        help="of these only the few that touch most of the driver")  # fmt: skip
    parser.add_argument("--iommu", action="store_true",
                        help="machines with an Intel IOMMU in strict mode")  # fmt: skip
    return parser.parse_args(), suites


def chosen(tests, args, suites):
    def wanted(t):
        if args.core and not t.core or t.iommu and not args.iommu:
            return False
        if t.patient and args.adversarial and not args.patient:
            return False
        if args.lab and t.lab not in args.lab:
            return False
        if args.long and not t.long:
            return False
        which = args.which
        # By name it runs, as do those that look closely.
        named = any(w not in suites and re.search(w, t.full_name, re.I) for w in which)
        if t.long and not (args.long or named or args.patient or kernel.variant()):
            return False
        if not which:
            return t.closely or not kernel.variant()
        return any(
            t.module == w if w in suites else re.search(w, t.full_name, re.I) for w in which
        )

    return [t for t in tests if wanted(t)]


def main():
    tests = suite.find(PACKAGE)
    args, suites = arguments(tests)
    if args.weigh:
        plan.weigh([cost for file in args.weigh for cost in json.loads(file.read_text())["costs"]])
        return 0
    machine.iommu = args.iommu
    if args.kernel:
        kernel.use(args.kernel)
    tests = chosen(tests, args, suites)
    if args.plan:
        found = [{"name": piece.name, "seconds": round(piece.seconds), "tests": [t.full_name for t in piece.tests]}
                 for piece in plan.pieces(tests)]  # fmt: skip
        print(json.dumps(found, indent=1))
        return 0
    if args.piece:
        tests = next((piece.tests for piece in plan.pieces(tests) if piece.name == args.piece), [])
    if args.list:
        print("\n".join(t.full_name for t in tests))
        return 0
    if not tests:
        print(f"check: no test is called {' or '.join(args.which) or args.piece or 'so'}", file=sys.stderr)
        return 2
    Fabric.adversarial_seed = args.seed if args.adversarial else None
    process.on_signals()
    return Run(args.results).all(tests)


class Run:
    """Tests one after the other, and what is told of them."""

    def __init__(self, file):
        self.file = file
        self.say = lab.Progress()
        self.out = tap.Writer(sys.stdout)
        self.bench = Bench(self.say)
        self.faults = known()
        self.results, self.costs = [], []
        self.meter = usage.Meter()
        self.booted = 0.0

    def cost(self, name, test):
        """Writes down what has been spent since the last time on a test, or on a part of it; the boot of
        a lab is not counted with either."""
        wall, core = self.meter.lap()
        boot, self.booted = guest.Boots.seconds - self.booted, guest.Boots.seconds
        wall = max(0.0, wall - boot)
        if wall > 0.005 or core > 0.005:
            self.costs.append({"name": name, "test": test, "wall": round(wall, 2), "core": round(core, 2)})

    def tell(self, outcome):
        todo = self.faults.get(outcome.name)
        for note in self.bench.notes:
            self.out.note(note)
        self.bench.notes.clear()
        self.out.result(outcome.ok, outcome.name, outcome.why, outcome.skip, outcome.seconds, todo)
        verdict = "skip" if outcome.skip is not None else "ok" if outcome.ok else "FAILED"
        if verdict == "FAILED" and todo:
            verdict = "known"
        self.results.append({"name": outcome.name, "verdict": verdict, "seconds": outcome.seconds})
        took = f" ({outcome.seconds:.1f} s)" if outcome.seconds else ""
        self.say(f"{verdict:6} {outcome.name}{took}")

    def end(self):
        """Takes the last lab down; its kernels may complain still."""
        try:
            self.bench.close()
        except LabError as error:
            self.tell(suite.Outcome("end: the guests end without a complaint", False, str(error)))

    def all(self, tests):
        try:
            for test in tests:
                for outcome in suite.run(test, self.bench):
                    self.tell(outcome)
                    if outcome.seconds is not None:
                        self.cost(outcome.name, test.full_name)
                self.cost(test.full_name, test.full_name)
            self.end()
        except KeyboardInterrupt:
            self.bench.abandon()
            print("Bail out! interrupted", flush=True)
            return 130
        finally:
            self.bench.abandon()
        out = self.out
        out.plan(out.count)
        out.note(f"{out.passed} passed, {out.failed} failed, {out.skipped} skipped, {self.say.seconds:.0f} s")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        found = {"results": self.results, "costs": self.costs, "guests": guest.Boots.guests,
                 "boot": round(guest.Boots.seconds, 1)}  # fmt: skip
        self.file.write_text(json.dumps(found, indent=1) + "\n")
        return 1 if out.failed else 0


if __name__ == "__main__":
    sys.exit(main())
