# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Debug kernels: Debian's own source of the series that is booted, with what the
# stock kernel has switched off (debug/*.config). One directory each, source of
# the image to boot and build directory for weft.ko at once.
#
# A build takes a quarter of an hour and more: one that was interrupted goes on
# where it stopped, and nothing is in its key that does not change the result.

DEBUG_VARIANTS="debug kasan"
# KASAN of C and Rust together wants one compiler for both. The modules, too.
DEBUG_CC=LLVM=1

debug_dir() { printf '%s' "$WEFT_CACHE/debug/$2-$1"; }

# The versions of what compiles, whatever else the root holds.
debug_tools() {
	awk '/^Package: / { p = $2 } /^Version: / { if (p ~ /^(bindgen|binutils|clang|lld|llvm|make|rustc|rust-src)$/) print p, $2 }' \
		"$ROOT/var/lib/dpkg/status"
}

# debug_fragments VARIANT SERIES: what is wanted, some of it of one series only.
debug_fragments() {
	local one
	for one in base "$2" "$1"; do
		[ ! -e "$ENV_D/debug/$one.config" ] || cat "$ENV_D/debug/$one.config"
	done
}

debug_key() {
	digest "$(kernel_field "$2" 3)" "$(debug_tools)" "$(debug_fragments "$1" "$2")" \
		"$(recipe debug.sh debug_configure)"
}

# The release it calls itself, known before it is built: that of the image, with
# the variant in place of Debian's part.
debug_kver() {
	local abi
	abi=$(kernel_field "$2" 4)
	echo "${abi%%+*}-weft-$1"
}

# What is in a directory that is being built, for the next try.
debug_configure() {
	local variant=$1 series=$2 key=$3 dir=$4 wanted lost
	rm -rf "$dir"
	mkdir -p "$dir"
	wanted=$dir/.weft-config
	debug_fragments "$variant" "$series" >"$wanted"
	"$TOP/scripts/in-root" make -C "$WEFT_CACHE/kernel/$series/source" O="$dir" "$DEBUG_CC" \
		KCONFIG_ALLCONFIG="$wanted" allnoconfig
	# An option that another series calls otherwise is to be seen, not lost.
	lost=$(grep '^CONFIG_' "$wanted" | grep -vxFf "$dir/.config") || :
	[ -z "$lost" ] || { printf 'not in the configuration of %s:\n%s\n' "$series" "$lost"; return 1; }
	printf '%s' "$key" >"$dir/.weft-key"
}

debug_build() {
	local variant=$1 series=$2 key=$3 dir
	dir=$(debug_dir "$variant" "$series")
	if [ ! -e "$dir/.weft-key" ] || [ "$(<"$dir/.weft-key")" != "$key" ]; then
		debug_configure "$variant" "$series" "$key" "$dir"
	fi
	"$TOP/scripts/in-root" nice make -C "$WEFT_CACHE/kernel/$series/source" O="$dir" -j"$(nproc)" "$DEBUG_CC" vmlinux modules
	[ "$(<"$dir/include/config/kernel.release")" = "$(debug_kver "$variant" "$series")" ]
	debug_prune "$dir"
}

# Modules are built from headers, tools and the metadata of the crates; objects
# and what make knows of them are four fifths of the rest.
debug_prune() {
	rm -f "$1/.weft-key"
	find "$1" -type f \( -name '*.o' -o -name '*.a' -o -name '.*.cmd' -o -name '.*.d' -o -name '*.order' \) \
		! -path "$1/scripts/*" ! -path "$1/tools/*" -delete
}

need_debug() {
	need_kernel "$2"
	step "$1-$2" "$(debug_key "$1" "$2")" "kernel $2, variant $1: compiling it (about 15 min)" \
		debug_build "$1" "$2" "$(debug_key "$1" "$2")"
}

# The variant that KERNEL asks for, if it does.
debug_variant() { case " $DEBUG_VARIANTS " in *" ${1:--} "*) echo "$1" ;; esac }

debug_path() {
	local what=$1 variant=$2 series=$3
	case $what in
	kver) debug_kver "$variant" "$series" ;;
	ksource) need_kernel "$series"; echo "$WEFT_CACHE/kernel/$series/source" ;;
	kernel) need_debug "$variant" "$series"; echo "$(debug_dir "$variant" "$series")/vmlinux" ;;
	kbuild) need_debug "$variant" "$series"; debug_dir "$variant" "$series"; echo ;;
	*) die "path of what? (see $0 help)" ;;
	esac
}
