# SPDX-License-Identifier: GPL-2.0
"""The tree that is measured: what stands at each figure, so that it can be told when it is an old one."""

import subprocess

from .. import paths

# Results and what writes them are no part of what is measured.
_ASIDE = (":!bench", ":!Documentation")


def _git(*words):
    done = subprocess.run(["git", "-c", f"safe.directory={paths.TOP}", "-C", paths.TOP, *words],
                          check=True, capture_output=True, text=True)  # fmt: skip
    return done.stdout.strip()


def name():
    """Its commit, and "-dirty" behind that if there is more than the commit has; None of a tree without
    commits, as of an archive."""
    if not (paths.TOP / ".git").exists():
        return None
    changed = _git("status", "--porcelain", "--", ".", *_ASIDE)
    return _git("rev-parse", "HEAD") + ("-dirty" if changed else "")
