# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# More programs that know nothing of Weft (programs.sh), with what makes a machine a server of data:
# PostgreSQL, a server and clients of network block devices, ext4. A step of their own: they are larger.

SERVERS=$WEFT_CACHE/servers

servers_packages() { echo postgresql-17 nbdkit nbd-client libnbd-bin e2fsprogs; }

servers_key() { digest "$(root_key)" "$(servers_packages)" "$(recipe servers.sh servers_make)" "$(recipe root.sh unpack_beside)"; }

servers_make() {
	# shellcheck disable=SC2046 # words
	unpack_beside servers "$SERVERS" usr/lib/postgresql/17/bin/pgbench $(servers_packages)
	# Texts and locales, and what PostgreSQL compiles queries from: no test reads them.
	rm -rf "$SERVERS"/usr/share/{doc,i18n,locale,man} "$SERVERS"/usr/lib/postgresql/17/lib/bitcode
}

need_servers() {
	step servers "$(servers_key)" "servers: downloading and unpacking a database and block devices for tests (10 s)" servers_make
}
