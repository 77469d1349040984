# SPDX-License-Identifier: Apache-2.0
"""Modes, hosts, placement and the start of a job."""
from .. import old_figures, units
from ..jobs import Job

MODES = {"single": (1, 0), "cluster": (2, 1), "cluster2": (3, 1)}
START_LIMIT_S = 1.0


def run(context):
    """The three deployments of the old reports, by the flag of the same name."""
    flags, _ = context.data.clicks()
    flags = {name: flags[name] for name in ("train", "num_features")}
    found = context.found
    runs, rows = {}, []
    for deploy_mode, (workers, servers) in MODES.items():
        mode = "sync" if servers else "single"
        job = Job(
            deploy_mode,
            "millrace-lr",
            mode,
            100,
            {**flags, "max_examples": 200_000, "threads": 1},
            workers=workers,
            servers=servers,
            deploy_mode=deploy_mode,
        )
        job_run = context.run(job)
        runs[deploy_mode] = job_run
        started, ready = job_run.start_s()
        rows.append(
            [
                deploy_mode,
                workers,
                servers,
                units.seconds(started),
                units.seconds(ready),
                old_figures.START_IDLE_S if servers else "–",
            ]
        )
        text = (
            f"all processes ran after {started:.2f} s, the last worker could train {ready:.2f} s later; the old job"
            f" idled {old_figures.START_IDLE_S} s"
        )
        found.check(f"{deploy_mode}: starts in well under a second", started + ready < START_LIMIT_S, text)
    found.table(
        "Start",
        [
            "deploy_mode",
            "workers",
            "servers",
            "all processes run",
            "then ready to train",
            "old (S1): s of idle waiting",
        ],
        rows,
        "Measured by millrace-launch and by the workers themselves. A worker that waits for other workers prints their names.",
    )
    found.table(
        "Hosts",
        *columns_of(runs["cluster2"].lines, "host "),
        (
            "Old: S0 3 hosts, 5 units, 32 GB; S2 3 hosts, 2 x 10 cores, 192 GB, 10 Gbit NIC; the server shared host 1"
            " with a worker."
        ),
    )
    found.table("Placement of cluster2", *columns_of(runs["cluster2"].lines, "process "))
    slowest = max(sum(each.start_s()) for each in runs.values())
    found.headlines += [
        (units.seconds(slowest), "from the command to the first step, at most (old: 30 s of idling)"),
        ("1 flag", "from one process to several: --deploy_mode"),
    ]
    found.numbers["start_s"] = {name: sum(each.start_s()) for name, each in runs.items()}


def columns_of(lines, first_word):
    """The table that millrace-launch prints under a header that begins so: (columns, rows)."""
    begin = next((i for i, line in enumerate(lines) if line.startswith(first_word)), None)
    if begin is None:
        return ["nothing printed"], []
    split = lambda line: [cell.strip() for cell in line.split("  ") if cell.strip()]
    rows = []
    for line in lines[begin + 1 :]:
        if not line.strip():
            break
        rows.append(split(line))
    return split(lines[begin]), rows
