# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The Debian 13 root in which everything is built and from which guests boot,
# and the package lists of the suites it is made from.

ROOT=$WEFT_CACHE/root
INDEX=$WEFT_CACHE/index
SUITE=trixie

root_packages() { sed -e 's/#.*//' -e '/^ *$/d' "$ENV_D/packages"; }

root_key() { digest "$SUITE" "$(root_packages)" "$(recipe root.sh root_make)"; }

# What the host's own apt says about a label: the mirror's address, nothing if
# it does not know one.
host_mirror() {
	apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		sed -n "s/^$1 //p" | head -n 1
}

# The lines of sources.list. Without a mirror in the machine's configuration
# mmdebstrap takes its own default for the suite.
root_sources() {
	local main security
	main=$(host_mirror Debian)
	security=$(host_mirror Debian-Security)
	[ -n "$main" ] || return 0
	echo "deb $main $SUITE main"
	echo "deb $main $SUITE-updates main"
	[ -z "$security" ] || echo "deb $security $SUITE-security main"
}

# Tools of the host, of which a fresh machine may have none.
host_tools() {
	local missing=() pair
	for pair in mmdebstrap:mmdebstrap make:make git:git \
		/usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring; do
		command -v "${pair%%:*}" >/dev/null || [ -e "${pair%%:*}" ] || missing+=("${pair#*:}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	say "installing ${missing[*]}"
	apt-get -o Acquire::Retries=3 -qq update
	DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -qq install -y \
		--no-install-recommends "${missing[@]}"
}

root_make() {
	local dir list
	host_tools
	dir=$(scratch root)
	list=$WEFT_CACHE/tmp/sources.list
	root_sources >"$list"
	apt-config dump Acquire | grep -E '::(Proxy|CaInfo|CaPath)' >"$WEFT_CACHE/tmp/apt.conf" || :
	# The documentation of packages is left out: nobody reads it here, and it
	# is a third of the files. Backports and source packages come from
	# the mirror that serves the suite itself.
	# shellcheck disable=SC2016 # $1 is for mmdebstrap's shell
	mmdebstrap --mode=root --variant=apt \
		--aptopt='Acquire::Retries "3"' --aptopt='Acquire::Languages "none"' \
		--aptopt="$WEFT_CACHE/tmp/apt.conf" \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
		--setup-hook='find "$1/etc/apt" -name "*.list" -exec sed -i "p; s/ '$SUITE' main/ '$SUITE'-backports main/; t; d" {} +' \
		--setup-hook='find "$1/etc/apt" -name "*.list" -exec sed -i "p; s/^deb /deb-src /" {} +' \
		--include="$(root_packages | paste -sd,)" \
		"$SUITE" "$dir/root" ${list:+$([ ! -s "$list" ] || echo "$list")}

	# The root is used read-only; these are the places others are mounted at.
	mkdir -p "$dir/root/run/lock" "$dir/root/etc/ssl/certs"
	rm -f "$dir/root/etc/resolv.conf"
	: >"$dir/root/etc/resolv.conf"
	chmod 755 "$dir/root"
	# Tells in-root that it is in already.
	root_key >"$dir/root/etc/weft-root"
	publish "$dir/root" "$ROOT"
}

need_root() {
	[ "$(id -u)" = 0 ] || die "needs root (mounts and a Debian root): use sudo"
	[ ! -e /etc/weft-root ] || return 0
	step root "$(root_key)" "root: installing Debian 13 with compilers and tools (about 2 min)" root_make
}

# apt, with lists and archives in the cache: the root itself stays as it is.
root_apt() {
	local tool=$1
	shift
	"$TOP/scripts/in-root" "$tool" -q -o Dir::State::Lists="$INDEX/lists" -o Dir::Cache="$INDEX/cache" \
		-o Acquire::Retries=3 -o APT::Sandbox::User=root "$@"
}

# apt_get DIR ARG...: apt-get in DIR. Lists that are older than a removal from the
# mirror are renewed once.
apt_get() {
	local dir=$1
	shift
	(cd "$dir" && root_apt apt-get "$@") || {
		root_apt apt-get update
		(cd "$dir" && root_apt apt-get "$@")
	}
}

# available: what can be had, one line each, written down once so that a warm
# run never asks the network:
#   kernel SERIES VERSION ABI image|-     qemu VERSION
index_make() {
	mkdir -p "$INDEX/lists/partial" "$INDEX/cache/archives/partial"
	root_apt apt-get update --error-on=any
	{
		local series
		for series in $SERIES; do kernel_find "$series"; done
		qemu_find
	} >"$WEFT_CACHE/tmp/available"
	cat "$WEFT_CACHE/tmp/available"
	mv "$WEFT_CACHE/tmp/available" "$INDEX/available"
}

need_index() {
	need_root
	step index "$SERIES" "package lists: asking which kernels and which QEMU can be had (10 s)" index_make
}

# unpack_beside NAME PLACE FILE PACKAGE...: what these packages need beyond the root, and they, in
# PLACE. FILE is one that has to be there then.
unpack_beside() {
	local name=$1 place=$2 file=$3 dir deb
	shift 3
	dir=$(scratch "$name")
	mkdir -p "$dir"/{archives/partial,unpacked}
	# The root knows what it has: the rest is downloaded, and not installed.
	apt_get "$dir" -y --no-install-recommends --download-only -o Debug::NoLocking=1 \
		-o Dir::Cache::archives="$dir/archives" install "$@"
	for deb in "$dir"/archives/*.deb; do dpkg-deb -x "$deb" "$dir/unpacked"; done
	[ -x "$dir/unpacked/$file" ]
	publish "$dir/unpacked" "$place"
}
