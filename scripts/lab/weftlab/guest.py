# SPDX-License-Identifier: GPL-2.0
"""One guest: a QEMU, the Linux in it, and everything that is known of it."""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import time

from . import console, dmesg, kernel, machine, paths, process
from .agent import Agent
from .errors import CommandTimeout, DmesgError, GuestDied, GuestRebooted, LabError
from .ivshmem import VECTORS
from .qmp import Qmp

# The last lines only save time: what is not needed here, at a second or more a boot.
# What a kernel here is told however it is booted: how to save time, that one that is stuck may be asked
# what it does, and that both ends of a slot are to use the largest payload they have in common. Firmware
# of servers sets that before the kernel runs; SeaBIOS does not.
EVERYWHERE = (
    "no_timer_check tsc=reliable random.trust_cpu=on mitigations=off sysrq_always_enabled "
    "pci=pcie_bus_safe"
)
# cat of files for shells that wait, without a process: an emulated processor takes 50 ms to start cat(1).
CAT = """cat() { for f; do while IFS= read -r l || [ "$l" ]; do printf '%s\\n' "$l"; done <"$f"; done; }"""
# What a port is plugged into.
ROOT_PORT = "weft-root-port"
APPEND = (
    "console=ttyS0 loglevel=6 printk.time=1 log_buf_len=2M panic=-1 oops=panic "
    # The host may be busy, or a test stop the machine: that is no lock-up of the guest.
    "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 "
    f"{EVERYWHERE} "
    "lsm=capability initcall_blacklist=load_system_certificate_list "
    # A test maps a BAR beside the driver (hostile.c).
    "iomem=relaxed"
)

# On a CPU that says AMD the firmware puts 64-bit BARs where QEMU keeps room for
# HyperTransport: Linux lets them be, but finds no place again after a removal.
CPU = "max,vendor=GenuineIntel"
# One that copies word by word: of a string instruction each byte would count as an instruction.
COUNTED_CPU = f"{CPU},erms=off,fsrm=off,fsrs=off,fzrm=off"


def kvm():
    """KVM only where it is the real thing: see Documentation/testing.rst."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
        if not {"vmx", "svm"} & set(flags):
            return False
        os.close(os.open("/dev/kvm", os.O_RDWR))
        return True
    except OSError:
        return False


def clock():
    """For the command line of a kernel without KVM: see scripts/vm/tsc.c."""
    return "" if kvm() else f" tsc_early_khz={paths.tsc_khz()}"


class Port:
    """A device that joins guests, as the guest gets it."""

    def __init__(self, name, driver, server=None, **props):
        self.name = name
        self.driver = driver
        self.server = server
        self.props = props
        # Other functions of the same slot.
        self.others = []
        # What the firmware is to keep free behind the slot.
        self.room = "pref64-reserve=1G"

    @classmethod
    def endpoint(cls, fabric, node, **props):
        """Two physical functions, with room for the virtual ones of each."""
        port = cls.weft(fabric, node, addr="0.0", multifunction="on", **props)
        port.others = [cls(f"{node}-pf1", "weft-port", addr="0.1", **props)]
        port.room = "pref64-reserve=4G,mem-reserve=32M"
        return port

    @classmethod
    def weft(cls, fabric, node, **props):
        return cls(node, "weft-port", fabric=fabric.port_socket, node=node, **props)

    @classmethod
    def ivshmem(cls, server, name):
        return cls(name, "ivshmem-doorbell", server, chardev=f"{name}-server", vectors=VECTORS)

    def backend(self):
        if self.server is None:
            return []
        return ["-chardev", f"socket,id={self.props['chardev']},path={self.server.socket}"]

    @property
    def functions(self):
        """In the order in which they can be plugged: function 0 tells the guest of all."""
        return [*self.others, self]

    def device(self, bus):
        words = [self.driver, f"id={self.name}", f"bus={bus}"]
        props = [f"{key.replace('_', '-')}={value}" for key, value in self.props.items()]
        return ",".join(words + props)


class Guest:
    def __init__(self, name, folder, ports=(), memory=256, cpus=1, shares=None, shell=None,
                 extra=(), counted=False, sleeps=False, words=""):  # fmt: skip
        """`shares`: tag -> directory, for the guest to read; `shell`: path of a socket
        where a terminal of the guest is to be had; `counted`: the guest's clock goes on by a
        nanosecond with each instruction, and so does its time stamp counter; `sleeps`: what it
        lives on works after a system sleep as before; `words`: more of the kernel's command line."""
        self.name = name
        self.dir = folder
        self.run_dir = folder / "run"
        self.ports = list(ports)
        self.memory = kernel.memory(memory)
        self.cpus = cpus
        self.shares = dict(shares or {})
        self.shell = shell
        self.extra = list(extra)
        self.counted = counted
        self.sleeps = sleeps
        self.words = words
        self.console_log = folder / "console.log"
        self.qemu_log = folder / "qemu.log"
        self.args = []
        self.child = None
        self.agent = None
        self.qmp = None
        self.expect_death = False
        # Its kernel's own allocations are failed, too: the DMA debugger gives up when that hits it.
        self.starved = False
        self._hellos = 0
        self._log = None
        self._log_at = 0
        self._log_mark = 0

    # ---- birth ----------------------------------------------------------

    def _command(self, agent_fd, qmp_fd):
        image, initrd, agent_dir = paths.guest_files()
        memory = f"memory-backend-memfd,id=ram,size={self.memory}M,share=on"
        shares = {"lab": agent_dir, "weft": paths.TOP, **self.shares}
        # A kernel patches its own code while it runs. With a thread a processor, one boot in
        # ten dies of that (int3 in a static branch): they take turns.
        tcg = f"tcg,thread={'multi' if self.cpus == 1 and not self.counted else 'single'}"
        fast = kvm() and not self.counted
        ticks = " tsc_early_khz=1000000" if self.counted else clock()
        args = [
            paths.env("qemu"), "-name", f"{self.name},process=weft-{self.name}",
            "-L", "/usr/share/seabios", "-L", "/usr/share/qemu",
            "-nodefaults", "-no-user-config", "-display", "none",
            "-M", "q35,memory-backend=ram", "-object", memory, "-m", f"{self.memory}M",
            "-smp", self.cpus, *(["-accel", f"kvm{machine.kvm()}", "-cpu", "host"] if fast else
                                 ["-accel", tcg, "-cpu", COUNTED_CPU if self.counted else CPU]),
            *(["-icount", "shift=0"] if self.counted else []),
            # Hot plug as hardware does it, by the ports themselves.
            "-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
            # A guest that resets or panics ends; a reboot is asked for by QMP.
            "-action", "reboot=shutdown,panic=shutdown",
            "-kernel", image, "-initrd", initrd,
            "-append", f"{APPEND}{ticks}{machine.append()} {self.words} weft.host={self.name}",
            "-chardev", f"file,id=console,path={self.console_log}",
            "-serial", "chardev:console",
            "-chardev", f"socket,id=qmp,fd={qmp_fd}", "-mon", "chardev=qmp,mode=control",
            "-chardev", f"socket,id=agent,fd={agent_fd}",
            *machine.devices(),
            "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=weft.agent",
            "-device", "virtio-rng-pci",
        ]  # fmt: skip
        if self.shell:
            args += ["-chardev", f"socket,id=shell,path={self.shell},server=on,wait=off",
                     "-device", "virtconsole,chardev=shell"]  # fmt: skip
        args += self.share("rootfs", paths.env("root"), True)
        args += self.share("run", self.run_dir, False)
        for tag, folder in shares.items():
            args += self.share(tag, folder, True)
        for number, port in enumerate(self.ports):
            bus = f"slot{number}"
            args += ["-device",
                     f"{ROOT_PORT},id={bus},chassis={number + 1},slot={number + 1},"
                     f"{port.room}"]  # fmt: skip
            args += port.backend()
            for function in port.functions:
                args += ["-device", function.device(bus)]
        args = [str(arg) for arg in args + self.extra]
        return list(self._sleeping(args)) if self.sleeps else args

    @staticmethod
    def _sleeping(args):
        """The same, with all that is virtual in slots of their own: only there do such devices have
        power management, and keep what they know."""
        slots = 0
        for before, arg in zip([None, *args], args):
            if before == "-device" and arg.startswith("virtio-"):
                slots += 1
                yield f"pcie-root-port,id=power{slots},chassis={100 + slots}"
                yield "-device"
                arg += f",bus=power{slots},x-pcie-pm-no-soft-reset=on"
            yield arg

    @staticmethod
    def share(tag, folder, readonly):
        """QEMU's words for a folder that a guest has by 9p."""
        return [
            "-fsdev",
            f"local,id=fs-{tag},path={str(folder).replace(',', ',,')},security_model=none,"
            f"multidevs=remap{',readonly=on' if readonly else ''}",
            "-device", f"virtio-9p-pci,fsdev=fs-{tag},mount_tag={tag}",
        ]  # fmt: skip

    def start(self):
        """Starts QEMU; wait_ready() waits for the guest in it."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.console_log.write_bytes(b"")
        (self.dir / "dmesg.log").unlink(missing_ok=True)
        agent, agent_far = socket.socketpair()
        qmp, qmp_far = socket.socketpair()
        fds = [agent_far.fileno(), qmp_far.fileno()]
        fds += [int(path.split("/")[4]) for path in map(str, self.shares.values())
                if path.startswith("/proc/self/fd/")]  # fmt: skip
        self.args = self._command(*fds[:2])
        with open(self.qemu_log, "wb") as log:
            self.child = process.spawn(self.args, stdout=log, stderr=log, pass_fds=fds)
        agent_far.close()
        qmp_far.close()
        self.agent = Agent(self.name, agent)
        self.qmp = Qmp(qmp)
        self._hellos = 0
        self._log = None
        return self

    def wait_ready(self):
        """Waits for the agent, under the watchdog."""
        console.watch(self, self._hellos + 1)
        self._hellos = self.agent.hellos
        # The firmware may have reset the machine once more; from here on only we may.
        self.qmp.call("set-action", reboot="shutdown")
        self._follow_log()
        return self

    # ---- life -----------------------------------------------------------

    @property
    def alive(self):
        return self.child is not None and self.child.poll() is None

    @property
    def has_died(self):
        """It was started, and has ended without being told to."""
        return self.child is not None and not self.alive and not self.expect_death

    def check_alive(self):
        if not self.alive:
            raise self._death()

    def _death(self):
        status = self.child.poll() if self.child else None
        log = self.qemu_log.read_text(errors="replace")[-2000:] if self.qemu_log.exists() else ""
        error = GuestDied(
            f"{self.name}: QEMU ended by itself with {status}\n{log}"
            f"console:\n{console.tail(self.console_log, 3000)}"
        )
        if self.agent:
            self.agent.gone = error
        return error

    def _wait_end(self):
        """QEMU closes its channels some time before it has ended."""
        if self.child:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(10)

    def start_job(self, command):
        """Starts a command in the guest; returns its Job."""
        return self.agent.start(command, lambda: console.capture(self, f"{self.name}: `{command}`"))

    def run(self, command, timeout=60.0, status=0):
        """Runs a command in the guest to its end. `status=None` takes any."""
        try:
            result = self.start_job(command).wait(timeout)
        except CommandTimeout:
            raise
        except LabError as error:
            if isinstance(error, GuestDied):
                self._wait_end()
            if self.alive:
                evidence = console.capture(self, f"{self.name}: `{command}`")
                raise type(error)(f"{error}\n{evidence}") from error
            if not self.expect_death:
                raise self._death()
            raise
        return result if status is None else result.must(status)

    def out(self, command, timeout=60.0):
        return self.run(command, timeout).out.strip()

    def until(self, condition, timeout=60):
        """Waits for what a shell of the guest can see."""
        timeout *= kernel.patience()
        self.run(self.until_line(condition, timeout), timeout + 30)

    @staticmethod
    def until_line(condition, timeout, every=50):
        """The same, as a command; it looks once in so many milliseconds."""
        loop = shlex.quote(f"{CAT}; until {condition}; do /mnt/lab/nap {every}; done")
        return f"{CAT}; {{ {condition}; }} || timeout {timeout} sh -c {loop}"

    def mark(self, text):
        """A line in the kernel's log, so that it can be read later what was when."""
        self.run(f"echo 'lab: {text}' >/dev/kmsg")

    def push(self, name, data):
        """A file for the guest; returns its path there."""
        (self.run_dir / name).write_bytes(data)
        return f"/mnt/run/{name}"

    def reboot(self):
        """A warm reboot, as by the reset button; wait_ready() waits for it."""
        self.check_dmesg()
        self.qmp.call("set-action", reboot="reset")
        self.qmp.call("system_reset")
        return self

    def unplug(self, port, timeout=60.0):
        """Takes a port away the orderly way, through the slot's attention button."""
        self.qmp.call("device_del", id=port)
        self.qmp.wait_event("DEVICE_DELETED", timeout * kernel.patience(),
                            lambda d: d.get("device") == port)  # fmt: skip

    def plug(self, port, bus):
        """Puts a port into a slot."""

        def typed(value):
            # Numbers and switches are that here, and not text as on a command line.
            return value == "on" or (value if isinstance(value, int) else str(value))

        for function in port.functions:
            props = {key: typed(value) for key, value in function.props.items()}
            self.qmp.call("device_add", driver=function.driver, id=function.name, bus=bus, **props)

    # ---- what the kernel said -------------------------------------------

    def _follow_log(self):
        # Streamed, so that what a guest said is known even if it is cut off, and whatever a
        # test does to the guest's own copy.
        self._log = self.agent.start("exec cat /dev/kmsg")
        self._log_at = 0
        self._log_mark = 0

    def _log_until_now(self):
        self._log_mark += 1
        mark = f"lab: mark {self._log_mark}"
        self.run(f"echo '{mark}' >/dev/kmsg")
        self._log.expect(re.escape(mark) + "$", 30)

    def complaints(self):
        """What the kernel complained of since the last look."""
        with contextlib.suppress(GuestDied, GuestRebooted):
            self._log_until_now()
        if self._log is None:
            return dmesg.complaints(console.tail(self.console_log, 1 << 20))
        text, self._log_at = self._log.out_from(self._log_at)
        text = dmesg.readable(text)
        with open(self.dir / "dmesg.log", "a") as file:
            file.write(text + "\n")
        found = dmesg.complaints(text)
        # A kernel that died had no time to say it but on the console.
        if self.has_died:
            found += dmesg.complaints(console.tail(self.console_log, 1 << 20))
        return found

    def check_dmesg(self):
        found = self.complaints()
        leaks = [one for one in found if "kmemleak" in one]
        if leaks and not self.has_died:
            # The log says how many, and not which.
            strange = kernel.strange_leaks(self.run(f"cat {kernel.KMEMLEAK}", 60, status=None).out)
            found = [one for one in found if one not in leaks or strange] + strange
        if found:
            raise DmesgError(f"{self.name}: the kernel complained:\n" + "\n--\n".join(found))
        if self.has_died:
            raise self._death()

    # ---- death ----------------------------------------------------------

    def kill(self):
        """A power cut."""
        self.expect_death = True
        if self.child is not None:
            process.kill(self.child)
        self._close()

    def freeze(self, frozen=True):
        """Its machine stops, device and all, or goes on."""
        self.child.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def _close(self):
        if self.agent:
            self.agent.fail(GuestDied(f"{self.name} was ended"))
            self.agent.close()
        self.child = None

    def stop(self):
        """Checks dmesg, then ends the guest."""
        if self.child is None:
            return
        try:
            if self.has_died:
                raise self._death()
            self.check_dmesg()
        finally:
            self.expect_death = True
            if self.alive:
                # Its disks are read-only or the host's own: nothing to shut down.
                self.child.send_signal(signal.SIGTERM)
            process.end(self.child)
            self._close()


class Boots:
    """Boots of this run so far: guests, and wall clock seconds of waiting for them."""

    guests = 0
    seconds = 0.0


def start_all(guests):
    """Boots several at once; returns the seconds that took."""
    begin = time.monotonic()
    for guest in guests:
        guest.start()
    for guest in guests:
        guest.wait_ready()
    seconds = time.monotonic() - begin
    Boots.guests += len(guests)
    Boots.seconds += seconds
    return seconds
