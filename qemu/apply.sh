#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# apply.sh SOURCE: add the Weft port to a QEMU source tree, and patches/ for what a
# device cannot do by itself. Files that are the same already are left alone, so that
# an incremental build stays one.
set -eu

src=$1
here=$(dirname "$(readlink -f "$0")")
dst=$src/hw/misc/weft
patched=$(mktemp -d)
trap 'rm -rf "$patched"' EXIT

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

# Each file is patched anew from the one that came, which is kept beside it: a patch
# may change. One that is new has an empty original.
files=$(sed -n 's,^+++ b/,,p' "$here"/patches/*.patch | sort -u)
for file in $files; do
	if [ ! -e "$src/$file.orig" ]; then
		[ -e "$src/$file" ] || : >"$src/$file"
		cp "$src/$file" "$src/$file.orig"
	fi
	mkdir -p "$patched/$(dirname "$file")"
	[ ! -s "$src/$file.orig" ] || cp "$src/$file.orig" "$patched/$file"
done
for patch in "$here"/patches/*.patch; do
	patch -d "$patched" -p1 -s --no-backup-if-mismatch <"$patch"
done
for file in $files; do put "$patched/$file" "$src/$file"; done
