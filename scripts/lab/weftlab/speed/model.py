# SPDX-License-Identifier: GPL-2.0
"""What hardware would do: computed from TLP counts and sizes, never measured.

A link of generation g with w lanes moves GT/s x encoding x w / 8 bytes a second. A memory write
costs 24 bytes besides its payload (framing and sequence number 4, header 16, LCRC 4); flow control
and acknowledgements take about a twentieth of the wire. A posted write gets from one host's
processor into the other's memory, without a switch between, in about 300 ns (published for
non-transparent bridges); what a byte costs on the wire comes on top. Software is not in the model.
"""

_GIGATRANSFERS = {2: 5 * 0.8, 3: 8 * 128 / 130, 4: 16 * 128 / 130, 5: 32 * 128 / 130}
OVERHEAD = 24
_SHARE = 0.95
_ONE_WAY = 300e-9

# The links of the lab's topologies.
SPEED, WIDTH = 4, 8


def raw():
    """Bytes a second on the wire."""
    return _GIGATRANSFERS[SPEED] * 1e9 * WIDTH / 8 * _SHARE


def wire_bytes(payload, tlp):
    """Bytes on the wire of a payload in TLPs of at most so many bytes."""
    return payload + -(-payload // tlp) * OVERHEAD


def one_way(size, tlp=64):
    """Seconds from host to host."""
    return _ONE_WAY + wire_bytes(size, tlp) / raw()


def throughput(size, tlp=64):
    """Bytes of payload a second."""
    return size / (wire_bytes(size, tlp) / raw())


def messages(tlps, payload):
    """Messages a second, each of so many TLPs with so many bytes altogether."""
    return raw() / (tlps * OVERHEAD + payload)
