# SPDX-License-Identifier: GPL-2.0
"""Runs jobs side by side and says how each suite ended."""

import dataclasses
import json
import os
import shutil
import signal
import sys
import time

from . import command, output
from .job import FOLDER

POLL = 0.2
# What is told to end has so long for it, in seconds.
GRACE = 20
SLOWEST = 10


@dataclasses.dataclass
class Result:
    job: object
    counts: output.Counts
    wall: float = 0.0
    core: float = 0.0
    note: str = ""

    @property
    def ok(self):
        return not self.counts.failed


class Running:
    """A job under way; what it says goes to its log."""

    def __init__(self, job):
        self.job = job
        self.begin = time.monotonic()
        self.told_to_end = None
        job.log.parent.mkdir(parents=True, exist_ok=True)
        job.results.unlink(missing_ok=True)
        with open(job.log, "wb") as log:
            self.child = command.start(job.line, job.env, stdout=log, stderr=log)
        self._seen = open(job.log, errors="replace")
        self._line = ""

    def lines(self):
        """What has been said since the last time, in whole lines."""
        *whole, self._line = (self._line + self._seen.read()).split("\n")
        return [line.rstrip("\r") for line in whole]

    @property
    def late(self):
        return self.told_to_end is None and time.monotonic() - self.begin > self.job.limit * 60

    def end(self):
        """The first time it is asked, later it is made."""
        if self.told_to_end is None:
            self.told_to_end = time.monotonic()
            command.end(self.child)
        elif time.monotonic() - self.told_to_end > GRACE:
            command.end(self.child, signal.SIGKILL)

    def ended(self):
        """The result, once it has ended."""
        pid, status, usage = os.wait4(self.child.pid, os.WNOHANG)
        if not pid:
            return None
        self.child.returncode = os.waitstatus_to_exitcode(status)
        # What it may have left behind in its session.
        command.end(self.child, signal.SIGKILL)
        self._seen.close()
        wall = time.monotonic() - self.begin
        lines = self.job.log.read_text(errors="replace").replace("\r", "").split("\n")
        found = Result(self.job, output.counts(lines), wall, usage.ru_utime + usage.ru_stime)
        self._judge(found)
        return found

    def _judge(self, found):
        if self.told_to_end is not None:
            found.note = f"stopped after {found.wall / 60:.0f} min"
            found.counts.failed += 1
        elif self.child.returncode and not found.counts.failed:
            found.note = f"exit status {self.child.returncode}"
            found.counts.failed = 1
        elif not found.counts.all and not self.job.build:
            found.note = "no test was run"
            found.counts.failed = 1


class Runner:
    def __init__(self, builds, jobs, lanes, out=sys.stdout):
        self.waiting = [*builds, *sorted(jobs, key=lambda job: (-job.seconds, job.name))]
        self.lanes = lanes
        self.out = out
        self.order = {job.name: place for place, job in enumerate([*builds, *jobs])}
        self.running, self.results = [], []
        self.begin = time.monotonic()
        # Suites that have more to run, with when they began.
        self.left = {}
        self.began = {}
        for job in self.waiting:
            self.left[job.suite] = self.left.get(job.suite, 0) + 1

    def say(self, text):
        print(text, file=self.out, flush=True)

    # ---- one after the other --------------------------------------------

    def _blocked(self, job):
        """Whether a build that it needs is not there yet; or the build that failed."""
        ended = {result.job.piece: result for result in self.results if result.job.build}
        for name in job.after:
            if name in ended and not ended[name].ok:
                return ended[name]
        return any(name not in ended for name in job.after)

    def _may_start(self, job):
        """What runs alone does so in the end."""
        if any(each.job.alone for each in self.running):
            return False
        return not job.alone or not self.running and all(each.alone for each in self.waiting)

    def _start(self):
        for job in list(self.waiting):
            if len(self.running) >= self.lanes:
                return
            if not self._may_start(job):
                continue
            blocked = self._blocked(job)
            if blocked is True:
                continue
            self.waiting.remove(job)
            self.began.setdefault(job.suite, time.monotonic())
            if blocked:
                job.log.parent.mkdir(parents=True, exist_ok=True)
                job.log.write_text(f"{blocked.job.name} failed: {blocked.job.log}\n")
                self._over(Result(job, output.Counts(failed=1), note=f"not run, {blocked.job.name} failed"))
            else:
                self.running.append(Running(job))

    def _look(self):
        for each in list(self.running):
            for line in each.lines():
                if output.failed(line):
                    self.say(f"    {each.job.suite}: {line}")
            if each.late or each.told_to_end is not None:
                each.end()
            if result := each.ended():
                self.running.remove(each)
                self._over(result)

    def _over(self, result):
        self.results.append(result)
        suite = result.job.suite
        self.left[suite] -= 1
        if not self.left[suite]:
            self._tell(suite)

    def run(self):
        """All of them; the results."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        for suite in self.left:
            # Another time it may have had other pieces.
            shutil.rmtree(FOLDER / suite, ignore_errors=True)
        try:
            while self.waiting or self.running:
                self._start()
                self._look()
                time.sleep(POLL)
        except BaseException:
            self._stop()
            raise
        return self.results

    def _stop(self):
        while self.running:
            for each in list(self.running):
                each.end()
                if each.ended():
                    self.running.remove(each)
            time.sleep(POLL)

    # ---- what is told ---------------------------------------------------

    def of(self, suite):
        found = [result for result in self.results if result.job.suite == suite]
        return sorted(found, key=lambda result: self.order[result.job.name])

    def _tell(self, suite):
        its = self.of(suite)
        total = sum((result.counts for result in its), output.Counts())
        wall = time.monotonic() - self.began[suite]
        core = sum(result.core for result in its)
        notes = "".join(f", {result.note}{f' ({result.job.piece})' if result.job.piece else ''}"
                        for result in its if result.note)  # fmt: skip
        build = its[0].job.build
        said = "failed" if build and total.failed else f"{len(its)} built" if build else total
        self.say(f"{suite:<15} {said} ({wall:.0f} s, {core:.0f} core s){notes}")
        self._keep(suite, its, total)

    def _keep(self, suite, its, total):
        """SUITE.log, SUITE.count and SUITE.failed, of which the last is shown."""
        with open(FOLDER / f"{suite}.log", "w") as log:
            for result in its:
                text = result.job.log.read_text(errors="replace").replace("\r", "")
                log.write(text if len(its) == 1 else f"==== {result.job.name}\n{text}")
        count = FOLDER / f"{suite}.count"
        if its[0].job.build and not total.failed:
            # It counts nothing, as long as it builds.
            count.unlink(missing_ok=True)
        else:
            count.write_text(f"{total.passed} {total.failed} {total.skipped}\n")
        shown = []
        for result in its:
            lines = result.job.log.read_text(errors="replace").replace("\r", "").splitlines()
            if not result.ok:
                shown += output.failures(lines) or lines[-20:]
        (FOLDER / f"{suite}.failed").write_text("".join(f"{line}\n" for line in shown))
        if total.failed:
            for line in shown:
                self.say(f"    | {line}")
            self.say(f"    the whole log: {(FOLDER / suite).relative_to(command.TOP)}.log")

    def costs(self):
        """What each test took, as far as it says."""
        for result in self.results:
            if result.job.results.exists():
                found = json.loads(result.job.results.read_text())["costs"]
            else:
                lines = result.job.log.read_text(errors="replace").replace("\r", "").splitlines()
                found = output.times(lines)
            yield from (cost | {"suite": result.job.suite} for cost in found)

    def summary(self):
        slowest = sorted(self.costs(), key=lambda cost: -cost["wall"])[:SLOWEST]
        if slowest:
            self.say("slowest tests, seconds by the clock and of processors:")
        for cost in slowest:
            core = f"{cost['core']:7.1f}" if "core" in cost else "      -"
            self.say(f"  {cost['wall']:7.1f} {core}  {cost['suite']}: {cost['name']}")
        total = sum((result.counts for result in self.results), output.Counts())
        wall = time.monotonic() - self.begin
        core = sum(result.core for result in self.results)
        self.say(f"took {wall / 60:.1f} min, {core / 60:.1f} core-minutes; {self.lanes} at a time on "
                 f"{os.cpu_count()} processors, load {os.getloadavg()[1]:.1f}")  # fmt: skip
        self.say(f"in all: {total}")
        return total, wall, core
