# SPDX-License-Identifier: GPL-2.0
"""make demo HOSTS=4: hosts at several switches find each other, and a file goes all the way."""

import os
import shutil

from . import lab, paths, topology, transfer

LEAST, MOST = 3, 8
DEVICE = "/sys/class/weft/weft0/device"
# What stays of a run, for the reader to open.
TOPOLOGY = paths.BUILD.parent / "demo.toml"
PICTURE = paths.BUILD.parent / "demo.svg"

# The last host has gone through all the switches, and each knows the way to it.
SETTLED = "grep -qx {routes} {device}/manager/routes"


def settle(made, nodes):
    """Until every host knows everybody, and has a route to each."""
    for host in made.hosts.values():
        host.until(SETTLED.format(routes=nodes - 1, device=DEVICE), 90)


def run(args, source, say):
    """Carries `source`, of the folder and name that are `args`', from the first host to the last."""
    shape = topology.switched(args.hosts)
    names = [name for name, _ in shape.hosts]
    first, last = names[0], names[-1]
    ids = dict(shape.hosts)
    TOPOLOGY.write_text(shape.toml())
    result = {
        "file": source.name, "bytes": source.stat().st_size, "hosts": names,
        "switches": [name for name, _ in shape.switches], "kernel": paths.env("kver"),
        "topology": str(TOPOLOGY), "picture": str(PICTURE),
    }  # fmt: skip
    with lab.Lab("demo", say) as made:
        made.join(shape)
        for name in names:
            made.add(name, memory=args.memory, shares={"file": str(source.parent)})
        made.boot()
        # The picture is to show what links can, not how far those without traffic have slowed down.
        made.load("link_power=0")
        say(f"weft.ko loaded on all {len(names)}")
        settle(made, len(names) + len(shape.switches))
        h1, to = made[first], made[last]
        say("a master was found, everybody has a local id, and routes to all others")
        result["tree"] = h1.weftctl("tree").out
        h1.weftctl("tree", "--svg", "/mnt/run/demo.svg")
        shutil.copyfile(h1.run_dir / "demo.svg", PICTURE)
        nodes = h1.weftctl_json("tree")["nodes"]
        result["links"] = next(n["links"] for n in nodes if int(n["hwid"], 0) == ids[last])
        path = f"/mnt/file/{source.name}"
        done = transfer.carry(h1, to, path, source, "--to", ids[last])
        say(f"{done.bytes} bytes carried in {done.seconds:.2f} s, over {result['links']} links")
        result |= {
            "seconds": done.seconds, "bytes_per_second": done.bytes_per_second,
            "sha256_sent": done.sha256_sent, "sha256_arrived": done.sha256_arrived,
            "same": done.same,
        }  # fmt: skip
    shutil.rmtree(made.folder, ignore_errors=True)
    say("hosts ended, nothing to complain about in their kernels' logs")
    result["total_seconds"] = say.seconds
    return result


def show(result):
    names, switches = result["hosts"], result["switches"]
    print(f"\n  weftctl tree, at {names[0]}:\n")
    for line in result["tree"].splitlines():
        print(f"    {line}")
    rate = result["bytes_per_second"] / 1e6
    print(f"\n  file       {result['file']}")
    print(f"  way        {names[0]} to {names[-1]}, {result['links']} links, {len(switches)} switches between them")
    print(f"  carried    {result['bytes']} bytes in {result['seconds']:.3f} s, {rate:.1f} MB/s")
    print(f"  SHA-256    {result['sha256_sent']} sent")
    print(f"             {result['sha256_arrived']} arrived")
    for name in ("picture", "topology"):
        print(f"  {name:<10} {os.path.relpath(result[name])}")
    print(f"  {'the same' if result['same'] else 'NOT THE SAME'}, {result['total_seconds']:.0f} s in all")
