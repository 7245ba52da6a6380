# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites of weft_kunit.ko, on kernels that have KUnit: its results are counted."""

import re

from weftlab import paths
from weftlab.errors import Mismatch, Skip
from weftlab.suite import test

LAB = "loopback"
RESULTS = "/sys/kernel/debug/kunit"
_CASE = re.compile(r"^\s+(ok|not ok) \d+ (\w+)(?:\s*# SKIP\s*(.*))?$")


@test("KUnit")
def kunit(bench):
    if not (paths.module().parent / "weft_kunit.ko").exists():
        raise Skip("the kernel has no KUnit")
    host = bench.loopback()["host"]
    host.run("insmod /mnt/module/weft_kunit.ko", 300)
    suites = host.out(f"cd {RESULTS} && ls -d weft_*").split()
    reports = {suite: host.out(f"cat {RESULTS}/{suite}/results") for suite in suites}
    host.run("rmmod weft_kunit")
    for suite, report in reports.items():
        cases = [match for match in map(_CASE.match, report.splitlines()) if match]
        planned = re.search(r"^\s+1\.\.(\d+)$", report, re.M)
        if not planned or int(planned.group(1)) != len(cases):
            raise Mismatch(f"{suite}: {len(cases)} results\n{report}")
        for case in cases:
            name = f"{suite}: {case.group(2)}"
            yield name, case.group(1) == "ok", report, case.group(3), None
    if not reports:
        raise Mismatch("weft_kunit.ko has no suites")
