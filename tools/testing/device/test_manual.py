# SPDX-License-Identifier: GPL-2.0
"""The manual and the header name the same registers at the same offsets."""

import os
import re

import regs as R
from tap import equal

MANUAL = os.path.join(R.TOP, "Documentation/hardware.rst")
# Where the manual has a formula instead of a row.
FORMULAS = {"R_LINK", "R_COUNTERS", "R_COUNTERS_CLEAR", "R_SLOT", "R_INBOUND", "R_DMA", "R_VF"}
GROUPS = {"LINK_STATUS", "LINK_CTRL", "LINK_TRAINED", "LINK_MAX", "SLOT_DEST", "SLOT_OFFSET", "SLOT_LEN",
          "SLOT_CTRL", "SLOT_STATUS", "INBOUND_OFFSET", "INBOUND_LEN", "INBOUND_BASE", "INBOUND_RIGHTS",
          "INBOUND_ALLOW", "INBOUND_CTRL", "INBOUND_STATUS", "DB_PAGE_DEST", "DB_PAGE_ALLOW", "DMA_CTRL", "DMA_STATUS",
          "DMA_BASE", "DMA_ORDER", "DMA_VECTOR", "DMA_HEAD", "DMA_TAIL", "DMA_COUNTERS", "VF_STATUS", "VF_FUNCTION",
          "VF_SLOTS", "VF_INBOUND", "VF_DOORBELLS", "VF_DB_PAGES", "VF_BYTES", "VF_LINKS", "VF_PEERS",
          "VF_CTRL", "VF_USED", "VF_USED_BYTES", "VF_MBOX", "PAIR_TX", "PAIR_RX", "PAIR_CTRL", "PAIR_STATUS"}


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
                    f"{R.R_VF:#x} + {R.VF_STRIDE:#x} × *n*",
                    f"{R.VENDOR_ID:#x}, {R.DEVICE_ID_PF:#x}", f"{R.VENDOR_ID:#x}, {R.DEVICE_ID_VF:#x}"):
        assert formula in text, f"not in the manual: {formula}"


def test_dma_codes(_scope):
    """every code of the DMA engine is in its tables, and no other"""
    text, _ = rows()
    chapter = text[text.index("\nDMA engine\n==="):text.index("\nAbort, disable, reset\n---")]
    found = {name: int(code) for code, name in re.findall(r"^(\d+) +([A-Z]+)  ", chapter, re.M)}
    equal(found, {name.removeprefix("DMA_ST_"): value for name, value in vars(R).items() if name.startswith("DMA_ST_")},
          "codes")
