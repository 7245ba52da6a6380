# SPDX-License-Identifier: GPL-2.0
"""Vital product data, read as software reads them."""

from port import host
from tap import equal


def read_word(port, offset):
    capability = port.capability(0x03)
    port.config_write(capability + 2, offset, 2)
    equal(port.config_read(capability + 2, 2), 0x8000 | offset, "flag after a read")
    return port.config_read(capability + 4)


def read_all(port, size=1024):
    return b"".join(read_word(port, at).to_bytes(4, "little") for at in range(0, size, 4))


def parse(data):
    """(name, {keyword: value}), with every length and the checksum checked."""
    equal(data[0], 0x82, "tag of the name")
    length = int.from_bytes(data[1:3], "little")
    name, at = data[3:3 + length], 3 + length
    equal(data[at], 0x90, "tag of the read-only part")
    end = at + 3 + int.from_bytes(data[at + 1:at + 3], "little")
    at += 3
    fields = {}
    while at < end:
        key, length = data[at:at + 2].decode(), data[at + 2]
        fields[key] = data[at + 3:at + 3 + length]
        if key == "RV":
            equal(sum(data[:at + 4]) & 0xff, 0, "checksum")
        at += 3 + length
    equal(at, end, "end of the read-only part")
    equal(data[at], 0x78, "end tag")
    return name, fields


def test_contents(scope):
    """part, serial, blade and socket capability are where the manual says"""
    port = host(scope, part="WEFT-4", serial="S0042", blade="blade-7", sockets="1")
    name, fields = parse(read_all(port))
    equal(name, b"Weft port", "name")
    del fields["RV"]
    equal(fields, {"PN": b"WEFT-4", "SN": b"S0042", "V0": b"blade-7", "V1": b"1"}, "keywords")


def test_longest(scope):
    """the longest values fit, and so do empty ones"""
    port = host(scope, part="p" * 128, serial="s" * 128, blade="b" * 128, sockets="x" * 128)
    _, fields = parse(read_all(port))
    equal([len(fields[key]) for key in ("PN", "SN", "V0", "V1")], [128] * 4, "lengths")
    _, fields = parse(read_all(host(scope, "h2", part="", serial="", blade="", sockets="")))
    equal([len(fields[key]) for key in ("PN", "SN", "V0", "V1")], [0] * 4, "lengths")


def test_edges(scope):
    """beyond the end reads 0; a write is answered and changes nothing; bytes work as words do"""
    port = host(scope)
    equal(read_word(port, 0x7ffc), 0, "beyond the end")
    before = read_all(port, 64)
    capability = port.capability(0x03)
    port.config_write(capability + 4, 0xffffffff)
    port.config_write(capability + 2, 0x8000, 2)
    equal(port.config_read(capability + 2, 2), 0, "flag after a write")
    equal(read_all(port, 64), before, "data after a write")
    port.config_write(capability + 2, 4, 1)
    port.config_write(capability + 3, 0, 1)
    equal(port.config_read(capability + 2, 2), 0x8004, "flag after two byte writes")
    equal(port.config_read(capability + 4), int.from_bytes(before[4:8], "little"), "data by bytes")
