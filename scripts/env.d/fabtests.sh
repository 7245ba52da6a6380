# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# fabtests, the tests of libfabric's own project, of the version that Debian has (libfabric.sh): no package has them,
# but the archive of the source package. They are compiled one by one: their configure script would have to be made by
# autoconf, and the root has none.

FABTESTS=$WEFT_CACHE/fabtests

# What is tested over Weft is of reliable datagrams and of units; the others are left out (hosts/fabtests.py).
FABTESTS_FUNCTIONAL="av_xfer cq_data flood inject_test multi_ep multi_mr multi_recv rdm rdm_atomic rdm_deferred_wq
	rdm_multi_client rdm_rma_event rdm_rma_trigger rdm_tagged_peek recv_cancel resmgmt_test
	unexpected_msg"
FABTESTS_BENCHMARKS="rdm_cntr_pingpong rdm_pingpong rdm_tagged_bw rdm_tagged_pingpong rma_bw"
FABTESTS_UNIT="cntr_test cq_test dom_test eq_test getinfo_test mr_test setopt_test"

fabtests_key() {
	digest "$(libfabric_key)" "$FABTESTS_FUNCTIONAL" "$FABTESTS_BENCHMARKS" "$FABTESTS_UNIT" \
		"$(recipe fabtests.sh fabtests_make)" "$(recipe fabtests.sh fabtests_patch)" \
		"$(recipe fabtests.sh fabtests_compile)"
}

# Upstream's version of what is unpacked: 2.1.0.
fabtests_version() { sed -n 's/^Version: //p' "$LIBFABRIC/usr/lib/x86_64-linux-gnu/pkgconfig/libfabric.pc"; }

fabtests_make() {
	local dir version
	dir=$(scratch fabtests)
	version=$(root_apt apt-cache showsrc libfabric | sed -n 's/^Version: //p' | grep "^$(fabtests_version)-" | head -n 1)
	[ -n "$version" ] || { echo "the mirror has no source of libfabric $(fabtests_version)"; return 1; }
	# The archive alone: a mirror may lack the description of one revision.
	apt_get "$dir" source --download-only --tar-only "libfabric=$version"
	"$TOP/scripts/in-root" tar -xf "$dir"/libfabric_*.orig.tar.* -C "$dir" --strip-components=1
	mkdir -p "$dir/out/bin"
	"$TOP/scripts/in-root" bash -c "$(declare -f fabtests_patch fabtests_compile); set -e
		fabtests_patch \"\$1\" && fabtests_compile \"\$@\"" - \
		"$dir" "$LIBFABRIC" "$FABTESTS_FUNCTIONAL" "$FABTESTS_BENCHMARKS" "$FABTESTS_UNIT"
	# The lists of tests.
	cp "$dir/fabtests/scripts/runfabtests.sh" "$dir/out/"
	publish "$dir/out" "$FABTESTS"
}

# fabtests_patch DIR: rdm_deferred_wq.c, which is in no list of the runner, has gone out of date. It takes for granted that
# the counter of receives has counted what others do to the region, which is another's since 1.19; that the region begins with
# the receive buffer, which is aligned behind its beginning; that FI_CSWAP_LE compares the other way round than
# fi_atomic(3) says; and that addresses were exchanged by a message each way, which both counters have counted.
fabtests_patch() {
	local file=$1/fabtests/functional/rdm_deferred_wq.c
	sed -i -e 's/fi_mr_reg(domain, buf, buf_size,/fi_mr_reg(domain, rx_buf, buf_size - (rx_buf - buf),/' \
		-e 's/FI_CSWAP_LE/FI_CSWAP_GE/' \
		-e '/^\tret = fi_mr_reg(domain, result_buf,/i\
\tret = fi_mr_bind(mr, \&rxcntr->fid, FI_REMOTE_READ | FI_REMOTE_WRITE);\
\tif (ret)\
\t\treturn ret;' -e '/^\tret = trigger();/i\
\tfi_cntr_add(txcntr, 1);\
\tfi_cntr_add(rxcntr, 1);' "$file"
	[ "$(grep -c 'fi_mr_bind\|fi_cntr_add\|domain, rx_buf\|FI_CSWAP_GE' "$file")" = 6 ]
}

# fabtests_compile DIR LIBFABRIC FUNCTIONAL BENCHMARKS UNIT: in the root.
fabtests_compile() {
	local name lib=$2/usr/lib/x86_64-linux-gnu out=$1/out/bin
	cd "$1/fabtests" || return
	cat >config.h <<-END
		#define PACKAGE_VERSION "$(sed -n 's/^AC_INIT(\[fabtests\], \[\([^]]*\).*/\1/p' configure.ac)"
		#define ENABLE_DEBUG 0
		#define HAVE_CLOCK_GETTIME 1
		#define HAVE_CUDA_RUNTIME_H 0
		#define HAVE_CUDA_DMABUF 0
		#define HAVE_ZE 0
		#define HAVE_EPOLL 1
		#define HAVE___INT128 1
	END
	set -- "$3" "$4" "$5" -O2 -g0 -DNDEBUG -D_GNU_SOURCE -DHAVE_CONFIG_H -DCONFIG_PATH='"/mnt/fabtests"' -I. -Iinclude \
		-I"$2/usr/include"
	mkdir objects
	for name in common/*.c benchmarks/benchmark_shared.c unit/common.c; do
		[ "$name" = common/check_hmem.c ] || gcc "${@:4}" -c -o "objects/$(echo "$name" | tr / -).o" "$name"
	done
	ar rc common.a objects/common-*.o
	local libs=(common.a "-L$lib" "-Wl,-rpath-link,$lib" -lfabric -lpthread -lm -ldl -lrt)
	for name in $1; do gcc "${@:4}" -s -o "$out/fi_$name" "functional/$name.c" "${libs[@]}"; done
	for name in $2; do
		gcc "${@:4}" -s -o "$out/fi_$name" "benchmarks/$name.c" objects/benchmarks-*.o "${libs[@]}"
	done
	for name in $3; do gcc "${@:4}" -s -o "$out/fi_$name" "unit/$name.c" objects/unit-*.o "${libs[@]}"; done
}

need_fabtests() {
	need_libfabric
	step fabtests "$(fabtests_key)" "fabtests: downloading and compiling libfabric's own tests (40 s)" fabtests_make
}
