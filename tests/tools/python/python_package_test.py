#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package beside its estimators: records, runs, models, feature specs with frames, and the scorer.

Usage: python_package_test.py BUILD_DIR SOURCE_DIR
"""
import json
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import threading
import unittest

BUILD, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]
sys.path.insert(0, str(BUILD / "python"))
try:
    import numpy as np
    import pandas as pd
    import scipy.sparse as sp
    import sklearn.base
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh --with-python installs what this test needs")
    sys.exit(77)

import millrace

BIN = BUILD / "bin"
SPEC = {
    "label": {"column": "click"},
    "hash_bits": 14,
    "fields": [
        {"name": "site", "rule": "hash"},
        {"name": "tags", "rule": "hash"},
        {"name": "age", "rule": "bucket", "boundaries": [25, 35, 50]},
        {"name": "hours", "rule": "number"},
        {"name": "site x age", "rule": "cross", "of": ["site", "age"]},
    ],
}


def run(program, *words):
    done = subprocess.run([str(BIN / program), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{program} {words}: {done.stdout}{done.stderr}")
    return done.stdout


def make_rows(seed, count):
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        site = draw.choice(["news", "mail", "shop", "über"])
        age = draw.choice([None, 18, 30, 41, 60])
        row = {"click": int(draw.random() < (0.7 if site == "shop" else 0.2)), "site": site, "age": age,
               "tags": draw.sample(["a", "b", "c"], draw.randrange(3)), "hours": draw.randrange(80) / 4}
        rows.append(row)
    return rows


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.rows = make_rows(1, 3000)
        cls.spec = cls.folder / "spec.json"
        cls.spec.write_text(json.dumps(SPEC))
        cls.json = cls.folder / "train.json"
        cls.json.write_text("".join(json.dumps(row) + "\n" for row in cls.rows))
        cls.frame = pd.DataFrame(cls.rows)
        cls.run_dir = cls.folder / "run"
        run("millrace-lr", f"--train={cls.json}", f"--test={cls.json}", f"--features={cls.spec}", "--eval_every=1000",
            "--learning_rate=0.1", "--save_best=auc", f"--run_dir={cls.run_dir}", "--batch_size=50", "--order=files",
            "--sample_ms=0")
        cls.serving = cls.folder / "model.serving"
        run("millrace-predict", "export", f"--model={cls.run_dir}", f"--out={cls.serving}")
        cls.scores = np.array([float(line) for line in
                               run("millrace-predict", f"--model={cls.run_dir}", cls.json).split()])

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    # ---- Records ----

    def libsvm(self):
        path = self.folder / "rows.libsvm"
        path.write_text("1 3:1 7:2.5\n0 \n-1 0:1 99:1\n")
        return path

    def test_records_are_batches_of_csr(self):
        batches = list(millrace.read_records(self.libsvm(), num_features=100, batch_size=2))
        self.assertEqual([b.X.shape for b in batches], [(2, 100), (1, 100)])
        X = sp.vstack([b.X for b in batches]).toarray()
        self.assertEqual(X.nonzero()[1].tolist(), [3, 7, 0, 99])
        self.assertEqual(X[0, 7], 2.5)
        self.assertEqual(np.concatenate([b.y for b in batches]).tolist(), [1, 0, 0])
        self.assertIsNone(batches[0].weights)
        wide = next(iter(millrace.read_records(self.libsvm())))
        self.assertEqual(wide.X.shape, (3, 2**63 - 1))
        self.assertEqual(wide.X.indices.tolist(), [3, 7, 0, 99])
        self.assertEqual(len(list(millrace.read_records([self.libsvm(), self.libsvm()], num_features=100, epochs=2,
                                                        batch_size=3))), 4)

    def test_records_have_weights_and_optional_labels(self):
        path = self.folder / "rows.vw"
        path.write_text("1 2 | a b\n-1 | a\n| c\n")
        batch = next(millrace.read_records(path, hash_bits=10, num_features=1024, labels=False))
        self.assertEqual(batch.weights.tolist(), [2, 1, 1])
        self.assertEqual(batch.y[:2].tolist(), [1, 0])
        self.assertTrue(np.isnan(batch.y[2]))

    def test_bad_records_are_errors_that_name_their_place(self):
        path = self.folder / "bad.libsvm"
        path.write_text("1 3:1\n1 3:x\n")
        with self.assertRaisesRegex(ValueError, r"bad\.libsvm:2: offset 6: .*expected.*found"):
            list(millrace.read_records(path, num_features=10))
        self.assertEqual(sum(b.X.shape[0] for b in millrace.read_records(path, num_features=10, on_corrupt="skip")), 1)
        with self.assertRaisesRegex(ValueError, "num_features"):
            list(millrace.read_records(self.libsvm(), num_features=10))
        with self.assertRaisesRegex(OSError, "none.libsvm: .*No such file"):
            millrace.read_records(self.folder / "none.libsvm")
        with self.assertRaisesRegex(ValueError, "feature spec"):
            millrace.read_records(self.json)
        with self.assertRaisesRegex(ValueError, "hash_bits"):
            list(millrace.read_records(self.hashed_vw()))

    def hashed_vw(self):
        path = self.folder / "hashed.vw"
        path.write_text("".join(f"1 | name{i}\n" for i in range(50)))
        return path

    def test_a_reader_that_is_left_ends_its_threads(self):
        before = threading.active_count()
        for batch in millrace.read_records(self.json, features=SPEC, batch_size=10):
            self.assertEqual(batch.X.shape[0], 10)
            break
        self.assertEqual(threading.active_count(), before)

    # ---- Runs and models ----

    def test_a_run_has_metrics_flags_and_warnings(self):
        found = millrace.Run(self.run_dir)
        self.assertEqual(found.status, "finished")
        self.assertEqual(found.flags["batch_size"], "50")
        self.assertEqual(found.metrics["step"].tolist(), [20, 40, 60])
        self.assertEqual(found.metrics["examples"].tolist(), [1000, 2000, 3000])
        self.assertEqual(found.best["metric"], "auc")
        self.assertEqual(found.best_step, int(found.metrics["step"][np.argmax(found.metrics["auc"])]))
        self.assertIsInstance(found.warnings, list)
        self.assertEqual(found.to_frame().shape[0], 3)
        self.assertEqual(found.weights(best=True).info["steps"], found.best_step)
        self.assertEqual(found.weights().info["steps"], 60)
        with self.assertRaisesRegex(FileNotFoundError, "run.json"):
            millrace.Run(self.folder)
        broken = self.folder / "broken"
        broken.mkdir()
        (broken / "run.json").write_text('{"status": "finished",\n')
        with self.assertRaisesRegex(ValueError, "run.json: line 2"):
            millrace.Run(broken)

    def test_weights_are_those_of_every_format(self):
        model = millrace.read_model(self.run_dir)
        self.assertEqual(model.info["kind"], "lr")
        self.assertEqual(json.loads(model.info["features"])["hash_bits"], 14)
        out = self.folder / "text.txt"
        run("millrace-lr", f"--train={self.json}", f"--features={self.spec}", f"--model_in={self.run_dir}",
            "--learning_rate=1e-30", "--max_examples=1", "--batch_size=1", "--normalize=off", "--optimizer=sgd",
            "--model_format=text", f"--model_out={out}")
        text = millrace.read_model(out)
        self.assertEqual(text.keys.tobytes(), model.keys.tobytes())
        self.assertEqual(text.weights.tobytes(), model.weights.tobytes())
        self.assertEqual(model.dense()[model.keys.astype(int)].tobytes(), model.weights.tobytes())
        with self.assertRaisesRegex(ValueError, "expected a model"):
            millrace.read_model(self.json)

    # ---- Frames ----

    def test_frames_make_the_rows_of_files(self):
        spec = millrace.FeatureSpec(self.spec)
        expected = next(millrace.read_records(self.json, features=self.spec, batch_size=3000))
        encoded = spec.encode(self.frame)
        for X in (encoded.X, spec.transform(self.frame), spec.transform(self.frame.to_dict("list"))):
            self.assertEqual(X.shape, expected.X.shape)
            self.assertEqual(X.indices.tolist(), expected.X.indices.tolist())
            self.assertEqual(X.data.tolist(), expected.X.data.tolist())
            self.assertEqual(X.indptr.tolist(), expected.X.indptr.tolist())
        self.assertEqual(encoded.y.tolist(), expected.y.tolist())
        typed = self.frame.assign(site=self.frame.site.astype("category"), age=self.frame.age.astype("Int64"))
        self.assertEqual(spec.transform(typed).indices.tolist(), expected.X.indices.tolist())
        self.assertEqual(pickle.loads(pickle.dumps(spec)), spec)

    def test_wrong_frames_are_errors(self):
        spec = millrace.FeatureSpec(SPEC)
        with self.assertRaisesRegex(ValueError, "row 1: .*'hours'.*expected a .*number.*found 'x'"):
            spec.transform({"hours": ["1", "x"]})
        with self.assertRaisesRegex(ValueError, "no column 'click'"):
            spec.encode(self.frame.drop(columns="click"))
        with self.assertRaisesRegex(TypeError, "column 'site'.*row 1.*found dict"):
            spec.transform({"site": ["a", {}]})
        with self.assertRaisesRegex(TypeError, "column 'site'.*datetime64"):
            spec.transform(pd.DataFrame({"site": pd.to_datetime(["2026-01-01"])}))
        with self.assertRaisesRegex(ValueError, "column 'age': expected 1 rows, found 2"):
            spec.transform({"site": ["a"], "age": [1, 2]})
        with self.assertRaisesRegex(ValueError, "rule"):
            millrace.FeatureSpec({"fields": [{"name": "a", "rule": "hashed"}]})
        with self.assertRaisesRegex(ValueError, "hash_bits"):
            millrace.FeatureSpec({**SPEC, "hash_bits": 64}).transform(self.frame)
        with self.assertRaises(FileNotFoundError):
            millrace.FeatureSpec("none.json")

    def test_a_spec_is_fitted_on_a_frame(self):
        open_spec = {**SPEC, "fields": [{"name": "site", "rule": "vocabulary"}]}
        spec = millrace.FeatureSpec(open_spec)
        self.assertFalse(spec.is_fitted)
        fitted = spec.fit(self.frame)
        self.assertTrue(fitted.is_fitted)
        self.assertEqual(fitted.num_features, 5)  # four sites and unseen ones
        with self.assertRaisesRegex(ValueError, "first pass"):
            spec.transform(self.frame)
        model = millrace.LogisticRegression(features=spec).fit(self.frame)
        self.assertEqual(model.features_, fitted)
        with self.assertRaisesRegex(ValueError, "first pass"):
            millrace.LogisticRegression(features=spec).partial_fit(self.frame)

    def test_estimators_train_on_frames_as_millrace_lr_on_files(self):
        model = millrace.LogisticRegression(features=self.spec, batch_size=50, shuffle=False, normalize=False)
        model.fit(self.frame)
        out = self.folder / "frames.bin"
        run("millrace-lr", f"--train={self.json}", f"--features={self.spec}", "--learning_rate=0.1", "--batch_size=50",
            "--order=files", "--normalize=off", f"--model_out={out}")
        expected = millrace.read_model(out)
        self.assertEqual(model.coef_[0].tobytes(), expected.dense().tobytes())
        self.assertGreater(model.score(self.frame), 0.6)
        self.assertEqual(model.predict(self.frame).tolist(), (model.predict_proba(self.frame)[:, 1] > 0.5).tolist())
        own = {**SPEC, "fields": [{"name": "age", "rule": "bucket", "boundaries": [25], "l2": 5}]}
        with self.assertRaisesRegex(ValueError, "field 'age' of the feature spec has l2"):
            millrace.LogisticRegression(features=own).fit(self.frame)
        copied = sklearn.base.clone(model).fit(self.frame)
        self.assertEqual(copied.coef_.tobytes(), model.coef_.tobytes())
        # The spec travels with the model: into programs, and back.
        model.save(out)
        scores = [float(score) for score in run("millrace-predict", f"--model={out}", self.json).split()]
        np.testing.assert_allclose(model.predict_proba(self.frame)[:, 1], scores, rtol=2e-6)
        loaded = millrace.LogisticRegression(optimizer="sgd").load_weights(out)
        self.assertEqual(loaded.decision_function(self.frame).tobytes(), model.decision_function(self.frame).tobytes())

    # ---- Scores ----

    def test_a_scorer_has_the_scores_of_millrace_predict(self):
        scorer = millrace.Scorer(self.serving)
        for rows in (self.frame, self.frame.to_dict("list"), self.rows, self.json.read_text()):
            np.testing.assert_allclose(scorer.score(rows), self.scores, rtol=2e-6)
        exact = scorer.score(self.frame)
        self.assertEqual(exact.tobytes(), scorer.score(self.rows).tobytes())
        keys = millrace.FeatureSpec(self.spec).transform(self.frame)
        self.assertEqual(exact.tobytes(), scorer.score(keys).tobytes())
        margins = scorer.score(self.frame, output="margin")
        np.testing.assert_allclose(1 / (1 + np.exp(-margins)), exact, rtol=1e-12)
        printed = run("millrace-predict", f"--model={self.run_dir}", "--output=margin", self.json).split()
        self.assertEqual(margins.tolist(), [float(np.float32(text)) for text in printed])
        self.assertEqual(scorer.info["kind"], "lr")
        self.assertEqual(json.loads(scorer.info["feature_spec"])["hash_bits"], 14)

    def test_candidates_are_scored_with_their_context(self):
        scorer = millrace.Scorer(self.serving)
        context = {"age": 41, "hours": 7.5}
        candidates = [{"site": "news", "tags": ["a", "b"]}, {"site": "shop", "age": 18}, {}]
        joined = scorer.score([{**context, **candidate} for candidate in candidates])
        self.assertEqual(scorer.score_candidates(context, candidates).tobytes(), joined.tobytes())
        frame = pd.DataFrame(candidates)
        self.assertEqual(scorer.score_candidates(context, frame).tobytes(), joined.tobytes())
        one, many = sp.csr_matrix([[0, 1, 0, 2.5]]), sp.csr_matrix([[1, 0, 0, 0], [0, 0, 0, 0]])
        both = sp.csr_matrix((np.array([1, 2.5, 1, 1, 2.5]), [1, 3, 0, 1, 3], [0, 3, 5]), shape=(2, 4))
        self.assertEqual(scorer.score_candidates(one, many).tobytes(), scorer.score(both).tobytes())

    def test_wrong_rows_and_models_are_errors(self):
        scorer = millrace.Scorer(self.serving)
        with self.assertRaisesRegex(ValueError, "expected"):
            scorer.score('{"site": ')
        with self.assertRaisesRegex(ValueError, "output"):
            scorer.score(self.frame, output="logit")
        with self.assertRaisesRegex(ValueError, "one row"):
            scorer.score_candidates(sp.csr_matrix(np.ones((2, 3))), sp.csr_matrix(np.ones((2, 3))))
        with self.assertRaises(FileNotFoundError):
            millrace.Scorer(self.folder / "none.serving")
        with self.assertRaises(ValueError):
            millrace.Scorer(self.json)
        damaged = self.folder / "damaged.serving"
        data = bytearray(self.serving.read_bytes())
        data[-100] ^= 1
        damaged.write_bytes(data)
        with self.assertRaises(ValueError):
            millrace.verify_model(damaged)
        millrace.verify_model(self.serving)

    def test_models_of_estimators_are_served_and_swapped(self):
        model = millrace.LogisticRegression(features=self.spec, batch_size=50).fit(self.frame)
        out = self.folder / "estimator.serving"
        summary = model.export(out)
        self.assertEqual(summary["bytes"], out.stat().st_size)
        scorer = millrace.Scorer(self.serving)
        before = scorer.info["digest"]
        stop, errors = threading.Event(), []

        def score():
            while not stop.is_set():
                try:
                    scorer.score(self.frame.head(50))
                except Exception as error:  # pylint: disable=broad-except
                    errors.append(error)

        threads = [threading.Thread(target=score) for _ in range(2)]
        for thread in threads:
            thread.start()
        for path in [out, self.serving] * 10 + [out]:
            scorer.swap(path)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertNotEqual(scorer.info["digest"], before)
        self.assertEqual(scorer.info["swaps"], 21)
        np.testing.assert_allclose(scorer.score(self.frame), model.predict_proba(self.frame)[:, 1], rtol=1e-5)
        half = millrace.export_model(self.run_dir, self.folder / "half.serving", weights="f16")
        self.assertLess(half["bytes"], self.serving.stat().st_size)
        with self.assertRaisesRegex(ValueError, "f8"):
            millrace.export_model(self.run_dir, self.folder / "half.serving", weights="f8")


if __name__ == "__main__":
    unittest.main()
