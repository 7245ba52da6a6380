# SPDX-License-Identifier: GPL-2.0
"""What messages cost on the wire and in interrupts: each TLP is counted, in traced mode."""

from . import model, ways
from .machines import Samples, pair

# Under load: enough that the ports' other messages do not show.
LOADED = 1024
# For interrupts, which the ends take as well to find each other.
RUSH = 4096
# One after the other: few enough that no credit is given back on the way, which counts with load.
SINGLE = 96
# RDMA writes of 1 MiB.
WRITES = 16
# Of 1 MiB on the wire.
SHARE = 0.9


EVENTS = "/sys/kernel/tracing"


def _told(host, on):
    """Has a host's driver tell of each cell and word of queue pairs, or not any more."""
    host.run(
        f"mountpoint -q {EVENTS} || mount -t tracefs tracefs {EVENTS}; "
        f"test {int(on)} = 0 || echo >{EVENTS}/trace; "
        f"for event in weft_cell weft_word; do echo {int(on)} >{EVENTS}/events/weft/$event/enable; done"
    )


def _sent(host):
    """How many words a host has sent since, and in cells at two writes each."""
    count = "grep -c 'weft_{}: .* sent ' " + f"{EVENTS}/trace || :"
    words, cells = (int(host.out(count.format(what))) for what in ("word", "cell"))
    return words + 2 * cells


def count(lab, way, how, jobs):
    """What the fabric counts meanwhile: (there, back, of which messages). What goes back and is no
    message says what was taken."""
    h2 = lab["h2"]
    for node in lab.hosts:
        lab.fabric.trace(node, True)
        lab.fabric.counters(node, clear=True)
    _told(h2, True)
    way(lab, how, jobs)
    there, back = (lab.fabric.counters(node) for node in lab.hosts)
    _told(h2, False)
    for node in lab.hosts:
        lab.fabric.trace(node, False)
    return there, back, _sent(h2)


def interrupts(lab, way):
    """What a receiver that sleeps takes for each of many messages of 64 bytes."""
    before = ways.interrupts(lab["h2"])
    way(lab, "sleeping", [f"flood:64:{RUSH}"])
    return (ways.interrupts(lab["h2"]) - before) / RUSH


def _loaded(samples, lab):
    """The receiver is slower than the sender: it always finds the next message."""
    for how in ("polled", "sleeping"):
        for name, way in (("channel", ways.channel), ("qp", ways.qp)):
            there, back, said = count(lab, way, how, [f"flood:64:{LOADED}"])
            name = f"{name}-{how}"
            samples.add(f"{name}-posted", (there["tx_mwr"] + back["tx_mwr"]) / LOADED)
            samples.add(f"{name}-read", there["tx_mrd"] + back["tx_mrd"])
            samples.add(f"{name}-acks", said / LOADED)
            samples.add(f"{name}-credit", max(0, back["tx_mwr"] - said) / LOADED)
    for name, way in (("channel", ways.channel), ("qp", ways.qp)):
        samples.add(f"{name}-sleeping-interrupts", interrupts(lab, way))


def single(lab):
    """A send of 64 bytes and its completion, polled, one after the other: posted writes, non-posted
    requests and doorbells of both ends for one message, by the ports' own counters."""
    for node in lab.hosts:
        lab.fabric.trace(node, True)
    counted = ways.single(lab, SINGLE)
    for node in lab.hosts:
        lab.fabric.trace(node, False)
    return [number / SINGLE for number in counted]


def _write_share(lab):
    """Of all bytes on the wire, both ways, those of the payload: writes that begin at odd places."""
    there, back, *_ = count(lab, ways.qp, "polled", [f"write:{1 << 20}:{WRITES}"])
    wire = sum(
        node["tx_mwr_bytes"] + model.OVERHEAD * (node["tx_mwr"] + node["tx_db"] + node["tx_msg"])
        for node in (there, back)
    )
    return (WRITES << 20) / wire


def _payload(host):
    """Max_Payload_Size of a host's port, in bytes: Device Control says it."""
    pf = host.out("basename $(readlink -f /sys/class/weft/weft0/device)")
    return 128 << (int(host.out(f"setpci -s {pf} CAP_EXP+8.w"), 16) >> 5 & 7)


def measure(figures, say, runs):
    """what messages cost on the wire and in interrupts: each TLP is counted"""
    samples = Samples()
    with pair(say) as lab:
        payloads = [_payload(host) for host in lab.hosts.values()]
        for run in range(runs):
            _loaded(samples, lab)
            for name, value in zip(("posted", "read", "doorbells"), single(lab)):
                samples.add(f"single-{name}", value)
            samples.add("write-share", _write_share(lab))
            say(f"run {run + 1} of {runs}")
    for name in ("channel", "qp"):
        for how in ("polled", "sleeping"):
            way = f"{name}-{how}"
            figures.add(f"{way}-posted-tlps-64", "TLPs/message", samples[f"{way}-posted"])
            figures.add(f"{way}-non-posted-tlps-64", "TLPs", samples[f"{way}-read"], "<=0")
            figures.add(f"{way}-credit-writes-64", "TLPs/message", samples[f"{way}-credit"],
                        "<=0.0625")  # fmt: skip
        if name == "qp":
            for how in ("polled", "sleeping"):
                figures.add(f"qp-{how}-acknowledgements-64", "1/message", samples[f"qp-{how}-acks"])
        figures.add(f"{name}-sleeping-interrupts-64", "1/message",
                    samples[f"{name}-sleeping-interrupts"], "<=0.03125")  # fmt: skip
    name = "qp-send-and-completion-64"
    figures.add(f"{name}-posted-tlps", "TLPs/message", samples["single-posted"], "<=3.1")
    figures.add(f"{name}-non-posted-tlps", "TLPs/message", samples["single-read"], "<=0")
    figures.add(f"{name}-doorbells", "1/message", samples["single-doorbells"], "<=0")
    figures.add("max-payload-size", "bytes", payloads)
    least = min(payloads)
    best = least / (least + model.OVERHEAD)
    figures.add("qp-write-1m-payload-share", "ratio", samples["write-share"], f">={SHARE}",
                reason=f"TLPs carry {least} bytes (Max_Payload_Size), of {least + model.OVERHEAD} on the "
                f"wire: {best:.3f} at best.")  # fmt: skip
