#!/bin/sh
# shellcheck disable=SC2319
# SPDX-License-Identifier: GPL-2.0
# N-1: link state, speed, width, role and identity in sysfs, one value a file.
cd "$(dirname "$0")" || exit 1
# shellcheck disable=SC2119,SC2319
# shellcheck source=lib.sh
. ./lib.sh

loaded || load || exit 1
wait_links ready 15
result $? "N-1 links are ready"
for dev in /sys/class/weft/weft*/device; do
	port=$(basename "$(dirname "$dev")")
	for f in hwid generation kind version present endpoint_slots endpoint_functions \
		 endpoint_held endpoint_failures link0/state link0/speed link0/width \
		 link0/max_speed link0/max_width link0/present link0/role link0/trained \
		 link0/peer_hwid link0/peer_version link0/hello_error link0/readied link0/ended \
		 link0/messages_bad link0/messages_dropped link0/hellos_refused link0/echo_overdue \
		 link0/arena_bytes link0/arena_wanted link0/arena_zeroed; do
		if [ ! -f "$dev/$f" ]; then
			result 1 "N-1 $port has $f"
			continue
		fi
		[ "$(wc -l <"$dev/$f")" -eq 1 ] && [ "$(wc -w <"$dev/$f")" -eq 1 ]
		result $? "N-1 $port/$f is one value"
		! { echo 1 >"$dev/$f"; } 2>/dev/null
		result $? "N-1 $port/$f cannot be written"
	done
	for f in "$dev"/counters/*; do
		case $(cat "$f") in
		'' | *[!0-9]*) result 1 "$port/counters/$(basename "$f") is a number" ;;
		esac
	done
	[ -d "$dev/counters" ]
	result $? "$port has counters"
done

a=$(cat /sys/class/weft/weft0/device/hwid)
b=$(cat /sys/class/weft/weft1/device/link0/peer_hwid)
[ "$a" = "$b" ]
result $? "N-1 each port knows the other by its hardware id ($a)"
[ "$a" != "$(cat /sys/class/weft/weft1/device/hwid)" ]
result $? "N-1 hardware ids differ"
echo "1..$count"
finish
