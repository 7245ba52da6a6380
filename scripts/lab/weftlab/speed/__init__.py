# SPDX-License-Identifier: GPL-2.0
"""make bench: how fast Weft is, beside what two hosts would use otherwise.

`main` runs it, `parts` says what there is: `times`, `tlps`, `instructions`, `ends`, `moves`.
`figures` has what is reported, `report` and `plot` write it down; `machines` and `network` make what is measured,
`ways` runs the measurements in guests, `model` computes what hardware would do.
"""
