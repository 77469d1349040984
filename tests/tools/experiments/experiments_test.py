#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/experiments.sh: list, errors, and real experiments end to end: experiments_test.py SOURCE_DIR BIN_DIR"""
import html.parser
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

SOURCE, BIN = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "tools"))
from experiments import catalogue, checks, jobs  # noqa: E402

REAL = ("gradient", "lr-ops", "lr-round")  # without a check that depends on time


def command(*words):
    return [str(word) for word in (SOURCE / "tools/experiments.sh", *words)]


def run(*words):
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=240, check=False)


def fake_bin(folder, program, script):
    """The real programs, except one that is a shell script. Its --version is that of the real one."""
    folder.mkdir()
    for path in BIN.glob("millrace-*"):
        (folder / path.name).symlink_to(path)
    (folder / program).unlink()
    text = f'#!/bin/sh\n[ "$1" = --version ] && exec {BIN}/{program} --version\n{script}\n'
    (folder / program).write_text(text, encoding="ascii")
    (folder / program).chmod(0o755)
    return folder


class Tags(html.parser.HTMLParser):
    """Counts tags, and finds tags that are opened and never closed."""

    VOID = {"meta", "br", "line", "rect", "polyline", "path", "circle", "link", "img"}

    def __init__(self):
        super().__init__()
        self.count, self.open, self.wrong = {}, [], []

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def tags_of(path):
    tags = Tags()
    tags.feed(path.read_text(encoding="utf-8"))
    return tags


class CommandLine(unittest.TestCase):
    def test_list_names_every_experiment_with_its_time(self):
        listed = run("list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        for name in catalogue.BY_NAME:
            self.assertRegex(listed.stdout, rf"(?m)^  {re.escape(name)} +\d+ s +\d+ s +\S")

    def test_help_shows_commands_and_options(self):
        text = run("--help").stdout
        for word in ("list", "run all", "--quick", "--out=DIR", "--bin=DIR", "Examples:"):
            self.assertIn(word, text)

    def test_wrong_lines_are_refused_with_a_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "file"
            file.write_text("x", encoding="ascii")
            for words, reason in (
                (["start"], "unknown command 'start'"),
                (["run"], "expected the names of experiments"),
                (["run", "lenet"], "no experiment 'lenet': expected all, or some of deployment"),
                (["run", "gradient", "--fast"], "unknown option '--fast'"),
                (["run", "gradient", "--out"], "expected --out=DIR"),
                (["run", "gradient", f"--out={file}"], "not a folder"),
                (["list", "gradient"], "list takes no names"),
            ):
                refused = run(*words, f"--bin={BIN}")
                self.assertEqual(refused.returncode, 2, words)
                self.assertIn(reason, refused.stderr)

    def test_a_folder_without_programs_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            refused = run("run", "gradient", f"--bin={folder}", f"--out={folder}/out")
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f"{folder} has no program millrace-records", refused.stderr)


class Experiments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        cls.out = cls.folder / "out"
        words = ["run", *REAL, "--quick", f"--bin={BIN}", f"--out={cls.out}", f"--data={cls.folder}/data"]
        cls.done = run(*words)
        cls.words = words

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def test_all_checks_pass(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.assertIn("all checks passed", self.done.stdout)

    def test_tables_compare_with_the_old_figures(self):
        self.assertRegex(self.done.stdout, r"Xᵀ·e +gradient +[\d.]+ .* 80,910 ")
        self.assertRegex(self.done.stdout, r"a round +\S+ m?s +7.121 s")
        markdown = (self.out / "lr-ops/page.md").read_text(encoding="utf-8")
        self.assertIn("| old (S4), batch 10: µs |", markdown)
        self.assertIn("training split", markdown)

    def test_results_are_numbers(self):
        result = json.loads((self.out / "lr-round/results.json").read_text(encoding="utf-8"))
        job = result["runs"][0]
        self.assertEqual((job["effective_batch"], job["updates"], job["examples"]), (60, 1000, 60000))
        self.assertAlmostEqual(job["measured_bytes"] / job["predicted_bytes"], 1, delta=0.05)
        self.assertGreater(result["numbers"]["round_s"], 0)
        self.assertEqual({check["mistake"] for check in result["checks"]}, {1, 2, 5, 6})
        self.assertTrue(all(check["passed"] for check in result["checks"]))
        self.assertIn("millrace-launch", result["commands"][0])

    def test_pages_stand_alone_and_are_well_formed(self):
        for path in [self.out / "index.html", *(self.out / name / "page.html" for name in REAL)]:
            text = path.read_text(encoding="utf-8")
            self.assertNotRegex(text, r'(?i)(src|href)="https?:|@import|url\(')
            self.assertIn(":root.dark", text)
            tags = tags_of(path)
            self.assertEqual((tags.wrong, tags.open), ([], []), path)
            self.assertGreater(tags.count["table"], 0)
        drawn = tags_of(self.out / "lr-round/page.html").count
        self.assertEqual(drawn["svg"], 2)
        self.assertGreater(drawn["rect"], 10)

    def test_the_index_lists_the_mistakes(self):
        text = (self.out / "index.md").read_text(encoding="utf-8")
        self.assertRegex(text, r"\| 9 \| .*2 checks passed \| gradient \|")
        self.assertRegex(text, r"\| 8 \| .*not run \|")

    def test_run_folders_and_logs_are_kept(self):
        for name in ("run.json", "resources-ps-0.csv", "report.html", "report.txt"):
            self.assertTrue((self.out / "lr-round/sync-batch-20" / name).exists(), name)
        self.assertTrue((self.out / "lr-round/sync-batch-20.log").read_text(encoding="utf-8").startswith("$ "))

    def test_earlier_results_are_never_replaced(self):
        before = (self.out / "gradient/results.json").read_bytes()
        again = run("run", "gradient", f"--bin={BIN}", f"--out={self.out}")
        self.assertEqual(again.returncode, 2)
        self.assertIn(f"{self.out} already has gradient", again.stderr)
        self.assertEqual((self.out / "gradient/results.json").read_bytes(), before)


class Failures(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def test_a_failed_experiment_is_reported_and_the_next_one_runs(self):
        fake = fake_bin(self.folder / "bin", "millrace-report", 'echo "millrace-report: no space left" >&2; exit 1')
        done = run(
            "run",
            "lr-ops",
            "gradient",
            "--quick",
            f"--bin={fake}",
            f"--out={self.folder}/out",
            f"--data={self.folder}/d",
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("millrace-report: status 1: millrace-report: no space left", done.stdout)
        self.assertIn("FAILED: lr-ops did not finish", done.stdout)
        failed = json.loads((self.folder / "out/lr-ops/results.json").read_text(encoding="utf-8"))
        self.assertIn("no space left", failed["error"])
        self.assertIn("It failed", (self.folder / "out/lr-ops/page.html").read_text(encoding="utf-8"))
        good = json.loads((self.folder / "out/gradient/results.json").read_text(encoding="utf-8"))
        self.assertEqual((good["error"], len(good["checks"])), ("", 2))

    def test_a_failed_check_is_printed_and_sets_the_status(self):
        script = (
            'for word; do case "$word" in --learning_rate=*) word=--learning_rate=0.1;; esac; set -- "$@" "$word";'
            f' shift; done\nexec {BIN}/millrace-lr "$@"'
        )
        fake = fake_bin(self.folder / "bin", "millrace-lr", script)
        done = run("run", "gradient", f"--bin={fake}", f"--out={self.folder}/out")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("FAILED: gradient: the gradient is that of finite differences: largest difference", done.stdout)

    def test_a_job_that_closes_its_output_but_does_not_exit_is_stopped(self):
        pid_file = self.folder / "pid"
        runner = jobs.Runner(BIN, lambda text: None)
        with unittest.mock.patch.object(jobs, "STOP_S", 0.5):
            with self.assertRaisesRegex(jobs.JobError, "mute: closed its output but did not exit"):
                runner.run("mute", ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 600 >&- 2>&-"])
        self.assertFalse(lives(int(pid_file.read_text(encoding="ascii"))))

    def test_an_interrupt_leaves_no_process(self):
        pid_file = self.folder / "pid"
        fake = fake_bin(
            self.folder / "bin",
            "millrace-lr",
            f"sleep 600 & echo $! > {pid_file}.part; mv {pid_file}.part {pid_file}; wait",
        )
        words = command("run", "gradient", f"--bin={fake}", f"--out={self.folder}/out")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while not pid_file.exists():
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        self.assertIn("no process is left", errors)
        child = int(pid_file.read_text(encoding="ascii"))
        for _ in range(1500):  # a killed process is a zombie until init reaps it
            if not lives(child):
                break
            time.sleep(0.02)
        self.assertFalse(lives(child))


def lives(pid):
    """Whether the process is a `sleep`, neither a zombie nor another one that got its number."""
    try:
        _, name, state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[:3]
        return name == "(sleep)" and state != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def fake_run(**facts):
    job = types.SimpleNamespace(name="job", mode="sync", workers=3, servers=1, batch=100, check_loss=True)
    values = {"updates": 10, "examples": 3000, "stated_effective_batch": 300, "splits": None, **facts}
    run_facts = types.SimpleNamespace(**values)
    run_facts.job = job
    run_facts.column = lambda name: facts["losses"]
    run_facts.wire = lambda: facts["wire"]
    run_facts.kernel_bytes = lambda: facts["kernel"]
    return run_facts


class Checks(unittest.TestCase):
    def test_a_loss_that_does_not_fall_fails(self):
        self.assertTrue(checks.loss_falls(fake_run(losses=[0.7, 0.5])).passed)
        self.assertTrue(checks.loss_falls(fake_run(losses=[0.7, 0.7])).failed)

    def test_bytes_beyond_five_percent_fail(self):
        self.assertTrue(checks.bytes_as_predicted(fake_run(wire=(1e6, 1.04e6))).passed)
        self.assertTrue(checks.bytes_as_predicted(fake_run(wire=(1e6, 1.06e6))).failed)

    def test_a_cluster_without_traffic_fails(self):
        self.assertTrue(checks.gradients_were_exchanged(fake_run(wire=(1e6, 1e6), kernel=1e6)).passed)
        self.assertTrue(checks.gradients_were_exchanged(fake_run(wire=(1e6, 1e6), kernel=2e3)).failed)

    def test_updates_that_do_not_follow_the_effective_batch_fail(self):
        self.assertTrue(checks.updates_follow_the_effective_batch(fake_run()).passed)
        self.assertTrue(checks.updates_follow_the_effective_batch(fake_run(updates=30)).failed)
        self.assertTrue(checks.updates_follow_the_effective_batch(fake_run(stated_effective_batch=100)).failed)

    def test_unequal_bytes_per_step_fail(self):
        self.assertTrue(checks.async_bytes(300, 3, 100, 1).passed)
        self.assertTrue(checks.async_bytes(300, 3, 0, 1).failed)

    def test_a_slower_asynchronous_rate_fails_on_a_quiet_machine_only(self):
        quiet, busy = (types.SimpleNamespace(other_cores=cores) for cores in (0.0, 1.5))
        check = lambda run, rate: checks.rate_check({"sync": 10, "async": rate}, [run.other_cores], "test")
        self.assertTrue(check(quiet, 12).passed)
        self.assertTrue(check(quiet, 5).failed)
        self.assertFalse(check(busy, 5).conclusive)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
