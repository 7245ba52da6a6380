# SPDX-License-Identifier: GPL-2.0
"""Files of every kind, from host to host."""

from weftlab import transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps

LAB = "pair"
# Around a cell, its inline payload, a page, the bulk ring and their neighbours.
SIZES = (0, 1, 47, 48, 49, 63, 64, 65, 4095, 4096, 4097, 65535, 65537, 1000003)


@test("files of odd sizes arrive as they were", core=True)
def sizes(bench):
    lab = bench.pair()
    for size in SIZES:
        steps.carry(lab, "h1", "h2", size, f"size-{size}", size)


@test("MR-6: files travel the other way as well, and a second one after the first", core=True)
def other_way(bench):
    lab = bench.pair()
    for seed in range(2):
        steps.carry(lab, "h2", "h1", 3 << 20, f"back-{seed}", seed)


@test("names may have spaces, quotes, umlauts and a leading dash")
def names(bench):
    lab = bench.pair()
    for name in ("two words", "it's \"quoted\"", "öl über schnee", "-dash", "$(touch x);`y`&"):
        path, source = steps.payload(lab["h1"], name, 5000)
        done = transfer.carry(lab["h1"], lab["h2"], path, source)
        if not done.same:
            raise Mismatch(f"{name!r} did not arrive as it was")


# Ten minutes where every lock is watched, and nothing in it that other transfers do not do.
@test("a file larger than the RAM of the host arrives as it was", closely=False, patient=True, long=True)
def larger_than_ram(bench):
    lab = bench.pair()
    size = (max(host.memory for host in lab.hosts.values()) + 16) << 20
    source = lab["h1"].run_dir / "large"
    # Cheap to make, and no two pages are alike.
    with open(source, "wb") as file:
        block = bytearray(steps.random.Random(7).randbytes(1 << 20))
        for number in range(size >> 20):
            for page in range(0, 1 << 20, 4096):
                block[page : page + 8] = (number << 20 | page).to_bytes(8, "little")
            file.write(block)
    done = transfer.carry(lab["h1"], lab["h2"], "/mnt/run/large", source)
    source.unlink()
    if not done.same:
        raise Mismatch(f"sent {done.sha256_sent}, arrived {done.sha256_arrived}")


@test("both directions at once do not disturb each other", core=True)
def at_once(bench):
    lab = bench.pair()
    ends = (("h1", "h2", 71), ("h2", "h1", 72))
    receivers = [transfer.Receiver(lab[to], ["--service", service]) for _, to, service in ends]
    senders = []
    for sender, _, service in ends:
        path, _ = steps.payload(lab[sender], "out", 2 << 20, service)
        line = transfer.send_line(lab[sender], path, "--service", service)
        senders.append(lab[sender].start_job(line))
    for job in senders:
        job.wait(120).must()
    for receiving, (sender, _, _) in zip(receivers, ends):
        receiving.wait(60)
        if steps.digest(receiving.arrived("out")) != steps.digest(lab[sender].run_dir / "out"):
            raise Mismatch(f"what {sender} sent did not arrive as it was")


@test("a transfer in traced mode costs TLPs and no read across the bridge", core=True)
def traced(bench):
    lab = bench.pair()
    path, source = steps.payload(lab["h1"], "head", 65536, 4)
    done, tlps = transfer.traced(lab, lab["h1"], lab["h2"], path, source)
    if not done.same:
        raise Mismatch("not as it was")
    there, back = tlps["h1"], tlps["h2"]
    if there["tx_mrd"] or back["tx_mrd"]:
        raise Mismatch(f"reads crossed the bridge: {there['tx_mrd']} there, {back['tx_mrd']} back")
    if there["tx_mwr_bytes"] < 65536:
        raise Mismatch(f"65536 bytes of payload in {there['tx_mwr_bytes']} bytes of writes")
    # 64 bytes a write, and a tenth for heads, control and what is split.
    if not 1024 <= there["tx_mwr"] <= 1024 * 1.25:
        raise Mismatch(f"{there['tx_mwr']} writes for 1024 lines of payload")
    if back["tx_mwr"] > 200:
        raise Mismatch(f"{back['tx_mwr']} writes to give credits back")
