# SPDX-License-Identifier: GPL-2.0
"""What a user meets when something is not as it must be: a clear message, a status, a hint."""

from weftlab import transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps

LAB = "pair"
# Of weftctl's words.
CLOSELY = False
UNPRIVILEGED = "setpriv --reuid=65534 --regid=65534 --clear-groups "


def weftctl(host, *words, prefix=""):
    return host.run(prefix + host.weftctl_line(*words), 60, None)


@test("without the module every command says how to get it")
def no_module(bench):
    host = bench.pair()["h1"]
    host.rmmod()
    for words in (("list",), ("show",), ("recv", "/tmp"), ("send", "/etc/hostname"), ("ping",)):
        steps.refused(weftctl(host, *words), 3, "module", "modprobe weft")


@test("a user that may not use the port is told what would allow it")
def permission(bench):
    host = bench.pair()["h1"]
    host.run("chmod 600 /dev/weft0; cp $(command -v weftctl) /tmp/weftctl; chmod 755 /tmp/weftctl")
    for words in (("recv", "/tmp"), ("send", "/etc/hostname"), ("ping",)):
        line = UNPRIVILEGED + host.weftctl_line(*words).replace("weftctl", "/tmp/weftctl", 1)
        steps.refused(host.run(line, 60, None), 4, "permission", "group")


@test("the group weft may use the port, by the udev rule")
def group(bench):
    lab = bench.pair()
    host = lab["h1"]
    server = lab["h2"].start_job("weftctl ping --serve")
    server.expect("listening on")
    host.run("chgrp 4242 /dev/weft0 && chmod 660 /dev/weft0")
    host.run("cp $(command -v weftctl) /tmp/weftctl; chmod 755 /tmp/weftctl")
    member = "setpriv --reuid=65534 --regid=4242 --clear-groups "
    host.run(member + "/tmp/weftctl ping --count 2", 60)
    host.run("chgrp 0 /dev/weft0 && chmod 600 /dev/weft0")
    server.kill()
    server.wait(20)


@test("a file that the receiver has already is refused, and replaced with --force")
def exists(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    path, source = steps.payload(h1, "twice", 5000, 1)
    for force in (False, True):
        receiving = transfer.Receiver(h2, ["--force"] if force else [])
        h2.run(f"echo old >{receiving.there}/twice")
        result = h1.run(transfer.send_line(h1, path), 60, None)
        if force:
            result.must()
            receiving.wait(30)
            if steps.digest(receiving.arrived("twice")) != steps.digest(source):
                raise Mismatch("--force did not replace it")
        else:
            steps.refused(result, 1, "exists", "--force")
            if h2.out(f"cat {receiving.there}/twice") != "old":
                raise Mismatch("the file that was there is not there any more")
            receiving.end()


@test("a receiver whose disk is full says so at both ends and leaves nothing")
def disk_full(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    path, _ = steps.payload(h1, "full", 3 << 20, 1)
    h2.run("mkdir -p /tmp/small && mount -t tmpfs -o size=1M tmpfs /tmp/small")
    job = h2.start_job(h2.weftctl_line("--json", "recv", "/tmp/small"))
    job.expect("listening on")
    result = h1.run(transfer.send_line(h1, path), 60, None)
    steps.refused(result, 1, "free")
    job.kill()
    job.wait(20)
    if h2.out("ls -A /tmp/small"):
        raise Mismatch("something is left on the full disk")
    # It fills up while the file comes: what was promised is not there any more.
    h2.run("mount -o remount,size=8M /tmp/small")
    job = h2.start_job(h2.weftctl_line("--json", "recv", "/tmp/small"))
    job.expect("listening on")
    path, _ = steps.payload(h1, "filling", 7 << 20, 2)
    # Seven seconds: the disk is full before.
    lab.fabric.inject("slow", "h1:0", "--latency", 1000, "--bandwidth", 1000000)
    sending = h1.start_job(transfer.send_line(h1, path))
    h2.run("until ls -A /tmp/small | grep -q filling; do :; done; "
           "dd if=/dev/zero of=/tmp/small/other bs=64k count=127; true")  # fmt: skip
    lab.fabric.clear()
    steps.refused(sending.wait(60), 1, "space")
    job.kill()
    job.wait(20)
    if h2.out("ls -A /tmp/small") != "other":
        raise Mismatch("a part of the file is left on the full disk")
    h2.run("umount /tmp/small")


@test("no listener, an unknown peer, a missing source: each has its message")
def small_mistakes(bench):
    host = bench.pair()["h1"]
    send = ("send", "--timeout", 2)
    steps.refused(weftctl(host, *send, "/etc/hostname"), 5, "listens", "recv")
    steps.refused(weftctl(host, *send, "--peer", "0xdead", "/etc/hostname"), 5, "0xdead")
    steps.refused(weftctl(host, *send, "/nowhere/file"), 1, "/nowhere/file", "no such file")
    steps.refused(weftctl(host, *send, "/etc"), 1, "regular file")
    steps.refused(weftctl(host, "recv", "/nowhere"), 1, "/nowhere")
    steps.refused(weftctl(host, "bogus"), 2, "bogus")
