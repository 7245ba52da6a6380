# SPDX-License-Identifier: GPL-2.0
"""Boots Linux guests joined by Weft ports and runs things in them.

Used by `demo`, `vm` and `check`. One noun a module; arrows point down:

    suite  cases of a suite, order, results      tap    the format of results
    lab    hosts + what joins them + weft.ko     transfer  a file from host to host
    guest  one QEMU with one Linux               fabric, ivshmem  what joins ports
    agent  commands in a guest                   dmesg  what a kernel may not say
    console  the watchdog and its evidence       qmp    QEMU's own control
    stacks   what a stuck guest waits for
    machine  what all guests of a run have
    process  children that never outlive us      paths  where things are

Standard library only; runs inside the Debian 13 root (scripts/in-root).
"""
