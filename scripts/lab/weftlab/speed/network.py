# SPDX-License-Identifier: GPL-2.0
"""What two guests would be joined by otherwise: virtio-net, over each backend that works here.

The bridge and the taps are made in a network namespace of this run's own (scripts/lab/bench).
"""

import contextlib
import functools
import subprocess

from ..errors import LabError

# Backends by name: the NIC's number, which is in its addresses.
BACKENDS = {"dgram": 1, "tap": 2}
# The interface of the port, of that name, beside them.
WEFT = "weft"
# Carries AF_VSOCK.
TRANSPORT = "/mnt/module/modules/vsock/weft_vsock.ko"


def address(backend, host):
    """Of a guest: h1 or h2."""
    return f"10.{(BACKENDS | {WEFT: 3})[backend]}.0.{host[1:]}"


def _mac(backend, host):
    return f"52:54:00:00:{BACKENDS[backend]:02x}:{int(host[1:]):02x}"


def _ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


@functools.cache
def prepare(hosts):
    """Makes a bridge with a tap for each host, once; what does not work, or None."""
    bridge = f"br-{hosts[0]}"
    commands = [f"link add {bridge} type bridge", f"link set {bridge} up"]
    for host in hosts:
        commands += [f"tuntap add tap-{host} mode tap", f"link set tap-{host} master {bridge} up"]
    for command in commands:
        done = _ip(*command.split())
        if done.returncode:
            return f"ip {command}: {done.stderr.strip()}"
    return None


def arguments(host, peer, sockets, backends):
    """Options of QEMU: a NIC for each backend."""
    words = []
    for name in backends:
        if name == "tap":
            backend = f"tap,id={name}-{host},ifname=tap-{host},script=no,downscript=no"
        else:
            backend = (
                f"dgram,id={name}-{host},local.type=unix,local.path={sockets}/net-{host},"
                f"remote.type=unix,remote.path={sockets}/net-{peer}"
            )
        words += ["-netdev", backend,
                  "-device", f"virtio-net-pci,netdev={name}-{host},mac={_mac(name, host)},romfile="]  # fmt: skip
    return words


def configure(host, backends, end=None, namespace=None):
    """Loads the driver in a guest and gives each NIC its address and name. `end`: whose they are, if the
    guest has those of more than one; `namespace`: where they go."""
    host.run("modprobe virtio_net")
    end = end or host.name
    ip = f"ip -n {namespace}" if namespace else "ip"
    for name in backends:
        mac = _mac(name, end)
        host.until(f"grep -lq {mac} /sys/class/net/*/address")
        host.run(
            f"nic=$(grep -l {mac} /sys/class/net/*/address | cut -d/ -f5) && "
            + (f"ip link set $nic netns {namespace} && " if namespace else "")
            + f"{ip} link set $nic name {name} && "
            f"{ip} address add {address(name, end)}/24 dev {name} && {ip} link set {name} up"
        )


def interface(host, end=None, port=0, name=WEFT, namespace=None):
    """Makes an interface over a port of a guest. `end` and `namespace` as for configure()."""
    ip = f"ip -n {namespace}" if namespace else "ip"
    host.run(f"{ip} link add {name} parentdev weft{port} type weft && "
             f"{ip} address add {address(WEFT, end or host.name)}/24 dev {name} && {ip} link set {name} up")  # fmt: skip


def sent(host, name=WEFT):
    """How many packets an interface has sent."""
    return int(host.out(f"cat /sys/class/net/{name}/statistics/tx_packets"))


@contextlib.contextmanager
def moved(host, most, name=WEFT):
    """What is done meanwhile under weft-run goes over AF_VSOCK: the interface sends fewer packets than `most`."""
    before = sent(host, name)
    yield
    grown = sent(host, name) - before
    if grown >= most:
        raise LabError(f"{host.name}: {grown} packets went over the interface {name}: connections were not moved")


def has_carrier(host, name=WEFT):
    """Waits until an interface has a peer."""
    host.until(f"[ $(cat /sys/class/net/{name}/carrier) = 1 ]", 30)


def interfaces(hosts):
    """Makes one over the port of each host, and waits until they have each other."""
    for host in hosts:
        interface(host)
    for host in hosts:
        has_carrier(host)


def ready(host, peer, backends):
    """Which of the backends carry a packet."""
    return [
        name
        for name in backends
        if not host.run(f"timeout 20 bash -c 'until busybox ping -c1 -W1 {address(name, peer)}; do :; done'",
                        status=None).status  # fmt: skip
    ]
