#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The module takes its own ports by itself and no other hardware.
cd "$(dirname "$0")" || exit 1
# shellcheck disable=SC2119
# shellcheck source=lib.sh
. ./lib.sh
plan 3

modinfo -F alias "$WEFT_KO" >/tmp/weft-aliases
grep -qi '^pci:v00001234d00007EF7' /tmp/weft-aliases
result $? "its own port is in the aliases"
! grep -vi '^pci:v00001234d00007EF[78]' /tmp/weft-aliases
result $? "no other id is"

loaded || load
dev=
for d in /sys/bus/pci/devices/*; do
	if [ "$(cat "$d/vendor")$(cat "$d/device")" = 0x1af40x1110 ]; then
		dev=$d
	fi
done
if [ -z "$dev" ]; then
	skip "ivshmem is left alone until told otherwise" "no ivshmem here"
else
	[ ! -e "$dev/driver" ]
	result $? "ivshmem is left alone until told otherwise"
fi
rm -f /tmp/weft-aliases
finish
