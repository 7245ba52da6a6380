# SPDX-License-Identifier: GPL-2.0
"""What is measured: each part runs in machines of its own and adds its figures."""

from . import costs, detach, ends, instructions, interface, load, memory, moves, mpi, profile, roce, sockets, times, tlps

ALL = {
    "instructions": instructions.measure,
    "roce": roce.measure,
    "profile": profile.measure,
    "tlps": tlps.measure,
    "speed": times.measure,
    "interface": interface.measure,
    "sockets": sockets.measure,
    "mpi": mpi.measure,
    "load": load.measure,
    "costs": costs.measure,
    "memory": memory.measure,
    "ends": ends.measure,
    "detach": detach.measure,
    "moves": moves.measure,
}
