"""Where the data is; made or fetched when an experiment first asks for it."""
import json
import pathlib

from . import old_figures
from .jobs import JobError

ROWS, TEST_ROWS = 400_000, 20_000
MNIST_TEST_IMAGES = 10_000


class Data:
    def __init__(self, folder, mnist, source_dir, runner, say):
        self.folder = pathlib.Path(folder)
        self.mnist_folder = pathlib.Path(mnist)
        self.source_dir = pathlib.Path(source_dir)
        self.runner = runner
        self.say = say
        self._mnist_checked = False

    def clicks(self):
        """Criteo-like records: flags of millrace-lr for both splits, and what is known about them."""
        folder = self.folder / f"clicks-{ROWS}-{TEST_ROWS}"
        facts = folder / "synth.json"
        if not facts.exists():
            self.say(f"    making {ROWS:,} training and {TEST_ROWS:,} test rows in {folder}")
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
