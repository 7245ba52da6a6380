# SPDX-License-Identifier: GPL-2.0
"""The emulated processor while the memory map changes under it: each access reaches the device it is for."""

import os

from port import COMMAND_MASTER, COMMAND_MEMORY, CTRL, DEVICE, MSIX, PCI_COMMAND, WINDOW, Port
from qtest import Qemu
from tap import equal, until

# What the processor runs, in 16 bits but with all of memory in reach:
CODE = bytes.fromhex(
    "fa"                    # cli
    "2e660f01164ce0"        # lgdtl  %cs:gdtr
    "0f20c0" "0c01"         # movl   %cr0, %eax; orb $1, %al
    "0f22c0"                # movl   %eax, %cr0
    "bb0800" "8edb"         # movw   $8, %bx; movw %bx, %ds
    "668b3e0020"            # wait:  movl GO, %edi
    "6685ff" "74f6"         # testl  %edi, %edi; jz wait
    "6641"                  # again: incl %ecx
    "6766890f"              # movl   %ecx, (%edi)
    "6766390f" "7507"       # cmpl   %ecx, (%edi); jne wrong
    "66ff060420" "ebed"     # incl   RIGHT; jmp again
    "66ff060820" "ebe6"     # wrong: incl WRONG; jmp again
    "8d7400"
    "0000000000000000"      # gdt
    "ffff00000092cf00"
    "0f003ce00f00"          # gdtr
)
ROM_BYTES, RESET, AT = 0x10000, 0xfff0, 0xe000
GO, RIGHT, WRONG = 0x2000, 0x2004, 0x2008
CHANGES = 3000


def test_changes_below_a_device(scope):
    """another device comes and goes below a register that is written and read: all of it gets there"""
    rom = bytearray(ROM_BYTES)
    rom[AT:AT + len(CODE)] = CODE
    rom[RESET:RESET + 3] = bytes.fromhex("e90de0")      # jmp AT
    path = os.path.join(scope.dir, "rom")
    with open(path, "wb") as file:
        file.write(rom)
    qemu = Qemu(scope, "h1", "-bios", path, "-device", f"weft-port,addr={DEVICE:#x}",
                "-device", f"weft-port,addr={DEVICE + 1:#x}", accel="tcg")
    below = Port(qemu)
    port = Port(qemu, DEVICE + 1, CTRL + 0x200000, MSIX + 0x200000, WINDOW * 2, below.bus)
    # A word that keeps what is written: the data of an interrupt.
    qemu.writel(GO, port.msix + 8)
    until(lambda: qemu.readl(RIGHT), "the processor to begin")
    equal(qemu.readl(WRONG), 0, "wrong while nothing changes")
    for _ in range(CHANGES):
        below.config_write(PCI_COMMAND, COMMAND_MASTER, 2)
        below.config_write(PCI_COMMAND, COMMAND_MEMORY | COMMAND_MASTER, 2)
    before = qemu.readl(RIGHT)
    until(lambda: qemu.readl(RIGHT) != before, "the processor to go on")
    equal(qemu.readl(WRONG), 0, f"wrong, of {before}, in {2 * CHANGES} changes")
