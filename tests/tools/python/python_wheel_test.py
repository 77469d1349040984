#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel: made, installed by pip in a clean virtual environment, used there, and removed.

Usage: python_wheel_test.py BUILD_DIR SOURCE_DIR
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

BUILD, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]
try:
    import ensurepip  # of python3-venv
    import numpy
    import scipy

    assert ensurepip and numpy and scipy
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh --with-python installs what this test needs")
    sys.exit(77)

USE = """
import pathlib, sys
import numpy as np, scipy.sparse as sp
import millrace
assert pathlib.Path(millrace.__file__).is_relative_to(sys.prefix), millrace.__file__
X = sp.random(500, 40, density=0.1, format="csr", random_state=1)
y = (X[:, 0].toarray().ravel() > 0).astype(int)
model = millrace.LogisticRegression(epochs=5).fit(X, y)
model.export("m.serving")
scores = millrace.Scorer("m.serving").score(X)
assert np.allclose(scores, model.predict_proba(X)[:, 1])
print(millrace.__version__)
"""


def run(*words, cwd=None):
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=240, check=False, cwd=cwd, env={"PATH": "/usr/bin:/bin", "HOME": str(cwd or "/tmp")})
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


class WheelTest(unittest.TestCase):
    def test_pip_installs_the_wheel(self):
        metadata = BUILD / "tools/python/METADATA"
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            make = [sys.executable, "-B", SOURCE / "tools/python/build_wheel.py", BUILD / "python/millrace", metadata]
            wheel = pathlib.Path(run(*make, folder / "dist").strip())
            again = pathlib.Path(run(*make, folder / "again").strip())
            self.assertEqual(wheel.read_bytes(), again.read_bytes())
            with zipfile.ZipFile(wheel) as archive:
                names = archive.namelist()
            self.assertIn("millrace/py.typed", names)
            self.assertIn("millrace/_core.pyi", names)
            self.assertEqual([n for n in names if "pycache" in n], [])
            # numpy and scipy are those of the system: there is no index to install them from.
            environment = folder / "venv"
            run(sys.executable, "-m", "venv", "--system-site-packages", environment, cwd=folder)
            python = environment / "bin/python"
            run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel, cwd=folder)
            version = run(python, "-c", USE, cwd=folder).strip()
            self.assertIn(f"millrace-{version}-", wheel.name)
            run(python, "-m", "pip", "uninstall", "-y", "millrace", cwd=folder)
            self.assertEqual(list(environment.rglob("millrace*")), [])


if __name__ == "__main__":
    unittest.main()
