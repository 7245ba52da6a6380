# SPDX-License-Identifier: GPL-2.0
"""The watchdog of a boot: who says nothing for long is captured, then ended."""

import os
import re
import time

from . import kernel, stacks
from .errors import BootHang, LabError

# A loaded machine without KVM is slow, but a kernel that boots is not silent.
SILENCE = float(os.environ.get("WEFT_BOOT_SILENCE", "60"))
LIMIT = float(os.environ.get("WEFT_BOOT_LIMIT", "300"))
# Lines of a report that say what tasks wait for.
GIST = 24
POINTERS = re.compile(r"\b(?:RIP|RSP|RFL|HLT)=[0-9a-f]+")


def tail(path, size=4096):
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def virtio(guest):
    """How far the guest and QEMU are in each queue of the shares: what was asked, taken, answered."""
    answers = []
    for path in re.findall(r"^(/\S+) \[virtio-9p\]", guest.qmp.human("info virtio", 5), re.M):
        said = "".join(guest.qmp.human(f"info virtio-queue-{ask} {path} 0", 5) for ask in ("status", "element"))
        asked, taken, under_way = (int(re.search(rf"\b{name}: +(\d+)", said)[1])
                                   for name in (r"avail:\s+flags: \d+\s+idx", "last_avail_idx", "inuse"))
        answers.append(f"{path}: {(asked - taken) % 0x10000} requests not taken, {under_way} not answered\n{said}")
    return "\n".join(answers)


def capture(guest, why):
    """Writes what can be known of a guest that is stuck; returns where, and the gist of it."""
    folder = guest.dir / f"evidence-{time.strftime('%H%M%S')}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "why").write_text(why + "\n")
    (folder / "command").write_text("\n".join(guest.args) + "\n")
    for name, ask in (
        ("status", lambda: guest.qmp.call("query-status", 5)),
        ("registers", lambda: guest.qmp.human("info registers -a", 5)),
        # Twice: whether the processors get anywhere.
        ("registers-later", lambda: guest.qmp.human("info registers -a", 5)),
        ("pci", lambda: guest.qmp.human("info pci", 5)),
        ("chardev", lambda: guest.qmp.human("info chardev", 5)),
        ("virtio", lambda: virtio(guest)),
        ("irq", lambda: guest.qmp.human("info lapic", 5) + guest.qmp.human("info pic", 5)),
        # The last, since it may wake who sleeps.
        ("tasks", lambda: stacks.ask(guest)),
    ):
        try:
            answer = str(ask())
        except LabError as error:
            answer = f"no answer: {error}"
        (folder / name).write_text(answer + "\n")
        if name == "registers":
            time.sleep(1)
    for name in ("console.log", "qemu.log"):
        (folder / name).write_text(tail(guest.dir / name, 1 << 20))
    return f"evidence in {folder}\n{gist(folder)}"


def gist(folder):
    """Where the evidence may not be kept, this is what there is."""
    lines = stacks.waiting((folder / "tasks").read_text())[-GIST:] or ["its kernel does not answer"]
    lines += re.findall(r"^.* not answered$", (folder / "virtio").read_text(), re.M)
    for name in ("registers", "registers-later"):
        found = POINTERS.findall((folder / name).read_text())
        lines.append(f"{name}: {' '.join(found) or 'none'}")
    return "\n".join(lines)


def watch(guest, hellos):
    """Returns when the agent has said hello for the `hellos`th time."""
    agent = guest.agent
    silence, limit = SILENCE * kernel.patience(), LIMIT * kernel.patience()
    begin = last = time.monotonic()
    size = -1
    while True:
        with agent.changed:
            if agent.hellos >= hellos:
                return
            agent.changed.wait(0.2)
        guest.check_alive()
        now = time.monotonic()
        grown = os.path.getsize(guest.console_log)
        if grown != size:
            size, last = grown, now
        if now - last > silence or now - begin > limit:
            why = f"{guest.name}: no word for {now - last:.0f} s, {now - begin:.0f} s after the start"
            words = tail(guest.console_log, 1500)
            evidence = capture(guest, why)
            guest.kill()
            raise BootHang(f"{words}\n{why}; {evidence}")
