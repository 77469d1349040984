# SPDX-License-Identifier: Apache-2.0
"""Results as self-contained pages, Markdown and JSON. A result is the dict in results.json."""
import html
import pathlib

from . import old_figures, units
from .findings import Table

STYLE = (pathlib.Path(__file__).parent / "style.css").read_text(encoding="utf-8")
THEME = """
const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
const show = on => root.classList.toggle("dark", on);
show(dark.matches);
dark.addEventListener("change", event => show(event.matches));
document.querySelector("button").addEventListener("click", () => show(!root.classList.contains("dark")));
"""


def esc(text):
    return html.escape(str(text))


def shell(title, brand_link, nav, body):
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width"><title>{esc(title)}</title><style>{STYLE}</style></head>\n<body><div'
        f' class="top"><a class="brand" href="{brand_link}">Millrace experiments</a><nav>{nav}</nav><button>light /'
        f" dark</button></div>\n<main>{body}</main><script>{THEME}</script></body></html>\n"
    )


def passed_text(checks):
    """The state of checks none of which failed."""
    inconclusive = sum(not check["conclusive"] for check in checks)
    return f"{len(checks) - inconclusive} checks passed" + (f", {inconclusive} inconclusive" if inconclusive else "")


def pill(result):
    failed = sum(check["failed"] for check in result["checks"])
    if result["error"]:
        return '<span class="pill bad">failed</span>'
    if failed:
        return f'<span class="pill bad">{failed} of {len(result["checks"])} checks failed</span>'
    return f'<span class="pill">{passed_text(result["checks"])}</span>'


def facts(result):
    host = result["host"]
    parts = [
        f"<b>{esc(result['date'])}</b>",
        "quick run" if result["quick"] else "full run",
        f"{esc(host['cpu'])}, <b>{host['cores']} cores</b>, {units.bytes_text(host['memory_bytes'])}",
        esc(result["version"]),
    ]
    return '<div class="facts">' + "".join(f"<span>{part}</span>" for part in parts) + "</div>"


def table_of(entry):
    return Table(entry["title"], entry["columns"], entry["rows"], entry["note"])


def state_of(check):
    if not check["conclusive"]:
        return "inconclusive"
    return "FAILED" if check["failed"] else "passed"


def checks_html(result):
    items = []
    for check in result["checks"]:
        tip = old_figures.MISTAKES.get(check["mistake"], "")
        about = f' <small title="{esc(tip)}">(mistake {check["mistake"]})</small>' if check["mistake"] else ""
        items.append(
            f'<li class="{"bad" if check["failed"] else "good"}"><em>{state_of(check)}</em>'
            f'<span>{esc(check["name"])}{about}</span><small>{esc(check["numbers"])}</small></li>'
        )
    return (
        '<section id="checks"><h2>Checks</h2><div class="card"><ul'
        f' class="checks">{"".join(items)}</ul></div></section>'
    )


def page_html(result, figures):
    tiles = "".join(
        f'<div class="card tile"><b>{esc(value)}</b><span>{esc(what)}</span></div>'
        for value, what in result["headlines"]
    )
    drawn = "".join(
        f'<section><h2>{esc(heading)}</h2><div class="charts">{"".join(plots)}</div><p'
        f' class="hint">{esc(note)}</p></section>'
        for heading, note, plots in figures
    )
    tables = [table_of(entry).html() for entry in result["tables"]]
    links = "".join(
        f'<a href="{esc(run["name"])}/report.html">{esc(run["name"])}</a>' for run in result["runs"] if run["report"]
    )
    reports = f'<section><h2>Report pages of the runs</h2><p class="facts">{links}</p></section>' if links else ""
    error = (
        f'<section><h2>It failed</h2><div class="card"><pre>{esc(result["error"])}</pre></div></section>'
        if result["error"]
        else ""
    )
    notes = "".join(f'<p class="hint">{esc(note)}</p>' for note in result["notes"])
    commands = "".join(f"<pre>{esc(command)}</pre>" for command in result["commands"])
    commands = (
        f'<section id="commands"><h2>Commands</h2><div class="card">{commands}</div></section>' if commands else ""
    )
    body = [
        f'<h1>{esc(result["title"])}{pill(result)}</h1>',
        f'<p class="lead">{esc(result["line"])}; {units.seconds(result["seconds"])}</p>',
        facts(result),
        error,
        f'<div class="tiles">{tiles}</div>',
        *tables[:1],
        drawn,
        *tables[1:],
        notes,
        checks_html(result),
        reports,
        commands,
    ]
    nav = (
        '<a href="#checks">checks</a><a href="#commands">commands</a><a href="results.json">results.json</a><a'
        ' href="page.md">Markdown</a>'
    )
    return shell(result["title"], "../index.html", nav, "".join(body))


def page_markdown(result):
    lines = [f"# {result['title']}", "", result["line"] + ".", ""]
    kind = "quick" if result["quick"] else "full"
    host = result["host"]
    lines += [
        (
            f"{result['date']}, {kind} run, {units.seconds(result['seconds'])}; {host['cpu']}, {host['cores']} cores,"
            f" {units.bytes_text(host['memory_bytes'])}; {result['version']}"
        ),
        "",
    ]
    if result["error"]:
        lines += [f"**It failed:** {result['error']}", ""]
    lines += [f"- **{value}** {what}" for value, what in result["headlines"]] + [""]
    lines += [table_of(entry).markdown() for entry in result["tables"]]
    lines += [f"{note}\n" for note in result["notes"]]
    lines += ["### Checks", ""]
    for check in result["checks"]:
        about = f" (mistake {check['mistake']})" if check["mistake"] else ""
        lines.append(f"- {state_of(check)}: {check['name']}{about}: {check['numbers']}")
    lines += ["", "### Commands", ""] + [f"    {command}" for command in result["commands"]]
    return "\n".join(lines) + "\n"


def mistakes_table(results):
    """The list of what the reports got wrong, with the checks of all experiments."""
    rows = []
    for number, text in old_figures.MISTAKES.items():
        own = [
            (result["name"], check) for result in results for check in result["checks"] if check["mistake"] == number
        ]
        failed = [f"{name}: {check['name']}" for name, check in own if check["failed"]]
        where = sorted({name for name, _ in own})
        state = (
            "not run"
            if not own
            else "FAILED: " + "; ".join(failed) if failed else passed_text([check for _, check in own])
        )
        rows.append([number, text, state, ", ".join(where) or "–"])
    return Table("What the reports got wrong", ["", "mistake", "here", "checked by"], rows)


def index_html(results):
    cards = []
    for result in results:
        lines = "".join(f"<dt>{esc(value)}</dt><dd>{esc(what)}</dd>" for value, what in result["headlines"])
        cards.append(
            '<div class="card"><h3><a'
            f' href="{esc(result["name"])}/page.html">{esc(result["title"])}</a></h3>{pill(result)}'
            f'<p>{esc(result["line"])}</p><dl>{lines}</dl></div>'
        )
    checks = [check for result in results for check in result["checks"]]
    passed = sum(check["passed"] for check in checks)
    broken = sum(bool(result["error"]) for result in results)
    seconds = sum(result["seconds"] for result in results)
    lead = (
        f"{len(results)} experiments in {units.seconds(seconds)}, {broken} failed; {passed} of {len(checks)} checks"
        " passed. Every page compares with the old figures."
    )
    body = (
        f'<h1>The old experiments, run again</h1><p class="lead">{lead}</p>{facts(results[0])}<section><div'
        f' class="cards">{"".join(cards)}</div></section>{mistakes_table(results).html()}'
    )
    return shell("Millrace experiments", "index.html", '<a href="index.md">Markdown</a>', body)


def index_markdown(results):
    lines = ["# The old experiments, run again", ""]
    for result in results:
        failed = [check for check in result["checks"] if check["failed"]]
        state = (
            "failed" if result["error"] else f"{len(failed)} checks failed" if failed else passed_text(result["checks"])
        )
        lines += [f"- [{result['title']}]({result['name']}/page.md): {state}"]
        lines += [f"  - **{value}** {what}" for value, what in result["headlines"]]
    return "\n".join([*lines, "", mistakes_table(results).markdown()])
