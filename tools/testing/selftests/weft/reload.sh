#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The module comes and goes 10 times, and does not go while a file is open.
cd "$(dirname "$0")" || exit 1
# shellcheck disable=SC2119
# shellcheck source=lib.sh
. ./lib.sh
plan 4

unload || exit 1
# What is free, or could be: what has come from a file system and can be had again counts.
free_kib() {
	awk '/^(MemFree|Cached|Buffers|SReclaimable):/ { n += $2 } END { print n }' /proc/meminfo
}

round() {
	load && [ -e /dev/weft0 ] && unload && [ ! -e /dev/weft0 ]
}

round
before=$(free_kib)
ok=0
n=0
while [ $n -lt 10 ]; do
	round || { ok=1; break; }
	n=$((n + 1))
done
result $ok "10 times loaded and unloaded"
after=$(free_kib)
# An arena is 4 MiB: one lost a round would be 40 MiB and more.
lost=$((before - after))
[ $lost -lt 16384 ]
result $? "no memory was lost in them ($lost KiB)"

load
exec 3<>/dev/weft0
! rmmod weft 2>/dev/null && loaded
result $? "no unloading while a file is open"
exec 3>&-
wait_links ready 15
result $? "the links come up again"
finish
