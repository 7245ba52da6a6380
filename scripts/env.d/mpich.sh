# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# MPICH as the index of Python packages has it, with a libfabric of its own: guests run programs over it that tests
# compile with its headers (tools/testing/mpi). What is downloaded is known by its digest.

MPICH=$WEFT_CACHE/mpich
MPICH_VERSION=5.0.2
MPICH_SHA256=8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4

mpich_key() { digest "$(root_key)" "$MPICH_VERSION" "$MPICH_SHA256" "$(recipe mpich.sh mpich_make)"; }

# Where the machine has its packages from, if it says so.
mpich_index() {
	local index=${PIP_INDEX_URL:-}
	[ -n "$index" ] || index=$(pip config get global.index-url 2>/dev/null) || :
	[ -z "$index" ] || echo "PIP_INDEX_URL=$index"
}

mpich_make() {
	local dir index
	dir=$(scratch mpich)
	mapfile -t index < <(mpich_index)
	echo "mpich==$MPICH_VERSION --hash=sha256:$MPICH_SHA256" >"$dir/wanted"
	# The root has pip for new virtual environments: as a wheel, which runs as it is.
	set -- "$ROOT"/usr/share/python-wheels/pip-*.whl
	"$TOP/scripts/in-root" env "${index[@]}" PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
		python3 "${1#"$ROOT"}/pip" install --quiet --no-input --disable-pip-version-check --root-user-action ignore \
		--no-cache-dir --retries 3 --no-deps --only-binary :all: --require-hashes --no-compile \
		--prefix "$dir/out" -r "$dir/wanted"
	# Below a prefix Debian's Python has packages that are not of Debian in local.
	[ -x "$dir/out/local/bin/mpiexec" ]
	publish "$dir/out/local" "$MPICH"
}

need_mpich() {
	step mpich "$(mpich_key)" "mpich: downloading and unpacking MPICH for tests (5 s)" mpich_make
}
