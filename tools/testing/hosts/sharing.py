# SPDX-License-Identifier: GPL-2.0
"""What the tests of shared endpoints ask of the master of a fabric, by the driver's own interface."""

import json
import time

from weftlab import kernel, paths, topology
from weftlab.errors import Mismatch

# Calls of WEFT_FABRIC_* as their words say, and prints what comes of them.
CALLS = r"""import ctypes, errno, fcntl, json, struct, sys
port = open("/dev/weft0")
IO = ord("W") << 8 | 0x80
ASSIGNMENTS, ASSIGNMENT, COMPONENT, VH = (IO + n for n in range(22, 26))

def call(number, layout, *values):
    buf = bytearray(struct.calcsize(layout))
    struct.pack_into(layout, buf, 0, len(buf), *values)
    try:
        fcntl.ioctl(port, number, buf)
    except OSError as error:
        return error.errno, struct.unpack(layout, buf)
    return 0, struct.unpack(layout, buf)

def assignments():
    text = bytearray(4096)
    at = ctypes.addressof(ctypes.c_char.from_buffer(text))
    error, said = call(ASSIGNMENTS, "=IIQIIII", 0, at, len(text), 0, 0, 0)
    if error:
        raise OSError(error, "WEFT_FABRIC_ASSIGNMENTS")
    return said[4], bytes(text[:said[3]]).decode()

def replace(text, version):
    text = bytearray(text.encode())
    at = ctypes.addressof(ctypes.c_char.from_buffer(text)) if text else 0
    error, said = call(ASSIGNMENTS, "=IIQIIII", 1, at, len(text), version, 0, 0)
    return {"errno": errno.errorcode.get(error, error), "version": said[4], "line": said[5]}

def set_assignments(lines):
    # The master notes what it sees in the same text.
    while True:
        version, text = assignments()
        kept = [line for line in text.splitlines() if line.startswith("seen ")]
        done = replace("\n".join(lines + kept) + "\n", version)
        if done["errno"] != "ESTALE":
            return done

def all_of(number, layout, *key):
    told = []
    while True:
        error, said = call(number, layout, 0, *key, len(told), *[0] * fields(layout, 3 + len(key)))
        if error == errno.ENOENT:
            return told
        if error:
            raise OSError(error, hex(number))
        told.append(said)

def fields(layout, have):
    return len(struct.unpack(layout, bytes(struct.calcsize(layout)))) - have

def text(words):
    return bytes(words).split(bytes(1))[0].decode()

def told(what, *words):
    if what == "assignments":
        version, text_ = assignments()
        return {"version": version, "text": text_}
    if what == "set":
        return set_assignments(list(words))
    if what == "replace":
        return replace(words[1], int(words[0]))
    if what == "states":
        return [{"endpoint": w[6], "ve": w[8], "root": w[7], "state": w[5]}
                for w in all_of(ASSIGNMENT, "=IIIIIIQQII")]
    if what == "components":
        return [{"kind": c[5], "state": c[6], "lid": c[7], "hwid": c[8], "resident": c[9],
                 "ports": c[10], "ves": c[11], "functions": c[12],
                 "part": text(c[14:46]), "serial": text(c[46:78]), "blade": text(c[78:110])}
                for c in all_of(COMPONENT, "=IIIIIIIIQQIIII96B")]
    if what == "vh":
        return [{"root": v[2], "vh": v[6], "kind": v[7], "state": v[8], "depth": v[9],
                 "port": v[10], "hwid": v[11], "lid": v[12], "ve": v[13], "functions": v[14],
                 "vp": v[15], "base": v[16], "limit": v[17]}
                for v in all_of(VH, "=IIQIIIIIIIIQIIIIQQ", int(words[0], 0))]
    raise SystemExit("what is " + what + "?")

print(json.dumps(told(*sys.argv[1:])))
"""

STATES = [
    "waits", "done", "no endpoint", "no ve", "no root", "no lid", "no way", "no plane", "no room",
    "failed", "not taken",
]  # fmt: skip
PORT = "/sys/class/weft/weft0/device"


def figures():
    """The system of Figs 10 to 12."""
    return topology.Written((paths.TOP / "Documentation/examples/figs10-12.toml").read_text())


def ask(host, *words, status=0):
    """What the driver answers."""
    script = host.push("calls.py", CALLS.encode())
    quoted = " ".join(f"'{word}'" for word in words)
    done = host.run(f"python3 {script} {quoted}", status=status)
    return json.loads(done.out) if not done.status else None


def hwids(lab):
    """Hardware ids by name."""
    status = lab.fabric.status()
    return {node["name"]: node["hwid"] for node in status["nodes"] + status["switches"]}


def assign(lab, host, assignments):
    """Has the host, the master, assignment (endpoint, virtual endpoint, host), by names, and nothing else."""
    ids = hwids(lab)
    lines = [f"{ids[endpoint]:x}.{ve:x} {ids[root]:x}" for endpoint, ve, root in assignments]
    done = ask(host, "set", *lines)
    if done["errno"] != 0:
        raise Mismatch(f"the assignments {lines} were not taken: {done}")


def states(lab, host):
    """What became of each assignment, by names."""
    names = {hwid: name for name, hwid in hwids(lab).items()}
    told = ask(host, "states")
    ends = [(names.get(w["endpoint"]), w["ve"], names.get(w["root"])) for w in told]
    return {end: STATES[w["state"]] for end, w in zip(ends, told)}


def become(lab, host, expected, timeout=60):
    """Until that has become of the assignments."""
    deadline = time.monotonic() + timeout * kernel.patience()
    while True:
        found = states(lab, host)
        if found == expected:
            return
        if time.monotonic() > deadline:
            raise Mismatch(f"the assignments are {found}, not {expected}")
        time.sleep(0.2)


def tree(lab, host, root=0):
    """The hierarchy of a host, as `host` tells it: (depth, name) of each component, depth first."""
    names = {hwid: name for name, hwid in hwids(lab).items()}
    return [(place["depth"], names[place["hwid"]]) for place in ask(host, "vh", root)]


def given(lab, host, root=0):
    """What is the host's, by the endpoint's name and the virtual endpoint."""
    names = {hwid: name for name, hwid in hwids(lab).items()}
    told = [place for place in ask(host, "vh", root) if place["state"] & 1]
    return {(names[place["hwid"]], place["ve"]): place for place in told}


def planes(lab, switches=("sw1", "sw2", "sw3")):
    """VP tables of switches but for the common hierarchy: VH by (switch, port, VP)."""
    all_ = {}
    for switch in switches:
        for plane in json.loads(lab.fabric.call("vp", "show", switch, "--json").stdout):
            if plane["vh"] != 1:
                all_[switch, plane["port"], plane["vp"]] = plane["vh"]
    return all_


def bases(lab):
    """Base functions: (VP, LID of the host) of each virtual endpoint that a host has."""
    ends = {node["name"]: node["endpoint"] for node in lab.fabric.status()["nodes"]}
    return {
        (name, ve): (is_["vp"], is_["root"])
        for name, end in ends.items()
        if end
        for ve, is_ in enumerate(end["ves"])
        if is_["vp"] is not None
    }


class Changes:
    """What is written into tables of hierarchies from now on, as the fabric's log has it."""

    def __init__(self, lab):
        self._log = lab.fabric.log
        self._begin = self._log.stat().st_size

    def lines(self):
        text = self._log.read_bytes()[self._begin :].decode()
        words = [line.split(None, 1)[1] for line in text.splitlines() if " " in line]
        return [w for w in words if "VP 0 of port" not in w and (" VH" in w or "virtual endp" in w)]
