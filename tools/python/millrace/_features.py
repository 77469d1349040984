# SPDX-License-Identifier: Apache-2.0
"""Feature specs: frames of named columns to sparse matrices."""
from __future__ import annotations

import json
import os
from typing import Any, List, Mapping, NamedTuple, Optional, Union

import numpy as np

from . import _core
from ._matrices import csr_matrix


class Encoded(NamedTuple):
    """The rows of a frame: a CSR matrix, and labels and weights where the frame has them."""

    X: Any
    y: Optional[np.ndarray]
    weights: Optional[np.ndarray]


def is_frame(data: Any) -> bool:
    """Whether `data` has named columns: a pandas frame, or a dictionary of sequences."""
    return isinstance(data, Mapping) or (hasattr(data, "columns") and hasattr(data, "iloc"))


def _array_of(values: Any) -> np.ndarray:
    """A column as an array of int64, float32, float64 or objects; None stands for a missing value."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind in "mM":
        raise TypeError(f"expected numbers or texts, found {values.dtype}: convert it first")
    if hasattr(values, "to_numpy"):  # a pandas series, with its own kinds of missing values
        if kind in "iuf" and isinstance(values.dtype, np.dtype):
            array = values.to_numpy()
        else:
            array = values.to_numpy(dtype=object, na_value=None)
    else:
        is_array = isinstance(values, np.ndarray)
        has_lists = not is_array and any(isinstance(v, (list, tuple, np.ndarray)) for v in values)
        array = np.empty(len(values), dtype=object) if has_lists else np.asarray(values)
        if has_lists:
            for row, value in enumerate(values):
                array[row] = value
        if array.ndim != 1:
            raise TypeError(f"expected one dimension, found {array.ndim}")
    if array.dtype in (np.int64, np.float32, np.float64):
        return np.ascontiguousarray(array)
    if array.dtype.kind == "i" or (array.dtype.kind == "u" and array.dtype.itemsize < 8):
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    return np.ascontiguousarray(array.astype(object))


def frame_columns(frame: Any, names: Optional[List[str]] = None) -> tuple:
    """([(name, array)], rows) of the columns that `names` has, or of all."""
    available = list(frame.keys()) if isinstance(frame, Mapping) else list(frame.columns)
    wanted = available if names is None else [name for name in names if name in available]
    columns = []
    for name in wanted:
        try:
            columns.append((str(name), _array_of(frame[name])))
        except TypeError as error:
            raise TypeError(f"column '{name}': {error}") from None
    if isinstance(frame, Mapping):
        rows = len(columns[0][1]) if columns else 0
    else:
        rows = len(frame)
    return columns, rows


class FeatureSpec:
    """How the columns of a frame become the columns of a sparse matrix.

    `source` is the path of a spec (JSON), its text, or a dictionary; docs/features.md describes it. The same spec
    makes the same keys in millrace-lr, millrace-predict, the scoring library and here.
    """

    def __init__(self, source: Union[str, "os.PathLike[str]", Mapping[str, Any], "FeatureSpec"]) -> None:
        if isinstance(source, FeatureSpec):
            self._spec = source._spec
        elif isinstance(source, Mapping):
            self._spec = _core.FeatureSpec.parse(json.dumps(source), "the feature spec")
        elif isinstance(source, str) and source.lstrip().startswith("{"):
            self._spec = _core.FeatureSpec.parse(source, "the feature spec")
        else:
            self._spec = _core.FeatureSpec.load(os.fspath(source))

    @property
    def columns(self) -> List[str]:
        """The columns that the spec reads, with those of the label and the weight."""
        return self._spec.columns

    @property
    def label_column(self) -> str:
        """The column of the label."""
        return self._spec.label_column

    @property
    def num_features(self) -> int:
        """Columns of the matrices. 0: the spec is hashed to 64 bits, which makes no matrix."""
        return self._spec.num_features

    @property
    def is_fitted(self) -> bool:
        """False if vocabularies, quantiles or scales are still to be found: see `fit`."""
        return self._spec.is_fitted

    def to_json(self) -> str:
        """The spec as one line of JSON: what its file and models hold."""
        return self._spec.to_json()

    def fit(self, frame: Any) -> "FeatureSpec":
        """A new spec, with what this one leaves open found in the frame; or with longer vocabularies."""
        fitted = object.__new__(FeatureSpec)
        fitted._spec = self._spec.fit(*frame_columns(frame, self.columns))
        return fitted

    def transform(self, frame: Any) -> Any:
        """The frame's rows as a CSR matrix of float32."""
        return self.encode(frame, labels=False).X

    def encode(self, frame: Any, labels: bool = True) -> Encoded:
        """The same with labels and weights of the frame. With `labels`, a row without a label is an error."""
        columns, rows = frame_columns(frame, self.columns)
        if labels and self.label_column not in dict(columns):
            raise ValueError(f"the frame has no column '{self.label_column}', which has the labels")
        indptr, indices, data, found, weights = self._spec.encode(columns, rows, labels)
        return Encoded(
            csr_matrix(indptr, indices, data, self.num_features), found if labels else None, weights
        )

    def __reduce__(self) -> tuple:
        return FeatureSpec, (self.to_json(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureSpec) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        fields = len(json.loads(self.to_json()).get("fields", []))
        return f"<millrace.FeatureSpec: {fields} fields, {self.num_features:,} features>"
