# SPDX-License-Identifier: Apache-2.0
"""One training job: its command, and how it is run. No process outlives it, whatever happens."""
import dataclasses
import os
import pathlib
import queue
import resource
import shlex
import signal
import subprocess
import threading
import time

HEARTBEAT_S = 10
SAMPLE_MS = 50
STOP_S = 20  # for a job to end after SIGINT


class JobError(Exception):
    """A job or a tool that failed; the text says which and why."""


@dataclasses.dataclass
class Job:
    """A run of a trainer: alone (workers 1, servers 0), or by millrace-launch."""

    name: str  # of the job and of its run folder
    program: str
    mode: str  # single, sync, async
    batch: int
    flags: dict
    workers: int = 1
    servers: int = 0
    deploy_mode: str = ""  # used instead of the numbers: --deploy_mode of millrace-launch
    profile: bool = True
    profile_steps: str = ""  # FIRST:LAST; empty: all
    check_loss: bool = True  # off for runs that are too short for the loss to fall
    timeout_s: float = 3600

    @property
    def effective_batch(self):
        return self.batch * (self.workers if self.mode == "sync" else 1)

    def command(self, bin_dir, run_dir):
        flags = dict(self.flags, batch_size=self.batch, run_dir=run_dir, sample_ms=SAMPLE_MS)
        if self.profile and self.profile_steps:
            flags["profile_steps"] = self.profile_steps
        elif self.profile:
            flags["profile"] = None
        words = [f"{bin_dir}/{self.program}"]
        if self.servers or self.deploy_mode:
            flags["mode"] = self.mode
            shape = [f"--num_ps={self.servers}", f"--num_workers={self.workers}"]
            if self.deploy_mode:
                shape = [f"--deploy_mode={self.deploy_mode}"]
            if self.servers:
                shape.append(f"--ps_flags=--sample_ms={SAMPLE_MS}")
            words = [f"{bin_dir}/millrace-launch", *shape, "--", *words]
        return words + [f"--{name}" if value is None else f"--{name}={value}" for name, value in flags.items()]


@dataclasses.dataclass
class Output:
    command: str
    lines: list
    seconds: float
    other_cores: float  # that other processes kept busy during the run


class Runner:
    """Runs commands one after the other, each in its own process group."""

    def __init__(self, bin_dir, echo):
        self.bin_dir = pathlib.Path(bin_dir)
        self.echo = echo

    def run_job(self, job, run_dir, log):
        return self.run(job.name, job.command(self.bin_dir, run_dir), log, job.timeout_s)

    def tool(self, name, *words, log=None, timeout_s=600):
        """Runs one of the programs to its end; the output has both its streams."""
        return self.run(name, [f"{self.bin_dir}/{name}", *map(str, words)], log, timeout_s)

    def run(self, name, words, log=None, timeout_s=600):
        command = " ".join(shlex.quote(str(word)) for word in words)
        begin, (host_before, own_before) = time.monotonic(), busy_seconds()
        try:
            process = subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise JobError(f"{name}: cannot start {words[0]}: {error.strerror}") from None
        lines = []
        try:
            self._follow(name, process, lines, begin, timeout_s)
        finally:
            stop(process)
            if log:
                pathlib.Path(log).write_text(f"$ {command}\n" + "\n".join(lines) + "\n", encoding="utf-8")
        if process.returncode != 0:
            raise JobError(f"{name}: status {process.returncode}: {failure_line(lines)}\n  command: {command}")
        seconds, (host_after, own_after) = time.monotonic() - begin, busy_seconds()
        others = (host_after - host_before - own_after + own_before) / max(seconds, 0.01)
        return Output(command, lines, seconds, max(0.0, others))

    def _follow(self, name, process, lines, begin, timeout_s):
        arrived = queue.Queue()

        def read():
            for line in process.stdout:
                arrived.put(line.rstrip("\n"))
            arrived.put(None)

        threading.Thread(target=read, daemon=True).start()
        echoed = begin
        while True:
            now = time.monotonic()
            if now - begin > timeout_s:
                raise JobError(f"{name}: not done after {timeout_s:.0f} s, stopped")
            if now - echoed >= HEARTBEAT_S:
                echoed = now
                self.echo(f"    ... {now - begin:.0f} s: {lines[-1].strip() if lines else 'no output yet'}")
            try:
                line = arrived.get(timeout=1)
            except queue.Empty:
                continue
            if line is None:
                try:
                    process.wait(timeout=STOP_S)
                except subprocess.TimeoutExpired:
                    raise JobError(f"{name}: closed its output but did not exit within {STOP_S} s, stopped") from None
                return
            lines.append(line)


def busy_seconds():
    """CPU seconds of the whole host, and of our processes that have exited."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def stop(process):
    """Stops the process and its group: first with SIGINT, so that millrace-launch can stop its processes."""
    for number, patience in ((signal.SIGINT, STOP_S), (signal.SIGKILL, 5)):
        if process.poll() is not None:
            break
        signal_group(process.pid, number)
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue
    signal_group(process.pid, signal.SIGKILL)


def signal_group(group, number):
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def failure_line(lines):
    """The line of a failed program's output that gives the reason."""
    messages = [line for line in lines if "millrace-" in line and ": " in line]
    return (messages or [line for line in lines if line.strip()] or ["no output"])[-1].strip()
