# SPDX-License-Identifier: GPL-2.0
"""What a log says of tests: TAP's result lines in the first column, and cargo's."""

import dataclasses
import re

_SKIP = re.compile(r"^ok .*# *skip|^1\.\.0.*# *skip", re.I)
_KNOWN = re.compile(r"^not ok .*# *todo", re.I)
_CARGO = re.compile(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored")
_BINARY = re.compile(r"^ +(?:Running (?:unittests )?(\S+) \(.*/([\w-]+)-[0-9a-f]+\)|Doc-tests (\S+))")
_TOOK = re.compile(r"^test result: .*finished in ([\d.]+)s")
_TIMED = re.compile(r"^(?:not )?ok \d+ (?:- )?(.*) \(([\d.]+) s\)$")
# Of what was said of a failure so many lines are shown, the first and the last.
FIRST, LAST = 8, 40


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    @property
    def all(self):
        return self.passed + self.failed + self.skipped


def counts(lines):
    found = Counts()
    for line in lines:
        if match := _CARGO.match(line):
            found += Counts(*map(int, match.groups()))
        elif _SKIP.match(line) or _KNOWN.match(line):
            found.skipped += 1
        elif re.match(r"ok( |$)", line):
            found.passed += 1
        elif re.match(r"not ok( |$)", line):
            found.failed += 1
    return found


def failed(line):
    """Whether a line says that a test has failed."""
    return bool(re.match(r"not ok( |$)", line) and not _KNOWN.match(line) or re.match(r"test .* \.\.\. FAILED$", line))


def failures(lines):
    """Each test that failed, behind what was said of it: the lines that begin with "#" and stand right
    before it."""
    found, said = [], []
    for line in lines:
        if failed(line):
            if len(said) > FIRST + LAST:
                said[FIRST:-LAST] = [f"# [{len(said) - FIRST - LAST} lines, see the log]"]
            found += [*(said if line.startswith("not ok") else ()), line]
            said = []
        elif line.startswith("#"):
            said.append(line)
        elif re.match(r"(not )?ok |test ", line):
            said = []
    return found


def times(lines):
    """Seconds of tests that say them, by name: TAP's, and those of cargo's test programs."""
    found, program = [], None
    for line in lines:
        if match := _BINARY.match(line):
            program = f"{match[2]} ({match[1]})" if match[2] else f"doc-tests of {match[3]}"
        elif match := _TOOK.match(line):
            found.append({"name": program or "cargo", "wall": float(match[1])})
        elif match := _TIMED.match(line):
            found.append({"name": match[1], "wall": float(match[2])})
    return found
