# SPDX-License-Identifier: GPL-2.0
"""What is measured: each part runs in machines of its own and adds its figures."""

from . import ends, instructions, moves, times, tlps

ALL = {
    "instructions": instructions.measure,
    "tlps": tlps.measure,
    "speed": times.measure,
    "ends": ends.measure,
    "moves": moves.measure,
}
