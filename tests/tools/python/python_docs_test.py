#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of docs/python.md, one after the other in a folder with its data.

An example ends with comments "# -> TEXT" behind lines that print: the text must be what is printed. Type hints are
checked too: every public name has a docstring.
Usage: python_docs_test.py BUILD_DIR SOURCE_DIR
"""
import contextlib
import inspect
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]
sys.path.insert(0, str(BUILD / "python"))
try:
    import pandas
    import sklearn

    assert pandas and sklearn
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh --with-python installs what this test needs")
    sys.exit(77)

import millrace

PAGE = (SOURCE / "docs/python.md").read_text(encoding="utf-8")
DATA = SOURCE.parent / "shared/data"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


class DocsTest(unittest.TestCase):
    @unittest.skipUnless((DATA / "libsvm/a9a").exists(), "no a9a")
    def test_examples_run_and_print_what_the_page_says(self):
        examples = blocks("python")
        self.assertGreater(len(examples), 5)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for name in ("a9a", "a9a.t"):
                    pathlib.Path(name).symlink_to(DATA / "libsvm" / name)
                self.make_run()
                names = {}
                for example in examples:
                    with self.subTest(example.splitlines()[0]):
                        out = io.StringIO()
                        with contextlib.redirect_stdout(out):
                            exec(compile(example, "docs/python.md", "exec"), names)  # pylint: disable=exec-used
                        expected = re.findall(r"# -> (.*)$", example, re.M)
                        self.assertEqual(out.getvalue().splitlines(), expected)
            finally:
                os.chdir(before)

    def make_run(self):
        done = subprocess.run(
            [str(BUILD / "bin/millrace-lr"), "--train=a9a", "--test=a9a.t", "--num_features=124", "--eval_every=10000",
             "--save_best=auc", "--run_dir=run", "--sample_ms=0"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_public_names_have_docstrings_and_hints(self):
        for name in millrace.__all__:
            thing = getattr(millrace, name)
            if isinstance(thing, str):
                continue
            self.assertTrue(inspect.getdoc(thing), name)
            self.assertIn(name, (SOURCE / "tools/python/millrace/__init__.pyi").read_text())
            self.assertRegex(PAGE, rf"\b{name}\b")
            members = inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else [(name, thing)]
            for member, function in members:
                if member.startswith("_") or not function.__module__.startswith("millrace"):
                    continue
                self.assertTrue(inspect.getdoc(function), f"{name}.{member}")
                hints = function.__annotations__
                for parameter in list(inspect.signature(function).parameters)[1 if inspect.isclass(thing) else 0:]:
                    self.assertIn(parameter, hints, f"{name}.{member}")


if __name__ == "__main__":
    unittest.main()
