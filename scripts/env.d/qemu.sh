# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# QEMU: Debian's own source with the Weft port added, built once; after that a
# change of the device compiles the device.

QEMU=$WEFT_CACHE/qemu

# The version to build: Debian 13's 10.0.x, else the next one Debian offers.
qemu_find() {
	root_apt apt-cache showsrc qemu | sed -n 's/^Version: //p' | sort -uV |
		awk '/^1:10\.0\./ { want = $0 } !/^1:10\.0\./ && $0 > "1:10.0" && !next_one { next_one = $0 }
			END { print "qemu", want ? want : next_one }'
}

qemu_version() { sed -n 's/^qemu //p' "$INDEX/available"; }

qemu_source_key() { digest "$(qemu_version)" "$(recipe qemu.sh qemu_source)"; }
qemu_build_key() {
	digest "$(qemu_source_key)" "$(root_key)" "$TOP/qemu/build.sh" "$TOP/qemu/apply.sh" "$TOP/qemu/weft.mak" \
		"$(cd "$TOP/qemu" && find weft patches -type f | LC_ALL=C sort | xargs sha256sum)"
}

qemu_source() {
	local version dir
	version=$(qemu_version)
	dir=$(scratch qemu-source)
	apt_get "$dir" source --download-only "qemu=$version"
	"$TOP/scripts/in-root" sh -c 'cd "$1" && dpkg-source --no-check -x qemu_*.dsc source' sh "$dir"
	# The tree is built for sources of this version only.
	rm -rf "$QEMU/build"
	publish "$dir/source" "$QEMU/source"
}

qemu_build() {
	mkdir -p "$QEMU/build" "$QEMU/bin"
	"$TOP/scripts/in-root" "$TOP/qemu/build.sh" "$QEMU/source" "$QEMU/build"
	local file
	for file in qemu-system-x86_64 contrib/ivshmem-server/ivshmem-server; do
		cp "$QEMU/build/$file" "$QEMU/bin/.new"
		mv "$QEMU/bin/.new" "$QEMU/bin/${file##*/}"
	done
}

need_qemu_source() {
	step qemu-source "$(qemu_source_key)" \
		"QEMU: downloading and unpacking Debian's source $(qemu_version) (20 s)" qemu_source
}

need_qemu() {
	local about="about 5 min"
	need_qemu_source
	[ ! -e "$QEMU/bin/qemu-system-x86_64" ] || [ ! -e "$QEMU/build/build.ninja" ] || about="what changed: about 20 s"
	step qemu "$(qemu_build_key)" "QEMU: compiling it with the Weft port ($about)" qemu_build
}
