# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs that know nothing of Weft and that tests run over it: Debian's own, and what they need
# beyond the root, unpacked beside it. Only the guests of these tests see them.

PROGRAMS=$WEFT_CACHE/programs

programs_packages() { echo iperf3 openssh-client openssh-server redis-server redis-tools nginx-light apache2-utils socat; }

programs_key() { digest "$(root_key)" "$(programs_packages)" "$(recipe programs.sh programs_make)" "$(recipe root.sh unpack_beside)"; }

programs_make() {
	# shellcheck disable=SC2046 # words
	unpack_beside programs "$PROGRAMS" usr/sbin/nginx $(programs_packages)
}

need_programs() {
	step programs "$(programs_key)" "programs: downloading and unpacking what tests run over Weft (15 s)" programs_make
}
