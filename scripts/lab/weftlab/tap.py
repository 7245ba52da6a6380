# SPDX-License-Identifier: GPL-2.0
"""TAP: what `check` writes, and what kselftests in a guest wrote."""

import re

_LINE = re.compile(r"^(ok|not ok)\b\s*(\d+)?\s*(?:-\s*)?(.*)$")
_PLAN = re.compile(r"^1\.\.(\d+)\b(.*)$")


class Writer:
    def __init__(self, stream):
        self._stream = stream
        self.passed = self.failed = self.skipped = 0
        self.failures = []
        self._write("TAP version 13")

    def _write(self, text):
        print(text, file=self._stream, flush=True)

    def plan(self, count):
        self._write(f"1..{count}")

    @property
    def count(self):
        return self.passed + self.failed + self.skipped

    def note(self, text):
        for line in str(text).rstrip().splitlines():
            self._write(f"# {line}")

    def result(self, ok, name, why="", skip=None, seconds=None, todo=None):
        took = f" ({seconds:.1f} s)" if seconds is not None else ""
        if todo is not None and not ok:
            # TAP's word for a fault that is known and not mended yet: it is shown, and counted
            # with what was skipped. One that passes counts as passed.
            self.skipped += 1
            self.note(why)
            self._write(f"not ok {self.count} - {name} # TODO {todo}")
        elif skip is not None:
            self.skipped += 1
            self._write(f"ok {self.count} - {name} # SKIP {skip}")
        elif ok:
            self.passed += 1
            self._write(f"ok {self.count} - {name}{took}")
        else:
            self.failed += 1
            self.failures.append(name)
            self.note(why)
            self._write(f"not ok {self.count} - {name}{took}")


class Parsed:
    """A program's own results."""

    def __init__(self, text):
        self.results = []  # (ok, name, skip or None)
        # What was said of each, its own line with it.
        self.accounts = []
        self.planned = None
        said = []
        for line in text.splitlines():
            said.append(line)
            plan = _PLAN.match(line)
            if plan:
                self.planned = int(plan.group(1))
                skip = re.search(r"#\s*SKIP\s*(.*)", plan.group(2), re.I)
                if skip and self.planned == 0:
                    self._add((True, "", skip.group(1) or "whole program"), said)
                continue
            match = _LINE.match(line)
            if match:
                name, _, directive = match.group(3).partition("#")
                skip = re.match(r"\s*SKIP\b\s*(.*)", directive, re.I)
                why = (skip.group(1) or "-") if skip else None
                self._add((match.group(1) == "ok", name.strip(), why), said)

    def _add(self, result, said):
        self.results.append(result)
        self.accounts.append("\n".join(said))
        said.clear()

    @property
    def complete(self):
        return self.planned is not None and self.planned in (len(self.results), 0)
