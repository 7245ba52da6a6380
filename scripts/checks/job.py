# SPDX-License-Identifier: GPL-2.0
"""What runs as one command: a piece of a suite, or a build that suites need."""

import dataclasses
import json
import shlex

from . import command
from .suite import BUILDS

FOLDER = command.TOP / "build" / "check"
BUILD_LIMIT = 60


@dataclasses.dataclass
class Job:
    # Of the suite, or of the build.
    suite: str
    piece: str
    line: str
    # Seconds, as they are expected.
    seconds: float
    # Minutes.
    limit: int
    after: tuple = ()
    env: tuple = ()
    # What the lab runs in it, by name; nothing for what is no piece of the lab.
    tests: tuple = ()
    build: bool = False
    alone: bool = False

    @property
    def name(self):
        return f"{self.suite}/{self.piece}" if self.piece else self.suite

    @property
    def log(self):
        return FOLDER / self.suite / f"{self.piece or 'all'}.log"

    @property
    def results(self):
        """Where the lab writes down what each test took."""
        return self.log.with_suffix(".json")


def _lab(suite):
    base = ["scripts/lab/check", *suite.lab]
    for piece in json.loads(command.output(shlex.join([*base, "--plan"]))):
        results = FOLDER / suite.name / f"{piece['name']}.json"
        line = shlex.join([*base, "--piece", piece["name"], "--results", str(results)])
        yield Job(suite.name, piece["name"], line, piece["seconds"] * suite.slower, suite.limit, suite.builds,
                  suite.env, tuple(piece["tests"]), alone=suite.alone)  # fmt: skip


def jobs(suites):
    """The pieces of suites."""
    found = []
    for suite in suites:
        if suite.lab is None:
            found.append(Job(suite.name, "", suite.command, suite.seconds, suite.limit, suite.builds, suite.env,
                             alone=suite.alone))  # fmt: skip
        else:
            found += _lab(suite)
    return found


def builds(chosen):
    """What has to be built for these."""
    wanted = {name for job in chosen for name in job.after}
    return [Job("build", name, line, 1e6, BUILD_LIMIT, build=True) for name, line in BUILDS.items() if name in wanted]
