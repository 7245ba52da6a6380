# SPDX-License-Identifier: GPL-2.0
"""Which functions a guest's instructions are spent in: QEMU writes down each one, the guest's tables of symbols
say of what it is a part. What a compiler has put into another function counts as that one's."""

import bisect
import collections
import re
import subprocess

_LINE = re.compile(rb"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/")
_STOPPED = b"Stopped execution of TB chain"
# The half of the addresses that is the kernel's.
_KERNEL = 1 << 63
_PLACE = re.compile(r"\[[0-9a-f]{8,}\]|::h[0-9a-f]{16}$")

PROGRAM = "program"
KERNEL = "kernel"


class Symbols:
    """Functions by their addresses: those of the kernel and its modules, and of one program."""

    def __init__(self, kallsyms, program, clock):
        """`clock`: where the program's function `clock` is."""
        kernel = []
        for line in kallsyms.splitlines():
            address, kind, name, *module = line.split()
            if kind in "tTwW":
                kernel.append((int(address, 16), name, module[0].strip("[]") if module else KERNEL))
        listed = subprocess.run(["nm", "--defined-only", program], check=True, capture_output=True, text=True)
        own = [
            (int(address, 16), name, PROGRAM)
            for address, kind, name in (line.split(maxsplit=2) for line in listed.stdout.splitlines())
            if kind in "tTwW"
        ]
        named = _demangled([name for _, name, _ in kernel + own])
        (at,) = {address for address, name, _ in own if named[name].endswith("::instructions::clock")}
        own = [(address + clock - at, name, where) for address, name, where in own]
        self._all = sorted((address, where, named[name]) for address, name, where in kernel + own)
        self._starts = [address for address, _, _ in self._all]
        self.clock = clock
        self._last = max(address for address, where, _ in self._all if where == PROGRAM)

    def at(self, address):
        """Where it belongs, and the function's name."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0 or self._last + (1 << 20) < address < _KERNEL:
            return PROGRAM, "libraries"
        return self._all[place][1:]


def _demangled(names):
    done = subprocess.run(["c++filt", "--format=rust"], input="\n".join(names), check=True, capture_output=True,
                          text=True)  # fmt: skip
    plain = [_PLACE.sub("", name) for name in done.stdout.splitlines()]
    return dict(zip(names, plain, strict=True))


def record(host, job, name, folder):
    """Has `job` do what it calls `name`, and QEMU write down its instructions. The file, the number of messages
    of a batch, and where the program's function `clock` is."""
    ready = job.expect(rf"^ready {name} (\d+) (\S+)", 300)
    file = host.run_dir / f"{name}.trace"
    host.qmp.human("one-insn-per-tb on")
    host.qmp.human(f"logfile {file}")
    host.qmp.human("log exec,nochain")
    host.run(f"touch {folder}/{name}.begin")
    job.expect(f"^done {name}$", 900)
    host.qmp.human("log none")
    host.qmp.human("one-insn-per-tb off")
    host.run(f"touch {folder}/{name}.end")
    return file, int(ready[1]), int(ready[2], 16)


def rounds(file, symbols, phases):
    """Instructions by (where, function), for each phase between two calls of `clock`, in each round of them but
    the first; None stands for a phase that is not counted."""
    counts = collections.defaultdict(collections.Counter)
    calls, last = 0, None
    with open(file, "rb") as lines:
        for line in lines:
            match = _LINE.match(line)
            if match:
                address = int(match[1], 16)
                calls += address == symbols.clock
                last = (calls, address)
                counts[calls][address] += 1
            elif line.startswith(_STOPPED) and last:
                # It was not executed yet, and is written down again.
                counts[last[0]][last[1]] -= 1
                last = None
    whole = range(len(phases) + 1, calls - len(phases) + 2, len(phases))
    return [_round(counts, symbols, phases, begin) for begin in whole]


def _round(counts, symbols, phases, begin):
    found = {phase: collections.Counter() for phase in phases if phase}
    for place, phase in enumerate(phases):
        for address, times in counts[begin + place].items() if phase else ():
            found[phase][symbols.at(address)] += times
    return found
