# SPDX-License-Identifier: GPL-2.0
"""Processes on the machine as it is outside of the root.

Suites make roots of their own there (scripts/in-root), each with mounts of its own. scripts/check says
which process to follow out; without one, commands run where this one does.
"""

import ctypes
import os
import pathlib
import signal
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
_OUTSIDE = os.environ.get("WEFT_CHECK_OUTSIDE", "")
# What the make that called has to say is not for the makes that are called.
_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _in_child():
    os.setsid()
    # If this run is killed, so is what it has started.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def environment():
    """The variables of the process that called."""
    if not _OUTSIDE:
        found = dict(os.environ)
    else:
        said = pathlib.Path(f"/proc/{_OUTSIDE}/environ").read_bytes().decode(errors="surrogateescape")
        found = dict(line.partition("=")[::2] for line in said.split("\0") if line)
    return {name: value for name, value in found.items() if name not in _MAKE}


def start(line, env=(), **streams):
    """Starts a shell's command line at the top of the repository, in a session of its own."""
    words = ["bash", "-c", line]
    if _OUTSIDE:
        words = ["nsenter", "--target", _OUTSIDE, "--mount", "--root", f"--wdns={TOP}", *words]
    streams.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(words, cwd=TOP, env=environment() | dict(env), preexec_fn=_in_child, **streams)


def run(line):
    """Runs it to its end; the exit status. What it says is seen."""
    return start(line, stdout=subprocess.DEVNULL).wait()


def output(line):
    """What a command line that must succeed says."""
    child = start(line, stdout=subprocess.PIPE)
    out = child.communicate()[0].decode()
    if child.returncode:
        raise SystemExit(f"check: `{line}` ended with {child.returncode}")
    return out


def end(child, number=signal.SIGTERM):
    """Tells a command and all that it has started in its session."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass
