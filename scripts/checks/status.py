# SPDX-License-Identifier: GPL-2.0
"""Which parts of which set passed at which commit, and what has changed since."""

import collections
import time

from . import record
from .suite import SETS

# In the order in which they are told; `quick` is for daily work and shows nothing that `check` does not.
TOLD = ("check", "lint", "long", "debug", "kasan")


def since(commit, top=record.TOP):
    """Commits since then, and how many files of which part of the tree differ now; None of a commit that
    does not lead to this one."""
    if record.git("merge-base", "--is-ancestor", commit, "HEAD", top=top) is None:
        return None
    names = (record.git("diff", "--name-only", commit, "HEAD", top=top) or "").split("\n")
    changed = collections.Counter(name.partition("/")[0] for name in names if name)
    commits = int(record.git("rev-list", "--count", f"{commit}..HEAD", top=top))
    return {"commits": commits, "files": dict(changed.most_common())}


def _last(entries, name, part):
    """The newest result of a part, and the newest that passed, of trees that were committed."""
    its = [e for e in entries if (e["set"], e["part"]) == (name, part) and not e["dirty"]]
    return its[-1] if its else None, next((e for e in reversed(its) if e["ok"]), None)


def _shown(entry, top):
    if entry is None:
        return None
    keys = ("commit", "time", "ok", "passed", "failed", "skipped", "wall", "core")
    return {key: entry[key] for key in keys} | {"since": since(entry["commit"], top)}


def status(entries, top=record.TOP):
    """By set, what there is of each part."""
    found = {}
    for name in TOLD:
        its = [e for e in entries if e["set"] == name and not e["dirty"]]
        count = int(its[-1]["part"].partition("/")[2]) if its else SETS[name]
        parts = {}
        for number in range(1, count + 1):
            part = f"{number}/{count}"
            last, passed = _last(entries, name, part)
            parts[part] = {"last": _shown(last, top), "passed": _shown(passed, top)}
        found[name] = parts
    now = record.tree(top)
    return {"commit": now and now["commit"], "dirty": now and now["dirty"], "sets": found}


def _when(entry):
    day = time.strftime("%Y-%m-%d", time.localtime(entry["time"]))
    took = f"{entry['wall'] / 60:.0f} min, {entry['passed']} tests"
    if entry["since"] is None:
        return f"at {entry['commit'][:12]}, {day}, {took}; that commit does not lead to this one"
    commits, files = entry["since"]["commits"], entry["since"]["files"]
    if not commits:
        return f"at {entry['commit'][:12]}, this commit, {day}, {took}"
    changed = ", ".join(f"{part} {count}" for part, count in files.items()) or "no file"
    return f"at {entry['commit'][:12]}, {day}, {took}; {commits} commits since, files changed: {changed}"


def lines(found):
    """The same for people."""
    for name, parts in found["sets"].items():
        for part, its in parts.items():
            label = f"{name:<8} {part:<5}"
            last, passed = its["last"], its["passed"]
            if last is None:
                yield f"{label} not run"
            elif last["ok"]:
                yield f"{label} passed {_when(last)}"
            else:
                yield f"{label} FAILED {_when(last)}, {last['failed']} failed"
                if passed:
                    yield f"{'':<14} passed {_when(passed)}"
    if found["dirty"]:
        yield "This tree has changes that are not committed: results of it count for no commit."
