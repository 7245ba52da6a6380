# SPDX-License-Identifier: GPL-2.0
"""Finds the test functions of a folder, runs each in a scope of its own, and says how it went in TAP."""

import contextlib
import glob
import importlib
import os
import re
import shutil
import sys
import tempfile
import time
import traceback

# Nothing here takes longer than a moment; a loaded machine may.
PATIENCE = float(os.environ.get("WEFT_PATIENCE", "30"))
# Of the tests that do at random what the rules allow.
SEEDS = [int(seed) for seed in os.environ.get("WEFT_SEEDS", "1 2 3").split()]


class Skip(Exception):
    """A test cannot be run here; the text says what is missing."""


def until(predicate, what, step=lambda: time.sleep(0.001)):
    """Wait for an event: predicate() becomes true."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE} s for: {what}")
        step()


def equal(have, want, what):
    if have != want:
        def show(x):
            return hex(x) if isinstance(x, int) and not isinstance(x, bool) else repr(x)
        raise AssertionError(f"{what}: {show(have)}, expected {show(want)}")


class Scope(contextlib.ExitStack):
    """What a test made, and undoes at its end; a folder for its sockets."""

    def __init__(self):
        super().__init__()
        self.dir = tempfile.mkdtemp(prefix="weft-device-")
        self.callback(shutil.rmtree, self.dir, ignore_errors=True)
        self.checks = []

    def at_end(self, check):
        """Run after a test that passed, and fail it by an exception."""
        self.checks.append(check)


def _run(function):
    with Scope() as scope:
        function(scope)
        for check in reversed(scope.checks):
            check()


def each_seed(function):
    """Runs function(scope, seed) for each seed, and says which one failed."""
    for seed in SEEDS:
        try:
            _run(lambda scope: function(scope, seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def _find(folder, wanted):
    for path in sorted(glob.glob(os.path.join(folder, "test_*.py"))):
        name = os.path.basename(path)[:-3]
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            if key.startswith("test_") and callable(value) and value.__module__ == name:
                title = f"{name.removeprefix('test_')}: {(value.__doc__ or key).strip()}"
                if re.search(wanted, f"{name}.{key}"):
                    yield title, value


def main(folder, wanted):
    tests = list(_find(folder, wanted))
    print("TAP version 13")
    print(f"1..{len(tests)}")
    failed = 0
    for number, (title, function) in enumerate(tests, 1):
        note, begin = "", time.monotonic()
        try:
            _run(function)
            verdict = "ok"
        except Skip as why:
            verdict, note = "ok", f" # SKIP {why}"
        except Exception:
            verdict = "not ok"
            failed += 1
            for line in traceback.format_exc().rstrip().split("\n"):
                print(f"# {line}")
        print(f"{verdict} {number} {title}{note or f' ({time.monotonic() - begin:.1f} s)'}", flush=True)
    if not tests:
        print(f"# no test matches {wanted}")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit("run me as: tools/testing/device/run [PATTERN]")
