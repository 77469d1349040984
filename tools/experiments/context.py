"""What an experiment works with: runs jobs in its folder and gathers what it finds."""
import json
import os
import pathlib
import shutil

from . import units
from .findings import Findings
from .run_folder import Run


class Context:
    def __init__(self, folder, quick, data, runner, say):
        self.folder = pathlib.Path(folder)
        self.quick = quick
        self.data = data
        self.runner = runner
        self.say = say
        self.found = Findings()

    def choose(self, full, quick):
        return quick if self.quick else full

    def threads(self, workers):
        """Compute threads of each worker: the cores, shared out."""
        return max(1, len(os.sched_getaffinity(0)) // workers)

    def run(self, job, keep_model=True):
        """Runs the job into a folder of its own name, with millrace-report's page and text beside it."""
        shape = f"{job.workers} worker{'s' * (job.workers > 1)}"
        self.say(f"    {job.name}: {job.mode}, {shape}, batch {job.batch}")
        folder = self.folder / job.name
        output = self.runner.run_job(job, folder, self.folder / f"{job.name}.log")
        run = Run(job, folder, output)
        if job.profile:
            self.runner.tool("millrace-report", folder, log=folder / "report.txt")
        if not keep_model:
            shutil.rmtree(folder / "model", ignore_errors=True)
        self.found.runs.append(run)
        self.found.commands.append(output.command)
        self.say(f"      {units.seconds(output.seconds)}: {summary(run)}")
        return run

    def tool(self, name, *words, log=None):
        output = self.runner.tool(name, *words, log=log)
        self.found.commands.append(output.command)
        return output

    def verdict(self, run):
        """millrace-report's, as it says it to programs."""
        output = self.runner.tool("millrace-report", "--json", run.folder)
        return json.loads(next(line for line in output.lines if line.startswith("{")))


def summary(run):
    parts = [f"{run.updates:,} updates, {units.number(run.examples_per_s)} examples/s"]
    if "accuracy" in run.final:
        parts.append(f"test accuracy {units.percent(run.final['accuracy'])}")
    return ", ".join(parts)
