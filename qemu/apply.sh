#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# apply.sh SOURCE: add the Weft port to a QEMU source tree. Files that are the same
# already are left alone, so that an incremental build stays one.
set -eu

src=$1
here=$(dirname "$(readlink -f "$0")")
dst=$src/hw/misc/weft

put() { cmp -s "$1" "$2" || cp "$1" "$2"; }
add() { grep -qxF "$1" "$2" || echo "$1" >>"$2"; }

mkdir -p "$dst"
for file in "$dst"/*; do
	[ -e "$here/weft/${file##*/}" ] || rm -f "$file"
done
for file in "$here"/weft/*; do put "$file" "$dst/${file##*/}"; done
put "$here/weft.mak" "$src/configs/devices/x86_64-softmmu/weft.mak"

add "subdir('weft')" "$src/hw/misc/meson.build"
add "source weft/Kconfig" "$src/hw/misc/Kconfig"
