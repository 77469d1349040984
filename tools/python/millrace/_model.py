# SPDX-License-Identifier: Apache-2.0
"""Models on disk: their weights as arrays, and serving models."""
from __future__ import annotations

import os
from typing import Any, Dict, NamedTuple, Optional, Union

import numpy as np

from . import _core

Path = Union[str, "os.PathLike[str]"]


class ModelWeights(NamedTuple):
    """The weights of a model that are not zero."""

    keys: np.ndarray  # uint64, ascending
    weights: np.ndarray  # float32, one a key
    factors: Optional[np.ndarray]  # float32 [keys][factors] of a factorization machine
    intercept: float
    info: Dict[str, Any]  # kind, num_features, rule, steps, examples, features (the spec), ...

    def dense(self) -> np.ndarray:
        """The weights of all features, zeros included."""
        if self.info["num_features"] == 0:
            raise ValueError("the model has any 64-bit key: expected one with num_features")
        weights = np.zeros(self.info["num_features"], dtype=np.float32)
        weights[self.keys.astype(np.int64)] = self.weights
        return weights


def read_model(path: Path) -> ModelWeights:
    """The weights of a model file (binary or text), a checkpoint or a run folder."""
    info, keys, numbers, intercept = _core.read_model(os.fspath(path))
    centers = info["centers"]
    if centers and info["kind"] == "lr":  # the intercept of rows as they are
        weights = dict(zip(keys.tolist(), numbers[:, 0].tolist()))
        intercept -= sum(weights.get(key, 0.0) * center for key, center in centers)
    factors = numbers[:, 1:] if numbers.shape[1] > 1 else None
    return ModelWeights(keys, numbers[:, 0], factors, intercept, info)


def export_model(model: Path, out: Path, weights: str = "f32", layout: str = "auto") -> Dict[str, Any]:
    """Writes the serving model of a model file or a run folder, which `Scorer` opens.

    `weights` is f32, f16 or bf16; `layout` is auto, dense or hash. Returns the number of features, the bytes and the
    layout. The same as `millrace-predict export`.
    """
    return _core.export_model(os.fspath(model), os.fspath(out), weights, layout)
