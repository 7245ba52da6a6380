# SPDX-License-Identifier: GPL-2.0
"""What the driver and the device call by name, for programs in guests that have neither: registers, and the versions
of the protocols."""

import importlib.util
import re

from weftlab import paths

# Every register by its name, from the header.
NAMES = paths.TOP / "tools/testing/device/regs.py"
# Where the versions are.
WIRE = paths.TOP / "rust/proto/wire.rs"
MANAGERS = paths.TOP / "rust/proto/nm/packet.rs"


def constants():
    """Lines of Python."""
    spec = importlib.util.spec_from_file_location("regs", NAMES)
    regs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(regs)
    values = {name: value for name, value in vars(regs).items() if isinstance(value, int)}
    for name, path in (("WIRE_VERSION", WIRE), ("NM_VERSION", MANAGERS)):
        (values[name],) = re.findall(r"^pub const VERSION: u8 = (\d+);", path.read_text(), re.MULTILINE)
    return "".join(f"{name} = {value}\n" for name, value in values.items())
