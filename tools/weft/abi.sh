#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# abi.sh: print what belongs into src/abi.rs. A test compares the two, so that the
# library needs no bindgen to be built and still follows the header:
#
#	scripts/in-root tools/weft/abi.sh >tools/weft/src/abi.rs
#
# abi.sh layout: print what programs are compiled with, a line each: the sizes of structures, the
# offsets and sizes of their members, and constants. tests/uapi-v1 is that of version 1.
set -eu

cd "$(dirname "$0")"
header() {
	bindgen abi.h --rust-target 1.85 --no-doc-comments \
		--allowlist-item '(IOCTL_)?(weft|WEFT)_.*' --disable-header-comment "$@"
}
if [ "${1-}" = layout ]; then
	header --no-derive-debug --no-derive-copy | tr -d '\n' | sed 's/;/;\n/g' | sed -nE '
		s/^ *pub const (\w+) *: *[A-Za-z0-9_]+ *= *([^;]*);$/const \1 \2/p
		s/.*\["Size of (\w+)"\].*- *([0-9]+)usize *\];$/size \1 \2/p
		s/.*\["Offset of field: (\w+)::(\w+)"\].*- *([0-9]+)usize *\];$/offset \1.\2 \3/p' | sort
	exit
fi
header --no-layout-tests --with-derive-default --no-default weft_cell \
	--rustfmt-configuration-file "$PWD/../rustfmt.toml" \
	--raw-line '// SPDX-License-Identifier: GPL-2.0 OR MIT' \
	--raw-line '//! The user interface of the driver, made from `include/uapi/linux/weft.h` by `abi.sh`.'
