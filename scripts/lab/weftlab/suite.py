# SPDX-License-Identifier: GPL-2.0
"""Tests: how they are declared, found, run and told.

A test is a function of a module of tools/testing/hosts with @test("what must
hold"); requirement ids stand in front of the name. It gets a Bench. A test that
is many (the kselftests) is a generator function: what it yields are (name, ok,
why, skip) of its parts.

core: one of the few that are run again on machines of another kind (check
--core). iommu: there is nothing to test without an IOMMU (check --iommu).
closely: whether a kernel that looks closely (check --kernel debug) can see more
of the driver in it than in the others; those that are not are run there only by
name. A module whose CLOSELY is False has none.
patient: it moves more than is reasonable through a port that is adversarial
(check --adversarial leaves it out).
long: it takes too long for every change: it runs by name, with check --long,
and on the kernels that look closely.
lab: the name of the lab of the bench that the test asks for; by default LAB of
its module. Tests of one lab run after each other, so that it boots once
(plan.py). "own": the test makes its labs itself.
"""

import importlib
import inspect
import pathlib
import time
import traceback

from .errors import LabError, Skip


class Test:
    def __init__(self, name, function, core, iommu, closely, patient, long, lab):
        self.name = name
        self.function = function
        self.core = core
        self.iommu = iommu
        self.closely = closely
        self.patient = patient
        self.long = long
        self.lab = lab
        self.module = function.__module__.rpartition(".")[2]

    @property
    def full_name(self):
        return f"{self.module}: {self.name}"


def test(name, core=False, iommu=False, closely=True, patient=False, long=False, lab=None):
    def declare(function):
        function.weft_test = Test(name, function, core, iommu, closely, patient, long, lab)
        return function

    return declare


def find(package):
    """The tests of a package, module by module in the package's own order."""
    found = importlib.import_module(package)
    tests = []
    for module_name in found.ORDER:
        module = importlib.import_module(f"{package}.{module_name}")
        its = [f.weft_test for f in vars(module).values() if hasattr(f, "weft_test")]
        for each in its:
            each.closely = each.closely and getattr(module, "CLOSELY", True)
            each.lab = each.lab or getattr(module, "LAB", None)
            if not each.lab:
                raise LabError(f"{each.full_name}: neither the test nor its module names a lab")
        tests += its
    here = {p.stem for p in pathlib.Path(found.__file__).parent.glob("[a-z]*.py")}
    forgotten = here - set(found.ORDER) - set(getattr(found, "HELPERS", ()))
    if forgotten:
        raise LabError(f"{package}: not in ORDER: {', '.join(sorted(forgotten))}")
    return tests


def _explain(error):
    if isinstance(error, LabError):
        where = traceback.extract_tb(error.__traceback__)
        lines = [f"{f.filename.rpartition('/')[2]}:{f.lineno} {f.line}" for f in where]
        return f"{error.kind}: {error}\n" + "\n".join(lines)
    return "".join(traceback.format_exception(error))


class Outcome:
    def __init__(self, name, ok, why="", skip=None, seconds=None):
        self.name = name
        self.ok = ok
        self.why = why
        self.skip = skip
        self.seconds = seconds


def run(test_, bench):
    """Runs one test; yields its outcomes as they come."""
    begin = time.monotonic()
    ok, why, skip, parts = True, "", None, 0
    bench.declared = test_.lab
    try:
        if inspect.isgeneratorfunction(test_.function):
            for name, part_ok, part_why, part_skip, seconds in test_.function(bench):
                parts += 1
                yield Outcome(f"{test_.module}: {name}", part_ok, part_why, part_skip, seconds)
        else:
            test_.function(bench)
    except Skip as error:
        skip = str(error)
    except (LabError, AssertionError, OSError, ValueError, LookupError, TypeError) as error:
        ok, why = False, _explain(error)
    try:
        bench.after(ok)
    except (LabError, OSError) as error:
        ok, why = False, f"{why}\n{_explain(error)}".strip()
    # A test of parts counts for itself as well if something went wrong around them.
    if not parts or not ok:
        yield Outcome(test_.full_name, ok, why, None if not ok else skip, time.monotonic() - begin)
