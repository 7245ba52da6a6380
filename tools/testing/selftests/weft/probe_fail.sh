#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Every step of probe is failed in turn: nothing may be left of it.
cd "$(dirname "$0")" || exit 1
# shellcheck disable=SC2119
# shellcheck source=lib.sh
. ./lib.sh

left() {
	ls /dev/weft* 2>/dev/null
	ls /sys/class/weft/ 2>/dev/null
	grep -i weft /proc/interrupts
	grep -iw weft /proc/iomem
	grep -w weft /proc/vmallocinfo
}

unload || exit 1
steps=0
log=$(mktemp)
while [ "$steps" -lt 32 ]; do
	steps=$((steps + 1))
	dmesg -c >/dev/null
	load fail_probe=$steps || {
		echo "not ok 1 the module loads with fail_probe=$steps"
		exit 1
	}
	if [ -d /sys/class/weft/weft0 ]; then
		unload
		break
	fi
	leftovers=$(left)
	dmesg >"$log"
	named=$(grep -ci "probe.*fail\|fail.*probe\|step" "$log")
	unload
	if [ -n "$leftovers" ]; then
		result 1 "step $steps unwinds"
		echo "$leftovers" | sed 's/^/# left: /'
	else
		result 0 "step $steps unwinds"
	fi
	[ "$named" -gt 0 ]
	result $? "the log names step $steps"
done
rm -f "$log"

[ "$steps" -ge 6 ] && [ "$steps" -lt 32 ]
result $? "probe has steps that can fail: $((steps - 1))"
load && wait_links ready 15
result $? "after all that the ports come up"
echo "1..$count"
finish
