# SPDX-License-Identifier: Apache-2.0
"""The data of the experiments; made or downloaded when an experiment first needs it."""
import json
import pathlib

from . import old_figures
from .jobs import JobError

ROWS, TEST_ROWS = 400_000, 20_000
FIELDS = 39  # indices per row
DENSE_BYTES = old_figures.NUM_FEATURES * 4  # of a model or a gradient
RAW_BYTES_PER_KEY = 12  # a 64-bit key and a float32
MNIST_TEST_IMAGES = 10_000


class Data:
    def __init__(self, folder, mnist, source_dir, runner, echo):
        self.folder = pathlib.Path(folder)
        self.mnist_folder = pathlib.Path(mnist)
        self.source_dir = pathlib.Path(source_dir)
        self.runner = runner
        self.echo = echo
        self._mnist_checked = False

    def clicks(self):
        """Criteo-like records: the flags of millrace-lr for both splits, and the facts in synth.json."""
        folder = self.folder / f"clicks-{ROWS}-{TEST_ROWS}"
        facts = folder / "synth.json"
        if not facts.exists():
            self.echo(f"    making {ROWS:,} training and {TEST_ROWS:,} test rows in {folder}")
            folder.mkdir(parents=True, exist_ok=True)
            self.runner.tool(
                "millrace-records", "synth", f"--rows={ROWS}", f"--test_rows={TEST_ROWS}", f"--out={folder}", "--overwrite"
            )
        flags = {
            "train": f"{folder}/train-*",
            "test": f"{folder}/test-*",
            "num_features": old_figures.NUM_FEATURES,
        }
        return flags, json.loads(facts.read_text(encoding="utf-8"))

    def mnist(self):
        """Flags of millrace-convnet for the 60,000 training and 10,000 test images."""
        folder = self.mnist_folder
        if not self._mnist_checked:
            try:
                self.runner.run("get_mnist.sh", [self.source_dir / "tools/get_mnist.sh", folder])
            except JobError as error:
                raise JobError(f"no MNIST in {folder}: {error}") from None
            self._mnist_checked = True
        return {
            "train": f"{folder}/train-images-idx3-ubyte,{folder}/train-labels-idx1-ubyte",
            "test": f"{folder}/t10k-images-idx3-ubyte,{folder}/t10k-labels-idx1-ubyte",
        }
