# SPDX-License-Identifier: GPL-2.0
"""Failures, each of a kind of its own, so that a report can tell them apart."""


class LabError(Exception):
    """Something did not go as it must. `kind` goes into reports."""

    kind = "lab"


class SetupError(LabError):
    """A part that a run needs is not there."""

    kind = "setup"


class BootHang(LabError):
    """A guest was silent for too long while it booted."""

    kind = "boot-hang"


class GuestHang(LabError):
    """A guest was silent for too long."""

    kind = "hang"


class GuestDied(LabError):
    """QEMU ended by itself."""

    kind = "guest-died"


class GuestRebooted(LabError):
    """The guest's agent started anew while a command ran."""

    kind = "guest-rebooted"


class CommandTimeout(LabError):
    """A command in a guest, or on the host, took too long."""

    kind = "timeout"


class CommandFailed(LabError):
    """A command ended with another status than it must."""

    kind = "command"


class DmesgError(LabError):
    """The kernel of a guest complained."""

    kind = "dmesg"


class LeakError(LabError):
    """The driver has gone, and memory of it has not."""

    kind = "leak"


class FabricError(LabError):
    """What joins the ports failed."""

    kind = "fabric"


class Mismatch(LabError):
    """What came is not what was sent, or not what is expected."""

    kind = "mismatch"


class Skip(Exception):
    """A test cannot be run here; says why."""
