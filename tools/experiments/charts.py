# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG texts. Colours come from the page's CSS, so they follow the light and dark theme."""
import html
import math

WIDTH, HEIGHT = 560, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 24, 34, 38


def esc(text):
    return html.escape(str(text), quote=True)


def ticks(low, high, count=5):
    """Round numbers that cover the range from low to high."""
    if high <= low:
        high = low + (abs(low) or 1)
    rough = (high - low) / count
    base = 10 ** math.floor(math.log10(rough))
    step = next(base * factor for factor in (1, 2, 5, 10) if base * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [step * i for i in range(first, last + 1)]


def tick_text(value):
    if abs(value) >= 1e6:
        return f"{value / 1e6:g} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:g} k"
    return f"{round(value, 10):g}"


def frame(title, unit, parts, width=WIDTH, height=HEIGHT):
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{esc(title)}">'
        f'<text x="12" y="20" class="title">{esc(title)}<tspan class="unit" dx="8">{esc(unit)}</tspan></text>'
        + "".join(parts)
        + "</svg>"
    )


def y_axis(marks, scale, left=LEFT, right=WIDTH - RIGHT):
    parts = []
    for mark in marks:
        y = scale(mark)
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="rule"/>')
        parts.append(f'<text x="{left - 7}" y="{y + 4:.1f}" text-anchor="end">{tick_text(mark)}</text>')
    return parts


def legend(names, y):
    parts, x = [], LEFT
    for i, name in enumerate(names):
        parts.append(f'<rect x="{x}" y="{y - 8}" width="12" height="4" rx="2" class="f{i % 8}"/>')
        parts.append(f'<text x="{x + 17}" y="{y - 3}">{esc(name)}</text>')
        x += 30 + 6.6 * len(name)
    return parts


def lines(title, unit, x_label, series, from_zero=False, x_range=None):
    """series: [(name, [(x, y)])]. Points without y (None) are skipped."""
    series = [(name, [(x, y) for x, y in points if y is not None]) for name, points in series]
    every = [point for _, points in series for point in points]
    if not every:
        return frame(title, unit, [f'<text x="{LEFT}" y="{HEIGHT / 2}">no samples</text>'])
    low_x, high_x = x_range or (min(x for x, _ in every), max(x for x, _ in every))
    marks = ticks(0 if from_zero else min(y for _, y in every), max(y for _, y in every))
    x_of = lambda x: LEFT + (x - low_x) / ((high_x - low_x) or 1) * (WIDTH - LEFT - RIGHT)
    y_of = lambda y: HEIGHT - BOTTOM - (y - marks[0]) / (marks[-1] - marks[0]) * (HEIGHT - BOTTOM - TOP - 14)
    parts = y_axis(marks, y_of)
    for mark in ticks(low_x, high_x, 6):
        if low_x <= mark <= high_x:
            parts.append(
                f'<text x="{x_of(mark):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick_text(mark)}</text>'
            )
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{esc(x_label)}</text>')
    for i, (name, points) in enumerate(series):
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" class="line c{i % 8}"/>')
        if len(points) <= 40:
            for x, y in points:
                tip = f"{name}: {tick_text(x)} → {y:.4g}"
                parts.append(
                    f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.6"'
                    f' class="f{i % 8}"><title>{esc(tip)}</title></circle>'
                )
    return frame(title, unit, parts + legend([name for name, _ in series], HEIGHT - 4))


def bars(title, unit, groups, series, from_zero=True):
    """series: [(name, [value or None, one for each group])]; names that begin with "old" are drawn hollow."""
    every = [value for _, values in series for value in values if value is not None]
    marks = ticks(0 if from_zero else min(every), max(every)) if every else [0, 1]
    y_of = lambda y: HEIGHT - BOTTOM - (y - marks[0]) / (marks[-1] - marks[0]) * (HEIGHT - BOTTOM - TOP - 14)
    parts = y_axis(marks, y_of)
    room = (WIDTH - LEFT - RIGHT) / max(1, len(groups))
    bar = min(34, room * 0.8 / max(1, len(series)))
    for g, group in enumerate(groups):
        middle = LEFT + room * (g + 0.5)
        parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{esc(group)}</text>')
        for s, (name, values) in enumerate(series):
            if values[g] is None:
                continue
            x = middle + (s - len(series) / 2) * bar
            y = y_of(values[g])
            kind = "hollow" if name.startswith("old") else "bar"
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{bar - 2:.1f}" height="{max(0.5, HEIGHT - BOTTOM - y):.1f}"'
                ' rx="2"'
                f' class="{kind} f{s % 8} c{s % 8}"><title>{esc(f"{name}, {group}: {values[g]:.4g}")}</title></rect>'
            )
    return frame(title, unit, parts + legend([name for name, _ in series], HEIGHT - 4))


def timeline(title, unit, lanes, length, categories):
    """lanes: [(label, [(begin, duration, depth, category, tip, text)])], in the unit of `length`."""
    width, left, row = 1140, 150, 17
    heights = [row * (1 + max((span[2] for span in spans), default=0)) + 10 for _, spans in lanes]
    height = TOP + sum(heights) + 44
    x_of = lambda x: left + x / length * (width - left - RIGHT)
    parts, y = [], TOP + 4
    for mark in ticks(0, length, 8):
        if mark <= length:
            parts.append(
                f'<line x1="{x_of(mark):.1f}" x2="{x_of(mark):.1f}" y1="{TOP}" y2="{height - 40}" class="rule"/>'
            )
            parts.append(f'<text x="{x_of(mark):.1f}" y="{height - 24}" text-anchor="middle">{tick_text(mark)}</text>')
    for (label, spans), lane_height in zip(lanes, heights):
        parts.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{esc(label)}</text>')
        for begin, duration, depth, category, tip, text in spans:
            x, wide = x_of(max(0, begin)), x_of(min(length, begin + duration)) - x_of(max(0, begin))
            parts.append(
                f'<rect x="{x:.1f}" y="{y + depth * row:.1f}" width="{max(0.8, wide):.1f}" height="{row - 3}" rx="2"'
                f' class="k-{category}"><title>{esc(tip)}</title></rect>'
            )
            if wide > 7 * len(text) + 6:
                parts.append(f'<text x="{x + 4:.1f}" y="{y + depth * row + 11:.1f}" class="inside">{esc(text)}</text>')
        y += lane_height
    x = left
    for category in categories:
        parts.append(f'<rect x="{x}" y="{height - 13}" width="11" height="9" rx="2" class="k-{category}"/>')
        parts.append(f'<text x="{x + 16}" y="{height - 5}">{category}</text>')
        x += 34 + 6.6 * len(category)
    return frame(title, unit, parts, width, height).replace('class="chart"', 'class="chart wide"')
