# SPDX-License-Identifier: GPL-2.0
"""Results by commit, in the cache: what ran, where, and how it ended.

A tree that is not as it was committed has results of its own, under the digest of its files. They
never count as those of a commit; neither do those of a tree that changed while its tests ran.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time

from .command import TOP

KEEP = 400


def folder():
    cache = os.environ.get("WEFT_CACHE") or pathlib.Path.home() / ".cache" / "weft"
    return pathlib.Path(cache) / "results"


def git(*words, env=None, top=TOP):
    done = subprocess.run(["git", *words], cwd=top, env=os.environ | (env or {}), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    return done.stdout.strip() if not done.returncode else None


def tree(top=TOP):
    """{"commit", "tree", "dirty"} of the files as they are; None where there is no repository."""
    commit = git("rev-parse", "HEAD", top=top)
    if commit is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        # An index and a store of its own: the repository is looked at, and stays as it is.
        objects = git("rev-parse", "--git-path", "objects", top=top)
        env = {
            "GIT_INDEX_FILE": f"{scratch}/index",
            "GIT_OBJECT_DIRECTORY": scratch,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str((pathlib.Path(top) / objects).resolve()),
        }
        git("read-tree", "HEAD", env=env, top=top)
        git("add", "--all", env=env, top=top)
        digest = git("write-tree", env=env, top=top)
    return {"commit": commit, "tree": digest, "dirty": digest != git("rev-parse", "HEAD^{tree}", top=top)}


def entry(name, part, begin, end, results, wall, core):
    """What is kept of a run: `begin` and `end` are the tree then."""
    return {
        "set": name,
        "part": "/".join(map(str, part)),
        "commit": begin["commit"],
        "tree": begin["tree"],
        "dirty": begin["dirty"] or begin != end,
        "time": int(time.time()),
        "ok": all(result.ok for result in results),
        "passed": sum(result.counts.passed for result in results),
        "failed": sum(result.counts.failed for result in results),
        "skipped": sum(result.counts.skipped for result in results),
        "wall": round(wall),
        "core": round(core),
        "processors": os.cpu_count(),
        "jobs": [
            {"name": result.job.name, "ok": result.ok, "wall": round(result.wall), "core": round(result.core)}
            for result in results
        ],
    }


def keep(found, where=None):
    where = where or folder()
    where.mkdir(parents=True, exist_ok=True)
    part = found["part"].replace("/", "of")
    path = where / f"{found['time']}-{found['set']}-{part}-{found['tree'][:12]}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    for old in sorted(where.glob("*.json"))[:-KEEP]:
        old.unlink()
    return path


def kept(where=None):
    """All that is kept, the oldest first."""
    return [json.loads(path.read_text()) for path in sorted((where or folder()).glob("*.json"))]
