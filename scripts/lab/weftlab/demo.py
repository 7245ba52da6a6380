# SPDX-License-Identifier: GPL-2.0
"""make demo: a real file over PCI Express, from one Linux to another."""

import argparse
import json
import pathlib
import shutil
import sys

from . import fabric_demo, lab, paths, process, transfer
from .errors import LabError, Mismatch

HEAD = 64 * 1024

PICTURE = """
            h1                                                h2
  +---------------------+                           +---------------------+
  | Linux {kernel:<13.13} |                           | Linux {kernel:<13.13} |
  | weft.ko             |                           | weft.ko             |
  |                     |{wire:^27}|                     |
  | {port:<16.16} [#]=============================[#] {port:>16.16} |
  |                     |{joined:^27}|                     |
  +---------------------+                           +---------------------+
"""

KINDS = (
    ("tx_mwr", "memory write"),
    ("tx_mrd", "memory read"),
    ("tx_db", "doorbell"),
    ("tx_msg", "message"),
)


def arguments():
    parser = argparse.ArgumentParser(
        prog="demo",
        description="Boots hosts joined by PCI Express, loads weft.ko on all and carries a "
        "file from one to another. Exits with 0 only if it arrives as it was.",
    )
    parser.add_argument("--file", help="the file (default: the kernel that the guests run)")
    parser.add_argument("--hosts", type=int, default=2, metavar="N",
                        help="so many hosts; more than 2 are two at a switch each, the switches in "
                        "a row, and the file goes from the first to the last")  # fmt: skip
    parser.add_argument("--port", choices=("weft", "ivshmem"), default="weft",
                        help="Weft ports and weft-fabric, or QEMU's ivshmem")  # fmt: skip
    parser.add_argument("--memory", type=int, default=192, help="MiB of RAM of each host")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.hosts != 2 and not fabric_demo.LEAST <= args.hosts <= fabric_demo.MOST:
        parser.error(f"--hosts {args.hosts}: give 2 to {fabric_demo.MOST}")
    if args.hosts != 2 and args.port == "ivshmem":
        parser.error("--port ivshmem: it joins 2 hosts, and knows no switches")
    return args


def link_of(host):
    """The most that the link can, as the driver sees it: (speed, width). It is slower while it has little to carry."""
    port = host.weftctl_json("show")
    ports = port.get("ports", [port]) if isinstance(port, dict) else port
    link = ports[0]["links"][0]
    return link.get("max_speed"), link.get("max_width")


def megabytes(rate):
    return f"{rate / 1e6:.1f} MB/s"


def run(args, source, say):
    folder, name = str(source.parent), source.name
    size = source.stat().st_size
    ivshmem = args.port == "ivshmem"
    result = {
        "file": name, "bytes": size, "port": "ivshmem-doorbell" if ivshmem else "weft-port",
        "hosts": ["h1", "h2"], "kernel": paths.env("kver"),
    }  # fmt: skip
    with lab.pair("demo", say, ivshmem, memory=args.memory, shares={"file": folder}) as pair:
        pair.boot()
        pair.load()
        h1, h2 = pair["h1"], pair["h2"]
        say("weft.ko loaded on both, link ready")
        result["link"] = dict(zip(("speed", "width"), link_of(h1)))

        tlps = None
        if not ivshmem:
            with open(source, "rb") as file:
                path = h1.push("head", file.read(HEAD))
            done, tlps = transfer.traced(pair, h1, h2, path, h1.run_dir / "head")
            say(f"first {done.bytes} bytes carried with every TLP counted")
            if not done.same:
                raise Mismatch(f"traced: sent {done.sha256_sent}, arrived {done.sha256_arrived}")
            result["traced_bytes"] = done.bytes
        result["tlps"] = tlps

        done = transfer.carry(h1, h2, f"/mnt/file/{name}", source)
        say(f"{done.bytes} bytes carried in {done.seconds:.2f} s")
        result |= {
            "seconds": done.seconds, "bytes_per_second": done.bytes_per_second,
            "sha256_sent": done.sha256_sent, "sha256_arrived": done.sha256_arrived,
        }  # fmt: skip
        result["same"] = done.same
    shutil.rmtree(pair.folder, ignore_errors=True)
    say("hosts ended, nothing to complain about in their kernels' logs")
    result["total_seconds"] = say.seconds
    return result


def show(result):
    link = result["link"]
    wire = f"gen{link['speed']} x{link['width']}" if link.get("speed") else "shared memory"
    print(PICTURE.format(
        kernel=result["kernel"].partition("-")[0], wire=wire, port=result["port"].replace("-doorbell", ""),
        joined="weft-fabric" if result["tlps"] else "ivshmem-server",
    ))  # fmt: skip
    print(f"  file       {result['file']}")
    print(f"  link       h1:0 -- h2:0, {wire}")
    print(f"  carried    {result['bytes']} bytes in {result['seconds']:.3f} s, "
          f"{megabytes(result['bytes_per_second'])}")  # fmt: skip
    if result["tlps"]:
        h1, h2 = result["tlps"]["h1"], result["tlps"]["h2"]
        print(f"  TLPs       of the first {result['traced_bytes']} bytes, all included:")
        print(f"             {'':14}{'h1 to h2':>10}{'h2 to h1':>10}")
        for name, title in KINDS:
            print(f"             {title:14}{h1[name]:>10}{h2[name]:>10}")
    print(f"  SHA-256    {result['sha256_sent']} sent")
    print(f"             {result['sha256_arrived']} arrived")
    print(f"  {'the same' if result['same'] else 'NOT THE SAME'}, {result['total_seconds']:.0f} s in all")


def main():
    args = arguments()
    process.on_signals()
    if args.file:
        path = pathlib.Path(args.file).resolve()
        args.folder, args.name = str(path.parent), path.name
    if args.folder:
        source = pathlib.Path(args.folder) / args.name
    else:
        source = pathlib.Path(paths.env("kernel"))
    say = lab.Progress()
    demo = sys.modules[__name__] if args.hosts == 2 else fabric_demo
    try:
        say(f"{source.name}: {source.stat().st_size} bytes")
        result = demo.run(args, source, say)
    except (LabError, OSError) as error:
        kind = getattr(error, "kind", "system")
        print(f"demo: {kind}: {error}", file=sys.stderr)
        if args.json:
            print(json.dumps({"same": False, "error": str(error), "kind": kind}))
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        demo.show(result)
    return 0 if result["same"] else 1


if __name__ == "__main__":
    sys.exit(main())
