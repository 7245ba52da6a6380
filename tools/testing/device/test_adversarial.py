# SPDX-License-Identifier: GPL-2.0
"""Adversarial mode: what may be reordered, split or late is, and what may not is not."""

import dma
import regs as R
from fixture import Pair
from port import MEMORY, PAGE, fence, host
from tap import equal

LINE = 64
# Nothing is held, and nothing is late, longer than this.
HOLD = 50_000_000
LATE = 1_100_000
LINK0 = R.DEST_LINK


def adversarial(scope, **properties):
    """A port whose slot 0 leads to itself."""
    port = host(scope, adversarial="on", **properties)
    equal(port.read(R.R_STATUS) & R.STATUS_ADVERSARIAL, R.STATUS_ADVERSARIAL, "adversarial mode")
    port.set_inbound(0, 0, 16 * PAGE, MEMORY, allow=R.ALLOW_SELF)
    port.set_slot(0, R.DEST_SELF, 0, 16 * PAGE)
    equal(port.slot_status(0), R.SLOT_LIVE, "slot")
    return port


def store(port, offset, value, size=8, wc=True):
    port.qemu.write(port.slot(0, offset, wc), size, value)


def words(port, offset, count):
    """What has arrived, by the owner's memory."""
    data = port.qemu.read_bytes(MEMORY + offset, 8 * count)
    return [int.from_bytes(data[at:at + 8], "little") for at in range(0, len(data), 8)]


def arrivals(port, rounds=200):
    """Which of the eight words of a line had arrived when all were stored, line after line."""
    seen = []
    for n in range(rounds):
        for word in range(8):
            store(port, n * LINE + 8 * word, 1 + word)
        seen.append(tuple(bool(w) for w in words(port, n * LINE, 8)))
        fence(port)
        equal(words(port, n * LINE, 8), list(range(1, 9)), f"line {n} after the fence")
    return seen


def test_held(scope):
    """write-combined stores are held, overtake each other, are split; a fence lets all of them arrive"""
    seen = arrivals(adversarial(scope))
    assert any(not any(line) for line in seen), "no line was held as a whole"
    assert any(any(line) and not all(line) for line in seen), "no line was split"
    assert any(line[7] and not line[0] for line in seen), "the last word of a line never overtook the first"
    assert any(line[0] and not line[7] for line in seen), "the first word of a line never came first"


def test_lines_overtake(scope):
    """later lines overtake earlier ones"""
    port = adversarial(scope)
    overtaken = 0
    for n in range(200):
        for line in range(4):
            store(port, (4 * n + line) * LINE, 1)
        first, *rest = words(port, 4 * n * LINE, 32)[::8]
        overtaken += not first and any(rest)
        fence(port)
    assert overtaken, "no line was overtaken"


def test_seed(scope):
    """the same seed does the same, another seed something else"""
    runs = [arrivals(adversarial(scope, name=f"s{n}", seed=seed), 50) for n, seed in enumerate((7, 7, 8))]
    equal(runs[0], runs[1], "two runs with one seed")
    assert runs[0] != runs[2], "seeds 7 and 8 do the same"


def test_bounded(scope):
    """what no fence lets go leaves by itself, within the bound"""
    port = adversarial(scope)
    for n in range(32):
        store(port, n * LINE, 1 + n)
    assert 0 in words(port, 0, 256)[::8], "nothing is held"
    port.qemu.clock_step(HOLD)
    equal(words(port, 0, 256)[::8], list(range(1, 33)), "memory")


def test_sizes(scope):
    """stores of every size arrive as they were, and an aligned one whole"""
    port = adversarial(scope)
    want = bytearray(256)
    for n in range(600):
        size = (1, 2, 4, 8)[n % 4]
        at = n * 37 % (256 - 8) & -size
        value = n * 0x9e3779b97f4a7c15 % (1 << 8 * size)
        store(port, at, value, size)
        want[at:at + size] = value.to_bytes(size, "little")
        if n % 5 == 0:
            fence(port)
            equal(port.qemu.read_bytes(MEMORY, 256), bytes(want), f"memory after {n} stores")
    store(port, 60, 0x1122334455667788)
    fence(port)
    equal(port.qemu.read(MEMORY + 60, 8), 0x1122334455667788, "a store across two lines")


def test_whole_words(scope):
    """no word of eight bytes that was stored at once is seen in part"""
    port = adversarial(scope)
    for n in range(100):
        value = 0x0101010101010101 * (1 + n % 255)
        store(port, 8, value)
        have = words(port, 8, 1)[0]
        assert len(set(have.to_bytes(8, "little"))) == 1, hex(have)
        if n % 3 == 0:
            fence(port)


def test_same_place(scope):
    """stores to one place arrive in their order"""
    port = adversarial(scope)
    last = 0
    for n in range(1, 400):
        store(port, 24, n)
        port.qemu.clock_step(50_000)
        have = words(port, 24, 1)[0]
        assert last <= have <= n, f"{have} after {last}"
        last = have
    fence(port)
    equal(words(port, 24, 1), [399], "the last one")


def test_uncached_is_not_held(scope):
    """uncached stores arrive at once and in order, ahead of what is held"""
    port = adversarial(scope)
    overtook = 0
    for n in range(100):
        store(port, n * 128, 1)
        store(port, n * 128 + 64, 2, wc=False)
        held, uncached = words(port, n * 128, 9)[::8]
        equal(uncached, 2, "uncached store")
        overtook += not held
    assert overtook, "no uncached store overtook"


def test_load_pushes(scope):
    """a load through the window, by either alias, comes back behind the stores"""
    port = adversarial(scope)
    for n in range(40):
        for line in range(4):
            store(port, (4 * n + line) * LINE, 1 + n)
        port.qemu.read(port.slot(0, 15 * PAGE, wc=n % 2 == 0), 8)
        equal(words(port, 4 * n * LINE, 32)[::8], [1 + n] * 4, "memory")


def test_registers_order_nothing(scope):
    """neither a register nor a doorbell lets go what is held: the fence is for that"""
    port = adversarial(scope)
    port.set_page(0, R.DEST_SELF, 1)
    held = 0
    for n in range(50):
        store(port, n * LINE, 1)
        port.ring(0, 0)
        port.read(R.R_STATUS)
        held += not words(port, n * LINE, 1)[0]
    assert held, "everything had left"


def test_slot_change_loses(scope):
    """what is held for a slot when it is pointed elsewhere never arrives there"""
    port = adversarial(scope)
    for n in range(32):
        for line in range(4):
            store(port, line * LINE, 0xdead)
        port.set_slot(0, R.DEST_SELF, 8 * PAGE, 8 * PAGE)
        port.qemu.clock_step(HOLD)
        fence(port)
        equal(words(port, 8 * PAGE, 32), [0] * 32, "memory of the new place")
        port.set_slot(0, R.DEST_SELF, 0, 16 * PAGE)


def test_reset_loses(scope):
    """a reset forgets what is held and what is late, and the mode stays"""
    port = adversarial(scope)
    port.set_page(0, R.DEST_SELF, 0xffffffff)
    for line in range(8):
        store(port, line * LINE, 0xdead)
        port.ring(0, line)
    before = words(port, 0, 64)
    port.write(R.R_CTRL, R.CTRL_RESET)
    port.qemu.clock_step(HOLD)
    equal(words(port, 0, 64), before, "memory")
    equal(port.read(R.R_DB_PENDING), 0, "doorbells")
    equal(port.read(R.R_STATUS) & R.STATUS_ADVERSARIAL, R.STATUS_ADVERSARIAL, "adversarial mode")


def test_doorbells_late(scope):
    """doorbells are late, coalesce and overtake each other, and none is lost"""
    port = adversarial(scope)
    port.set_page(0, R.DEST_SELF, 0xffffffff)
    late = overtaken = 0
    for _ in range(100):
        port.ring(0, 3)
        port.ring(0, 3)
        port.ring(0, 4)
        pending = port.read(R.R_DB_PENDING)
        late += pending != 0x18
        overtaken += pending == 0x10
        port.qemu.clock_step(LATE)
        equal(port.read(R.R_DB_PENDING), 0x18, "doorbells in the end")
        port.write(R.R_DB_PENDING, 0x18)
    assert late and overtaken, f"{late} late, {overtaken} overtaken"


def test_peer_doorbells_late(scope):
    """doorbells to a neighbour as well; coalesced ones count once"""
    pair = Pair(scope, adversarial="on")
    pair.b.write(R.R_DB_ALLOW, 0xffffffff)
    pair.a.set_page(0, LINK0, 0xffffffff)
    for _ in range(40):
        pair.a.ring(0, 5)
    pair.a.qemu.clock_step(LATE)
    pair.until(lambda: pair.b.read(R.R_DB_PENDING) == 1 << 5, "the doorbell")
    assert 1 <= pair.a.counter(R.CNT_TX_DB) < 40, pair.a.counter(R.CNT_TX_DB)


def test_dma(scope):
    """channels overtake each other and a CPU's stores, and these them; what each does is right"""
    port = dma.alone(scope, adversarial="on")
    channels = [dma.Channel(port, n) for n in range(2)]
    port.qemu.write(dma.LOCAL, 8, 0xd3a)
    seen = set()
    for n in range(60):
        for channel in channels:
            channel.submit(dma.write(dma.LOCAL, 8, 1024 * n + 256 * channel.n))
        port.qemu.write(port.slot(0, 1024 * n + 512, wc=True), 8, 1)
        port.qemu.clock_step(LATE // 2)
        seen.add(tuple(bool(port.qemu.read(dma.REMOTE + 1024 * n + at, 8)) for at in (0, 256, 512)))
        fence(port)
        for channel in channels:
            channel.finish()
            equal(channel.result(n), (dma.OK, 8), f"descriptor {n} of channel {channel.n}")
        port.qemu.clock_step(LATE)
        equal([port.qemu.read(dma.REMOTE + 1024 * n + at, 8) for at in (0, 256, 512)], [0xd3a, 0xd3a, 1], "memory")
    for way, what in (((1, 0), "the first channel came first"), ((0, 1), "the second channel came first")):
        assert any(one[:2] == way for one in seen), f"never seen: {what}; {seen}"
    assert any(one[2] and not all(one[:2]) for one in seen), f"no store overtook a channel; {seen}"
    assert any(not one[2] and any(one[:2]) for one in seen), f"no channel overtook a store; {seen}"


def test_dma_lands_late(scope):
    """a WRITE lands after its status, in the order of its channel; a READ or a doorbell of it push"""
    port = dma.alone(scope, adversarial="on")
    port.set_page(0, R.DEST_SELF, 0xffffffff)
    channel = dma.Channel(port)
    late = reordered = 0
    for n in range(40):
        for word in range(4):
            port.qemu.write(dma.LOCAL + 8 * word, 8, 1 + 4 * n + word)
        channel.run(*(dma.write(dma.LOCAL + 8 * word, 8, 64 * word) for word in range(4)))
        landed = [port.qemu.read(dma.REMOTE + 64 * word, 8) == 1 + 4 * n + word for word in range(4)]
        late += not all(landed)
        reordered += landed != sorted(landed, reverse=True)
        if n % 3 == 0:
            equal(channel.run(dma.read(dma.LOCAL + 64, 8, 192)), [(dma.OK, 8)], "a READ")
            equal(port.qemu.read(dma.LOCAL + 64, 8), 4 + 4 * n, "what was read")
        elif n % 3 == 1:
            channel.run(dma.nop(flags=R.DMA_BELL, bell=3))
        else:
            port.qemu.clock_step(LATE)
        equal([port.qemu.read(dma.REMOTE + 64 * word, 8) for word in range(4)],
              [1 + 4 * n + word for word in range(4)], "memory")
    assert late, "every status came after the data"
    equal(reordered, 0, "times when a channel overtook itself")


def test_dma_lost_with_slot(scope):
    """what a channel has on its way is lost when its slot is pointed elsewhere"""
    port = dma.alone(scope, adversarial="on")
    channel = dma.Channel(port)
    port.qemu.write(dma.LOCAL, 8, 0xdead)
    for _ in range(20):
        channel.run(dma.write(dma.LOCAL, 8, 0))
        port.set_slot(0, R.DEST_SELF, 8 * PAGE, 8 * PAGE)
        port.qemu.clock_step(LATE)
        equal(port.qemu.read(dma.REMOTE + 8 * PAGE, 8), 0, "memory of the new place")
        port.set_slot(0, R.DEST_SELF, 0, dma.REMOTE_BYTES)


def test_interrupts_late(scope):
    """interrupts are late; one whose reason is gone or masked by then is not sent, and none is lost"""
    port = adversarial(scope)
    port.set_page(0, R.DEST_SELF, 0xffffffff)
    port.write(R.R_DB_MASK, 0)

    def ring():
        """Until the doorbell is there; whether its interrupt is."""
        port.ring(0, 0)
        while not port.read(R.R_DB_PENDING):
            port.qemu.clock_step(20_000)
        return bool(port.fired())

    late = gone = 0
    for _ in range(60):
        if not ring():
            late += 1
            port.qemu.clock_step(LATE)
            equal(port.fired(), {4}, "the interrupt in the end")
        port.write(R.R_DB_PENDING, 1)
        if not ring():
            gone += 1
            port.write(R.R_DB_MASK, 1)
            port.qemu.clock_step(LATE)
            equal(port.fired(), set(), "interrupts while masked")
            port.write(R.R_DB_MASK, 0)
            port.qemu.clock_step(LATE)
            equal(port.fired(), {4}, "the interrupt after unmasking")
        port.write(R.R_DB_PENDING, 1)
        if not ring():
            port.write(R.R_DB_PENDING, 1)
            port.qemu.clock_step(LATE)
            equal(port.fired(), set(), "interrupts without a reason")
        port.write(R.R_DB_PENDING, 1)
    assert late and gone, f"{late} late, {gone} gone"


def test_on_command(scope):
    """the fabric turns it on and off; what is held when it ends arrives"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, LINK0, 0, PAGE)

    def turn(on):
        pair.node_a.send(R.FAB_ADVERSARIAL, arg=(on, 99))
        pair.until(lambda: bool(pair.a.read(R.R_STATUS) & R.STATUS_ADVERSARIAL) == on, "the mode to change")
        equal(pair.a.slot_status(0), R.SLOT_LIVE if on else R.SLOT_LIVE | R.SLOT_DIRECT, "slot")

    for value in 0x1111, 0x2222:
        turn(True)
        for line in range(8):
            pair.a.qemu.write(pair.a.slot(0, line * LINE, wc=True), 8, value)
        have = words(pair.b, 0, 64)[::8]
        assert have != [value] * 8, "nothing is held"
        turn(False)
        equal(words(pair.b, 0, 64)[::8], [value] * 8, "memory of the peer")
        pair.a.qemu.write(pair.a.slot(0, wc=True), 8, value + 1)
        equal(words(pair.b, 0, 1), [value + 1], "memory of the peer, without the mode")


def test_link_down_loses(scope):
    """a link that goes down takes what is held along, also for who comes back"""
    pair = Pair(scope, adversarial="on")
    pair.share()
    pair.a.set_slot(0, LINK0, 0, PAGE)
    for line in range(8):
        pair.a.qemu.write(pair.a.slot(0, line * LINE, wc=True), 8, 0xdead)
    before = pair.b.qemu.read_bytes(MEMORY, 512)
    pair.fabric.link_down(pair.node_a, 0)
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    pair.fabric.train(pair.node_a)
    pair.until(lambda: pair.a.link_up() and pair.a.slot_status(0) & R.SLOT_LIVE, "the link to come up")
    pair.a.qemu.clock_step(HOLD)
    equal(pair.b.qemu.read_bytes(MEMORY, 512), before, "memory of the peer")
