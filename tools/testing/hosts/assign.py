# SPDX-License-Identifier: GPL-2.0
"""`weftctl assign`, `withdraw`, `assignments`, and what `tree`, `diagnose` and `events` say of endpoints that hosts share."""

import re
import time
from xml.etree import ElementTree

from weftlab import kernel, paths
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import sharing, steps
from .diagnose import diagnose, named
from .events import Events
from .fabric import settled

LAB = "figs10-12"
# Of weftctl's words; what becomes of assignments is closely looked at by `multiroot`.
CLOSELY = False
# Who has what in Figs 10 to 12.
GIVEN = {"rc1": ["ep2", "ep4", "ep5"], "rc2": ["ep1", "ep3", "ep6"]}
UNPRIVILEGED = "setpriv --reuid=65534 --regid=65534 --clear-groups "
PAGE = paths.TOP / "Documentation/multiroot.rst"


def figures(bench):
    """The system of Figs 10 to 12, in which nothing is assigned."""
    lab = bench.shape("figs10-12", sharing.figures())
    settled(list(lab.hosts.values()), 1, 11)
    lab["rc1"].run("echo '# none' | weftctl assignments --restore -")
    given_is(lab, {"rc1": set(), "rc2": set()})
    return lab


def give_all(lab):
    for root, endpoints in GIVEN.items():
        for endpoint in endpoints:
            lab["rc1"].weftctl("assign", endpoint, root)


def hierarchy(host, *words):
    """(endpoint's hardware id, virtual endpoint) of what is given in a hierarchy."""
    (tree,) = host.weftctl_json("tree", "--vh", *words)["hierarchies"]
    return {(int(p["hwid"], 0), p["given"]["ve"]) for p in tree["places"] if "given" in p}


def given_is(lab, expected, timeout=30):
    """Until each host says itself that it has these virtual endpoints, and no others."""
    ids = sharing.hwids(lab)
    wanted = {root: {(ids[ep], ve) for ep, ve in all_} for root, all_ in expected.items()}
    deadline = time.monotonic() + timeout * kernel.patience()
    while (found := {root: hierarchy(lab[root]) for root in wanted}) != wanted:
        if time.monotonic() > deadline:
            raise Mismatch(f"the hosts have {found}, not {wanted}")
        time.sleep(0.2)


def first_of(endpoints):
    return {(endpoint, 0) for endpoint in endpoints}


def fails(host, status, words, *said):
    """weftctl ends with that status, and says so."""
    done = host.run(f"weftctl {words}", 60, None)
    if done.status != status:
        raise Mismatch(f"weftctl {words} ended with {done.status}, not {status}: {done.err}")
    for word in said:
        if word not in done.err:
            raise Mismatch(f"weftctl {words} does not say {word!r}: {done.err}")


def plain(text):
    """Without local ids and places: they depend on who came first."""
    return re.sub(r"0x[0-9a-f]+-0x[0-9a-f]+", "PLACE", re.sub(r"LID \d+", "LID N", text))


def documented(command):
    """What the documentation shows behind `# command`."""
    lines = iter(PAGE.read_text().splitlines())
    for line in lines:
        if line == f"    # {command}":
            break
    else:
        raise Mismatch(f"{PAGE} does not show {command}")
    shown = []
    for line in lines:
        if not line.startswith("    ") or line.startswith("    # "):
            break
        shown.append(line[4:])
    return "\n".join(shown) + "\n"


@test("MR-3: endpoints are given to hosts by name, as in Figs 10 to 12, and the trees are those of the documentation")
def by_name(bench):
    lab = figures(bench)
    rc1, rc2 = lab["rc1"], lab["rc2"]
    for root, endpoints in GIVEN.items():
        for endpoint in endpoints:
            said = rc1.weftctl("assign", endpoint, root).out
            if said != f"{endpoint}.0 is host {root}'s\n":
                raise Mismatch(f"assign says {said!r}")
    # Both hosts have been told before it said so.
    ids = sharing.hwids(lab)
    for root, endpoints in GIVEN.items():
        if (own := hierarchy(lab[root])) != {(ids[endpoint], 0) for endpoint in endpoints}:
            raise Mismatch(f"{root} has {own}")
    # Links that save power are shown as slow as they are.
    with steps.at_the_most(lab):
        for command in ("weftctl tree", "weftctl tree --vh all"):
            shown, wanted = rc1.run(command).out, documented(command)
            if plain(shown) != plain(wanted):
                raise Mismatch(f"{command} shows\n{shown}\nand the documentation\n{wanted}")
    names = {ids[name]: name for name in ids}
    owners = {}
    for node in rc1.weftctl_json("tree")["nodes"]:
        if node["kind"] == "endpoint":
            if names[int(node["hwid"], 0)] != node["name"] or node["part"] != "WEFT-COPY":
                raise Mismatch(f"{node}")
            owners[node["name"]] = [(ve["ve"], ve["root"], ve["state"]) for ve in node["ves"]]
    wanted = {
        endpoint: [(0, hex(number), "done"), (1, None, None)]
        for number, endpoints in enumerate(GIVEN.values(), 1)
        for endpoint in endpoints
    }
    if owners != wanted:
        raise Mismatch(f"the virtual endpoints: {owners}")
    drawn = ElementTree.fromstring(rc1.weftctl("tree", "--svg").out)
    words = drawn.find("{http://www.w3.org/2000/svg}desc").text
    for said in ("A is the hierarchy of host rc1.", "B is the hierarchy of host rc2.", "endpoint ep3:"):
        if said not in words:
            raise Mismatch(f"the picture does not say {said!r}: {words}")
    # The other host sees its own hierarchy, and that of no other.
    own = [tree["root"] for tree in rc2.weftctl_json("tree")["hierarchies"]]
    if own != ["0x2"]:
        raise Mismatch(f"rc2 is told of the hierarchies of {own}")
    fails(rc2, 1, "tree --vh rc1", "not the master", "the master is host 0x1")


@test("MR-3: the free virtual endpoint is found, what is another's is not taken, and all can be had and taken back")
def free_ones(bench):
    lab = figures(bench)
    rc1 = lab["rc1"]
    rc1.weftctl("assign", "ep4", "rc1")
    said = rc1.weftctl("assign", "ep4", "rc2").out
    if said != "ep4.1 is host rc2's\n":
        raise Mismatch(f"assign says {said!r}")
    given_is(lab, {"rc1": {("ep4", 0)}, "rc2": {("ep4", 1)}})
    fails(rc1, 1, "assign ep4 rc1", "nothing free", ".0 is rc1's, .1 is rc2's")
    fails(rc1, 1, "assign ep4.1 rc1", "is to be host rc2's", "--force")
    fails(rc1, 2, "assign ep4.2 rc1", "0 to 1")
    rc1.weftctl("assign", "--force", "ep4.all", "rc1")
    given_is(lab, {"rc1": {("ep4", 0), ("ep4", 1)}, "rc2": set()})
    rc1.weftctl("withdraw", "ep4")
    # It is the hosts that have let go.
    if any(hierarchy(lab[root]) for root in GIVEN):
        raise Mismatch("a host has something of ep4 after it was withdrawn")
    # By local id and by hardware id.
    nodes = {node["name"]: node for node in rc1.weftctl_json("tree")["nodes"]}
    rc1.weftctl("assign", f"{nodes['ep5']['lid']}.1", nodes["rc2"]["lid"])
    rc1.weftctl("assign", f"{nodes['ep5']['hwid']}.0", "0x1")
    given_is(lab, {"rc1": {("ep5", 0)}, "rc2": {("ep5", 1)}})


@test("MR-3: assignments are saved and restored as they were, and a wrong line is named")
def saved(bench):
    lab = figures(bench)
    rc1, rc2 = lab["rc1"], lab["rc2"]
    ids = sharing.hwids(lab)
    lines = ["# the chassis", f"{ids['ep3']:x}.0 2  ", "", f"   {ids['ep4']:x}.1 1", "# end"]
    text = "\n".join(lines) + "\n"
    file = rc1.push("assignments", text.encode())
    rc1.run(f"weftctl assignments --restore {file} && weftctl assignments --save /tmp/again")
    if (again := rc1.run("cat /tmp/again").out) != text:
        raise Mismatch(f"saved was {again!r}, not {text!r}")
    given = {"rc1": {("ep4", 1)}, "rc2": {("ep3", 0)}}
    given_is(lab, given)
    # A change leaves the rest as it was, and every host keeps it.
    rc1.weftctl("withdraw", "ep4")
    rc2.until(f"! weftctl assignments --save - | grep -q {ids['ep4']:x}.1")
    kept = rc2.run("weftctl assignments --save -").out
    if kept != "\n".join(lines[:3] + lines[4:]) + "\n":
        raise Mismatch(f"rc2 keeps {kept!r}")
    rc1.weftctl("withdraw", "ep3")
    rc1.run("weftctl assignments --restore /tmp/again")
    given_is(lab, given)
    for wrong in ("nonsense", f"{ids['ep3']:x}.0 1"):
        file = rc1.push("wrong", (text + wrong + "\n").encode())
        fails(rc1, 2, f"assignments --restore {file}", f"{file}:6: ", wrong)
    file = rc1.push("long", ("#" * 4097).encode())
    fails(rc1, 1, f"assignments --restore {file}", "4097 bytes, 4096 at most")
    if rc1.run("weftctl assignments --save -").out != text:
        raise Mismatch("a text that was refused changed the assignments")


@test("MR-3: who is not the master, or not root, or names what there is not, is told what to do")
def refused(bench):
    lab = figures(bench)
    rc1, rc2 = lab["rc1"], lab["rc2"]
    for words in ("assign ep1 rc1", "withdraw ep1", "tree --vh all"):
        fails(rc2, 1, words, "not the master", "the master is host 0x1: run this there")
    rc2.run("echo | weftctl assignments --restore - 2>&1 | grep -q 'the master is host 0x1'")
    mode = rc1.out("stat -c %a /dev/weft0").strip()
    rc1.run("chmod 666 /dev/weft0; cp $(command -v weftctl) /tmp/weftctl; chmod 755 /tmp/weftctl")
    unprivileged = f"{UNPRIVILEGED}/tmp/weftctl"
    try:
        for words in ("assign ep1 rc1", "tree --vh rc2"):
            done = rc1.run(f"{unprivileged} {words}", 60, None)
            if done.status != 4 or "CAP_SYS_ADMIN" not in done.err:
                raise Mismatch(f"an unprivileged user: {words} ended with {done.status}: {done.err}")
        # What is no secret is shown all the same.
        rc1.run(f"{unprivileged} tree && {unprivileged} assignments && {unprivileged} tree --vh")
    finally:
        rc1.run(f"chmod {mode} /dev/weft0")
    fails(rc1, 2, "assign ep7 rc1", "there is no endpoint ep7", "there are ep1, ep2")
    fails(rc1, 2, "assign sw1 rc1", "sw1 is a switch, no endpoint")
    fails(rc1, 2, "assign ep1 rc3", "there is no host rc3: there are rc1, rc2")
    # What is not there yet may be given away; that it is not there is said at once.
    before = time.monotonic()
    fails(rc1, 5, "assign 0xc000000000000077 rc1", "no such endpoint was found", "weftctl withdraw")
    if time.monotonic() - before > 25 * kernel.patience():
        raise Mismatch("assign waited for what will not come")
    if "no such endpoint was found" not in rc1.weftctl("assignments").out:
        raise Mismatch("the assignment did not stay")
    # Who tries once more does not assign another one.
    fails(rc1, 5, "assign 0xc000000000000077 rc1", "0xc000000000000077.0 is to be host rc1's")
    if (count := len(rc1.weftctl_json("assignments")["assignments"])) != 1:
        raise Mismatch(f"there are {count} assignments")
    fails(rc1, 2, "withdraw ep1.2", "endpoint ep1 has 2 virtual endpoints, 0 to 1")
    rc1.weftctl("withdraw", "0xc000000000000077")


@test("MR-3: diagnose says of each assignment why it is not fulfilled, until it is")
def why_not(bench):
    lab = figures(bench)
    rc1 = lab["rc1"]
    ids = sharing.hwids(lab)
    give_all(lab)

    def well():
        rc1.until("! weftctl --json diagnose | grep -q '\"assignment-'")
        if wrong := [f for f in diagnose(rc1)["findings"] if f["at"].startswith("endpoint ")]:
            raise Mismatch(f"all have what was assigned to them, but: {wrong}")

    def found(name, level, *words):
        rc1.until(f"weftctl --json diagnose | grep -q '\"id\":\"{name}\"'")
        named(diagnose(rc1), name, level, *words)

    well()
    rc1.weftctl("withdraw", "ep6")
    named(diagnose(rc1), "endpoint-unassigned", "note", "endpoint ep6", "`weftctl assign ep6 HOST`")
    rc1.weftctl("assign", "ep6", "rc2")
    if any(f["id"] == "endpoint-unassigned" for f in diagnose(rc1)["findings"]):
        raise Mismatch("ep6 is assigned, and diagnose says that it is not")

    lab.fabric.call("unplug", "ep6")
    found("assignment-no-endpoint", "fault", "endpoint ep6.0", "and its cable in?", "`weftctl withdraw")
    lab.fabric.call("plug", "ep6")
    well()

    lab["rc2"].rmmod()
    found("assignment-no-host", "fault", "endpoint ep6.0", "is host rc2 on", "`modprobe weft` there")
    lab["rc2"].insmod()
    settled(list(lab.hosts.values()), 1, 11)
    well()

    rc1.run("weftctl assignments --save /tmp/before")
    for line, name, words in (
        (f"{ids['ep6']:x}.9 2", "assignment-no-ve", ["it has 2", "`weftctl withdraw ep6.9`"]),
        (f"{ids['ep6']:x}.1 77", "assignment-no-host", ["host 0x77", "modprobe weft"]),
    ):
        rc1.run(f"(cat /tmp/before; echo {line}) | weftctl assignments --restore - --no-wait")
        found(name, "fault", *words)
    rc1.run("weftctl assignments --restore /tmp/before")
    well()


@test("MR-3, HP-1: events tell of a hierarchy that changes, and of what is put in and taken out")
def told(bench):
    lab = figures(bench)
    rc1, rc2 = lab["rc1"], lab["rc2"]
    own = Events(rc2).ready()
    rc1.weftctl("assign", "ep3", "rc2")
    own.job.expect('"attribute":"hierarchy"', 30)
    own.job.kill()
    own.job.wait(30)
    # What became of the assignment is told at the master.
    slots = Events(rc1).ready()
    rc1.weftctl("assign", "ep6", "rc1")
    lab.fabric.call("unplug", "ep6")
    slots.job.expect('"WEFT_PLUG":"went"', 30)
    lab.fabric.call("plug", "ep6")
    slots.job.expect('"WEFT_PLUG":"came"', 30)
    slots.job.kill()
    result = slots.job.wait(30)
    (sw3,) = (n["hwid"] for n in rc1.weftctl_json("tree")["nodes"] if n["name"] == "sw3")
    for said in (f'"WEFT_SWITCH":"{int(sw3, 0):#018x}"', '"WEFT_SWITCH_PORT":"5"', '"attribute":"assignments"'):
        if said not in result.out:
            raise Mismatch(f"events do not say {said}: {result.out}")
