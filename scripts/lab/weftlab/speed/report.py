# SPDX-License-Identifier: GPL-2.0
"""Writes the figures down: JSON for programs, Markdown with plots for people."""

import json

from . import model, plot, reasons
from .figures import size_name
from .load import PROCESSES
from .times import HOW, PAIRS, SIZES

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0 -->
# What Weft costs, and what else there is

Measured by `make bench` on {date}, kernel {kernel}, of {tree}. Each value is the median of {runs} runs, or of as
many as the earlier run had that it is kept of, in brackets the least and the greatest. Times are those of *emulated* machines ({accel}), on processors
that also run the emulators' own threads: they compare ways with each other, in the same run, and
say nothing about hardware. Counts of TLPs, interrupts, instructions and bytes of matching's memory are exact.
Those with *simulated* in their name are computed for, or counted with, peers that are not there.

*Model* is what hardware would do, **computed, not measured**: a Gen{speed} x{width} link, 24 bytes
besides the payload of each TLP, 300 ns from host to host, no software
(`scripts/lab/weftlab/speed/model.py`).

"""

SERIES = {
    "polled": {
        "qp-polled": "Weft queue pair",
        "qp-write-polled": "Weft RDMA write",
        "channel-polled": "Weft channel",
        "tcp-dgram-polled": "TCP, virtio-net over a socket",
        "tcp-tap-polled": "TCP, virtio-net over taps",
    },
    "sleeping": {
        "qp-sleeping": "Weft queue pair",
        "qp-write-sleeping": "Weft RDMA write",
        "channel-sleeping": "Weft channel",
        "tcp-dgram-sleeping": "TCP, virtio-net over a socket",
        "tcp-tap-sleeping": "TCP, virtio-net over taps",
    },
}
# By what a user asks: the figures' names, of which each plot has those of ways that spin or that sleep.
PLOTS = {
    "round-trip": ("A message there and one back", "us", lambda size: 2e6 * model.one_way(size)),
    "throughput": ("Payload in one direction", "MB/s", lambda size: model.throughput(size) / 1e6),
}
KINDS = {"qp": "Weft queue pairs", "channel": "Weft channels", "tcp": "TCP connections"}


def _number(value):
    if value is None:
        return ""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def _row(figure):
    spread = f"{_number(min(figure.samples))} … {_number(max(figure.samples))}"
    met = {None: "", True: "met", False: "**not met**"}[figure.met]
    return (
        f"| `{figure.id}` | {_number(figure.value)} ({spread}) | {figure.unit} | {figure.target or ''} "
        f"| {met} | {figure.later or ''} | {_number(figure.model)} |"
    )


def _table(figures):
    lines = ["| figure | median (spread) | unit | target | | later | model |", "|---|---|---|---|---|---|---|"]
    return "\n".join(lines + [_row(figure) for figure in figures]) + "\n"


def _short(figure, figures):
    """A target that is missed, with a reason only where what was measured gives one."""
    reason = figure.reason or reasons.of(figure.id, figures)
    return f"- `{figure.id}`" + (f": {reason}" if reason else "") + "\n"


def _others(figures):
    """Figures that were kept of a run of another tree."""
    trees = {}
    for figure in figures:
        if figure.tree != figures.tree:
            trees.setdefault(figure.tree or "a tree without a name", []).append(figure.id)
    lines = (f"- of {tree}: " + ", ".join(f"`{name}`" for name in names) + "\n" for tree, names in trees.items())
    return "Kept of earlier runs:\n\n" + "".join(lines) + "\n" if trees else ""


def _points(figures, way, what):
    named = ((size, figures.get(f"{way}-{what}-{size_name(size)}")) for size in SIZES)
    return [(size, figure.value) for size, figure in named if figure]


def _plot(folder, figures, what, how):
    title, unit, modelled = PLOTS[what]
    title = f"{title}, {how}"
    series = {name: _points(figures, way, what) for way, name in SERIES[how].items()}
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    if how == "polled":
        series["Model of hardware"] = [(size, modelled(size)) for size in SIZES]
    (folder / f"{what}-{how}.svg").write_text(plot.svg(title, unit, series))
    return f"![{title}]({what}-{how}.svg)\n\n"


def _rates(folder, figures, file, title, over, lines):
    """Message rate by how many there are of something: lines are names with [(how many, figure's id)]."""
    series = {}
    for name, named in lines.items():
        found = [(n, figures.get(figure)) for n, figure in named]
        series[name] = [(n, figure.value) for n, figure in found if figure]
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    (folder / file).write_text(plot.svg(title, "1/s", series, over))
    return f"![{title}]({file})\n\n"


def _pairs(folder, figures):
    lines = {}
    for how in HOW:
        named = [(1, f"qp-{how}-message-rate-64")]
        named += [(n, f"qp-{how}-message-rate-64-{n}-pairs") for n in PAIRS[1:]]
        lines[f"Weft queue pairs, {how}"] = named
    return _rates(folder, figures, "message-rate.svg", "Messages of 64 bytes, by queue pairs", "queue pairs", lines)


def _processes(folder, figures):
    lines = {
        name: [(n, f"{kind}-sleeping-message-rate-64-{n}-processes") for n in PROCESSES]
        for kind, name in KINDS.items()
    }
    return _rates(folder, figures, "processes.svg", "Messages of 64 bytes, by processes", "processes", lines)


def write(folder, figures, runs, kernel, accel, date):
    folder.mkdir(exist_ok=True)
    everything = list(figures)
    (folder / "results.json").write_text(
        json.dumps([figure.json() for figure in everything], indent=1) + "\n"
    )
    text = HEAD.format(date=date, kernel=kernel, runs=runs, accel=accel, tree=figures.tree or "a tree without a name",
                       speed=model.SPEED, width=model.WIDTH)  # fmt: skip
    text += _others(figures)
    aimed = [figure for figure in everything if figure.target]
    if aimed:
        text += "## Targets\n\n" + _table(aimed) + "\n"
    missed = [figure for figure in aimed if not figure.met]
    if missed:
        text += "### Where it falls short\n\n" + "".join(_short(figure, figures) for figure in missed) + "\n"
    for what in PLOTS:
        for how in HOW:
            text += _plot(folder, figures, what, how)
    text += _pairs(folder, figures) + _processes(folder, figures)
    text += "## All figures\n\n" + _table(everything)
    (folder / "results.md").write_text(text)
