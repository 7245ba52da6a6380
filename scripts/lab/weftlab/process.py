# SPDX-License-Identifier: GPL-2.0
"""Children of a run: none outlives it, and only these are ever ended."""

import atexit
import contextlib
import ctypes
import os
import signal
import subprocess

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_children = []


def _in_child():
    # Even a run that is killed leaves nothing behind.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(args, **kwargs):
    """Starts a child in a session of its own; terminal signals stay with us.

    To be called from the main thread: a child ends with the thread that made it.
    """
    child = subprocess.Popen(
        [str(a) for a in args],
        stdin=kwargs.pop("stdin", subprocess.DEVNULL),
        start_new_session=True,
        preexec_fn=_in_child,
        **kwargs,
    )
    _children.append(child)
    return child


def running():
    """Children that have not been waited for."""
    return list(_children)


def _forget(child):
    """Of a child that has ended. What it has started and left behind goes, too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    if child in _children:
        _children.remove(child)


def end(child, grace=3.0):
    """Asks, waits, insists. Returns the exit status."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(grace)
        except subprocess.TimeoutExpired:
            child.kill()
    status = child.wait()
    _forget(child)
    return status


def kill(child):
    """The way a power cut ends it."""
    child.kill()
    child.wait()
    _forget(child)


@atexit.register
def end_all():
    for child in list(_children):
        end(child, grace=0.5)


def on_signals():
    """Turns SIGTERM and SIGHUP into the exception that SIGINT is already."""

    def interrupt(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
