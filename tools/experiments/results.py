# SPDX-License-Identifier: Apache-2.0
"""Runs experiments one after the other, and writes the results of each."""
import datetime
import json
import os
import pathlib
import platform
import shutil
import time
import traceback

from . import checks, pages, units
from .findings import Findings, run_numbers, runs_table
from .jobs import JobError
from .run_folder import Run


class Context:
    """The environment of an experiment: runs jobs in its folder and collects the findings."""

    def __init__(self, folder, quick, data, runner, echo):
        self.folder = pathlib.Path(folder)
        self.quick = quick
        self.data = data
        self.runner = runner
        self.echo = echo
        self.found = Findings()

    def choose(self, full, quick):
        return quick if self.quick else full

    def threads(self, workers):
        """Compute threads of each worker: the cores divided by the workers."""
        return max(1, len(os.sched_getaffinity(0)) // workers)

    def run(self, job, keep_model=True):
        """Runs the job. Its run folder has the job's name, and the page and text of millrace-report."""
        shape = f"{job.workers} worker{'s' * (job.workers > 1)}"
        self.echo(f"    {job.name}: {job.mode}, {shape}, batch {job.batch}")
        folder = self.folder / job.name
        output = self.runner.run_job(job, folder, self.folder / f"{job.name}.log")
        run = Run(job, folder, output)
        if job.profile:
            self.runner.tool("millrace-report", folder, log=folder / "report.txt")
        if not keep_model:
            shutil.rmtree(folder / "model", ignore_errors=True)
        self.found.runs.append(run)
        self.found.commands.append(output.command)
        self.echo(f"      {units.seconds(output.seconds)}: {run_summary(run)}")
        return run

    def tool(self, name, *words, log=None):
        output = self.runner.tool(name, *words, log=log)
        self.found.commands.append(output.command)
        return output

    def diagnosis(self, run):
        """The diagnosis of millrace-report, from its JSON output."""
        output = self.runner.tool("millrace-report", "--json", run.folder)
        return json.loads(next(line for line in output.lines if line.startswith("{")))


def run_summary(run):
    parts = [f"{run.updates:,} updates, {units.number(run.examples_per_s)} examples/s"]
    if "accuracy" in run.final:
        parts.append(f"test accuracy {units.percent(run.final['accuracy'])}")
    return ", ".join(parts)


def host_facts():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next(
            (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine()
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"name": platform.node(), "cpu": cpu, "cores": len(os.sched_getaffinity(0)), "memory_bytes": memory}


def run_experiment(experiment, context, version):
    """Runs an experiment, writes its pages and returns its result. A failure becomes part of the result."""
    begin = time.monotonic()
    error = ""
    try:
        experiment.run(context)
    except JobError as problem:
        error = str(problem)
    except Exception:  # pylint: disable=broad-except
        # A figure that cannot be read is a failure of this experiment; the other experiments still run.
        error = traceback.format_exc()
    result = result_of(experiment, context, error, version, time.monotonic() - begin)
    write_result(result, context)
    return result


def result_of(experiment, context, error, version, seconds):
    found = context.found
    if found.runs and not error:
        found.tables.append(runs_table(found.runs))
        found.checks += checks.of_every_run(found.runs)
    return {
        "name": experiment.name,
        "title": experiment.title,
        "line": experiment.line,
        "quick": context.quick,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(seconds, 2),
        "version": version,
        "host": host_facts(),
        "error": error,
        "headlines": found.headlines,
        "tables": [vars(table) for table in found.tables],
        "checks": [{**vars(check), "failed": check.failed} for check in found.checks],
        "notes": found.notes,
        "numbers": found.numbers,
        "runs": (
            [{**run_numbers(run), "report": (run.folder / "report.html").exists()} for run in found.runs]
            if not error
            else []
        ),
        "commands": found.commands,
    }


def write_result(result, context):
    folder = context.folder
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "page.html", pages.page_html(result, context.found.figures))
    write(folder / "page.md", pages.page_markdown(result))
    write(folder / "results.json", json.dumps(result, indent=1, default=str) + "\n")


def write(path, text):
    """Writes the file completely or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def write_index(out, order):
    """Writes the index of all results in the folder, those of earlier commands included."""
    out = pathlib.Path(out)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in out.glob("*/results.json")]
    found.sort(key=lambda result: order.index(result["name"]) if result["name"] in order else len(order))
    if found:
        write(out / "index.html", pages.index_html(found))
        write(out / "index.md", pages.index_markdown(found))


def new_context(folder, quick, data, runner, echo):
    folder.mkdir(parents=True)
    return Context(folder, quick, data, runner, echo)
