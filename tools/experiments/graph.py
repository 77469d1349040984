"""The picture of a net's computation graph, from the DOT text that millrace-convnet draws."""
import re

from .charts import esc

NODE = re.compile(r'\s*"[^"]+" \[label="(?P<label>[^"]*)"\]')
BOX, GAP, TALL = 128, 26, 58


def picture(context, net):
    """(heading, note, [svg]): the forward chain, from images to loss."""
    output = context.tool("millrace-convnet", f"--net={net}", "--graph=-")
    labels = [match["label"].split("\\n") for match in map(NODE.match, output.lines) if match]
    note = "From images to loss. Each run folder has it as graph.dot, and TensorBoard shows it."
    return "Computation graph", note, [chain([each for each in labels if each != ["labels"]])]


def chain(labels, per_row=8):
    rows = -(-len(labels) // per_row)
    width = per_row * (BOX + GAP) + GAP
    parts = []
    for i, lines in enumerate(labels):
        x, y = GAP + i % per_row * (BOX + GAP), 14 + i // per_row * (TALL + 24)
        parts.append(f'<rect x="{x}" y="{y}" width="{BOX}" height="{TALL}" rx="8" class="box"/>')
        if len(lines) == 1:
            lines = lines[0].split(" ", 1)
        for j, line in enumerate(lines):
            kind = ' class="title"' if j == 0 else ""
            parts.append(f'<text x="{x + BOX / 2}" y="{y + 18 + 15 * j}" text-anchor="middle"{kind}>{esc(line)}</text>')
        if i + 1 < len(labels) and (i + 1) % per_row:
            middle = y + TALL / 2
            parts.append(f'<path d="M{x + BOX + 4} {middle}h{GAP - 10}m-5 -4l5 4l-5 4" class="arrow"/>')
    return f'<svg class="chart wide" viewBox="0 0 {width} {rows * (TALL + 24) + 10}">{"".join(parts)}</svg>'
