# SPDX-License-Identifier: GPL-2.0
"""make bench: how fast Weft is, beside what two hosts would use otherwise.

`main` runs it, `figures` has what is reported, `report` writes it down; `network` gives guests
other networks, `ways` runs the measurements in guests, `model` computes what hardware would do.
"""
