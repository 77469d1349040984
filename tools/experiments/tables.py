"""Tables of text, as Markdown, HTML and for the console."""
import dataclasses
import html


@dataclasses.dataclass
class Table:
    title: str
    columns: list  # names; those that begin with "old" hold the reports' figures
    rows: list  # of lists of texts
    note: str = ""  # which split the figures are from, units, what was skipped

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
