# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# virtme-ng: Debian's own package and what it needs beyond the root, unpacked
# beside it. It is not part of the root: only `make vng` uses it.

VNG=$WEFT_CACHE/vng

vng_key() { digest "$(root_key)" "$(recipe vng.sh vng_make)"; }

vng_make() {
	local dir deb
	dir=$(scratch vng)
	mkdir -p "$dir"/{archives/partial,vng}
	# The root knows what it has: the rest is downloaded, and not installed.
	apt_get "$dir" -y --no-install-recommends --download-only -o Debug::NoLocking=1 \
		-o Dir::Cache::archives="$dir/archives" install virtme-ng
	for deb in "$dir"/archives/*.deb; do dpkg-deb -x "$deb" "$dir/vng"; done
	[ -x "$dir/vng/usr/bin/vng" ]
	publish "$dir/vng" "$VNG"
}

need_vng() {
	step vng "$(vng_key)" "virtme-ng: downloading and unpacking it (5 s)" vng_make
}
