# SPDX-License-Identifier: GPL-2.0
"""MPI jobs in guests, by the MPICH of the index of Python packages: mpiexec in the first host, a proxy in each, which
starts the ranks there. Proxies are started by the lab's agent: mpiexec says how, where it would call ssh."""

import re
import shlex
import signal

from . import paths
from .layers import inside
from .mpirun import FOLDER, LIMIT, PROVIDER

PLACE = "/mnt/mpich"
# The programs of tools/testing/mpi.
PROGRAMS = "/mnt/mpich-programs"
# What mpiexec says of its proxies, one behind the other, and when there are no more.
PROXY = re.compile(r"^HYDRA_LAUNCH: (.*)$", re.M)
PROXIES = r"^HYDRA_LAUNCH_END$"
# What rank 0 says of the transport if it is to.
CHOSEN = f"libfabric provider: {PROVIDER} - "
# Messages by libfabric, and there by Weft; what was chosen is told.
TRANSPORT = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": PROVIDER, "FI_PROVIDER_PATH": FOLDER,
             "MPIR_CVAR_DEBUG_SUMMARY": "1"}  # fmt: skip
# Ranks of one host would share memory. With this one they are as if each were alone at its host.
APART = {"MPIR_CVAR_NOLOCAL": "1"}


def shares():
    """Folders that the guests need."""
    return {"mpich": paths.env("mpich"), "mpich-programs": paths.mpich_programs()}


class Job:
    """A job that runs."""

    def __init__(self, at, ranks, *words, apart=False):
        """`at`: hosts with their addresses; `ranks`: of each; `apart`: those of a host share no memory."""
        self.host = at[0][0]
        addresses = [address for _, address in at]
        settings = TRANSPORT | (APART if apart else {})
        options = ("-launcher", "manual", "-localhost", addresses[0], "-hosts", ",".join(addresses), "-ppn", ranks,
                   "-n", ranks * len(at), "-wdir", "/tmp")  # fmt: skip
        given = [word for name, value in settings.items() for word in ("-genv", name, value)]
        self.job = self.host.start_job("exec " + inside(f"{PLACE}/bin/mpiexec", *options, *given, *words))
        self.proxies = []
        try:
            self.job.expect(PROXIES, 60)
            for (host, _), proxy in zip(at, PROXY.findall(self.job.out), strict=True):
                self.proxies.append(host.start_job("exec " + inside(*shlex.split(proxy))))
        except BaseException:
            self._end()
            raise

    def _end(self):
        for job in (self.job, *self.proxies):
            if job.running:
                job.kill(signal.SIGKILL)

    def wait(self, limit=LIMIT):
        """Waits for the end of mpiexec, and that of its proxies, which end with it; returns what mpiexec says."""
        try:
            done = self.job.wait(limit)
            for proxy in self.proxies:
                proxy.wait(30)
            return done
        finally:
            self._end()
