# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What `make bench` compares with: programs that measure RDMA and TCP, Debian's own, and what
# they need beyond the root, unpacked beside it. They are not part of the root: only the guests
# of `make bench` see them.

BENCH=$WEFT_CACHE/bench

bench_packages() { echo qperf perftest iperf3 ibverbs-providers; }

bench_key() { digest "$(root_key)" "$(bench_packages)" "$(recipe bench.sh bench_make)" "$(recipe root.sh unpack_beside)"; }

bench_make() {
	# shellcheck disable=SC2046 # words
	unpack_beside bench "$BENCH" usr/bin/qperf $(bench_packages)
}

need_bench() {
	step bench "$(bench_key)" "bench: downloading and unpacking what Weft is compared with (10 s)" bench_make
}
