# SPDX-License-Identifier: GPL-2.0
"""Figures: what was measured, how often, and what it was to be."""

import json
import operator
import statistics

_COMPARE = {"<=": operator.le, ">=": operator.ge}


class Figure:
    """One figure: the median of its samples. `target` is like "<=3", or None; `later`, what it is to be
    when that is reached; `model` is what
    hardware would do, computed (see model.py), in the same unit, or None. `reason` is why it can be no
    better, as it follows from what else was measured, or None. `tree` names the tree that was measured
    (tree.py), None of one that was not named."""

    def __init__(self, name, unit, samples, target=None, model=None, reason=None, tree=None, later=None):
        self.id = name
        self.unit = unit
        self.samples = list(samples)
        self.target = target
        self.model = model
        self.reason = reason
        self.tree = tree
        self.later = later

    @property
    def value(self):
        return statistics.median(self.samples)

    @property
    def met(self):
        if self.target is None:
            return None
        return _COMPARE[self.target[:2]](self.value, float(self.target[2:]))

    def json(self):
        return {
            "id": self.id,
            "value": self.value,
            "unit": self.unit,
            "target": self.target,
            "later": self.later,
            "met": self.met,
            "samples": self.samples,
            "model": self.model,
            "reason": self.reason,
            "tree": self.tree,
        }


class Figures:
    """All of them, in order."""

    def __init__(self, tree):
        """`tree`: the name of what is measured now."""
        self.tree = tree
        self._all = {}

    def add(self, name, unit, samples, target=None, model=None, reason=None, later=None):
        self._all[name] = Figure(name, unit, samples, target, model, reason, self.tree, later)

    def keep(self, path):
        """Those that a run has written before, until others of their names are added."""
        if path.exists():
            for one in json.loads(path.read_text()):
                self._all[one["id"]] = Figure(one["id"], one["unit"], one["samples"], one["target"],
                                              one["model"], one.get("reason"), one.get("tree"),
                                              one.get("later"))  # fmt: skip

    def get(self, name):
        return self._all.get(name)

    def __iter__(self):
        return iter(self._all.values())


def size_name(size):
    """8, 4k, 1m: for ids."""
    for unit, letter in ((1 << 20, "m"), (1 << 10, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)
