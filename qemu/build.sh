#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# build.sh SOURCE BUILD: build QEMU with the Weft port, or what changed of it.
# Run inside the Debian 13 root.
set -eu

src=$1 build=$2
here=$(dirname "$(readlink -f "$0")")

"$here/apply.sh" "$src"

# Debian's tarball comes without the UEFI images, which meson wants to unpack and
# nobody here boots.
sed -n "s/.*'\(edk2-[^']*\.fd\)'.*/\1/p" "$src/pc-bios/meson.build" | while read -r image; do
	[ -e "$src/pc-bios/$image.bz2" ] || bzip2 -c </dev/null >"$src/pc-bios/$image.bz2"
done

set -- --target-list=x86_64-softmmu \
	--without-default-features --without-default-devices --with-devices-x86_64=weft \
	--enable-tcg --enable-kvm --enable-virtfs --enable-attr --enable-slirp \
	--disable-docs --enable-tools --disable-guest-agent --disable-werror \
	--disable-install-blobs --disable-download \
	--firmwarepath=/usr/share/qemu:/usr/share/seabios

# Whole or not at all: a configure that was interrupted is run again.
if [ "$(cat "$build/weft-configured" 2>/dev/null)" != "$*" ]; then
	rm -rf "${build:?}"
	mkdir -p "$build"
	(cd "$build" && "$src/configure" "$@")
	echo "$*" >"$build/weft-configured"
fi
exec ninja -C "$build" qemu-system-x86_64 contrib/ivshmem-server/ivshmem-server
