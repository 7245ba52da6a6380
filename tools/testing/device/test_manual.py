# SPDX-License-Identifier: GPL-2.0
"""The manual and the header name the same registers at the same offsets."""

import os
import re

import regs as R
from tap import equal

MANUAL = os.path.join(R.TOP, "Documentation/hardware.rst")
# Where the manual has a formula instead of a row.
FORMULAS = {"R_LINK", "R_COUNTERS", "R_COUNTERS_CLEAR", "R_SLOT", "R_INBOUND", "R_DMA", "R_VF", "R_ROUTE"}
GROUPS = {"LINK_STATUS", "LINK_CTRL", "LINK_TRAINED", "LINK_MAX", "LINK_OUT", "LINK_IN", "SLOT_DEST", "SLOT_TAKEN", "SLOT_OFFSET",
          "SLOT_LEN", "SLOT_CTRL", "SLOT_STATUS", "INBOUND_OFFSET", "INBOUND_LEN", "INBOUND_BASE", "INBOUND_RIGHTS",
          "INBOUND_ALLOW", "INBOUND_CTRL", "INBOUND_STATUS", "DB_PAGE_DEST", "DB_PAGE_ALLOW", "DMA_CTRL", "DMA_STATUS",
          "DMA_BASE", "DMA_ORDER", "DMA_VECTOR", "DMA_HEAD", "DMA_TAIL", "DMA_COUNTERS", "VF_STATUS", "VF_FUNCTION",
          "VF_SLOTS", "VF_INBOUND", "VF_DOORBELLS", "VF_DB_PAGES", "VF_BYTES", "VF_LINKS", "VF_CHANNELS",
          "VF_PEERS", "VF_CTRL", "VF_USED", "VF_USED_BYTES", "VF_HWID", "VF_RATE", "VF_RINGS", "VF_MOVED",
          "VF_RUNG", "VF_NUMBER", "VF_MBOX", "PAIR_TX", "PAIR_RX", "PAIR_CTRL", "PAIR_STATUS",
          "INBOUND_VPS", "INBOUND_FROM", "ROUTE_FIRST", "ROUTE_LAST", "ROUTE_OUT", "ROUTE_FROM", "ROUTE_CTRL",
          "ROUTE_STATUS", "CS_ID", "CS_PORTS", "CS_HWID", "CS_MASTER", "CS_TERM", "CS_CAP", "CS_STOPPED", "CS_PORT",
          "CS_PORT_STATUS", "CS_PORT_PLUG", "CS_PORT_OUT_TLPS", "CS_PORT_OUT_BYTES", "CS_PORT_OUT_DBS", "CS_PORT_IN_TLPS",
          "CS_PORT_IN_BYTES", "CS_PORT_IN_DBS", "CS_VPD"}


def rows():
    with open(MANUAL, encoding="utf-8") as file:
        text = file.read()
    return text, {name: int(offset, 0) for offset, name in re.findall(r"^(0x[0-9a-f]+|\d+) +``(\w+)``", text, re.M)}


def test_registers(_scope):
    """every register has a row with its offset, and no row is without a register"""
    _, found = rows()
    want = {name.removeprefix("R_"): value for name, value in vars(R).items()
            if name.startswith("R_") and name not in FORMULAS}
    want.update({name: getattr(R, name) for name in GROUPS})
    want.update({name: value for name, value in vars(R).items() if name.startswith(("CNT_", "DMA_CNT_"))})
    want.update({name: value for name, value in vars(R).items()
                 if name.startswith("DMA_DESC_") and name != "DMA_DESC_BYTES"})
    errors = {name: value.bit_length() - 1 for name, value in vars(R).items()
              if name.startswith("ERR_") and isinstance(value, int)}
    want.update(errors)
    missing = {name: hex(value) for name, value in want.items() if found.get(name) != value}
    assert not missing, f"not in the manual, or at another offset: {missing}"
    extra = set(found) - set(want)
    assert not extra, f"in the manual only: {extra}"


def test_groups(_scope):
    """the formulas of groups are the header's"""
    text, _ = rows()
    for formula in (f"{R.R_LINK:#x} + {R.LINK_STRIDE:#x} × *n*", f"{R.R_SLOT:#x} + {R.SLOT_STRIDE:#x} × *n*",
                    f"{R.R_INBOUND:#x} + {R.INBOUND_STRIDE:#x} × *n*", f"{R.R_COUNTERS:#x} + 8 × *n*",
                    f"{R.R_DMA:#x} + {R.DMA_STRIDE:#x} × *n*", f"({R.R_COUNTERS_CLEAR:#x}, wo)",
                    f"{R.DB_PAGE_BASE:#x} + {R.PAGE} × *n*",
                    f"{R.R_VF:#x} + {R.VF_STRIDE:#x} × *n*", f"{R.R_ROUTE:#x} + {R.ROUTE_STRIDE:#x} × *n*",
                    f"+ {R.CS_PORT_STRIDE:#x} × *n*",
                    f"{R.VENDOR_ID:#x}, {R.DEVICE_ID_PF:#x}", f"{R.VENDOR_ID:#x}, {R.DEVICE_ID_VF:#x}"):
        assert formula in text, f"not in the manual: {formula}"


def test_dma_codes(_scope):
    """every code of the DMA engine is in its tables, and no other"""
    text, _ = rows()
    chapter = text[text.index("\nDMA engine\n==="):text.index("\nAbort, disable, reset\n---")]
    found = {name: int(code) for code, name in re.findall(r"^(\d+) +([A-Z]+)  ", chapter, re.M)}
    equal(found, {name.removeprefix("DMA_ST_"): value for name, value in vars(R).items() if name.startswith("DMA_ST_")},
          "codes")


def test_codes_of_routes(_scope):
    """the results of configuration requests, their spaces and the reasons of stops are numbered as in the header"""
    text, _ = rows()
    chapter = text[text.index("\nRoutes\n==="):text.index("\nDMA engine\n===")]
    for heading, names in ("STOP  The route", "STOP_"), ("Space  Address", "SPACE_"), ("Result  Meaning", None):
        table = chapter[chapter.index(heading):]
        found = {int(n) for n in re.findall(r"^(\d) +\S", table[:table.index("\n\n")], re.M)}
        results = {"CFG_OK", "CFG_NO_PATH", "CFG_STALE", "CFG_READ_ONLY", "CFG_BAD", "CFG_FULL", "CFG_NO_FABRIC",
                   "CFG_BUSY_THERE"}
        want = {value for name, value in vars(R).items() if (name.startswith(names) if names else name in results)}
        equal(found, want, heading)


def test_endpoint(_scope):
    """the manual of shared endpoints names the registers of their header at their offsets"""
    with open(os.path.join(R.TOP, "Documentation/endpoint.rst"), encoding="utf-8") as file:
        found = {name: int(offset, 0) for offset, name in re.findall(r"^(0x[0-9a-f]+) +``(\w+)``", file.read(), re.M)}
    registers = {"ID", "VERSION", "CAP", "FUNCTION", "STATUS", "CTRL", "WQ", "CQ", "ROUTE", "GO", "GO_SEEN", "PROBED",
                 "PROBE", "MEMORY", "Q_BASE", "Q_LIMIT", "Q_DOORBELL", "Q_TAKEN", "Q_OFFSET", "WQE_OP", "WQE_SOURCES",
                 "WQE_DESTS", "WQE_LOCAL", "WQE_COOKIE", "WQE_SEGMENT", "CQE_COOKIE", "CQE_STATUS", "CQE_CRC",
                 "CQE_BYTES_DONE", "CQE_NUMBER"}
    want = {name: getattr(R, f"EP_{name}") for name in registers}
    want.update({name: getattr(R, name) for name in ("BASE_VE", "BASE_ROOT", "BASE_FUNCTIONS", "CS_MASTER", "CS_TERM",
                                                     "CS_CAP")})
    want.update({name: R.BASE_ENDPOINT | getattr(R, name) for name in ("BASE_LID", "BASE_RESIDENT")})
    equal(found, want, "registers")
