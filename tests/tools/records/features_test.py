#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Feature specs from raw rows to scores: infer, fit, stat, convert, train, predict, in every format.

Usage: features_test.py BIN_DIR SHARED_DATA_DIR
"""
import csv
import gzip
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

BIN = SHARED = None
LR_FLAGS = ["--order=files", "--batch_size=100", "--learning_rate=0.1", "--model_format=text"]


def run(program, *args, status=0, stdin=None):
    done = subprocess.run([str(BIN / program), *map(str, args)], input=stdin, capture_output=True, timeout=120)
    text = done.stdout.decode() + done.stderr.decode()
    expected = (1, 2) if status == "error" else (status,)
    assert done.returncode in expected, f"{program} {args}: status {done.returncode}, expected {status}\n{text}"
    return done.stdout.decode(), done.stderr.decode()


def weights_of(run_dir):
    lines = (run_dir / "model/model.txt").read_text().splitlines()
    return {key: float(weight) for key, weight in (line.split("\t") for line in lines if not line.startswith("#"))}


def metrics_of(text):
    return {line.split()[0]: float(line.split()[1].replace(",", "")) for line in text.splitlines()
            if len(line.split()) == 2}


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def train(self, name, rows, spec, *flags):
        run_dir = self.folder / name
        run("millrace-lr", f"--train={rows}", f"--features={spec}", f"--run_dir={run_dir}", *LR_FLAGS, *flags)
        return run_dir


class Adult(Folder):
    def setUp(self):
        super().setUp()
        if not (SHARED / "adult").is_dir():
            self.skipTest(f"no {SHARED}/adult")
        self.files = {}
        for part in ("train", "test"):
            self.files["csv", part] = SHARED / f"adult/adult_{part}.csv"
            self.files["tfrecord", part] = SHARED / f"adult/adult_{part}.tfrecord.gz"
            with open(self.files["csv", part], encoding="utf-8") as rows:
                lines = [json.dumps({k: int(v) if v.isdigit() else v for k, v in row.items() if v})
                         for row in csv.DictReader(rows)]
            self.files["json", part] = self.write(f"{part}.jsonl", "\n".join(lines) + "\n")

    def test_all_formats_give_the_same_spec_model_and_scores(self):
        specs, models, scores = [], [], []
        for kind in ("tfrecord", "csv", "json"):
            spec = self.folder / f"{kind}.json"
            run("millrace-records", "infer", "--label=income", f"--out={spec}", self.files[kind, "train"])
            specs.append(spec.read_text())
            run_dir = self.train(kind, self.files[kind, "train"], spec)
            test = f"--test={self.files[kind, 'test']}"
            default = run("millrace-lr", f"--train={self.files[kind, 'train']}", test, f"--features={spec}")[0]
            self.assertLess(float(re.search(r"logloss.*\n +\d+ +\d+ +\S+ +(\S+)", default).group(1)), 0.305)
            models.append(weights_of(run_dir))
            scores.append(run("millrace-predict", f"--model={run_dir}", self.files[kind, "test"])[0])
            metrics = metrics_of(run("millrace-predict", f"--model={run_dir}", "--metrics", "--out=/dev/null",
                                     self.files[kind, "test"])[1])
            self.assertLess(metrics["logloss"], 0.33)
        self.assertEqual(specs[0], specs[1])
        self.assertEqual(specs[0], specs[2])
        self.assertGreater(len(models[0]), 200)
        self.assertEqual(models[0], models[1])
        self.assertEqual(models[0], models[2])
        self.assertEqual(scores[0], scores[1])
        self.assertEqual(scores[0], scores[2])

    def test_the_label_is_found_or_asked_for(self):
        out, table = run("millrace-records", "infer", self.files["csv", "train"])
        self.assertEqual(json.loads(out)["label"], {"column": "income", "positive": [">50K"]})
        self.assertRegex(table, r"workclass +text +8 +5\.5 % +hash")
        _, error = run("millrace-records", "infer", self.files["tfrecord", "train"], status=2)
        self.assertIn("found income, sex: name it with --label", error)
        _, error = run("millrace-records", "infer", "--label=x", self.files["csv", "train"], status=2)
        self.assertIn("there is no column 'x'", error)

    def test_converted_rows_train_the_same_model(self):
        spec = self.folder / "spec.json"
        run("millrace-records", "infer", f"--out={spec}", self.files["csv", "train"])
        out, _ = run("millrace-records", "convert", f"--features={spec}", f"--out={self.folder}/rows", "--shards=1",
                     self.files["csv", "train"])
        num_features = [word for word in out.split() if word.startswith("--num_features=")][0]
        run_dir = self.folder / "converted"
        run("millrace-lr", f"--train={self.folder}/rows/*", num_features, f"--run_dir={run_dir}", *LR_FLAGS)
        self.assertEqual(weights_of(run_dir), weights_of(self.train("direct", self.files["csv", "train"], spec)))

    def test_the_python_example_gives_the_same_scores(self):
        spec = self.write("open.json", json.dumps({
            "label": {"column": "income", "positive": [">50K"]}, "hash_bits": 18,
            "fields": [{"name": "age", "rule": "bucket", "quantiles": 10},
                       {"name": "gain", "column": "capital_gain", "rule": "bucket", "log2": 4, "missing": "key"},
                       {"name": "occupation", "rule": "vocabulary", "min_count": 5, "missing": "key"},
                       {"name": "workclass", "rule": "vocabulary"},
                       {"name": "hours_per_week", "rule": "number", "scale": "standard"},
                       {"name": "education"}, {"name": "native_country", "default": "none", "keys": False},
                       {"name": "a x o", "rule": "cross", "of": ["age", "occupation"]},
                       {"name": "three", "rule": "cross", "of": ["education", "native_country", "hours_per_week"]}]}))
        fitted = self.folder / "fitted.json"
        run("millrace-records", "fit", f"--features={spec}", f"--out={fitted}", self.files["json", "train"])
        run_dir = self.train("python", self.files["json", "train"], fitted)
        rows = self.files["json", "test"].read_text().splitlines(keepends=True)[:1000]
        ours, _ = run("millrace-predict", f"--model={run_dir}", "-", stdin="".join(rows).encode())
        script = pathlib.Path(__file__).parents[3] / "docs/examples/score_row.py"
        theirs = subprocess.run([sys.executable, script, run_dir / "model/model.txt"], input="".join(rows),
                                capture_output=True, text=True, check=True).stdout
        self.assertEqual(len(ours.split()), 1000)
        for a, b in zip(ours.split(), theirs.split()):
            self.assertAlmostEqual(float(a), float(b), places=5)

    def test_names_of_weights_and_parts_of_scores(self):
        spec = self.folder / "spec.json"
        run("millrace-records", "infer", f"--out={spec}", self.files["csv", "train"])
        run_dir = self.train("names", self.files["csv", "train"], spec)
        model = [f"--model={run_dir}", self.files["csv", "test"]]
        top = run("millrace-predict", "--top=30", *model)[0].splitlines()
        self.assertTrue(any("marital_status=Married-civ-spouse" in line for line in top), top)
        self.assertTrue(all("=" in line.split("\t")[2] or "intercept" in line for line in top), top)
        explained = run("millrace-predict", "--explain=100", "--output=margin", *model)[0].splitlines()
        margins = run("millrace-predict", "--output=margin", *model)[0].split()
        intercept = weights_of(run_dir)["intercept"]
        self.assertEqual(len(explained), len(margins))
        for line, margin in list(zip(explained, margins))[:500]:
            score, *parts = line.split("\t")
            self.assertAlmostEqual(float(score), float(margin), places=5)
            self.assertAlmostEqual(float(score), intercept + sum(float(part.split()[-1]) for part in parts), places=2)
            self.assertIn(len(parts), range(10, 15))

    def test_slices_are_the_metrics_of_their_rows(self):
        spec = self.folder / "spec.json"
        run("millrace-records", "infer", f"--out={spec}", self.files["csv", "train"])
        run_dir = self.train("slices", self.files["csv", "train"], spec)
        test = self.write("test.csv", "".join(self.files["csv", "test"].read_text().splitlines(keepends=True)[:2001]))
        margins = [float(m) for m in run("millrace-predict", f"--model={run_dir}", "--output=margin", test)[0].split()]
        with open(test, encoding="utf-8") as rows:
            table = list(csv.DictReader(rows))
        flags = [f"--model={run_dir}", "--metrics", "--slices=workclass,sex,age", "--slice_values=4", "--output=margin"]
        out, text = run("millrace-predict", *flags, test)
        self.assertEqual([float(line) for line in out.split()], margins)
        whole = run("millrace-predict", f"--model={run_dir}", "--metrics", "--out=/dev/null", test)[1]
        self.assertEqual(metrics_of(text.split("slice")[0])["auc"], metrics_of(whole)["auc"])
        lines = [re.split(r"  +", line) for line in text.split("calibration\n")[-1].splitlines()]
        found = {name: figures for name, *figures in lines}
        for column in ("workclass", "sex"):
            by_value = {}
            for row, margin in zip(table, margins):
                by_value.setdefault(f"{column}={row[column] or 'missing'}", []).append((margin, row["income"] == ">50K"))
            shown = sorted(by_value, key=lambda name: (-len(by_value[name]), name))[:4]
            rest = [row for name in by_value if name not in shown for row in by_value[name]]
            self.assertEqual([name for name in found if name.startswith(column)][:len(shown)], shown)
            for name in shown:
                self.check_slice(found[name], by_value[name])
            if rest:
                self.check_slice(found[f"{column}: {len(by_value) - 4} other values"], rest)
        self.assertEqual(sum(int(v[0].replace(",", "")) for name, v in found.items() if name.startswith("age")), len(table))
        self.assertIn("age=below 20", run("millrace-predict", *flags[:2], "--slices=age", "--slice_values=99",
                                          "--out=/dev/null", test)[1])
        for name, message in (("x", "there is no field 'x'"), ("sex,sex", "field 'sex' is named twice")):
            self.assertIn(message, run("millrace-predict", *flags[:2], f"--slices={name}", test, status=2)[1])

    def check_slice(self, figures, rows):
        loss = sum(math.log1p(math.exp(-m if label else m)) for m, label in rows) / len(rows)
        up = [m for m, label in rows if label]
        down = [m for m, label in rows if not label]
        auc = sum((a > b) + (a == b) / 2 for a in up for b in down) / max(1, len(up) * len(down))
        calibration = sum(1 / (1 + math.exp(-m)) for m, _ in rows) / max(1, len(up))
        self.assertEqual([int(text.replace(",", "")) for text in figures[:2]], [len(rows), len(up)])
        self.assertAlmostEqual(float(figures[2]), loss, places=5)
        if up and down:
            self.assertAlmostEqual(float(figures[3]), auc, places=5)
            self.assertAlmostEqual(float(figures[4]), calibration, places=4)
        else:
            self.assertEqual(figures[3], "-")

    def test_standard_input(self):
        spec = self.folder / "spec.json"
        rows = self.files["csv", "train"].read_bytes()
        run("millrace-records", "infer", f"--out={spec}", "-", stdin=rows)
        run_dir = self.folder / "stdin"
        run("millrace-lr", "--train=-", f"--features={spec}", f"--run_dir={run_dir}", *LR_FLAGS, stdin=rows)
        self.assertEqual(weights_of(run_dir), weights_of(self.train("file", self.files["csv", "train"], spec)))
        test = self.files["csv", "test"]
        self.assertEqual(run("millrace-predict", f"--model={run_dir}", "-", stdin=test.read_bytes())[0],
                         run("millrace-predict", f"--model={run_dir}", test)[0])


class Criteo(Folder):
    """A spec that has the rules of the built-in Criteo format gives the same model, under other keys."""
    def setUp(self):
        super().setUp()
        self.rows = SHARED / "criteo/day_11_first_3000.tsv"
        if not self.rows.is_file():
            self.skipTest(f"no {self.rows}")

    def spec(self, category, **more):
        columns = ["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
        fields = [{"name": name, "missing": "key", **({"rule": "bucket", "log2": 4} if name[0] == "I" else category)}
                  for name in columns[1:]]
        return self.write("criteo.json", json.dumps({"label": "label", "csv_columns": columns, "fields": fields,
                                                     **more}))

    def check_same(self, ours, builtin):
        ours, builtin = weights_of(ours), weights_of(builtin)
        self.assertEqual(len(ours), len(builtin))
        for a, b in zip(sorted(ours.values()), sorted(builtin.values())):
            self.assertAlmostEqual(a, b, places=5)

    def test_hash(self):
        builtin = self.folder / "builtin"
        run("millrace-lr", f"--train={self.rows}", f"--run_dir={builtin}", *LR_FLAGS)
        self.check_same(self.train("spec", self.rows, self.spec({"rule": "hash"}, hash_bits=64)), builtin)

    def test_vocabulary(self):
        fitted = self.folder / "fitted.json"
        spec = self.spec({"rule": "vocabulary", "min_count": 3})
        _, error = run("millrace-lr", f"--train={self.rows}", f"--features={spec}", status=2)
        self.assertIn("needs a first pass over the data: millrace-records fit", error)
        run("millrace-records", "fit", f"--features={spec}", f"--out={fitted}", self.rows)
        _, error = run("millrace-records", "fit", f"--features={spec}", f"--out={fitted}", self.rows, status=2)
        self.assertIn("exists: expected another name, or --overwrite", error)
        ours = self.train("spec", self.rows, fitted)
        # The built-in vocabulary counts buckets of integers, too: rare ones share a key there.
        stats = json.loads(run("millrace-records", "stat", "--json", f"--features={fitted}", self.rows)[0])
        distinct = {field["name"]: field["distinct"] for field in stats["fields"]}
        values = {field["name"]: field.get("values") for field in json.loads(fitted.read_text())["fields"]}
        with open(self.rows, encoding="utf-8") as rows:
            cells = [line.rstrip("\n").split("\t") for line in rows]
        for i in range(1, 27):
            texts = [row[13 + i] for row in cells]
            common = {text for text in set(texts) if texts.count(text) >= 3}
            self.assertEqual(set(values[f"C{i}"]), common)
            self.assertAlmostEqual(distinct[f"C{i}"], len(common) + (len(set(texts)) > len(common)), delta=3)
        self.assertGreater(len(weights_of(ours)), 1000)


class Vw(Folder):
    ROWS = ["1 2 'a|user u1 u2 |ad x price:2.5 |hour 7", "-1 |user u2 |ad y price:0.5 |hour 8",
            "1 |user u1 |ad y |hour 7", "-1 'b|ad x |user u3 |hour 8"]

    def test_a_spec_trains_on_vw_text_like_on_json_lines(self):
        """The same rows, label, importance and numbers as a JSON line: one key per (field, value)."""
        if not (SHARED / "adult").is_dir():
            self.skipTest(f"no {SHARED}/adult")
        with open(SHARED / "adult/adult_train.csv", encoding="utf-8") as rows:
            table = list(csv.DictReader(rows))[:3000]
        names = ["workclass", "education", "occupation", "race"]
        vw = self.write("rows.vw", "".join(
            f"{1 if row['income'] == '>50K' else -1} {1 + i % 3} |" +
            " |".join(f"{n} {row[n].replace(':', '')}" for n in names if row[n]) + "\n" for i, row in enumerate(table)))
        lines = self.write("rows.jsonl", "".join(json.dumps(
            {"label": 1 if row["income"] == ">50K" else -1, "weight": 1 + i % 3,
             **{n: row[n].replace(":", "") for n in names if row[n]}}) + "\n" for i, row in enumerate(table)))
        spec = self.write("spec.json", json.dumps({"weight": "weight", "fields": [
            *({"name": n} for n in names),
            {"name": "pairs", "rule": "cross", "of": ["*", "*"], "ignore": ["race"]},
            {"name": "race x work", "rule": "cross", "of": ["race", "workclass"]}]}))
        run_dir = self.train("vw", vw, spec)
        self.assertEqual(weights_of(run_dir), weights_of(self.train("json", lines, spec)))
        self.assertEqual(run("millrace-predict", f"--model={run_dir}", vw)[0],
                         run("millrace-predict", f"--model={run_dir}", lines)[0])
        run("millrace-records", "convert", f"--features={spec}", f"--out={self.folder}/rows", "--shards=1", vw)
        converted = self.folder / "converted"
        features = run("millrace-records", "stat", f"--features={spec}", vw)[0]
        self.assertIn("pairs: workclass x education", features)
        run("millrace-lr", f"--train={self.folder}/rows/*", f"--num_features={2**22}", f"--run_dir={converted}", *LR_FLAGS)
        self.assertEqual(weights_of(run_dir), weights_of(converted))

    def test_infer_and_known_keys(self):
        rows = self.write("rows.vw", "\n".join(self.ROWS) + "\n")
        spec = self.folder / "spec.json"
        run("millrace-records", "infer", f"--out={spec}", rows)
        made = json.loads(spec.read_text())
        self.assertEqual(made["label"], {"column": "label"})
        self.assertEqual(made["weight"], "weight")
        self.assertEqual([(field["name"], field["rule"]) for field in made["fields"]],
                         [("ad", "hash"), ("hour", "hash"), ("user", "hash")])
        made["hash_bits"] = 64
        made["fields"].append({"name": "q", "rule": "cross", "of": ["user", "ad"]})
        spec.write_text(json.dumps(made))
        weights = weights_of(self.train("run", rows, spec))
        for key in (12139308096471780980, 1560626770590354219, 9866035879638415883):  # docs/formats.md
            self.assertIn(str(key), weights)
        names = run("millrace-predict", f"--model={self.folder}/run", "--explain=20", rows)[0].splitlines()[0]
        self.assertIn("user=u1 x ad=price", names)

    def test_bad_lines(self):
        spec = self.write("spec.json", json.dumps({"fields": [{"name": "user"}]}))
        rows = self.write("rows.vw", self.ROWS[0] + "\n1 |user a:b\n1 2 user c\n|user d\n" + self.ROWS[1] + "\n")
        _, error = run("millrace-lr", f"--train={rows}", f"--features={spec}", status="error")
        self.assertIn('rows.vw:2: offset 42: column 11: expected a finite value, found "b"', error)
        out, _ = run("millrace-records", "convert", f"--features={spec}", f"--out={self.folder}/out", "--on_corrupt=skip",
                     rows)
        self.assertIn("5 in, 2 out, 3 skipped", out)
        spec = self.write("spec.json", json.dumps({"fields": [{"name": "User"}]}))
        _, error = run("millrace-lr", f"--train={rows}", f"--features={spec}", status="error")
        self.assertIn("column 'User': expected it in some record", error)
        rows = self.write("good.vw", "\n".join(self.ROWS) + "\n")
        _, error = run("millrace-records", "infer", "--label=user", rows, status="error")
        self.assertIn("label: VW text has it before the first '|'", error)


class Updates(Folder):
    """Fields with l1, l2 and a rate of their own."""
    FLAGS = ["--optimizer=ftrl", "--normalize=off", "--seed=3"]

    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        rows = [(draw.randrange(40), draw.randrange(40), draw.randrange(100), draw.randrange(5)) for _ in range(4000)]
        text = "".join(f"{int(draw.random() < 0.2 + 0.3 * (a % 2) + 0.3 * (b % 2))},{a},{b},{n},{v}\n"
                       for a, b, n, v in rows)
        self.rows = self.write("rows.csv", "label,a,b,n,v\n" + text)

    def spec(self, name, bits=18, **updates):
        fields = [{"name": "a"}, {"name": "b"}, {"name": "n", "rule": "bucket", "boundaries": [20, 40, 60, 80]},
                  {"name": "v", "rule": "vocabulary"}, {"name": "a x b", "rule": "cross", "of": ["a", "b"]}]
        for field in fields:
            field.update(updates.get(field["name"].replace(" ", "_"), {}))
        open_spec = self.write("open.json", json.dumps({"hash_bits": bits, "fields": fields}))
        run("millrace-records", "fit", f"--features={open_spec}", f"--out={self.folder / name}", "--overwrite",
            self.rows)
        return self.folder / name

    def weights(self, run_dir):
        """By name."""
        out, _ = run("millrace-predict", "--top=5000", f"--model={run_dir}", self.rows)
        return {name: float(weight) for _, weight, name in (line.split("\t") for line in out.splitlines())}

    def test_l1_and_rates_belong_to_their_fields(self):
        for bits in (18, 64):
            spec = self.spec("spec.json", bits, a={"l1": 1e4}, n={"l1": 1e4}, v={"rate": 1e-5})
            weights = self.weights(self.train(f"run-{bits}", self.rows, spec, *self.FLAGS))
            of = lambda field: [abs(w) for name, w in weights.items() if name.startswith(f"{field}=") and " x " not in name]
            self.assertEqual((sum(of("a")), sum(of("n"))), (0, 0))
            self.assertGreater(min(of("b")), 0.001)
            self.assertGreater(len(of("b")), 35)  # the others share a key with a cross
            self.assertLess(max(of("v")), 1e-3)
            self.assertGreater(max(of("v")), 0)

    def test_the_same_numbers_as_those_of_the_run_give_the_same_weights(self):
        plain = self.train("plain", self.rows, self.spec("plain.json", 20), "--l2=3", "--l1=0.5", *self.FLAGS)
        own = {"l1": 0.5, "l2": 3}
        spec = self.spec("own.json", 20, a=own, b=own, n=own, v=own, a_x_b=own)
        of_run, of_fields = self.weights(plain), self.weights(self.train("own", self.rows, spec, *self.FLAGS))
        alone = [name for name in of_run if name in of_fields and "|" not in name]
        self.assertGreater(len(alone), 500)
        for name in alone:
            self.assertAlmostEqual(of_fields[name], of_run[name], places=4)

    def test_servers_train_the_same_model_and_a_run_may_change_their_number(self):
        launcher = BIN / "millrace-launch"
        if not launcher.exists():
            self.skipTest("no millrace-launch")
        for bits in (18, 64):
            spec = self.spec("spec.json", bits, a={"l2": 2, "rate": 0.5}, v={"l1": 1}, a_x_b={"rate": 4})
            alone = weights_of(self.train(f"alone-{bits}", self.rows, spec, *self.FLAGS))
            words = [f"--train={self.rows}", f"--features={spec}", *LR_FLAGS, *self.FLAGS]
            job = self.folder / f"job-{bits}"
            run("millrace-launch", "--num_ps=3", "--num_workers=1", "--", BIN / "millrace-lr", "--mode=sync",
                "--max_examples=2000", "--checkpoint_every=1000", f"--run_dir={job}", *words)
            run("millrace-lr", f"--run_dir={job}", "--checkpoint_every=1000", "--resume", *words)
            together = weights_of(job)
            self.assertEqual(together.keys(), alone.keys())
            for key, weight in alone.items():
                self.assertAlmostEqual(together[key], weight, places=5)

    def test_continuing_takes_the_spec_of_the_earlier_run(self):
        spec = self.spec("spec.json", b={"l2": 2, "rate": 0.5}, v={"l1": 1})
        header, *rows = self.rows.read_text().splitlines(keepends=True)
        first, second = self.write("1.csv", header + "".join(rows[:2000])), self.write("2.csv", header + "".join(rows[2000:]))
        self.train("1", first, spec, *self.FLAGS)
        flags = [flag for flag in LR_FLAGS if "rate" not in flag]
        run("millrace-lr", f"--train={second}", f"--continue={self.folder / '1'}", f"--run_dir={self.folder / '2'}", *flags)
        self.assertEqual(weights_of(self.folder / "2"),
                         weights_of(self.train("one", f"{first},{second}", spec, *self.FLAGS)))

    def test_errors(self):
        spec = self.spec("spec.json", a={"l1": 1})
        _, error = run("millrace-lr", f"--train={self.rows}", f"--features={spec}", "--optimizer=sgd", status=2)
        self.assertIn("l1 of a field belongs to the optimizer ftrl", error)
        spec = self.spec("spec.json", a={"l2": 1})
        _, error = run("millrace-lr", f"--train={self.rows}", f"--features={spec}", "--optimizer=sgd", "--hogwild=2",
                       status=2)
        self.assertIn("expected a feature spec without l1, l2 and rate of fields", error)

    def test_the_python_example_knows_the_keys(self):
        rows = [{"label": 0, "a": a, "b": a % 7, "n": a, "v": a % 5} for a in range(40)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        script = pathlib.Path(__file__).parents[3] / "docs/examples/score_row.py"
        for bits in (18, 64):
            spec = self.spec("spec.json", bits, a={"l2": 2, "rate": 0.5}, v={"l1": 1}, a_x_b={"rate": 4})
            run_dir = self.train(f"run-{bits}", self.rows, spec, *self.FLAGS)
            ours, _ = run("millrace-predict", f"--model={run_dir}", "--format=json", "-", stdin=lines.encode())
            theirs = subprocess.run([sys.executable, script, run_dir / "model/model.txt"], input=lines,
                                    capture_output=True, text=True, check=True).stdout
            self.assertEqual(len(ours.split()), len(rows))
            for a, b in zip(ours.split(), theirs.split()):
                self.assertAlmostEqual(float(a), float(b), places=5)


class Errors(Folder):
    SPEC = {"label": "y", "fields": [{"name": "n", "rule": "bucket", "boundaries": [1, 2]}, {"name": "t"}]}

    def check(self, name, text, expected, spec=None, flags=()):
        spec = self.write("spec.json", json.dumps(spec or self.SPEC))
        rows = self.write(name, text)
        for program in (["millrace-lr", f"--train={rows}"],
                        ["millrace-records", "convert", f"--out={self.folder}/out", rows],
                        ["millrace-records", "stat", rows]):
            _, error = run(*program, f"--features={spec}", *flags, status="error")
            self.assertIn(expected, error, program)

    def test_bad_rows_are_located(self):
        self.check("a.csv", "y,n,t\n1,1,a\n0,x,b\n", "a.csv:3: offset 12: column 'n': expected a finite number, found 'x'")
        self.check("b.csv", "y,n,t\n1,1,a\n0,2\n", "b.csv:3: offset 12: expected 3 cells")
        self.check("c.csv", 'y,n,t\n1,1,"a\n', "closing quote")
        self.check("d.csv", "y,n\n1,1\n0,2\n", "column 't': expected one of the columns y, n")
        self.check("e.jsonl", '{"y":1,"n":1,"t":"a"}\n{"y":1,"n":"nan","t":"a"}\n',
                   "e.jsonl:2: offset 22: column 'n': expected a finite number, found 'nan'")
        self.check("f.jsonl", '{"y":1,"n":1,"t":"a"}\n{"y":1,"n":2,"t":"\xff', "f.jsonl:2: offset 22: ")
        self.check("g.jsonl", '{"y":1,"n":1}\n{"y":1,"n":2}\n', "column 't': expected it in some record")

    def test_skipped_rows_are_counted(self):
        spec = self.write("spec.json", json.dumps(self.SPEC))
        rows = self.write("a.csv", "y,n,t\n1,1,a\n0,x,b\n0,2,b\n1\n")
        out, _ = run("millrace-records", "convert", f"--features={spec}", f"--out={self.folder}/out", "--shards=1",
                     "--on_corrupt=skip", rows)
        self.assertIn("4 in, 2 out, 2 skipped", out)
        _, error = run("millrace-records", "stat", f"--features={spec}", "--on_corrupt=skip", rows)
        self.assertIn("2 rows skipped, the first: ", error)

    def test_a_sample_is_bounded(self):
        rows = self.folder / "wide.json.gz"
        with gzip.open(rows, "wb", 1) as file:
            for row in range(20):
                names = ",".join(f'"c{row * 1100 + i}":1' for i in range(1100))
                file.write(f'{{"y":{row % 2},{names}}}\n'.encode())
        _, error = run("millrace-records", "infer", rows, status="error")
        self.assertIn("wide.json.gz:19: offset ", error)
        self.assertIn("expected rows with at most 20000 columns, found more", error)
        rows = self.folder / "long.json.gz"  # 600 MB in memory
        with gzip.open(rows, "wb", 1) as file:
            for row in range(40):
                file.write(f'{{"y":{row % 2},"a":"a{row % 3}","t":"'.encode() + b"x" * 15_000_000 + b'"}\n')
        _, error = run("millrace-records", "infer", "--label=y", rows)
        self.assertIn("18 rows in the sample", error)

    def test_rows_without_columns(self):
        spec = self.write("spec.json", json.dumps(self.SPEC))
        libsvm = self.write("a.libsvm", "1 3:1\n0 4:1\n")
        _, error = run("millrace-lr", f"--train={libsvm}", f"--features={spec}", status=2)
        self.assertIn("a feature spec needs rows of named columns", error)
        rows = self.write("a.csv", "y,n\n1,1\n0,2\n")
        _, error = run("millrace-lr", f"--train={rows}", status=2)
        self.assertIn("CSV rows need a feature spec: millrace-records infer", error)


if __name__ == "__main__":
    BIN, SHARED = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
