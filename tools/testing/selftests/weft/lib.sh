# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2119,SC2120
# shellcheck shell=sh
# What the shell tests share. WEFT_KO names the weft.ko to load.

WEFT_KO=${WEFT_KO:-weft}

count=0
failed=0

plan() {
	echo "TAP version 13"
	echo "1..$1"
}

# result STATUS NAME
result() {
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count $2"
	else
		echo "not ok $count $2"
		failed=$((failed + 1))
	fi
}

skip() {
	count=$((count + 1))
	echo "ok $count $1 # SKIP $2"
}

finish() {
	[ "$failed" -eq 0 ]
}

load() {
	if [ -f "$WEFT_KO" ]; then
		insmod "$WEFT_KO" "$@"
	else
		modprobe "$WEFT_KO" "$@"
	fi
}

loaded() {
	[ -d /sys/module/weft ]
}

unload() {
	! loaded || rmmod weft
}

# Waits until link 0 of every port says STATE, at most SECONDS.
wait_links() {
	deadline=$(($(cut -d. -f1 /proc/uptime) + $2))
	while [ "$(cut -d. -f1 /proc/uptime)" -lt "$deadline" ]; do
		left=0
		for f in /sys/class/weft/weft*/device/link0/state; do
			[ "$(cat "$f" 2>/dev/null)" = "$1" ] || left=1
		done
		[ "$left" -eq 0 ] && return 0
		usleep 50000 2>/dev/null || sleep 0.05
	done
	return 1
}
