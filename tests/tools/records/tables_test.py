#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parquet files and SQL queries through DuckDB: the same specs, models and scores as from CSV; resume; errors.

Usage: tables_test.py BIN_DIR SHARED_DATA_DIR LIBDUCKDB
Skipped where LIBDUCKDB (tools/get_duckdb.sh gets it) does not exist.
"""
import ctypes
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = SHARED = LIBRARY = None
LR_FLAGS = ["--order=files", "--batch_size=100", "--learning_rate=0.1", "--model_format=text"]


def run(program, *args, status=0, stdin=None):
    done = subprocess.run([str(BIN / program), *map(str, args)], input=stdin, capture_output=True, timeout=120)
    text = done.stdout.decode() + done.stderr.decode()
    expected = (1, 2) if status == "error" else (status,)
    assert done.returncode in expected, f"{program} {args}: status {done.returncode}, expected {status}\n{text}"
    return done.stdout.decode(), done.stderr.decode()


def sql(*statements):
    """Runs statements in a database in memory."""
    duckdb = ctypes.CDLL(str(LIBRARY))
    database, connection = ctypes.c_void_p(), ctypes.c_void_p()
    assert duckdb.duckdb_open(None, ctypes.byref(database)) == 0
    assert duckdb.duckdb_connect(database, ctypes.byref(connection)) == 0
    for statement in statements:
        assert duckdb.duckdb_query(connection, statement.encode(), None) == 0, statement
    duckdb.duckdb_disconnect(ctypes.byref(connection))
    duckdb.duckdb_close(ctypes.byref(database))


class Folder(unittest.TestCase):
    def setUp(self):
        if not LIBRARY.is_file():
            self.skipTest(f"no {LIBRARY}: tools/get_duckdb.sh gets it")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def parquet(self, name, query):
        sql(f"COPY ({query}) TO '{self.folder / name}' (FORMAT parquet)")
        return self.folder / name

    def model(self, name, rows, spec, *flags):
        """All lines of the model but the one that names the format of the rows."""
        run_dir = self.folder / name
        run("millrace-lr", f"--train={rows}", f"--features={spec}", f"--run_dir={run_dir}", *LR_FLAGS, *flags)
        return re.sub(r"(?m)^.*input\.format.*$", "", (run_dir / "model/model.txt").read_text())


class Adult(Folder):
    def setUp(self):
        super().setUp()
        if not (SHARED / "adult").is_dir():
            self.skipTest(f"no {SHARED}/adult")
        self.files = {}
        for part in ("train", "test"):
            self.files["csv", part] = csv = SHARED / f"adult/adult_{part}.csv"
            self.files["parquet", part] = self.parquet(f"{part}.parquet", f"FROM read_csv('{csv}', header = true)")
            self.files["sql", part] = f"sql:SELECT * FROM read_csv('{csv}', all_varchar = true)"

    def test_same_spec_model_and_scores_as_csv(self):
        specs, models, scores = [], [], []
        for kind in ("csv", "parquet", "sql"):
            spec = self.folder / f"{kind}.json"
            run("millrace-records", "infer", "--label=income", f"--out={spec}", self.files[kind, "train"])
            specs.append(spec.read_text())
            models.append(self.model(kind, self.files[kind, "train"], spec))
            scores.append(run("millrace-predict", f"--model={self.folder / kind}", self.files[kind, "test"])[0])
            # A model scores rows of any format.
            self.assertEqual(run("millrace-predict", f"--model={self.folder / kind}", self.files["parquet", "test"])[0],
                             scores[0])
        self.assertGreater(len(models[0].splitlines()), 200)
        self.assertEqual(len(scores[0].split()), 9769)
        for i in (1, 2):
            self.assertEqual(specs[0], specs[i])
            self.assertEqual(models[0], models[i])
            self.assertEqual(scores[0], scores[i])
        self.assertEqual(run("millrace-predict", f"--model={self.folder}/parquet", self.files["csv", "test"])[0],
                         scores[0])
        explained = [run("millrace-predict", f"--model={self.folder}/parquet", "--explain=3", self.files[kind, "test"])[0]
                     for kind in ("csv", "parquet")]
        self.assertEqual(explained[0], explained[1])

    def test_inferred_spec_as_it_is(self):
        spec = self.folder / "spec.json"
        run("millrace-records", "infer", "--label=income", f"--out={spec}", self.files["parquet", "train"])
        out = run("millrace-lr", f"--train={self.files['parquet', 'train']}", f"--features={spec}",
                  f"--test={self.files['sql', 'test']}")[0]
        self.assertLess(float(re.search(r"logloss.*\n +\d+ +\d+ +\S+ +(\S+)", out).group(1)), 0.305)

    def test_fit_stat_and_convert(self):
        spec = self.write("open.json", json.dumps({
            "label": {"column": "income", "positive": [">50K"]},
            "fields": [{"name": "age", "rule": "bucket", "quantiles": 10}, {"name": "occupation", "rule": "vocabulary"},
                       {"name": "hours_per_week", "rule": "number", "scale": "standard"}]}))
        results = []
        for kind in ("csv", "parquet", "sql"):
            rows = self.files[kind, "train"]
            fitted, out = self.folder / f"{kind}-fitted.json", self.folder / f"{kind}-rows"
            run("millrace-records", "fit", f"--features={spec}", f"--out={fitted}", rows)
            stat = run("millrace-records", "stat", "--json", f"--features={fitted}", rows)[0]
            run("millrace-records", "convert", f"--features={fitted}", f"--out={out}", "--shards=1", rows)
            results.append((fitted.read_text(), stat, [file.read_bytes() for file in sorted(out.iterdir())]))
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0], results[2])

    def test_workers_take_their_shares(self):
        spec = self.folder / "spec.json"
        run("millrace-records", "infer", "--label=income", f"--out={spec}", self.files["csv", "train"])
        models = []
        for kind in ("csv", "sql"):
            out = self.folder / f"{kind}-job.txt"
            run("millrace-launch", "--deploy_mode=cluster2", "--", "millrace-lr", "--mode=sync", "--max_examples=20000",
                f"--train={self.files[kind, 'train']}", f"--features={spec}", f"--model_out={out}", *LR_FLAGS)
            models.append(re.sub(r"(?m)^.*input\.format.*$", "", out.read_text()))
        self.assertGreater(len(models[0].splitlines()), 200)
        self.assertEqual(models[0], models[1])


class Resume(Folder):
    SPEC = {"label": "y", "hash_bits": 16, "fields": [{"name": "a"}, {"name": "b"}]}

    def make(self, ts="i"):
        return self.parquet("rows.parquet", "SELECT i % 3 // 2 AS y, hash(i) % 100 AS a, 'b' || (hash(i + 1) % 1000) AS b, "
                            f"{ts} AS ts FROM range(40000) t(i)")

    def flags(self, run_dir):
        return [f"--train=sql:SELECT y, a, b FROM '{self.folder}/rows.parquet' ORDER BY ts DESC",
                f"--features={self.spec}", f"--run_dir={self.folder / run_dir}", "--epochs=8", "--batch_size=20",
                "--learning_rate=0.1", "--checkpoint_every=3000", "--threads=1", "--normalize=off"]

    def start_and_kill(self, run_dir):
        job = subprocess.Popen([BIN / "millrace-lr", *self.flags(run_dir)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        checkpoints = self.folder / run_dir / "checkpoints"
        deadline = time.monotonic() + 60

        # The manifest names a checkpoint after it was written: the second one shows that the first is complete.
        names = set()

        def has_checkpoint():
            names.update(path.name for path in checkpoints.glob("**/checkpoint-*") if ".tmp-" not in path.name)
            return len(names) > 1
        while job.poll() is None and time.monotonic() < deadline and not has_checkpoint():
            time.sleep(0.002)
        job.send_signal(signal.SIGKILL)
        self.assertEqual(job.wait(), -signal.SIGKILL, "the run was over before it could be killed")

    def setUp(self):
        super().setUp()
        self.make()
        self.spec = self.write("spec.json", json.dumps(self.SPEC))

    def test_killed_run_continues_bit_for_bit(self):
        run("millrace-lr", *self.flags("whole"))
        self.start_and_kill("killed")
        messages = run("millrace-lr", *self.flags("killed"), "--resume")[1]
        self.assertNotIn("starting from the beginning", messages)
        self.assertEqual((self.folder / "whole/model/model.bin").read_bytes(),
                         (self.folder / "killed/model/model.bin").read_bytes())

    def test_changed_rows_are_refused(self):
        self.start_and_kill("killed")
        shutil.copytree(self.folder / "killed", self.folder / "copy")
        self.make(ts="CASE WHEN i = 39990 THEN 39940.5 ELSE i END")  # other rows in the order of ts
        error = run("millrace-lr", *self.flags("killed"), "--resume", status=2)[1]
        self.assertIn("the data before it has changed", error)
        self.assertIn("sql:SELECT y, a, b FROM", error)
        self.parquet("rows.parquet", "SELECT 1 AS y, 2 AS a, 'b' AS b, 4 AS ts FROM range(50)")
        error = run("millrace-lr", *self.flags("copy"), "--resume", status=2)[1]
        self.assertIn("the epoch has only 50 rows, so the data has changed", error)


class Errors(Folder):
    SPEC = {"label": "y", "fields": [{"name": "n", "rule": "bucket", "boundaries": [1, 2]}, {"name": "t"}]}

    def check(self, rows, expected, *flags, stdin=None):
        spec = self.write("spec.json", json.dumps(self.SPEC))
        for program in (["millrace-lr", f"--train={rows}"],
                        ["millrace-records", "convert", f"--out={self.folder}/out", rows],
                        ["millrace-records", "stat", rows]):
            _, error = run(*program, f"--features={spec}", *flags, status="error", stdin=stdin)
            self.assertIn(expected, error, program)

    def test_errors_name_place_expected_and_found(self):
        good = self.parquet("good.parquet", "SELECT 1 AS y, 2 AS n, 'a' AS t")
        self.check(good, "/no/libduckdb.so", "--duckdb=/no/libduckdb.so")
        self.check(good, "tools/get_duckdb.sh fetches", "--duckdb=/no/libduckdb.so")
        self.check("sql:SELECT 1 AS y FORM x", "syntax error at or near")
        self.check("sql:SELECT 1 AS y, 2 AS n", "column 't': expected one of the columns y, n")
        self.check("sql:SELECT 1 AS y, 2 AS n, {'x': 1} AS t", "column 't': expected numbers, texts, dates or lists of "
                   "them, found STRUCT")
        self.check("sql:SELECT 1 AS y, i::VARCHAR || CASE WHEN i = 4 THEN 'x' ELSE '' END AS n, 3 AS t FROM range(9) t(i)",
                   "row 5: column 'n': expected a finite number, found '4x'")
        self.check(self.parquet("b.parquet", "SELECT 1 AS y, 'nan'::DOUBLE AS n, 3 AS t"),
                   "b.parquet: row 1: column 'n': expected a finite number, found nan")
        self.check(self.folder / "none.parquet", "none.parquet")
        broken = self.folder / "broken.parquet"
        broken.write_bytes(good.read_bytes()[:-9])
        self.check(broken, "broken.parquet: DuckDB: ")
        self.check("sql:DROP TABLE x", "x does not exist")

    def test_rows_need_a_spec(self):
        good = self.parquet("good.parquet", "SELECT 1 AS y, 2 AS n, 'a' AS t")
        _, error = run("millrace-lr", f"--train={good}", status=2)
        self.assertIn("table rows need a feature spec: millrace-records infer", error)
        _, error = run("millrace-records", "convert", f"--out={self.folder}/out", good, status=2)
        self.assertIn("a Parquet file: its rows need a feature spec (--features)", error)

    def test_a_parquet_file_is_no_stream(self):
        good = self.parquet("good.parquet", "SELECT 1 AS y, 2 AS n, 'a' AS t")
        spec = self.write("spec.json", json.dumps(self.SPEC))
        _, error = run("millrace-lr", "--train=-", f"--features={spec}", "--format=table", status=2,
                       stdin=good.read_bytes())
        self.assertIn("standard input: expected a regular file", error)

    def test_skipped_rows_are_counted(self):
        spec = self.write("spec.json", json.dumps(self.SPEC))
        rows = self.parquet("a.parquet", "SELECT 1 AS y, CASE WHEN i = 3 THEN 'x' ELSE '1' END AS n, 't' AS t FROM range(9) t(i)")
        out, _ = run("millrace-records", "convert", f"--features={spec}", f"--out={self.folder}/out", "--shards=1",
                     "--on_corrupt=skip", rows)
        self.assertIn("9 in, 8 out, 1 skipped", out)

    def test_columns_that_cannot_be_read_do_not_disturb(self):
        rows = self.parquet("a.parquet", "SELECT i % 2 AS label, i % 5 AS n, {'x': i} AS s FROM range(1000) t(i)")
        spec = self.folder / "inferred.json"
        run("millrace-records", "infer", f"--out={spec}", rows)
        self.assertEqual([field["name"] for field in json.loads(spec.read_text())["fields"]], ["n"])
        run("millrace-lr", f"--train={rows}", f"--features={spec}")


if __name__ == "__main__":
    BIN, SHARED, LIBRARY = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
