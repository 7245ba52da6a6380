# SPDX-License-Identifier: GPL-2.0
"""Writes the figures down: JSON for programs, Markdown with plots for people."""

import json

from . import model, plot
from .figures import size_name
from .times import HOW, PAIRS, SIZES

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0 -->
# What Weft costs, and what else there is

Measured by `make bench` on {date}, kernel {kernel}, of {tree}. Each value is the median of {runs} runs, in
brackets the least and the greatest. Times are those of *emulated* machines ({accel}), on processors
that also run the emulators' own threads: they compare ways with each other, in the same run, and
say nothing about hardware. Counts of TLPs, interrupts and instructions are exact.

*Model* is what hardware would do, **computed, not measured**: a Gen{speed} x{width} link, 24 bytes
besides the payload of each TLP, 300 ns from host to host, no software
(`scripts/lab/weftlab/speed/model.py`).

"""

SERIES = {
    "qp-polled": "Weft queue pair, polled",
    "qp-sleeping": "Weft queue pair, sleeping",
    "qp-write": "Weft RDMA write",
    "channel-polled": "Weft channel, polled",
    "channel-sleeping": "Weft channel, sleeping",
    "tcp-dgram": "TCP, virtio-net over a socket",
    "tcp-tap": "TCP, virtio-net over taps",
}


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
        f"| {met} | {_number(figure.model)} |"
    )


def _table(figures):
    lines = ["| figure | median (spread) | unit | target | | model |", "|---|---|---|---|---|---|"]
    return "\n".join(lines + [_row(figure) for figure in figures]) + "\n"


def _short(figure):
    """A target that is missed, with a reason only where what was measured gives one."""
    return f"- `{figure.id}`" + (f": {figure.reason}" if figure.reason else "") + "\n"


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


def _plot(folder, figures, what, title, unit, modelled):
    series = {name: _points(figures, way, what) for way, name in SERIES.items()}
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    series["Model of hardware"] = [(size, modelled(size)) for size in SIZES]
    (folder / f"{what}.svg").write_text(plot.svg(title, unit, series))
    return f"![{title}]({what}.svg)\n\n"


def _rates(folder, figures):
    """Message rate by how many queue pairs there are."""
    series = {}
    for how in HOW:
        named = [(1, figures.get(f"qp-{how}-message-rate-64"))]
        named += [(n, figures.get(f"qp-{how}-message-rate-64-{n}-pairs")) for n in PAIRS[1:]]
        points = [(n, figure.value) for n, figure in named if figure]
        if points:
            series[f"Weft queue pairs, {how}"] = points
    if not series:
        return ""
    title = "Messages of 64 bytes, by queue pairs"
    (folder / "message-rate.svg").write_text(plot.svg(title, "1/s", series, "queue pairs"))
    return f"![{title}](message-rate.svg)\n\n"


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
        text += "### Where it falls short\n\n" + "".join(map(_short, missed)) + "\n"
    text += _plot(folder, figures, "round-trip", "A message there and one back", "us",
                  lambda size: 2e6 * model.one_way(size))  # fmt: skip
    text += _plot(folder, figures, "throughput", "Payload in one direction", "MB/s",
                  lambda size: model.throughput(size) / 1e6)  # fmt: skip
    text += _rates(folder, figures)
    text += "## All figures\n\n" + _table(everything)
    (folder / "results.md").write_text(text)
