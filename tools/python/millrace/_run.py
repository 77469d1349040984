# SPDX-License-Identifier: Apache-2.0
"""The folder of a run."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Dict, List, Optional, Union

import numpy as np

from ._model import ModelWeights, read_model


class Run:
    """A run of millrace-lr or millrace-convnet, also one that is still running.

    path       its folder
    status     running (or killed), finished, failed, interrupted
    flags      every flag's value as text
    metrics    {name: array}, one number an evaluation: step, examples, loss, auc, logloss, ...; NaN where a metric is
               not defined
    best       the evaluation whose model was kept: metric, step, examples, metrics; None without one
    best_step  its step; None without one
    warnings   results that are probably not what you want
    info       all of run.json
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = pathlib.Path(path)
        self.info: Dict[str, Any] = {}
        self.metrics: Dict[str, np.ndarray] = {}
        self.reload()

    def reload(self) -> "Run":
        """Reads the folder again: of a run that goes on."""
        file = self.path / "run.json"
        try:
            self.info = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.path}: expected a run folder, found no run.json in it") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"{file}: line {error.lineno}: {error.msg}") from None
        self.metrics = self._read_metrics()
        return self

    def _read_metrics(self) -> Dict[str, np.ndarray]:
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return {}
        rows = []
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise ValueError(f"{file}: line {number}: {error.msg}") from None
        names = list(rows[0]) if rows else []
        return {
            name: np.array([np.nan if row.get(name) is None else row[name] for row in rows])
            for name in names
        }

    @property
    def status(self) -> str:
        return self.info["status"]

    @property
    def flags(self) -> Dict[str, str]:
        return self.info.get("flags", {})

    @property
    def warnings(self) -> List[str]:
        return self.info.get("warnings", [])

    @property
    def best(self) -> Optional[Dict[str, Any]]:
        return self.info.get("best")

    @property
    def best_step(self) -> Optional[int]:
        return self.best["step"] if self.best else None

    def weights(self, best: bool = False) -> ModelWeights:
        """The weights of the last model, or of the best one."""
        if not best:
            return read_model(self.path)
        for name in ("best.bin", "best.txt"):
            if (self.path / "model" / name).exists():
                return read_model(self.path / "model" / name)
        raise FileNotFoundError(f"{self.path}: the run kept no best model: --save_best does")

    def to_frame(self) -> Any:
        """The metrics as a pandas frame, one row an evaluation."""
        import pandas

        return pandas.DataFrame(self.metrics)

    def __repr__(self) -> str:
        evaluations = len(next(iter(self.metrics.values()))) if self.metrics else 0
        return f"<millrace.Run {str(self.path)!r}: {self.status}, {evaluations} evaluations>"
