# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# virtme-ng: Debian's own package and what it needs beyond the root, unpacked
# beside it. It is not part of the root: only `make vng` uses it.

VNG=$WEFT_CACHE/vng

vng_key() { digest "$(root_key)" "$(recipe vng.sh vng_make)" "$(recipe root.sh unpack_beside)"; }

vng_make() {
	unpack_beside vng "$VNG" usr/bin/vng virtme-ng
}

need_vng() {
	step vng "$(vng_key)" "virtme-ng: downloading and unpacking it (5 s)" vng_make
}
