# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Open MPI as Debian has it, with programs that know nothing of Weft and that tests run over it (programs.sh): HPC
# Challenge, NetPIPE, mpi4py. Headers are for the programs of tools/testing/mpi.

MPI=$WEFT_CACHE/mpi

mpi_packages() { echo openmpi-bin hpcc netpipe-openmpi python3-mpi4py; }

# Its headers alone: what it depends on is for Fortran.
mpi_headers() { echo libopenmpi-dev; }

mpi_key() {
	digest "$(root_key)" "$(mpi_packages)" "$(mpi_headers)" "$(recipe mpi.sh mpi_make)" "$(recipe mpi.sh mpi_strip)" \
		"$(recipe mpi.sh mpi_links)" "$(recipe root.sh unpack_beside)"
}

mpi_make() {
	local dir deb
	# shellcheck disable=SC2046 # words
	unpack_beside mpi "$MPI" usr/bin/mpirun.openmpi $(mpi_packages)
	dir=$(scratch mpi-headers)
	apt_get "$dir" download "$(mpi_headers)"
	for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$MPI"; done
	mpi_strip
	mpi_links
}

# Texts, ssh and accounts, graphics processors, other networks: no test reads them. What programs are linked with stays.
mpi_strip() {
	local lib=$MPI/usr/lib/x86_64-linux-gnu
	rm -rf "$MPI"/etc/{adduser.conf,default,deluser.conf,login.defs,pam.d,selinux,ssh} "$MPI"/usr/{sbin,lib/openssh,lib/systemd} \
		"$MPI"/usr/share/{X11,bash-completion,bug,doc,doc-base,javascript,libdrm,lintian,locale,man} \
		"$MPI"/usr/bin/{ssh*,scp,sftp,ch*,expiry,gpasswd,passwd} \
		"$lib"/lib{LLVM,OpenCL,X11,XNVCtrl,Xau,Xdmcp,Xext,amd,cbor,drm,fido2,fuse3,hsa,semanage,xcb,ze_}* \
		"$lib"/{hwloc,ucx,libibverbs,rsocket,fortran} "$lib"/lib{mpi_java,mpi_mpifh,mpi_usempi,oshmem}*
}

# What update-alternatives would do.
mpi_links() {
	local name lib=$MPI/usr/lib/x86_64-linux-gnu
	for name in mpirun mpiexec mpicc; do ln -s "$name.openmpi" "$MPI/usr/bin/$name"; done
	ln -s blas/libblas.so.3 "$lib/libblas.so.3"
}

need_mpi() {
	step mpi "$(mpi_key)" "mpi: downloading and unpacking Open MPI for tests (10 s)" mpi_make
}
