#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The estimators of the Python package: scikit-learn's own checks, the bits of millrace-lr, threads and interrupts.

Usage: python_estimators_test.py BUILD_DIR SOURCE_DIR
"""
import copy
import io
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BUILD, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]
sys.path.insert(0, str(BUILD / "python"))
try:
    import numpy as np
    import scipy.sparse as sp
    import sklearn.base
    from sklearn.datasets import load_svmlight_file
    from sklearn.metrics import log_loss
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh --with-python installs what this test needs")
    sys.exit(77)

import millrace
from millrace._matrices import csr_arrays
from millrace._progress import Progress

BIN = BUILD / "bin"
A9A = SOURCE.parent / "shared/data/libsvm/a9a"
NUM_FEATURES = 124


def run(program, *words):
    done = subprocess.run([str(BIN / program), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{program} {words}: {done.stdout}{done.stderr}")
    return done.stdout


def random_rows(seed, rows, columns=NUM_FEATURES, values=False, nnz=6):
    """Rows with `nnz` distinct columns, and labels that depend on the columns."""
    draw = np.random.RandomState(seed)
    indices = np.concatenate([np.sort(draw.choice(columns, nnz, replace=False)) for _ in range(rows)])
    data = np.round(draw.uniform(-20, 20, rows * nnz), 2) if values else np.ones(rows * nnz)
    X = sp.csr_matrix((data, indices, np.arange(0, rows * nnz + 1, nnz)), shape=(rows, columns))
    y = (draw.uniform(size=rows) < 1 / (1 + np.exp(-X @ np.random.RandomState(9).normal(size=columns) * 0.3))).astype(int)
    return X, y


def write_libsvm(path, X, y):
    with open(path, "w", encoding="ascii") as out:
        for r in range(X.shape[0]):
            row = slice(X.indptr[r], X.indptr[r + 1])
            entries = " ".join(f"{c}:{v!r}" for c, v in zip(X.indices[row].tolist(), X.data[row].tolist()))
            out.write(f"{y[r]} {entries}\n")


class ScikitLearnTest(unittest.TestCase):
    def test_passes_the_checks_of_scikit_learn(self):
        from sklearn.utils.estimator_checks import check_estimator

        for estimator in (millrace.LogisticRegression(), millrace.FactorizationMachine(factors=4)):
            checks = skipped = 0
            for instance, check in check_estimator(estimator, generate_only=True):
                name = getattr(check, "func", check).__name__
                with self.subTest(estimator=type(estimator).__name__, check=name):
                    try:
                        check(instance)
                        checks += 1
                    except unittest.SkipTest:
                        skipped += 1
            print(f"check_estimator({type(estimator).__name__}): {checks} checks passed, {skipped} do not apply")
            self.assertGreater(checks, 40)
            self.assertLess(skipped, 5)

    def test_parameters_are_those_of_the_constructor(self):
        model = millrace.FactorizationMachine(factors=4, l1=0.5)
        self.assertEqual(model.get_params()["factors"], 4)
        copied = sklearn.base.clone(model).set_params(l1=0.25)
        self.assertEqual((copied.l1, copied.factors), (0.25, 4))

    def test_labels_may_be_of_any_kind(self):
        X, y = random_rows(1, 600)
        numbers = millrace.LogisticRegression().fit(X, y)
        words = np.array(["no", "yes"])[y]
        model = millrace.LogisticRegression().fit(X, words)
        self.assertEqual(model.classes_.tolist(), ["no", "yes"])
        self.assertEqual(model.coef_.tobytes(), numbers.coef_.tobytes())
        self.assertEqual(set(model.predict(X)), {"no", "yes"})
        self.assertEqual(model.score(X, words), (model.predict(X) == words).mean())

    def test_wrong_arguments_are_errors(self):
        X, y = random_rows(1, 50)
        wrong = [({"optimizer": "adams"}, "optimizer|sgd"), ({"learning_rate": "auto"}, "learning_rate"),
                 ({"learning_rate": -1.0}, "rate"), ({"table": "sparse"}, "table"), ({"normalize": "yes"}, "normalize"),
                 ({"batch_size": 0}, "batch_size"), ({"optimizer": "sgd", "l1": 1.0}, "l1")]
        for options, words in wrong:
            with self.subTest(options), self.assertRaisesRegex(ValueError, words):
                millrace.LogisticRegression(**options).fit(X, y)
        with self.assertRaisesRegex(ValueError, "factors"):
            millrace.FactorizationMachine(factors=5).fit(X, y)
        with self.assertRaisesRegex(ValueError, "negative"):
            millrace.LogisticRegression().fit(X, y, sample_weight=-np.ones(50))
        with self.assertRaisesRegex(ValueError, "Only binary classification"):
            millrace.LogisticRegression().fit(X, np.arange(50) % 3)
        with self.assertRaisesRegex(ValueError, "classes"):
            millrace.LogisticRegression().partial_fit(X, y)
        model = millrace.LogisticRegression().partial_fit(X, y, classes=[0, 1])
        with self.assertRaisesRegex(ValueError, "expected the classes"):
            model.partial_fit(X, y + 1)

    def test_a_damaged_matrix_is_an_error(self):
        X, y = random_rows(1, 50)
        model = millrace.LogisticRegression().fit(X, y)
        bad = X.copy()
        bad.indices[17] = 5000
        with self.assertRaisesRegex(ValueError, "column: expected 0 to below 124, found 5000"):
            model.partial_fit(bad, y)
        with self.assertRaisesRegex(ValueError, "column"):
            model.predict(bad)


class BitsTest(unittest.TestCase):
    """The same rows in the same order with the same options make the same model as millrace-lr."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def train(self, name, file, *flags):
        out = self.folder / f"{name}.bin"
        run("millrace-lr", f"--train={file}", f"--num_features={NUM_FEATURES}", "--order=files", f"--model_out={out}",
            *flags)
        return out

    def assert_same(self, model, path):
        expected = millrace.read_model(path)
        keys, numbers, intercept = model._learner.weights()
        kept = (numbers != 0).any(axis=1)
        self.assertGreater(len(expected.keys), 10)
        self.assertEqual(keys[kept].tobytes(), expected.keys.tobytes())
        self.assertEqual(numbers[kept][:, 0].tobytes(), expected.weights.tobytes())
        if expected.factors is not None:
            self.assertEqual(numbers[kept][:, 1:].tobytes(), expected.factors.tobytes())
        self.assertEqual(np.float32(intercept), np.float32(expected.intercept))

    @unittest.skipUnless(A9A.exists(), "no a9a")
    def test_a9a(self):
        X, y = load_svmlight_file(str(A9A), n_features=NUM_FEATURES, zero_based=True)
        y = (y > 0).astype(int)
        for optimizer, rate in [("ftrl", 0.1), ("adagrad", 0.1), ("sgd", 0.5), ("adam", 0.001)]:
            with self.subTest(optimizer):
                path = self.train(optimizer, A9A, f"--optimizer={optimizer}", f"--learning_rate={rate}",
                                  "--epochs=2", "--batch_size=100")
                model = millrace.LogisticRegression(optimizer=optimizer, epochs=2, batch_size=100, shuffle=False)
                model.fit(X, y)
                self.assert_same(model, path)
                if optimizer == "ftrl":
                    self.assertLess(log_loss(y, model.predict_proba(X)), 0.33)
                saved = self.folder / "saved.bin"
                model.save(saved)
                self.assert_same(model, saved)

    def test_options_values_and_kinds(self):
        X, y = random_rows(4, 2000, values=True)
        file = self.folder / "values.libsvm"
        write_libsvm(file, X, y)
        X32 = X.astype(np.float32)
        cases = [
            ("l1", {"l1": 0.5, "l2": 0.1, "ftrl_beta": 2.0, "normalize": False},
             ["--l1=0.5", "--l2=0.1", "--ftrl_beta=2", "--normalize=off", "--learning_rate=0.1"]),
            ("scales", {"normalize": True, "fit_intercept": False},
             ["--normalize=on", "--nointercept", "--learning_rate=0.1"]),
            ("auto", {"fit_intercept": False, "batch_size": "auto"},
             ["--nointercept", "--learning_rate=0.1", "--batch_size=0"]),
            ("sgd_l2", {"optimizer": "sgd", "l2": 0.01, "decay": "sqrt", "normalize": False, "learning_rate": 0.01},
             ["--optimizer=sgd", "--l2=0.01", "--decay=sqrt", "--normalize=off", "--learning_rate=0.01"]),
        ]
        for name, options, flags in cases:
            with self.subTest(name):
                options = {"batch_size": 70, "epochs": 2, "shuffle": False, **options}
                size = [] if options["batch_size"] == "auto" else ["--batch_size=70"]
                path = self.train(name, file, "--epochs=2", *size, *flags)
                self.assert_same(millrace.LogisticRegression(**options).fit(X32, y), path)

    def test_factorization_machines(self):
        X, y = random_rows(5, 3000)
        file = self.folder / "ones.libsvm"
        write_libsvm(file, X, y)
        for optimizer in ("ftrl", "sgd"):
            with self.subTest(optimizer):
                path = self.train(f"fm_{optimizer}", file, "--model=fm", "--factors=4", "--factor_l2=0.001",
                                  f"--optimizer={optimizer}", "--learning_rate=0.1", "--batch_size=100", "--epochs=2")
                model = millrace.FactorizationMachine(factors=4, factor_l2=0.001, optimizer=optimizer,
                                                      learning_rate=0.1, batch_size=100, epochs=2, shuffle=False)
                model.fit(X, y)
                self.assert_same(model, path)
                self.assertEqual(model.factors_.shape, (NUM_FEATURES, 4))

    def test_weights_of_one_are_no_weights(self):
        X, y = random_rows(6, 1000, values=True)
        without = millrace.LogisticRegression(epochs=2).fit(X, y)
        ones = millrace.LogisticRegression(epochs=2).fit(X, y, sample_weight=np.ones(1000))
        self.assertEqual(without.coef_.tobytes(), ones.coef_.tobytes())

    def test_weights_of_rows(self):
        X, y = random_rows(6, 1000)
        weights = np.random.RandomState(0).choice([0.5, 1, 2], 1000)
        vw = self.folder / "rows.vw"
        with open(vw, "w", encoding="ascii") as out:
            for r in range(1000):
                names = " ".join(map(str, X.indices[X.indptr[r]:X.indptr[r + 1]]))
                out.write(f"{2 * y[r] - 1} {weights[r]} | {names}\n")
        path = self.train("weights", vw, "--novw_hash_all", "--learning_rate=0.1", "--batch_size=100")
        model = millrace.LogisticRegression(batch_size=100, shuffle=False).fit(X, y, sample_weight=weights)
        self.assert_same(model, path)

    def test_partial_fit_of_whole_batches_is_one_fit(self):
        X, y = random_rows(7, 1000)
        whole = millrace.LogisticRegression(batch_size=50, shuffle=False).fit(X, y)
        parts = millrace.LogisticRegression(batch_size=50)
        for first in range(0, 1000, 250):
            parts.partial_fit(X[first:first + 250], y[first:first + 250], classes=[0, 1])
        self.assertEqual(whole.coef_.tobytes(), parts.coef_.tobytes())
        self.assertEqual(whole.intercept_.tobytes(), parts.intercept_.tobytes())

    def test_a_pickle_continues_with_the_same_bits(self):
        X, y = random_rows(8, 1000, values=True)
        for kind in (millrace.LogisticRegression, millrace.FactorizationMachine):
            model = kind(batch_size=50).partial_fit(X, y, classes=[0, 1])
            other = pickle.loads(pickle.dumps(model))
            third = copy.deepcopy(model)
            for each in (model, other, third):
                each.partial_fit(X, y)
            self.assertEqual(model.coef_.tobytes(), other.coef_.tobytes())
            self.assertEqual(model.decision_function(X).tobytes(), third.decision_function(X).tobytes())

    def test_tables_and_types_of_indices_do_not_change_the_model(self):
        X, y = random_rows(9, 2000)
        dense = millrace.LogisticRegression(batch_size=100).fit(X, y)
        hashed = millrace.LogisticRegression(batch_size=100, table="hashed").fit(X, y)
        np.testing.assert_allclose(dense.decision_function(X), hashed.decision_function(X), rtol=1e-3, atol=1e-4)
        with self.assertRaisesRegex(AttributeError, "weights"):
            hashed.coef_
        wide = X.copy()
        wide.indptr, wide.indices = wide.indptr.astype(np.int64), wide.indices.astype(np.int64)
        again = millrace.LogisticRegression(batch_size=100).fit(wide, y)
        self.assertEqual(dense.coef_.tobytes(), again.coef_.tobytes())
        huge = sp.csr_matrix((wide.data, wide.indices * (1 << 40), wide.indptr), shape=(2000, 2**48))
        spread = millrace.LogisticRegression(batch_size=100).fit(huge, y)
        self.assertEqual(spread.weights()[0].max() % (1 << 40), 0)
        np.testing.assert_allclose(spread.decision_function(huge), hashed.decision_function(X), rtol=1e-3, atol=1e-4)

    def test_starts_from_a_model_of_millrace_lr(self):
        X, y = random_rows(10, 1000)
        file = self.folder / "start.libsvm"
        write_libsvm(file, X, y)
        path = self.train("start", file, "--learning_rate=0.1")
        model = millrace.LogisticRegression(optimizer="adagrad").load_weights(path)
        self.assert_same(model, path)
        # The weight of ftrl is a function of its state, which is made from the weight.
        model = millrace.LogisticRegression().load_weights(path)
        np.testing.assert_allclose(model.coef_[0], millrace.read_model(path).dense(), rtol=1e-6)
        before = log_loss(y, model.predict_proba(X))
        model.partial_fit(X, y)
        self.assertLess(log_loss(y, model.predict_proba(X)), before)


class RuntimeTest(unittest.TestCase):
    def test_matrices_are_not_copied(self):
        X, _ = random_rows(1, 100)
        for index in (np.int32, np.int64):
            for value in (np.float32, np.float64):
                matrix = X.astype(value)
                matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
                indptr, indices, data, _ = csr_arrays(matrix)
                self.assertTrue(np.shares_memory(indptr, matrix.indptr))
                self.assertTrue(np.shares_memory(indices, matrix.indices))
                self.assertTrue(np.shares_memory(data, matrix.data))

    def test_other_threads_run_during_the_training(self):
        X, y = random_rows(1, 20000)
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        begin = time.monotonic()
        millrace.LogisticRegression(epochs=60).fit(X, y)
        seconds = time.monotonic() - begin
        done.set()
        thread.join()
        # A thread that waits for the GIL gets it every 5 ms at the earliest, and not once in a call that holds it.
        self.assertGreater(counted[0], min(20, seconds * 20))

    def test_threads_share_an_estimator(self):
        X, y = random_rows(1, 3000)
        model = millrace.FactorizationMachine().fit(X, y)
        expected = model.decision_function(X).tobytes()
        results = []
        threads = [threading.Thread(target=lambda: results.append(model.decision_function(X).tobytes()))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [expected] * 4)

    def test_ctrl_c_ends_the_training_after_a_step(self):
        X, y = random_rows(1, 20000)
        model = millrace.LogisticRegression(epochs=1000000)
        begin = time.monotonic()
        timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            model.fit(X, y)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertGreater(model._learner.steps, 0)
        self.assertTrue(np.isfinite(model.decision_function(X)).all())
        model.partial_fit(X, y)

    def test_progress_in_a_terminal_and_in_a_file(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        for out in (Terminal(), io.StringIO()):
            progress = Progress("fit", 1000, out)
            progress(10, 0.5)
            self.assertEqual(out.getvalue(), "")
            progress.start -= 20
            progress.next -= 20
            progress(500, 0.5)
            text = out.getvalue()
            self.assertIn("fit: 500 of 1,000 rows, 25/s, loss 0.50000, 20 s left", text)
            self.assertEqual(text.startswith("\r"), out.isatty())
            self.assertEqual(text.endswith("\n"), not out.isatty())
            progress.finish(0.25)
            self.assertTrue(out.getvalue().endswith("\n"))
        X, y = random_rows(1, 300)
        error, sys.stderr = sys.stderr, io.StringIO()
        try:
            millrace.LogisticRegression(verbose=1).fit(X, y)
            text = sys.stderr.getvalue()
        finally:
            sys.stderr = error
        self.assertRegex(text, r"^LogisticRegression: 300 of 300 rows, [0-9,]+/s, loss 0\.\d{5}, 0\.\d\d s\n$")

    def test_an_error_of_the_progress_is_raised(self):
        X, y = random_rows(1, 20000)
        model = millrace.LogisticRegression().fit(X, y)
        calls = []

        def progress(rows, loss):
            calls.append((rows, loss))
            if len(calls) == 2:
                raise RuntimeError("enough of it")

        with self.assertRaisesRegex(RuntimeError, "enough of it"):
            model._learner.train(csr_arrays(X), y.astype(np.uint8), None, 1000000, 100, False, 1, progress)
        self.assertEqual(len(calls), 2)


if __name__ == "__main__":
    unittest.main()
