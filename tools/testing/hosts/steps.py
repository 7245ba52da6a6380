# SPDX-License-Identifier: GPL-2.0
"""What several tests do: payloads, transfers, refusals."""

import contextlib
import hashlib
import random
import re
import signal

from weftlab import console, kernel, topology, transfer
from weftlab.errors import LabError, Mismatch


def two_apart(bench):
    """h1 and h2, with two switches between them and nothing else."""
    shape = topology.Topology().host("h1", 1).host("h2", 2).switch("s1", 4).switch("s2", 4)
    return bench.shape("two apart", shape.link("h1:0", "s1:0").link("s1:1", "s2:0").link("s2:1", "h2:0"))


LINKS = "/sys/class/weft/weft*/device/link[0-9]*"
# Each link that is up runs at the most that it can.
FAST = f"""for link in {LINKS}; do
    [ ! -e $link/power ] || [ "$(cat $link/speed)" = 0 ] ||
        [ "$(cat $link/speed) $(cat $link/width)" = "$(cat $link/max_speed) $(cat $link/max_width)" ] || exit 1
done"""


def powers(host, word):
    """What all links of a host follow from now on."""
    host.run(f"for file in {LINKS}/power; do [ ! -e $file ] || echo {word} >$file || exit; done")


@contextlib.contextmanager
def at_the_most(lab):
    """No link follows its traffic meanwhile: for what is about speeds, or routes that others' would change."""
    hosts = lab.hosts.values()
    for host in hosts:
        powers(host, "performance")
    for host in hosts:
        host.until(f"({FAST})", 20)
    try:
        yield
    finally:
        for host in hosts:
            if host.alive and not host.run("test -d /sys/module/weft", status=None).status:
                powers(host, "auto")


def meet(others):
    """Has hosts connect to others, by hardware id, if only to be refused: links over routes lead there then, and
    stay."""

    def line(ids):
        lines = ["echo 0 >/sys/class/weft/weft0/device/manager/routed_idle"]
        lines += [f"weftctl ping --to {hwid} --count 1 --timeout 3 >/dev/null 2>&1" for hwid in sorted(ids)]
        return "; ".join([*lines, "true"])

    for job in [host.start_job(line(ids)) for host, ids in others.items()]:
        job.wait(120)


def vfio(host):
    """vfio-pci is there, and can be given functions."""
    for module in ("vfio_iommu_type1", "vfio-pci"):
        host.stock_module(module)


def available(host):
    """KiB of memory that a host could use."""
    return int(host.out("sync; echo 3 >/proc/sys/vm/drop_caches; awk '/MemAvailable/ { print $2 }' /proc/meminfo"))


def payload(host, name, size, seed=1):
    """A file of noise at `host`; (path there, path here)."""
    path = host.push(name, random.Random(seed).randbytes(size))
    return path, host.run_dir / name


def carry(lab, sender, receiver, size, name="payload", seed=1, options=()):
    """A file of noise from host to host: it must arrive as it was."""
    path, source = payload(lab[sender], name, size, seed)
    done = transfer.carry(lab[sender], lab[receiver], path, source, *options)
    if not done.same:
        raise Mismatch(f"{size} bytes: sent {done.sha256_sent}, arrived {done.sha256_arrived}")
    return done


# The receiver writes to the disk that builds of the same machine write to: one fsync may take half a minute.
DISK = 120


class UnderWay:
    """A transfer from h1 to h2, or between others by `options`, that something meets in its middle, and
    that ends whole all the same; or, if it is not `lasting`, by itself."""

    def __init__(self, lab, name, size=48 << 20, begun=2 << 20, by="h1", to="h2", options=(), lasting=True):
        self.h1, self.h2 = lab[by], lab[to]
        self.name = name
        self.size = size
        path, self.source = payload(self.h1, name, size, 9)
        # What is put back may take as long as the disk.
        patient = ("--timeout", DISK) if lasting else ()
        self.receiving = transfer.Receiver(self.h2, patient)
        options = (*patient, *options)
        self.sending = self.h1.start_job(transfer.send_line(self.h1, path, *options))
        self.has(begun)
        self.still()

    def has(self, size):
        """Until so much has come. If it does not, what both ends have said, and what they wait for."""
        try:
            self.receiving.has(size)
        except LabError as error:
            said = [f"{error}"]
            for host, job in ((self.h1, self.sending), (self.h2, self.receiving.job)):
                at = "for p in $(pidof weftctl); do cat /proc/$p/syscall; cat /proc/$p/stack; done"
                shown = host.run(f"weftctl show; {at}", status=None)
                said.append(f"{host.name}: {job.status}: {job.out}{job.err}\n{shown.out}{shown.err}")
            said.append(console.capture(self.h1, f"{self.h1.name}: what was sent does not arrive"))
            raise type(error)("\n".join(said))

    def still(self):
        if not self.sending.running:
            raise Mismatch("the transfer was over before the fault: nothing was tested")

    def whole(self, resumed):
        report = transfer.report(self.sending.wait(transfer.patience(self.size) + DISK).must())
        self.receiving.wait(60)
        if digest(self.receiving.arrived(self.name)) != digest(self.source):
            raise Mismatch("the file did not arrive as it was")
        if resumed and not report.get("resumed"):
            raise Mismatch(f"the link broke, and nothing was resumed: {report}")
        return report


@contextlib.contextmanager
def user(host, command):
    """A program that says "open", and stays until it is ended."""
    job = host.start_job(command)
    job.expect("open", 30)
    try:
        yield job
    finally:
        if job.running:
            job.kill(signal.SIGKILL)
            with contextlib.suppress(Exception):
                job.wait(20)


def both_ways(lab, size=1 << 20):
    """Proof that the link works."""
    carry(lab, "h1", "h2", size, "forth", 2)
    carry(lab, "h2", "h1", size, "back", 3)


def pull(host, port, patience, nodes=("/dev/weft0",), listen=0):
    """Pulls a port out of its slot while a program listens there, which has to learn of it."""
    # The slot's button alone takes five seconds; it ends when the port goes.
    receiving = transfer.Receiver(host, ["--timeout", 120 * kernel.patience(), "--port", listen])
    host.unplug(port.name)
    host.run(" && ".join(f"test ! -e {node}" for node in nodes))
    lost = receiving.job.wait(patience)
    if not lost.status:
        raise Mismatch("recv ended well although its port was pulled")
    refused(lost, lost.status, "port")


def said(text, *patterns):
    for pattern in patterns:
        if not re.search(pattern, text):
            raise Mismatch(f"{pattern!r} is not in:\n{text}")


def aer(host, name, *words):
    """An error of the bus at the first port: the kernel says each of `words`, the last one last of all."""
    host.mark(f"injecting {name}")
    said(host.qmp.human(f"pcie_aer_inject_error {host.ports[0].name} {name}"), "^OK")
    log = f"dmesg | sed -n '/injecting {name}/,$p'"
    host.until(f"{log} | grep -q '{words[-1]}'")
    said(host.out(log), *words)


def refused(result, status, *words):
    """A command must end with `status` and say each of `words` on stderr, in plain language."""
    if result.status != status:
        raise Mismatch(f"`{result.command}` ended with {result.status}, not {status}:\n{result.err}")
    for word in words:
        if word.lower() not in result.err.lower():
            raise Mismatch(f"`{result.command}` does not say {word!r}:\n{result.err}")
    for ugly in ("panicked", "unwrap", "Os {", "os error"):
        if ugly in result.err:
            raise Mismatch(f"`{result.command}` says {ugly!r}:\n{result.err}")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
