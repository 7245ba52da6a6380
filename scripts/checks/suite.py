# SPDX-License-Identifier: GPL-2.0
"""The table of suites.

A suite is a command that writes TAP or cargo's test output, or tests of the lab, which are cut into
pieces that run side by side (weftlab.plan). A set is what one target of make runs.
"""

import dataclasses

# By name, what has to be built before: once, whatever needs it.
BUILDS = {
    "module": "scripts/modules",
    "tools": "make --no-print-directory tools",
    # The tests and, with them, the daemon that the device tests use.
    "debug": "cd tools && ../scripts/in-root cargo test --quiet --locked --workspace --no-run",
    "module-debug": "scripts/modules debug",
    "module-kasan": "scripts/modules kasan",
    "module-7.2": "scripts/modules 7.2",
}
GUESTS = ("module", "tools")


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str
    what: str
    # Sets that it belongs to.
    sets: tuple
    # Minutes that a piece may take.
    limit: int
    # What it needs of scripts/env, in words of its own.
    needs: str
    builds: tuple = ()
    command: str = ""
    # Words for scripts/lab/check, if the suite is of the lab.
    lab: tuple | None = None
    # Variables of the command.
    env: tuple = ()
    # Seconds that the command takes, for the order and for the parts.
    seconds: int = 60
    # How many times as long as in the suite lab its tests take.
    slower: float = 1.0
    # Whether it runs when all others have ended: it builds what they use, or measures.
    alone: bool = False


# Two hosts, and one in loopback; all labs are in the suite iommu-all.
IOMMU_LABS = tuple(word for lab in ("pair", "loopback") for word in ("--lab", lab))


# The order of lines in reports. What takes longest begins first, whatever the order here.
SUITES = (
    Suite("checks", "the runner of the suites itself", ("check", "quick"), 5, "path root",
          command="scripts/in-root env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=scripts:scripts/lab:tools/testing "
          "python3 -m checks.tests", seconds=5),
    Suite("unit", "rust/proto, the fabric and the tools, by cargo", ("check", "quick"), 30, "path root",
          ("debug",), "cd tools && ../scripts/in-root cargo test --locked --workspace --no-fail-fast",
          seconds=150),
    Suite("modules", "weft.ko builds without warnings on every kernel series", ("check",), 30, "setup",
          ("module",), "scripts/modules --tap", seconds=40),
    Suite("device", "the QEMU device, by qtest, without a guest", ("check", "quick"), 30, "path qemu",
          ("debug",), "tools/testing/device/run", seconds=120),
    Suite("quick", "two guests, one boot: the core of lab that they can run", ("quick",), 15, "boot",
          GUESTS, lab=("--core", "--lab", "pair")),
    Suite("lab", "running guests: the kselftests and the tests of several hosts", ("check",), 30, "setup",
          GUESTS, lab=()),
    Suite("iommu", "the core of lab, on a few machines with an IOMMU in strict mode", ("check",), 25, "setup",
          GUESTS, lab=("--iommu", "--core", *IOMMU_LABS)),
    Suite("adversarial", "what of lab moves data, with every port in adversarial mode", ("check",), 25, "setup",
          GUESTS, lab=("--adversarial", "selftests", "library", "links", "transfer")),
    # The lab runs every program; here is how kernel developers run them.
    Suite("vng", "a few kselftests under virtme-ng", ("check",), 30, "setup", GUESTS,
          "scripts/lab/vng uapi channel memory", seconds=40),
    Suite("targets", "what make help offers does what it says", ("check",), 20, "setup", GUESTS,
          "scripts/targets", seconds=150, alone=True),
    Suite("lint", "style and static checks", ("lint",), 15, "setup", (), "scripts/lint", seconds=120),
    Suite("debug", "lab, on a kernel that looks closely", ("debug",), 240, "path kernel debug",
          ("module-debug", "tools"), lab=("--kernel", "debug"), slower=5.0),
    Suite("kasan", "lab, on a kernel with KASAN", ("kasan",), 240, "path kernel kasan",
          ("module-kasan", "tools"), lab=("--kernel", "kasan"), slower=5.0),
    # What takes too long for every change.
    Suite("lab-long", "what of lab takes too long for every change", ("long",), 60, "setup", GUESTS,
          lab=("--long",)),
    Suite("iommu-all", "the core of lab, on machines with an IOMMU in strict mode", ("long",), 60, "setup",
          GUESTS, lab=("--iommu", "--core")),
    Suite("vng-all", "all kselftests under virtme-ng", ("long",), 30, "setup", GUESTS, "scripts/lab/vng",
          seconds=150),
    Suite("old-kernel", "the core of lab, on the older of the supported series", ("long",), 60, "path kernel 7.2",
          ("module-7.2", "tools"), lab=("--kernel", "7.2", "--core")),
    Suite("adversarial-all", "the whole lab in adversarial mode, with what is patient", ("long",), 120, "setup",
          GUESTS, lab=("--adversarial", "--patient", "."), slower=2.0),
    Suite("migrations", "VFs that move 100 times", ("long",), 120, "setup", GUESTS,
          lab=("migration", "moments", "live"), env=(("WEFT_MIGRATIONS", "100"),), slower=8.0),
    Suite("vf-cycles", "VFs that are made and taken away 200 times", ("long",), 60, "setup", GUESTS,
          "scripts/lab/check --results build/check/vf-cycles.json 'made, used and taken away'",
          env=(("WEFT_VF_CYCLES", "200"),), seconds=600),
    Suite("plugs", "parts of a fabric that come and go 100 times", ("long",), 60, "setup", GUESTS,
          "scripts/lab/check --results build/check/plugs.json 'additions and removals in a row'",
          env=(("WEFT_PLUGS", "100"),), seconds=400),
    Suite("reroutes", "a shared endpoint at work whose route changes 100 times", ("long",), 60, "setup", GUESTS,
          "scripts/lab/check --results build/check/reroutes.json 'rerouted: HP-2: a copy endpoint that two hosts keep busy outlasts'",
          env=(("WEFT_REROUTES", "100"),), seconds=900),
    Suite("nodes", "two hosts in a fabric of 4,096 nodes", ("long",), 20, "setup", GUESTS,
          "scripts/lab/check --results build/check/nodes.json 'scale: .*two hosts among'",
          env=(("WEFT_SWITCHES", "4094"),), seconds=90),
    Suite("nested", "a guest of a guest, with a VF that it drives by weft.ko of its own", ("long",), 20, "setup", GUESTS,
          "scripts/lab/check --iommu --long --results build/check/nested.json '^nested: '", seconds=600, alone=True),
    Suite("reloads", "insmod and rmmod 200 times, with a busy neighbour", ("long",), 60, "setup", GUESTS,
          "scripts/lab/check --results build/check/reloads.json 'lifecycle: insmod and rmmod'",
          env=(("WEFT_RELOADS", "200"),), seconds=200),
    # By seeds alone: Debian's kernel has no kcov.
    Suite("fuzz-device", "ten minutes of ioctls, more or less right, on two kinds of hosts", ("long",), 30, "setup",
          GUESTS, "scripts/lab/check --results build/check/fuzz-device.json 'selftests: fuzz'",
          env=(("WEFT_FUZZ_SECONDS", "300"), ("WEFT_FUZZ_SEED", "5000")), seconds=720),
    Suite("fuzz-port", "ten minutes of stores at random to a port, beside a busy neighbour", ("long",), 30, "setup",
          GUESTS, "scripts/lab/check --results build/check/fuzz-port.json 'raw: a program that stores'",
          env=(("WEFT_RAW_SECONDS", "600"), ("WEFT_RAW_SEED", "5000")), seconds=700),
    Suite("net-flaps", "an Ethernet interface over a link that flaps 1000 times under load", ("long",), 60, "setup",
          GUESTS, "scripts/lab/check --results build/check/net-flaps.json 'net: an interface outlasts a link'",
          env=(("WEFT_NET_ROUNDS", "1000"),), seconds=1500),
    Suite("net-resets", "an Ethernet interface whose peer is reset 1000 times under load", ("long",), 60, "setup",
          GUESTS, "scripts/lab/check --results build/check/net-resets.json 'net: an interface outlasts resets of'",
          env=(("WEFT_NET_ROUNDS", "1000"),), seconds=1500),
    Suite("fuzz-frames", "frames at random to an Ethernet interface, by 60 seeds", ("long",), 30, "setup",
          GUESTS, "scripts/lab/check --results build/check/fuzz-frames.json 'net: anything'",
          env=(("WEFT_FRAMES_SEEDS", "60"), ("WEFT_FRAMES_SEED", "5000")), seconds=200),
    Suite("workloads", "programs of Debian over an interface and under weft-run, ten times as much", ("long",), 60,
          "setup", GUESTS, lab=("programs", "run", "postgres", "nbd"), env=(("WEFT_WORKLOAD", "10"),), slower=5.0),
    Suite("mpi-whole", "all of libfabric's own tests that Weft has to pass, and MPI programs, larger", ("long",), 60,
          "setup", GUESTS, lab=("fabtests", "mpi", "mpich"), env=(("WEFT_MPI", "whole"),), slower=5.0),
    Suite("fuzz-proto", "decoders of bytes of peers and users, twenty minutes, by the code that they reach", ("long",), 60, "path root", (),
          # Of each of a dozen decoders and rings.
          "scripts/fuzz --seconds 100", seconds=1300),
    Suite("fabrics", "the network manager under faults, 50 times as often as in unit", ("long",), 20, "path root",
          (), "cd tools && ../scripts/in-root cargo test --locked -p weft-sim --no-fail-fast",
          env=(("WEFT_TIMES", "50"),), seconds=400),
    # A module is built for each.
    Suite("mutants", "rules that are broken on purpose are noticed, from a to l", ("long",), 60, "setup", GUESTS,
          "scripts/mutants '[a-l]*'", seconds=1500),
    Suite("mutants-m-to-z", "the other rules that are broken on purpose are noticed", ("long",), 60, "setup", GUESTS,
          "scripts/mutants '[m-z]*'", seconds=1500),
    Suite("device-seeds", "the QEMU device by random programs of 100 seeds", ("long",), 60, "path qemu", ("debug",),
          "tools/testing/device/run random",
          env=(("WEFT_SEEDS", " ".join(map(str, range(10, 110)))),), seconds=240),
)  # fmt: skip
# What targets of make run, and how many parts of it take at most 45 minutes on two cores.
SETS = {"check": 1, "quick": 1, "lint": 1, "long": 3, "debug": 4, "kasan": 4}


def named(words):
    """The set that is meant, if one is, and its suites; None for a word that is neither."""
    if not words:
        words = ["check"]
    if len(words) == 1 and words[0] in SETS:
        name = words[0]
        return name, [suite for suite in SUITES if name in suite.sets]
    by_name = {suite.name: suite for suite in SUITES}
    if any(word not in by_name for word in words):
        return None, None
    return None, [suite for suite in SUITES if suite.name in words]
