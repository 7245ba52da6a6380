# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Debian's kernels: image and modules to boot, headers and source to build for.
#
# Debian's headers package has no metadata of the rust/ crates. They are made
# from linux-source of the very same revision, with the same configuration and
# compilers; without MODVERSIONS nothing would notice any other mixture.

# Newest first.
SERIES="7.3 7.2"

KERNEL_CC=x86_64-linux-gnu-gcc-14

# The newest revision of a series for which headers and source are there.
kernel_find() {
	local series=$1 abi version image
	root_apt apt-cache search --names-only "^linux-headers-${series/./\\.}\.[0-9]+.*-amd64\$" |
		awk '{ print $1 }' | sed -E 's/^linux-headers-//; /-(rt|cloud)-/d' | sort -rV |
		while read -r abi; do
			version=$(root_apt apt-cache show "linux-headers-$abi" | sed -n 's/^Version: //p' | head -n 1)
			root_apt apt-cache show "linux-source-$series=$version" >/dev/null 2>&1 || continue
			image=-
			if root_apt apt-cache show "linux-image-$abi=$version" >/dev/null 2>&1; then image=image; fi
			echo "kernel $series $version $abi $image"
			[ $image = - ] || break
		done | sort -k5,5r -s | head -n 1
}

# kernel_field SERIES N: a field of the series' line in `available`.
kernel_field() { awk -v s="$1" -v n="$2" '$1 == "kernel" && $2 == s { print $n }' "$INDEX/available"; }

# The series to use: the one asked for, or the newest that can be booted.
kernel_series() {
	local series
	series=${1:-${KERNEL:-}}
	[ -z "$(debug_variant "$series")" ] || series= # of the series that is booted otherwise
	if [ -n "$series" ]; then
		case " $SERIES " in *" $series "*) ;; *) die "kernel $series is not supported (only: $SERIES)" ;; esac
		[ -n "$(kernel_field "$series" 3)" ] ||
			die "kernel $series cannot be had: no headers and source of one revision"
		echo "$series"
		return
	fi
	for series in $SERIES; do
		[ "$(kernel_field "$series" 5)" != image ] || { echo "$series"; return; }
	done
	die "no kernel of $SERIES can be had with image, headers and source of one revision"
}

# kernel_key SERIES: of the kernel's parts; kbuild_key: of what is built from them.
kernel_key() { digest "$(kernel_field "$1" 3)" "$(kernel_field "$1" 5)" "$(recipe kernel.sh kernel_fetch)"; }
kbuild_key() { digest "$(kernel_key "$1")" "$(root_key)" "$(recipe kernel.sh kbuild_make)"; }

# The packages of an image: it, and what it is split into.
kernel_image() {
	echo "linux-image-$1"
	root_apt apt-cache show "linux-image-$1=$2" | sed -n 's/^Depends: //p' | tr ',' '\n' |
		sed -nE "s/^ *(linux-(base|binary|modules)-${1//+/\\+}) .*/\1/p"
}

# Download and unpack: vmlinuz and modules/ of the image, headers/, source/.
kernel_fetch() {
	local series=$1 version abi image dir deb common
	version=$(kernel_field "$series" 3) abi=$(kernel_field "$series" 4) image=$(kernel_field "$series" 5)
	common=${abi%-amd64}
	dir=$(scratch "kernel-$series")
	mkdir -p "$dir"/{deb,kernel/headers}
	local packages=("linux-headers-$abi" "linux-headers-$common-common" "linux-kbuild-$common" "linux-source-$series")
	[ "$image" = - ] || mapfile -O ${#packages[@]} -t packages < <(kernel_image "$abi" "$version")
	apt_get "$dir/deb" download "${packages[@]/%/=$version}"

	for deb in "$dir"/deb/linux-{headers,kbuild}-*.deb; do dpkg-deb -x "$deb" "$dir/kernel/headers"; done
	dpkg-deb --fsys-tarfile "$dir"/deb/linux-source-*.deb |
		tar -xf - -C "$dir" --strip-components=3 --wildcards './usr/src/*.tar.xz'
	mkdir "$dir/kernel/source"
	"$TOP/scripts/in-root" tar -xf "$dir"/linux-source-*.tar.xz -I 'xz -T0' \
		-C "$dir/kernel/source" --strip-components=1
	if [ "$image" != - ]; then
		mkdir -p "$dir/image/usr/lib"
		ln -s usr/lib "$dir/image/lib"
		for deb in "$dir"/deb/linux-{image,base,binary,modules}-*.deb; do
			[ ! -e "$deb" ] || dpkg-deb --fsys-tarfile "$deb" | tar -xf - -C "$dir/image" --keep-directory-symlink
		done
		# The image's postinst is not run, it would make an initramfs.
		"$TOP/scripts/in-root" depmod -b "$dir/image" "$abi"
		# Where the image lies depends on the revision's packaging.
		cp "$(find "$dir/image" -name 'vmlinuz*' -type f)" "$dir/kernel/vmlinuz"
		mv "$dir/image/lib/modules" "$dir/kernel/modules"
	fi
	rm -rf "$dir/deb"
	publish "$dir/kernel" "$WEFT_CACHE/kernel/$series"
}

# The guests' root has the modules where the kernel looks for them. Linked, not
# moved: a root that is made anew takes them again.
kernel_modules() {
	local abi to
	abi=$(kernel_field "$1" 4)
	to=$ROOT/usr/lib/modules/$abi
	mkdir -p "$ROOT/usr/lib/modules"
	rm -rf "$to.new" "$to"
	cp -al "$WEFT_CACHE/kernel/$1/modules/$abi" "$to.new"
	mv "$to.new" "$to"
}

# The build directory: Debian's headers with the rust/ metadata laid over.
kbuild_make() {
	local series=$1 kernel abi common headers dir obj kbuild file
	kernel=$WEFT_CACHE/kernel/$series
	abi=$(kernel_field "$series" 4) common=${abi%-amd64}
	headers=$kernel/headers/usr/src/linux-headers-$abi
	dir=$(scratch "kbuild-$series")
	obj=$dir/obj kbuild=$dir/kbuild
	mkdir -p "$obj" "$kbuild"/{scripts,rust/kernel}

	# The keys Debian signs with are not for us; nothing else may differ.
	sed -E 's/^(CONFIG_MODULE_SIG_KEY|CONFIG_SYSTEM_TRUSTED_KEYS)=.*/\1=""/' "$headers/.config" >"$obj/.config"
	cp "$obj/.config" "$dir/wanted"
	local make=(make -C "$kernel/source" O="$obj" -j"$(nproc)" CC="$KERNEL_CC" LOCALVERSION="${abi#"${abi%%+*}"}")
	"$TOP/scripts/in-root" "${make[@]}" olddefconfig
	diff -u "$dir/wanted" "$obj/.config" || {
		echo "the configuration of $abi does not survive olddefconfig: other compilers or tools than Debian's?"
		return 1
	}
	"$TOP/scripts/in-root" "${make[@]}" prepare modules_prepare
	grep -qF "\"$abi\"" "$obj/include/generated/utsrelease.h"

	for file in .config .kernelvariables Module.symvers arch include vmlinux; do
		[ ! -e "$headers/$file" ] || ln -s "$headers/$file" "$kbuild/$file"
	done
	for file in "$kernel/headers/usr/lib/linux-kbuild-$common"/scripts/*; do ln -s "$file" "$kbuild/scripts/"; done
	ln -s "$kernel/headers/usr/lib/linux-kbuild-$common/tools" "$kbuild/tools"
	cp --remove-destination "$obj/scripts/target.json" "$kbuild/scripts/"
	cp "$obj"/rust/lib*.rmeta "$obj"/rust/lib*.so "$kbuild/rust/"
	cp "$obj"/rust/kernel/generated_arch_*.rs "$kbuild/rust/kernel/"
	"$TOP/scripts/in-root" strip --strip-unneeded "$kbuild"/rust/lib*.so
	printf 'KBUILD_OUTPUT := %s\ninclude %s/Makefile\n' "$WEFT_CACHE/kbuild/$series" \
		"$kernel/headers/usr/src/linux-headers-$common-common" >"$kbuild/Makefile"
	publish "$kbuild" "$WEFT_CACHE/kbuild/$series"
}

need_kernel() {
	local series=$1 abi
	step "kernel-$series" "$(kernel_key "$series")" \
		"kernel $series: downloading and unpacking $(kernel_field "$series" 3) (about 1 min)" kernel_fetch "$series"
	[ "$(kernel_field "$series" 5)" = image ] || return 0
	abi=$(kernel_field "$series" 4)
	step "modules-$series" "$(kernel_key "$series") $(root_key)" \
		"kernel $series: putting its modules into the root (5 s)" kernel_modules "$series"
}

need_kbuild() {
	need_kernel "$1"
	step "kbuild-$1" "$(kbuild_key "$1")" "kernel $1: preparing the rust/ crates (about 2 min)" kbuild_make "$1"
}
