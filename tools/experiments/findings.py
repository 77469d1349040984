# SPDX-License-Identifier: Apache-2.0
"""What an experiment found: tables, figures and checks, ready to be written as a page, Markdown and JSON."""
import dataclasses
import html

from . import checks, units


@dataclasses.dataclass
class Table:
    title: str
    columns: list  # names; columns whose name begins with "old" have the figures of the old reports
    rows: list  # of lists of texts
    note: str = ""  # the split that the figures are from, units, skipped cells

    def is_old(self, column):
        return self.columns[column].startswith("old")

    def markdown(self):
        def line(cells):
            return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

        text = [f"### {self.title}", "", line(self.columns), "|" + "---|" * len(self.columns)]
        text += [line(row) for row in self.rows]
        return "\n".join(text + (["", self.note] if self.note else [])) + "\n"

    def html(self):
        def row(tag, cells):
            parts = []
            for i, cell in enumerate(cells):
                kind = ' class="old"' if self.is_old(i) else ""
                parts.append(f"<{tag}{kind}>{html.escape(str(cell))}</{tag}>")
            return f"<tr>{''.join(parts)}</tr>"

        body = "\n".join(row("td", cells) for cells in self.rows)
        note = f'<p class="hint">{html.escape(self.note)}</p>' if self.note else ""
        return (
            f'<section><h2>{html.escape(self.title)}</h2>\n<div class="card flush"><div class="scroll"><table>'
            f'<thead>{row("th", self.columns)}</thead>\n<tbody>{body}</tbody></table></div></div>{note}</section>'
        )

    def text(self):
        grid = [list(map(str, row)) for row in [self.columns, *self.rows]]
        widths = [max(len(row[i]) for row in grid) for i in range(len(self.columns))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in grid]
        return "\n".join([self.title, *("  " + line for line in lines)])


@dataclasses.dataclass
class Findings:
    headlines: list = dataclasses.field(default_factory=list)  # (number, description)
    tables: list = dataclasses.field(default_factory=list)
    figures: list = dataclasses.field(default_factory=list)  # (heading, note, [svg])
    checks: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)
    runs: list = dataclasses.field(default_factory=list)
    commands: list = dataclasses.field(default_factory=list)  # texts, in order
    numbers: dict = dataclasses.field(default_factory=dict)  # for results.json

    def table(self, title, columns, rows, note=""):
        self.tables.append(Table(title, columns, rows, note))

    def check(self, name, passed, numbers, mistake=0):
        self.checks.append(checks.Check(name, bool(passed), numbers, mistake))


def runs_table(runs):
    """The table that every experiment has: effective batch, updates, predicted and measured bytes."""
    rows = []
    for run in runs:
        job, wire = run.job, run.wire()
        rows.append(
            [
                job.name,
                job.mode,
                f"{job.workers} + {job.servers}",
                f"{job.batch:,}",
                f"{job.effective_batch:,}",
                f"{run.updates:,}",
                f"{run.examples:,}",
                units.number(run.training_s),
                units.number(run.wall_s),
                units.number(run.examples_per_s),
                units.bytes_text(wire[0]) if wire else "–",
                units.bytes_text(wire[1]) if wire else "–",
                f"{run.other_cores:.1f}",
            ]
        )
    columns = ["run", "mode", "workers + servers", "batch", "effective batch", "updates", "examples", "training s"]
    columns += ["whole run s", "examples/s", "predicted bytes", "measured bytes", "other work, cores"]
    note = (
        "Updates are those of the model: a synchronous one has the gradients of all workers, an asynchronous one that"
        " of one worker. Examples, seconds and examples/s are of the training split, without evaluation; the whole run"
        " includes start, evaluation and saving. Bytes are of both directions and of all workers. Other work is the cores that"
        " other processes kept busy: times are comparable where it is near 0."
    )
    return Table("Runs", columns, rows, note)


def run_numbers(run):
    wire = run.wire()
    return {
        "name": run.job.name,
        "mode": run.job.mode,
        "workers": run.job.workers,
        "servers": run.job.servers,
        "batch": run.job.batch,
        "effective_batch": run.job.effective_batch,
        "updates": run.updates,
        "examples": run.examples,
        "training_s": run.training_s,
        "wall_s": run.wall_s,
        "examples_per_s": run.examples_per_s,
        "predicted_bytes": wire[0] if wire else None,
        "measured_bytes": wire[1] if wire else None,
        "other_cores": run.other_cores,
        "final_test_metrics": run.final,
        "command": run.command,
    }
