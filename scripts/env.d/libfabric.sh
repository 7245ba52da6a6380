# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# libfabric, its programs and its headers, unpacked beside the root. The provider (tools/libfabric) is built without
# it; its tests compare the bindings with the headers, and guests run programs over it.

LIBFABRIC=$WEFT_CACHE/libfabric

libfabric_packages() { echo libfabric-dev libfabric-bin; }

libfabric_key() { digest "$(root_key)" "$(libfabric_packages)" "$(recipe libfabric.sh libfabric_make)" "$(recipe root.sh unpack_beside)"; }

libfabric_make() {
	# shellcheck disable=SC2046 # words
	unpack_beside libfabric "$LIBFABRIC" usr/bin/fi_info $(libfabric_packages)
}

need_libfabric() {
	step libfabric "$(libfabric_key)" "libfabric: downloading and unpacking it for tests (5 s)" libfabric_make
}
