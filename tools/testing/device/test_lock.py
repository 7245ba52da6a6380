# SPDX-License-Identifier: GPL-2.0
"""Locked instructions of the emulated processor: fences for the devices beside it, too."""

import os
import subprocess

from tap import until

# At the reset vector: lock addw $1,0x1000; xchg %ax,0x1000; hlt
CODE = bytes.fromhex("f08306001001" "87060010" "f4")
ROM_BYTES, RESET = 0x10000, 0xfff0


def translation(scope, *options):
    """What QEMU makes of these instructions."""
    folder = scope.dir
    rom = bytearray(ROM_BYTES)
    rom[RESET:RESET + len(CODE)] = CODE
    with open(f"{folder}/rom", "wb") as file:
        file.write(rom)
    child = scope.enter_context(subprocess.Popen(
        [os.environ["WEFT_QEMU"], "-nodefaults", "-no-user-config", "-display", "none",
         "-L", "/usr/share/qemu", "-M", "q35", "-bios", f"{folder}/rom",
         "-d", "op", "-D", f"{folder}/log", *options]))
    scope.callback(child.kill)

    def told():
        assert child.poll() is None, f"QEMU has ended with {child.returncode}"
        try:
            with open(f"{folder}/log") as file:
                said = file.read()
        except FileNotFoundError:
            return None
        return said if "call hlt" in said else None

    return until(told, "QEMU to translate")


def check(scope, *options):
    said = translation(scope, *options)
    assert "call atomic_add_fetchw" in said and "call atomic_xchgw" in said, said


def test_with_one_processor(scope):
    check(scope, "-accel", "tcg", "-smp", "1")


def test_with_processors_that_take_turns(scope):
    check(scope, "-accel", "tcg,thread=single", "-smp", "2")


def test_when_instructions_are_counted(scope):
    check(scope, "-accel", "tcg", "-icount", "shift=0")
