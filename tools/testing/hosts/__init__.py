# SPDX-License-Identifier: GPL-2.0
"""Tests of running hosts, by scripts/lab/check. See Documentation/testing.rst."""

# In the order that boots least: one host with two ports, then two hosts, then
# two hosts over ivshmem. `alone` boots machines of its own.
ORDER = [
    "selftests", "kunit", "slots", "transfer", "library", "loopback", "clients", "sockets", "matching", "libfabric", "net", "programs", "run", "postgres", "nbd", "fabtests", "mpi", "mpich", "vsock", "verbs", "trace", "pool", "fences",
    "links", "events", "far", "reach", "scale", "storm", "forged", "keys", "hostile", "raw", "quiesced", "fabric",
    "hotplug", "multiroot", "hierarchy", "assign", "unfulfilled", "endpoints", "rerouted", "lifecycle", "death", "faults",
    "errors", "iommu", "diagnose", "functions", "sriov", "beyond", "relocation", "rates", "power", "migration", "moments", "live",
    "sleep", "nested", "ivshmem", "alone",
]  # fmt: skip
HELPERS = ["arenas", "constants", "false_master", "ofi", "plant", "sharing", "steps"]
