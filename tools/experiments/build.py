"""Sets up the machine and builds the programs, where that is still to be done."""
import os
import pathlib

from .jobs import JobError

PROGRAMS = [f"millrace-{name}" for name in ("records", "lr", "predict", "ps", "launch", "report", "convnet")]
BUILD_S = 3600


def build(source_dir, runner, say):
    """Into build/bin of the source tree, by the release preset."""
    say("== set up and build (quick when nothing changed)")
    cores = str(len(os.sched_getaffinity(0)))
    runner.run("setup.sh", [f"{source_dir}/tools/setup.sh"], timeout_s=BUILD_S)
    preset = ["cmake", "--preset", "release", "-S", source_dir]
    runner.run("cmake", preset, timeout_s=BUILD_S)
    targets = ["cmake", "--build", f"{source_dir}/build", "-j", cores, "--target", *PROGRAMS]
    runner.run("cmake --build", targets, timeout_s=BUILD_S)


def check_programs(bin_dir):
    for program in PROGRAMS:
        if not os.access(pathlib.Path(bin_dir) / program, os.X_OK):
            raise JobError(f"{bin_dir} has no program {program}: give the --bin of a build, or none to build here")
