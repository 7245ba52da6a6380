# SPDX-License-Identifier: GPL-2.0
"""The device's headers, as Python constants: there is one source for them."""

import os
import re

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))


def _defines(path):
    with open(path, encoding="ascii") as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    found = {}
    for name, value in re.findall(r"^#define[ \t]+(WEFT_\w+)[ \t]+(\w+)[ \t]*$", text, re.M):
        found[name] = int(value, 0)
    for name, value in re.findall(r"\b(WEFT_FAB_\w+)\s*=\s*(\d+)\s*,", text):
        found[name] = int(value)
    return found


def _load():
    for name in ("weft_regs.h", "weft_fabric.h", "weft_endpoint.h"):
        found = _defines(os.path.join(TOP, "qemu/weft", name))
        assert found, name
        globals().update({key.removeprefix("WEFT_"): value for key, value in found.items()})


_load()


def field(mask, value):
    """The part of a register that mask covers."""
    return (value & mask) >> ((mask & -mask).bit_length() - 1)
