# SPDX-License-Identifier: GPL-2.0
"""A plot as SVG: lines over sizes, both axes logarithmic."""

import math

from .figures import size_name

_COLOURS = ("#1b6ca8", "#5fa8d3", "#c44536", "#e09f3e", "#588157", "#6d597a", "#333333")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 460, 70, 250, 40, 50


def svg(title, unit, series, over="bytes"):
    """`series`: name -> [(size, value)]; `over`: of what there are so many."""
    points = [point for line in series.values() for point in line]
    sizes = sorted({size for size, _ in points})
    low = math.floor(math.log10(min(value for _, value in points)))
    high = math.ceil(math.log10(max(value for _, value in points)))
    high += high == low
    left, right = math.log2(sizes[0]), math.log2(sizes[-1])
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(size):
        return _LEFT + (math.log2(size) - left) / ((right - left) or 1) * inner_width

    def y(value):
        return _TOP + (high - math.log10(value)) / (high - low) * inner_height

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{title} ({unit})</text>',
    ]
    for power in range(low, high + 1):
        at = y(10**power)
        out.append(f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{_LEFT + inner_width}" y2="{at:.1f}" stroke="#ddd"/>')
        label = f"{10**power:g}"
        out.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for size in sizes:
        at = x(size)
        out.append(f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{size_name(size)}</text>')
    out.append(f'<text x="{_LEFT + inner_width / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">{over}</text>')
    for number, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dashed = ' stroke-dasharray="5 4"' if name.startswith("Model") else ""
        path = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
        out += [f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>' for size, value in line]
        at = _TOP + 10 + 20 * number
        out.append(f'<line x1="{_WIDTH - _RIGHT + 15}" y1="{at}" x2="{_WIDTH - _RIGHT + 40}" y2="{at}" '
                   f'stroke="{colour}" stroke-width="2"{dashed}/>')  # fmt: skip
        out.append(f'<text x="{_WIDTH - _RIGHT + 46}" y="{at + 4}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])
