# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/experiments.sh."""
import datetime
import os
import pathlib
import signal
import sys
import time

from . import catalogue, pages, results, units
from .data import Data
from .jobs import JobError, Runner
from .findings import Table

USAGE = """experiments.sh: runs the experiments of the old reports, and compares our figures with theirs

usage: tools/experiments.sh list
       tools/experiments.sh run NAME... [--quick] [--out=DIR]
       tools/experiments.sh run all [--quick] [--out=DIR]

  --quick       few epochs and steps: everything in under 10 minutes on two cores
  --out=DIR     where results go (default runs/experiments/DATE-TIME); a folder that already has
                results of the same experiment is refused
  --data=DIR    where generated data is kept (default data/experiments)
  --mnist=DIR   where MNIST is, or is downloaded to (default data/mnist)
  --bin=DIR     use these programs; by default they are built into build/bin

Each experiment writes DIR/NAME: page.html, page.md, results.json, and a run folder and a log for
each job. DIR/index.html links to all of them. Failed checks are printed, and the exit status
is 1; a failed experiment does not stop the next one.

Examples:
  tools/experiments.sh run all --quick
  tools/experiments.sh run lr-modes lr-ops --out=runs/s4
"""
PROGRAMS = [f"millrace-{name}" for name in ("records", "lr", "predict", "ps", "launch", "report", "convnet")]
BUILD_S = 3600
SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]


class UsageError(Exception):
    """A wrong command line; the text is the reason."""


def echo(text=""):
    print(text, flush=True)


def parse(words):
    """(command, names, options)"""
    stamp = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    options = {
        "quick": False,
        "out": f"{SOURCE_DIR}/runs/experiments/{stamp}",
        "data": f"{SOURCE_DIR}/data/experiments",
        "mnist": f"{SOURCE_DIR}/data/mnist",
        "bin": "",
    }
    names = []
    for word in words:
        flag, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("-"):
            names.append(word)
        elif word == "--quick":
            options["quick"] = True
        elif flag in ("out", "data", "mnist", "bin"):
            if not equals or not value:
                raise UsageError(f"{word}: expected --{flag}=DIR")
            options[flag] = str(pathlib.Path(value).absolute())
        else:
            raise UsageError(f"unknown option '{word}'")
    if not names:
        raise UsageError("expected a command: list or run")
    return names[0], names[1:], options


def show_list():
    rows = [[e.name, f"{e.quick_s} s", f"{e.full_s} s", e.line] for e in catalogue.EXPERIMENTS]
    echo(
        Table(
            "Experiments (approximate times on two idle cores)", ["name", "--quick", "full", "purpose"], rows
        ).text()
    )
    return 0


def chosen(names):
    if not names:
        raise UsageError("run: expected the names of experiments, or all")
    if names == ["all"]:
        return catalogue.EXPERIMENTS
    for name in names:
        if name not in catalogue.BY_NAME:
            raise UsageError(f"no experiment '{name}': expected all, or some of {', '.join(catalogue.BY_NAME)}")
    return [catalogue.BY_NAME[name] for name in dict.fromkeys(names)]


def check_folders(experiments, options):
    out = pathlib.Path(options["out"])
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out={out}: not a folder")
    taken = [e.name for e in experiments if (out / e.name).exists()]
    if taken:
        raise UsageError(f"{out} already has {', '.join(taken)}: give another --out, or move it away")


def build(runner):
    """Into build/bin of the source tree, by the release preset."""
    echo("== set up and build (quick when nothing changed)")
    cores = str(len(os.sched_getaffinity(0)))
    runner.run("setup.sh", [f"{SOURCE_DIR}/tools/setup.sh"], timeout_s=BUILD_S)
    preset = ["cmake", "--preset", "release", "-S", SOURCE_DIR]
    runner.run("cmake", preset, timeout_s=BUILD_S)
    targets = ["cmake", "--build", f"{SOURCE_DIR}/build", "-j", cores, "--target", *PROGRAMS]
    runner.run("cmake --build", targets, timeout_s=BUILD_S)


def check_programs(bin_dir):
    for program in PROGRAMS:
        if not os.access(pathlib.Path(bin_dir) / program, os.X_OK):
            raise JobError(f"{bin_dir} has no program {program}: give the --bin of a build, or none to build here")


def run(names, options):
    experiments = chosen(names)
    check_folders(experiments, options)
    out = pathlib.Path(options["out"])
    runner = Runner(options["bin"] or SOURCE_DIR / "build/bin", echo)
    if not options["bin"]:
        build(runner)
    check_programs(runner.bin_dir)
    version = runner.tool("millrace-lr", "--version").lines[0]
    data = Data(options["data"], options["mnist"], SOURCE_DIR, runner, echo)
    about = sum(e.quick_s if options["quick"] else e.full_s for e in experiments)
    echo(f"{len(experiments)} experiments, about {about} s on two idle cores; results in {out}")
    begin = time.monotonic()
    found = []
    try:
        for number, experiment in enumerate(experiments, 1):
            echo(
                f"\n[{number}/{len(experiments)}] {experiment.name}:"
                f" {experiment.title} ({time.monotonic() - begin:.0f} s so far)"
            )
            context = results.new_context(out / experiment.name, options["quick"], data, runner, echo)
            found.append(results.run_experiment(experiment, context, version))
            show_result(found[-1], context)
    finally:
        if out.exists():
            results.write_index(out, list(catalogue.BY_NAME))
    return conclude(found, out, time.monotonic() - begin)


def show_result(result, context):
    for table in context.found.tables:
        echo("\n" + table.text())
    echo()
    for check in result["checks"]:
        if check["failed"] or not check["conclusive"]:
            echo(f"  {pages.state_of(check)}: {check['name']}: {check['numbers']}")
    if result["error"]:
        echo(f"  FAILED: {result['error']}")
    passed = sum(check["passed"] for check in result["checks"])
    echo(
        f"  {passed} of {len(result['checks'])} checks passed in {units.seconds(result['seconds'])}; page:"
        f" {context.folder}/page.html"
    )


def conclude(found, out, seconds):
    failed = [(r["name"], c) for r in found for c in r["checks"] if c["failed"]]
    broken = [r["name"] for r in found if r["error"]]
    echo(f"\n{len(found)} experiments in {units.seconds(seconds)}; all pages: {out}/index.html")
    for name in broken:
        echo(f"FAILED: {name} did not finish")
    for name, check in failed:
        echo(f"FAILED: {name}: {check['name']}: {check['numbers']}")
    inconclusive = sum(not check["conclusive"] for result in found for check in result["checks"])
    if not failed and not broken:
        echo(f"all checks passed{f', {inconclusive} inconclusive because the machine was busy' if inconclusive else ''}")
    return 1 if failed or broken else 0


def main(words):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if not words or "--help" in words or "-h" in words:
        echo(USAGE)
        return 0 if words else 2
    try:
        command, names, options = parse(words)
        if command == "list":
            if names:
                raise UsageError(f"list takes no names, found '{names[0]}'")
            return show_list()
        if command == "run":
            return run(names, options)
        raise UsageError(f"unknown command '{command}': expected list or run")
    except UsageError as error:
        print(f"experiments: {error} (see --help)", file=sys.stderr)
        return 2
    except (JobError, OSError) as error:
        print(f"experiments: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nexperiments: stopped; no process is left, the results so far are kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
