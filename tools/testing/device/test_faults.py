# SPDX-License-Identifier: GPL-2.0
"""Faults on command: `weft-fabric inject` and what the port shows of each."""

import time

import regs as R
from dma import OK, Channel, noise, put, read, write
from port import DEVICE, MEMORY, ONES, PAGE, Bus
from tap import equal, until
from test_daemon import LIVE, check_store, joined, open_up

AER_UNCOR_STATUS = 0x04
AER_POISONED, AER_TIMEOUT = 1 << 12, 1 << 14
FROM_READ = 1 << 63


def inject(daemon, *words):
    """Returns the fault's number."""
    return daemon.command("inject", *words)["number"]


def clear(daemon, *number):
    daemon.command("inject", "clear", *map(str, number))


def faults(daemon):
    return daemon.command("inject", "list")["faults"]


def quiet(*ports):
    for port in ports:
        port.write(R.R_EVENT, 0xffffffff)
        port.clear_errors()
        port.write(R.R_COUNTERS_CLEAR, 0)
        aer = port.extended(1)
        port.config_write(aer + AER_UNCOR_STATUS, 0xffffffff)


def aer(port):
    return port.config_read(port.extended(1) + AER_UNCOR_STATUS)


def start(scope):
    daemon, a, b = joined(scope)
    b.write(R.R_DB_ALLOW + 4, 0xffffffff)
    a.set_page(0, R.DEST_LINK, 0xffffffff)
    quiet(a, b)
    return daemon, a, b


def messages(a, b, *data):
    """What arrives when `data` are sent; the last is a mark that must."""
    for each in data:
        a.send(0, each)
    got = []

    def last():
        message = b.receive()
        if message:
            got.append(message[1])
        return got and got[-1] == data[-1]
    until(last, "the last message")
    return got


def test_commands(scope):
    """faults have numbers, are listed, cleared one by one or all; nonsense is refused"""
    daemon, _, _ = start(scope)
    equal(faults(daemon), [], "faults at first")
    one = inject(daemon, "stuck-doorbell", "h2:1")
    two = inject(daemon, "mailbox", "drop", "h1:0", "--every", "3", "--count", "7")
    equal([f["number"] for f in faults(daemon)], [one, two], "numbers")
    equal(faults(daemon)[1], {"number": two, "kind": "mailbox", "end": "h1:0", "does": "drop", "count": 7,
                              "every": 3, "left": 7}, "the second")
    for words in (("stuck-doorbell", "h2:1"), ("mailbox", "drop", "h1:0"), ("clear", "77"),
                  ("stuck-doorbell", "h9:0"), ("stuck-doorbell", "h1:3"), ("all-ones", "none"),
                  ("flap", "h1:0", "--count", "0"), ("flap", "h1:0", "--period", "0"), ("slow", "h1:0"),
                  ("mailbox", "corrupt", "h1:0", "--every", "0"), ("poisoned-read", "h1:0", "--count", "0")):
        equal(daemon.command("inject", *words, check=False), None, f"inject {' '.join(words)}")
    clear(daemon, one)
    equal([f["number"] for f in faults(daemon)], [two], "after clearing one")
    clear(daemon)
    equal(faults(daemon), [], "after clearing all")


def test_flap(scope):
    """flap: the link goes down and up as often as it is told, and the fault ends by itself"""
    daemon, a, b = start(scope)
    before = a.link(0, R.LINK_TRAINED), b.link(1, R.LINK_TRAINED)
    inject(daemon, "flap", "h2:1", "--count", "3", "--period", "40")
    until(lambda: not faults(daemon), "the end of the fault")
    until(lambda: a.link_up(0) and b.link_up(1), "the link to come up")
    equal((a.link(0, R.LINK_TRAINED), b.link(1, R.LINK_TRAINED)), tuple(n + 3 for n in before), "trainings")
    until(lambda: a.slot_status(0) == LIVE, "the slot to live")
    check_store(a, b, 0xf1a9)


def test_flap_is_cleared(scope):
    """flap: cleared while the link is down, it comes up"""
    daemon, a, _ = start(scope)
    inject(daemon, "flap", "h1:0", "--count", "1000", "--period", "3600000")
    until(lambda: not a.link_up(0), "the link to go down")
    clear(daemon)
    until(lambda: a.link_up(0), "the link to come up")


def test_surprise_down(scope):
    """surprise down: everything vanishes, nothing says so but reads; then the link trains anew"""
    daemon, a, b = start(scope)
    check_store(a, b, 1)
    before = a.link(0, R.LINK_TRAINED)
    inject(daemon, "surprise-down", "h2:1")
    until(lambda: a.slot_status(0) == R.SLOT_LIVE, "the windows to trap")
    a.qemu.write(a.slot(0, 8), 8, 2)
    a.ring(0, 3)
    a.send(0, b"lost")
    equal(a.read(R.R_MBOX_TX_STATUS), 0, "sending")
    equal((a.link_up(0), b.link_up(1)), (True, True), "the link")
    equal((a.read(R.R_EVENT), a.read(R.R_ERR_STATUS), aer(a)), (0, 0, 0), "what is said of a lost store")
    equal(a.qemu.read(a.slot(0, 8), 8), ONES[8], "a read")
    equal(a.error(), (R.ERR_TIMEOUT, 0, 8), "error of the read")
    equal(aer(a), AER_TIMEOUT, "AER of the read")
    clear(daemon)
    until(lambda: a.link(0, R.LINK_TRAINED) == before + 1 and a.link_up(0), "the link to train anew")
    until(lambda: a.slot_status(0) == LIVE, "the slot to live")
    equal(b.qemu.read(MEMORY + 8, 8), 1, "memory of the peer")
    equal((b.read(R.R_DB_PENDING), b.receive()), (0, None), "what has arrived of it")
    check_store(a, b, 3)


def test_slow(scope):
    """slow link: messages and reads take their time, in order; nothing is lost"""
    daemon, a, b = start(scope)
    inject(daemon, "slow", "h1:0", "--latency", "15000", "--bandwidth", "100000")
    until(lambda: a.slot_status(0) == R.SLOT_LIVE, "the windows to trap")
    began = time.monotonic()
    equal(messages(a, b, b"1", b"2", b"3"), [b"1", b"2", b"3"], "messages")
    took = time.monotonic() - began
    assert took >= 0.015, f"messages took {took} s"
    began = time.monotonic()
    check_store(a, b, 4)
    equal(a.qemu.read(a.slot(0, 8), 8), 4, "a read")
    took = time.monotonic() - began
    assert took >= 0.02, f"a read took {took} s"
    # 20 KB at 100 KB a second, of which 4 KiB are on the way at most.
    began = time.monotonic()
    a.qemu.write_bytes(a.slot(0, 0), bytes(range(200)) * 80)
    took = time.monotonic() - began
    assert took >= 0.05, f"16000 bytes took {took} s"
    clear(daemon)
    until(lambda: a.slot_status(0) == LIVE, "the windows to be direct")
    equal(b.qemu.read_bytes(MEMORY, 16000), bytes(range(200)) * 80, "memory of the peer")
    equal(a.read(R.R_ERR_STATUS), 0, "errors")


def test_poisoned_read(scope):
    """poisoned read: all ones, ERR_POISONED and AER at the reader; then the data again"""
    daemon, a, b = start(scope)
    check_store(a, b, 5)
    inject(daemon, "poisoned-read", "h1:0", "--count", "2")
    until(lambda: a.slot_status(0) == R.SLOT_LIVE, "the windows to trap")
    equal([a.qemu.read(a.slot(0, 8), 8) for _ in range(3)], [ONES[8], ONES[8], 5], "three reads")
    equal(a.error(), (R.ERR_POISONED, 0, 8 | FROM_READ), "error")
    equal(aer(a), AER_POISONED, "AER")
    equal(a.counter(R.CNT_OUT_ONES), 2, "reads answered by ones")
    until(lambda: not faults(daemon), "the end of the fault")
    equal(a.slot_status(0), LIVE, "slot")
    equal(b.read(R.R_ERR_STATUS), 0, "errors of the owner")


def test_poisoned_write(scope):
    """poisoned write: dropped at the owner, which reports it and marks the entry; the writer hears nothing"""
    daemon, a, b = start(scope)
    check_store(a, b, 6)
    inject(daemon, "poisoned-write", "h1:0", "--count", "1")
    until(lambda: a.slot_status(0) == R.SLOT_LIVE, "the windows to trap")
    a.qemu.write(a.slot(0, 8), 8, 7)
    a.qemu.write(a.slot(0, 16), 8, 8)
    equal((b.qemu.read(MEMORY + 8, 8), b.qemu.read(MEMORY + 16, 8)), (6, 8), "memory of the peer")
    until(lambda: b.read(R.R_ERR_STATUS), "the owner to report it")
    equal(b.error(), (R.ERR_POISONED, 1, 8), "error")
    equal(aer(b), AER_POISONED, "AER")
    equal(b.counter(R.CNT_IN_DENIED), 0, "accesses refused")
    equal(b.inbound_status(0), R.INBOUND_LIVE | R.INBOUND_POISONED, "entry")
    equal((a.read(R.R_ERR_STATUS), a.slot_status(0)), (0, LIVE), "the writer")
    open_up(a, b)
    equal(b.inbound_status(0), R.INBOUND_LIVE, "entry latched anew")


def test_completion_timeout(scope):
    """completion timeout: all ones, ERR_TIMEOUT and AER; writes are not concerned"""
    daemon, a, b = start(scope)
    inject(daemon, "completion-timeout", "h1:0", "--count", "1")
    until(lambda: a.slot_status(0) == R.SLOT_LIVE, "the windows to trap")
    check_store(a, b, 9)
    equal([a.qemu.read(a.slot(0, 8), 8) for _ in range(2)], [ONES[8], 9], "two reads")
    equal(a.error(), (R.ERR_TIMEOUT, 0, 8), "error")
    equal(aer(a), AER_TIMEOUT, "AER")


def test_mailbox(scope):
    """mailbox messages are dropped, doubled or corrupted: the next n, every n-th, in one direction"""
    daemon, a, b = start(scope)
    inject(daemon, "mailbox", "drop", "h1:0", "--count", "2")
    equal(messages(a, b, b"1", b"2", b"3", b"4"), [b"3", b"4"], "the next two dropped")
    equal(faults(daemon), [], "faults after the two")
    inject(daemon, "mailbox", "drop", "h1:0", "--every", "2")
    equal(messages(a, b, b"1", b"2", b"3", b"4", b"5"), [b"1", b"3", b"5"], "every second dropped")
    b.send(1, b"back")
    until(lambda: a.counter(R.CNT_RX_MSG) == 1, "a message in the other direction")
    clear(daemon)
    inject(daemon, "mailbox", "duplicate", "h1:0", "--count", "1")
    equal(messages(a, b, b"1", b"2"), [b"1", b"1", b"2"], "one doubled")
    inject(daemon, "mailbox", "corrupt", "h1:0", "--count", "1")
    whole = bytes(100)
    spoilt = messages(a, b, whole, b"2")[0]
    equal((len(spoilt), sum(x != y for x, y in zip(spoilt, whole))), (100, 1), "bytes, and those spoilt")


def test_stuck_doorbell(scope):
    """stuck doorbell: rings are lost until it is cleared, and do not come after"""
    daemon, a, b = start(scope)
    inject(daemon, "stuck-doorbell", "h2:1")
    a.ring(0, 4)
    a.send(0, b"behind it")
    until(lambda: b.receive(), "a message behind it")
    clear(daemon)
    a.ring(0, 5)
    until(lambda: b.read(R.R_DB_PENDING), "a ring")
    equal(b.read(R.R_DB_PENDING), 1 << 5, "doorbells")
    equal((a.counter(R.CNT_TX_DB), b.counter(R.CNT_RX_DB)), (2, 1), "doorbells sent and taken")


def test_memory_gone(scope):
    """memory gone: no entry lives, accesses of the neighbour are refused and marked; then all is back"""
    daemon, a, b = start(scope)
    check_store(a, b, 10)
    inject(daemon, "memory-gone", "h2")
    until(lambda: not a.slot_status(0) & R.SLOT_LIVE, "the slot to die")
    equal(b.inbound_status(0) & R.INBOUND_LIVE, 0, "entry")
    a.qemu.write(a.slot(0, 8), 8, 11)
    equal(a.slot_status(0), R.SLOT_LOST, "slot after a store")
    equal(a.error(), (R.ERR_OUT_WRITE, 0, 8), "error of the writer")
    until(lambda: b.read(R.R_ERR_STATUS) & R.ERR_IN_DENIED, "the owner to be told")
    clear(daemon)
    until(lambda: a.slot_status(0) & R.SLOT_LIVE, "the slot to live")
    equal(a.slot_status(0), LIVE | R.SLOT_LOST, "slot")
    equal(b.qemu.read(MEMORY + 8, 8), 10, "memory of the peer")
    open_up(a, b)
    check_store(a, b, 12)


def test_all_ones(scope):
    """all ones: registers, windows, interrupts' table and configuration space answer nothing; no port reaches in"""
    daemon, a, b = start(scope)
    b.write(R.R_EVENT_MASK, 0)
    b.write(R.R_SCRATCH, 13)
    ids = b.config_read(0)
    inject(daemon, "all-ones", "h2")
    until(lambda: b.read(R.R_ID) == ONES[4], "registers")
    b.write(R.R_SCRATCH, 14)
    b.config_write(0x04, 0, 2)
    b.qemu.writel(b.msix + 12, 1)
    equal([b.config_read(0), b.config_read(0x04, 2), b.config_read(0x34, 1)], [ONES[4], ONES[2], ONES[1]],
          "configuration space")
    equal(b.qemu.readl(b.msix), ONES[4], "MSI-X")
    equal(b.qemu.read(b.slot(0), 8), ONES[8], "windows")
    until(lambda: not a.slot_status(0) & R.SLOT_LIVE, "the neighbour's slot to die")
    a.send(0, b"not heard")
    equal(a.link_up(0), True, "the link of the neighbour")
    clear(daemon)
    until(lambda: b.read(R.R_ID) == R.ID, "registers")
    equal((b.config_read(0), b.read(R.R_SCRATCH)), (ids, 13), "what it holds")
    equal(b.qemu.readl(b.msix + 12), 0, "mask of vector 0")
    equal(b.fired(), set(), "interrupts")
    until(lambda: a.slot_status(0) == LIVE, "the neighbour's slot to live")


def test_survives(scope):
    """a reset takes no fault away, a fabric that dies all of them; one that returns knows of none"""
    daemon, _, b = start(scope)
    inject(daemon, "all-ones", "h2")
    until(lambda: b.read(R.R_ID) == ONES[4], "registers")
    b.qemu.qmp("system_reset")
    b.qemu.wait_event("RESET")
    bus = Bus(b.qemu)
    equal(bus.read(DEVICE, 0), ONES[4], "configuration space after a reset")
    daemon.kill()
    until(lambda: bus.read(DEVICE, 0) == R.DEVICE_ID_PF << 16 | R.VENDOR_ID, "configuration space")
    daemon.start()
    equal(faults(daemon), [], "faults")


def test_reconnect(scope):
    """a port that comes late is told of the faults that wait for it"""
    daemon, a, b = start(scope)
    inject(daemon, "stuck-doorbell", "h2:1")
    inject(daemon, "slow", "h1:0", "--latency", "1")
    b.write(R.R_CTRL, R.CTRL_RESET)
    until(lambda: b.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
    b.write(R.R_CTRL, R.CTRL_ENABLE)
    until(lambda: a.link_up(0) and b.link_up(1), "the link to come up")
    b.write(R.R_DB_ALLOW + 4, 0xffffffff)
    b.set_inbound(0, 0, PAGE, MEMORY, allow=1 << 1)
    until(lambda: a.slot_status(0) & R.SLOT_LIVE, "the slot to live")
    equal(a.slot_status(0), R.SLOT_LIVE, "slot")
    a.ring(0, 4)
    a.send(0, b"mark")
    until(lambda: b.receive(), "a message")
    equal(b.read(R.R_DB_PENDING), 0, "doorbells")


def test_dma_error(scope):
    """DMA error: a descriptor ends with INTERNAL and the port reports it; the next one is carried out"""
    daemon, a, b = start(scope)
    data = noise(3 * PAGE, 1)
    put(a.qemu, MEMORY, data)
    channel = Channel(a)
    inject(daemon, "dma-error", "h1", "--count", "1")
    until(lambda: channel.run(write(MEMORY, PAGE))[0][0] == R.DMA_ST_INTERNAL, "the fault to strike")
    equal(a.read(R.R_ERR_STATUS) & R.ERR_DMA, R.ERR_DMA, "error")
    until(lambda: not faults(daemon), "the end of the fault")
    equal(channel.run(write(MEMORY, 3 * PAGE)), [(OK, 3 * PAGE)], "the next one")
    equal(b.qemu.read_bytes(MEMORY, 3 * PAGE), data, "memory of the peer")


def test_dma_surprise_down(scope):
    """surprise down: a DMA write seems to succeed and moves nothing, a read times out"""
    daemon, a, b = start(scope)
    channel = Channel(a)
    put(a.qemu, MEMORY, noise(PAGE, 2))
    inject(daemon, "surprise-down", "h1:0")
    until(lambda: a.slot_status(0) == R.SLOT_LIVE, "the windows to trap")
    equal(channel.run(write(MEMORY, PAGE)), [(OK, PAGE)], "a write")
    equal(b.qemu.read_bytes(MEMORY, PAGE), bytes(PAGE), "memory of the peer")
    equal(channel.run(read(MEMORY, PAGE)), [(R.DMA_ST_TIMEOUT, 0)], "a read")


def test_dma_answers(scope):
    """poisoned read, completion timeout: the code of a DMA read, what was to come is not in memory, the next succeeds"""
    daemon, a, b = start(scope)
    channel = Channel(a)
    data = noise(2 * PAGE, 3)
    b.qemu.write_bytes(MEMORY, data)
    for kind, code, error, logged in (("poisoned-read", R.DMA_ST_POISONED, R.ERR_POISONED, AER_POISONED),
                                      ("completion-timeout", R.DMA_ST_TIMEOUT, R.ERR_TIMEOUT, AER_TIMEOUT)):
        quiet(a, b)
        a.qemu.write_bytes(MEMORY, bytes(2 * PAGE))
        inject(daemon, kind, "h1:0", "--count", "1")
        until(lambda: a.slot_status(0) == R.SLOT_LIVE, "the windows to trap")
        equal(channel.run(read(MEMORY, 2 * PAGE)), [(code, 0)], kind)
        equal(any(a.qemu.read_bytes(MEMORY, 2 * PAGE)), False, f"memory after {kind}")
        equal((a.read(R.R_ERR_STATUS), aer(a)), (error | R.ERR_DMA, logged), f"errors of {kind}")
        equal(channel.run(read(MEMORY, 2 * PAGE)), [(OK, 2 * PAGE)], f"after {kind}")
        equal(a.qemu.read_bytes(MEMORY, 2 * PAGE), data, f"memory after {kind}, again")
        until(lambda: not faults(daemon), "the end of the fault")


def test_dma_poisoned_write(scope):
    """poisoned write: of a DMA write the piece is dropped at the owner, which reports it; the status is as ever"""
    daemon, a, b = start(scope)
    channel = Channel(a)
    data = noise(2 * PAGE, 4)
    a.qemu.write_bytes(MEMORY, data)
    b.qemu.write_bytes(MEMORY, bytes(2 * PAGE))
    inject(daemon, "poisoned-write", "h1:0", "--count", "1")
    until(lambda: a.slot_status(0) == R.SLOT_LIVE, "the windows to trap")
    equal(channel.run(write(MEMORY, 2 * PAGE)), [(OK, 2 * PAGE)], "result")
    equal(b.qemu.read_bytes(MEMORY, 2 * PAGE), bytes(PAGE) + data[PAGE:], "memory of the peer")
    until(lambda: b.read(R.R_ERR_STATUS), "the owner to report it")
    equal(b.error(), (R.ERR_POISONED, 1, 0), "error")
    equal((a.read(R.R_ERR_STATUS), aer(a)), (0, 0), "the writer")
