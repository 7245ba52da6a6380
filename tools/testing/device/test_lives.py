# SPDX-License-Identifier: GPL-2.0
"""A link that goes down and comes up again before its owner hears of it: what BUSY waits for."""

import regs as R
from fixture import Pair
from port import PAGE
from tap import equal, until

LIVE = R.SLOT_LIVE | R.SLOT_DIRECT


class Late(Pair):
    """b is the owner, and may hear late of its link; a has a slot on its entry 0."""

    def __init__(self, scope):
        super().__init__(scope)
        self.share()
        self.a.set_slot(0, R.DEST_LINK, 0, PAGE)
        self.until(self.sees, "the slot to live")
        self.unsent = None

    def sees(self):
        return self.a.slot_status(0) == LIVE

    def busy(self):
        return self.b.inbound_status(0) & R.INBOUND_BUSY

    def defer(self):
        """From here on b is told nothing."""
        self.unsent = []
        self.node_b.send = lambda *args, **how: self.unsent.append((args, how))

    def tell(self):
        """All that it was not."""
        del self.node_b.send
        for args, how in self.unsent:
            self.node_b.send(*args, **how)

    def flap(self):
        """As a sees it: it has let go, and taken hold again, when this is over."""
        trained = self.trained(self.a)
        self.fabric.link_down(self.node_a, 0)
        self.fabric.link_up(self.node_a, 0)
        self.until(lambda: self.trained(self.a) > trained, "the link to come up at the viewer")

    def both_up(self):
        trained = self.trained(self.a)
        self.until(lambda: self.trained(self.b) == trained, "the link to come up at the owner")

    @staticmethod
    def trained(port):
        return port.link(0, R.LINK_TRAINED)

    def freed(self):
        """BUSY clears, and then nothing is in reach."""
        self.until(lambda: not self.busy(), "BUSY to clear")
        self.until(lambda: not self.sees(), "the slot to die")


def test_new_hold(scope):
    """a neighbour's hold of the next life of a link is not taken for that of the last one"""
    late = Late(scope)
    late.fabric.hold = {R.FAB_INBOUND_ACK}
    late.b.close_inbound(0)
    late.until(lambda: late.fabric.held, "the viewer's answer")
    assert late.busy(), "BUSY while the fabric has not answered"
    late.defer()
    late.fabric.held.clear()
    late.flap()
    late.tell()
    late.both_up()
    late.freed()


def test_withdrawn_in_the_next_life(scope):
    """what is withdrawn in what the owner takes for the old life of a link is BUSY until the viewer of the new one confirms"""
    late = Late(scope)
    late.defer()
    late.flap()
    late.until(late.sees, "the slot to live again")
    late.fabric.hold = {R.FAB_INBOUND}
    late.b.close_inbound(0)
    late.until(lambda: late.fabric.held, "the withdrawal to be on its way")
    late.tell()
    late.both_up()
    assert late.sees() and late.busy(), "BUSY while the viewer has not been told"
    late.fabric.release()
    late.freed()


def test_withdrawn_before_the_link_is_up(scope):
    """what is withdrawn while only the viewer knows of the link is BUSY until he confirms"""
    late = Late(scope)
    late.fabric.link_down(late.node_a, 0)
    late.until(lambda: not late.a.link_up() and not late.b.link_up(), "the link to go down")
    late.defer()
    late.fabric.link_up(late.node_a, 0)
    late.until(late.sees, "the slot to live again")
    late.fabric.hold = {R.FAB_INBOUND}
    late.b.close_inbound(0)
    late.until(lambda: late.fabric.held, "the withdrawal to be on its way")
    assert late.sees() and late.busy(), "BUSY while the viewer has not been told"
    late.fabric.release()
    late.tell()
    late.freed()


def test_fabric_lost_before_the_link_is_up(scope):
    """a fabric that dies when only the viewer knows of a link: BUSY waits for him"""
    late = Late(scope)
    late.fabric.link_down(late.node_a, 0)
    late.until(lambda: not late.a.link_up() and not late.b.link_up(), "the link to go down")
    late.defer()
    late.fabric.link_up(late.node_a, 0)
    late.until(late.sees, "the slot to live again")
    late.a.qemu.stop()
    late.fabric.die()
    until(lambda: not late.b.read(R.R_STATUS), "the loss to be noticed")
    late.b.close_inbound(0)
    equal(late.busy(), R.INBOUND_BUSY, "BUSY while a viewer that is stopped sees it")
    late.a.qemu.stop(False)
    until(lambda: not late.busy(), "BUSY to clear")
    until(lambda: not late.sees(), "the slot to die")


def test_reset_in_the_next_life(scope):
    """a reset before the owner has heard of the next life of its link: BUSY waits for who is there in that"""
    late = Late(scope)
    late.defer()
    late.flap()
    late.until(late.sees, "the slot to live again")
    late.a.qemu.stop()
    late.b.write(R.R_CTRL, R.CTRL_RESET)
    late.tell()
    late.ready(late.b)
    equal(late.busy(), R.INBOUND_BUSY, "BUSY while a viewer that is stopped sees it")
    late.a.qemu.stop(False)
    late.freed()
