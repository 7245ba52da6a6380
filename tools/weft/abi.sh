#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# abi.sh: print what belongs into src/abi.rs. A test compares the two, so that the
# library needs no bindgen to be built and still follows the header:
#
#	scripts/in-root tools/weft/abi.sh >tools/weft/src/abi.rs
set -eu

cd "$(dirname "$0")"
exec bindgen abi.h --rust-target 1.85 --no-layout-tests --no-doc-comments --with-derive-default \
	--allowlist-item '(IOCTL_)?(weft|WEFT)_.*' --no-default weft_cell --disable-header-comment \
	--rustfmt-configuration-file "$PWD/../rustfmt.toml" \
	--raw-line '// SPDX-License-Identifier: GPL-2.0 OR MIT' \
	--raw-line '//! The user interface of the driver, made from `include/uapi/linux/weft.h` by `abi.sh`.'
