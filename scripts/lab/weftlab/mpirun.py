# SPDX-License-Identifier: GPL-2.0
"""MPI jobs in guests, by Debian's Open MPI: mpirun in the first host, its daemons in the others. What starts those is
the lab's agent, where it would be ssh."""

import signal

from . import paths
from .layers import ROOT, inside

PROVIDER = "weft"
# The provider is found where it was built; nothing of the guests' root is changed.
FOLDER = "/mnt/tools"
# Of what is needed beyond the root, the layers over it, and the programs of tools/testing/mpi.
LAYERS = ("/mnt/mpi", "/mnt/libfabric")
PROGRAMS = "/mnt/parallel"
# What mpirun calls in place of ssh, with a host and a command; the lab takes the command from there.
AGENT = "/tmp/agent"
COMMAND = "/tmp/daemon"
AGENT_TEXT = f"""#!/bin/sh
shift
printf '%s\\n' "$*" >{COMMAND}.new && mv {COMMAND}.new {COMMAND}
"""
# Ranks are more than processors. A daemon whose host is gone is noticed, though TCP waits for long.
ALWAYS = ("--allow-run-as-root", "--mca", "mpi_yield_when_idle", "1", "--prtemca", "plm_ssh_agent", AGENT,
          "--prtemca", "oob_tcp_keepalive_time", "5", "--prtemca", "oob_tcp_keepalive_intvl", "2",
          "--prtemca", "oob_tcp_keepalive_probes", "3")  # fmt: skip
# Messages by Weft, and by nothing else. Debian's configuration excludes both ways to libfabric.
MATCHED = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", PROVIDER)
# Windows as well. Open MPI makes them of a BTL, and looks for those only where it may choose between cm and ob1; it
# chooses cm, where a provider of libfabric can match messages, and says so.
WINDOWS = ("--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", PROVIDER, "--mca", "btl", "ofi,self",
           "--mca", "btl_ofi_provider_include", PROVIDER, "--mca", "pml_base_verbose", "10")  # fmt: skip
CHOSEN = "select: component cm selected"
TCP = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self")
LIMIT = 600


def shares():
    """Folders that the guests need."""
    return {name: paths.env(name) for name in ("mpi", "libfabric")} | {"parallel": paths.mpi_programs()}


class Job:
    """A job that runs."""

    def __init__(self, at, ranks, transport, *words, folder="/tmp"):
        """`at`: hosts with their addresses; `ranks`: of each; `folder`: where its programs begin."""
        self.host = at[0][0]
        places = ",".join(f"{address}:{ranks}" for _, address in at)
        options = ("-np", ranks * len(at), "--host", places, "--map-by", f"ppr:{ranks}:node:OVERSUBSCRIBE",
                   "-x", f"FI_PROVIDER={PROVIDER}", "-x", f"FI_PROVIDER_PATH={FOLDER}", "--wdir", folder)  # fmt: skip
        for host, _ in at:
            # The daemons look for it, too.
            host.run(f"cat >{ROOT}{AGENT} <<'END'\n{AGENT_TEXT}END\nchmod 755 {ROOT}{AGENT}; rm -f {ROOT}{COMMAND}")
        self.job = self.host.start_job("exec " + inside("mpirun", *ALWAYS, *options, *transport, *words))
        self.daemons = [self._daemon(host) for host, _ in at[1:]]

    def _daemon(self, host):
        self.host.until(f"test -e {ROOT}{COMMAND}", 60)
        command = self.host.out(f"cat {ROOT}{COMMAND}; rm {ROOT}{COMMAND}")
        return host.start_job("exec " + inside("sh", "-c", command))

    def wait(self, limit=LIMIT):
        """Waits for the end of mpirun, and that of the daemons, which end with it; returns what mpirun says."""
        try:
            done = self.job.wait(limit)
            for daemon in self.daemons:
                daemon.wait(30)
            return done
        finally:
            for job in (self.job, *self.daemons):
                if job.running:
                    job.kill(signal.SIGKILL)
