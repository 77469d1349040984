"""The environment of an experiment: runs jobs in its folder and collects the findings."""
import json
import os
import pathlib
import shutil

from . import units
from .findings import Findings
from .run_folder import Run


class Context:
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
        self.echo(f"      {units.seconds(output.seconds)}: {summary(run)}")
        return run

    def tool(self, name, *words, log=None):
        output = self.runner.tool(name, *words, log=log)
        self.found.commands.append(output.command)
        return output

    def diagnosis(self, run):
        """The diagnosis of millrace-report, from its JSON output."""
        output = self.runner.tool("millrace-report", "--json", run.folder)
        return json.loads(next(line for line in output.lines if line.startswith("{")))


def summary(run):
    parts = [f"{run.updates:,} updates, {units.number(run.examples_per_s)} examples/s"]
    if "accuracy" in run.final:
        parts.append(f"test accuracy {units.percent(run.final['accuracy'])}")
    return ", ".join(parts)
