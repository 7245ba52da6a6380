# SPDX-License-Identifier: GPL-2.0
"""A fabric that does what a test says, message by message, and wrong if it is to.

The test itself is the fabric's thread: nothing moves but in Fabric.step().
"""

import collections
import os
import selectors
import socket
import struct

import regs as R
from tap import until

HEAD = struct.Struct("<HHI6Q")
MESSAGE_BYTES = HEAD.size + R.FAB_DATA

Message = collections.namedtuple("Message", "type link arg data fds")


def pack(kind, link=0, arg=(), data=b"", length=None):
    arg = tuple(arg) + (0,) * (6 - len(arg))
    head = HEAD.pack(kind, link, len(data) if length is None else length, *arg)
    return head + data.ljust(R.FAB_DATA, b"\0")


class Node:
    """The fabric's side of one port's connection."""

    def __init__(self, scope, sock):
        self.socket = sock
        self.scope = scope
        self.hello = None
        self.how = None         # what its WELCOME says
        self.generation = 0
        self.enabled = False
        self.far = {}           # link -> (node, its link)
        self.roles = {}         # link -> 1 for the endpoint's end
        self.up = set()
        self.carried = {}       # link -> bytes out and in
        self.apertures = {}     # entry -> messages, as the owner sent them
        self.waiting = {}       # (entry, seq) -> neighbours that have not confirmed
        self.alive = True

    def send(self, kind, link=0, arg=(), data=b"", fds=(), length=None):
        self.send_raw(pack(kind, link, arg, data, length), fds)

    def send_raw(self, packet, fds=()):
        try:
            socket.send_fds(self.socket, [packet], list(fds))
        except OSError:
            self.alive = False

    def receive(self):
        """The next message, or None when the port is gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, MESSAGE_BYTES + 1, 8)
        except ConnectionResetError:
            # It closed without having read all that was sent.
            data, fds = b"", []
        for fd in fds:
            self.scope.callback(os.close, fd)
        if not data:
            self.alive = False
            return None
        assert len(data) == MESSAGE_BYTES, f"packet of {len(data)} bytes"
        kind, link, length, *arg = HEAD.unpack_from(data)
        assert length <= R.FAB_DATA, length
        return Message(kind, link, tuple(arg), data[HEAD.size:HEAD.size + length], fds)

    def close(self):
        self.alive = False
        self.socket.close()


class Fabric:
    """Listens like weft-fabric; hold: types of messages that are kept, not routed."""

    def __init__(self, scope):
        self.scope = scope
        self.path = os.path.join(scope.dir, "fabric")
        self.hold = set()
        self.held = []
        self.nodes = []
        self.generation = 10
        self.listener = None
        self.listen()

    def listen(self):
        self.listener = self.scope.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.listener.settimeout(0.01)

    def die(self):
        """As a daemon that is killed: all sockets close."""
        self.listener.close()
        os.unlink(self.path)
        for node in self.nodes:
            node.close()
        self.nodes = []

    # ---- a port arrives

    def accept(self):
        """A connection whose HELLO has come, not welcomed."""
        def attempt():
            try:
                return self.listener.accept()[0]
            except TimeoutError:
                return None
        sock = self.scope.enter_context(until(attempt, "a port to connect", step=lambda: None))
        sock.settimeout(30)
        node = Node(self.scope, sock)
        node.hello = node.receive()
        return node

    def welcome(self, node, links=1, traced=0, hwid=None):
        self.generation += 1
        node.generation = self.generation
        node.carried.clear()
        node.send(R.FAB_WELCOME, arg=(node.generation, hwid or node.hello.arg[1] or 0x77, links, traced))
        for link in range(links):
            node.send(R.FAB_LINK_INFO, link, (3, 4, 0, 1, 5, 8))

    def attach(self, **how):
        """A port arrives and is welcomed, as often as it resets meanwhile."""
        node = self.accept()
        node.how = how
        self.nodes.append(node)
        self.welcome(node, **how)
        return node

    # ---- links

    def wire(self, a, link_a, b, link_b):
        a.far[link_a] = (b, link_b)
        b.far[link_b] = (a, link_a)
        a.roles[link_a], b.roles[link_b] = 0, 1
        self.train(a)

    def train(self, node):
        for link, (far, far_link) in node.far.items():
            if node.enabled and far.enabled and link not in node.up:
                self.link_up(node, link)

    def link_up(self, node, link, speed=4, width=4):
        far, far_link = node.far[link]
        self.generation += 1    # of which lives are numbers, too
        life = self.generation << 32
        for near, n, other, m in (node, link, far, far_link), (far, far_link, node, link):
            near.up.add(n)
            arg = speed, width, near.roles[n], other.hello.arg[1], other.generation, m | life
            near.send(R.FAB_LINK_UP, n, arg, fds=other.hello.fds)
        for near, n, other, m in (node, link, far, far_link), (far, far_link, node, link):
            for entry in list(other.apertures):
                for message in other.apertures[entry]:
                    self.forward(other, m, message)

    def link_down(self, node, link):
        far, far_link = node.far[link]
        for near, n in (node, link), (far, far_link):
            if n in near.up:
                near.up.discard(n)
                near.send(R.FAB_LINK_DOWN, n)
        for owner in node, far:
            for waiting in owner.waiting.values():
                waiting.difference_update({node, far})
            self.settle(owner)

    # ---- routing

    def step(self, timeout=0.01):
        """Take one message of each port that has one."""
        with selectors.DefaultSelector() as selector:
            for node in self.nodes:
                selector.register(node.socket, selectors.EVENT_READ, node)
            for key, _ in selector.select(timeout):
                node = key.data
                message = node.receive()
                if not message:
                    self.gone(node)
                elif message.type in self.hold:
                    self.held.append((node, message))
                else:
                    self.route(node, message)

    def until(self, predicate, what):
        return until(predicate, what, step=self.step)

    def gone(self, node):
        for link in list(node.up):
            self.link_down(node, link)
        self.nodes.remove(node)
        node.close()

    def release(self):
        """Route what was held."""
        self.hold = set()
        held, self.held = self.held, []
        for node, message in held:
            self.route(node, message)

    def forward(self, owner, link, message):
        """An INBOUND of owner to the neighbour on owner's link."""
        far, far_link = owner.far[link]
        arg = list(message.arg)
        data = message.data
        if not arg[4] & 1 << link:
            arg[2], data = 0, b""
        arg[4] = 0
        far.send(R.FAB_INBOUND, far_link, arg, data)

    def inbound(self, node, message):
        entry, bits = message.arg[0], message.arg[5]
        if (bits & 0xffffffff) >> 1 == 0:
            node.apertures[entry] = []
        node.apertures[entry].append(message)
        last = not bits & 1
        if last:
            node.waiting[entry, bits >> 32] = {node.far[link][0] for link in node.up}
        for link in node.up:
            self.forward(node, link, message)
        self.settle(node)

    def settle(self, owner):
        for (entry, seq), waiting in list(owner.waiting.items()):
            if not waiting:
                del owner.waiting[entry, seq]
                owner.send(R.FAB_INBOUND_ACK, arg=(entry, 0, 0, 0, 0, seq << 32))

    def moved(self, node, link, out, into):
        """A link has carried this, too: the port hears of all since its WELCOME."""
        so_far = node.carried.get(link, (0, 0))
        node.carried[link] = so_far[0] + out, so_far[1] + into
        node.send(R.FAB_MOVED, link, node.carried[link])

    def route(self, node, message):
        if message.type == R.FAB_ENABLE:
            node.enabled = bool(message.arg[0])
            for link in list(node.up):
                if not node.enabled:
                    self.link_down(node, link)
            self.train(node)
        elif message.type == R.FAB_RESET:
            for link in list(node.up):
                self.link_down(node, link)
            node.enabled = False
            node.apertures.clear()
            node.waiting.clear()
            if node.how is not None:
                self.welcome(node, **node.how)
        elif message.type == R.FAB_FUNCTION_RESET:
            self.generation += 1
            node.send(R.FAB_GENERATION, arg=(self.generation, message.arg[0]))
        elif message.type == R.FAB_INBOUND:
            self.inbound(node, message)
        elif message.link in node.up:
            far, far_link = node.far[message.link]
            if message.type == R.FAB_INBOUND_ACK:
                far.waiting.get((message.arg[0], message.arg[5] >> 32), set()).discard(node)
                self.settle(far)
            elif message.type in (R.FAB_MBOX, R.FAB_DENIED):
                far.send(message.type, far_link, message.arg, message.data)
            elif message.type == R.FAB_MOVED:
                self.moved(node, message.link, message.arg[0], message.arg[1])
                self.moved(far, far_link, message.arg[1], message.arg[0])
