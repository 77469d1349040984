# SPDX-License-Identifier: Apache-2.0
"""Scores with serving models."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping, Union

import numpy as np
import scipy.sparse as sp

from . import _core
from ._features import frame_columns, is_frame
from ._matrices import csr_of

_OUTPUTS = {"probability": 0, "margin": 1}


def _key_arrays(X: Any) -> tuple:
    X = csr_of(X)
    data = np.ascontiguousarray(X.data, dtype=np.float32)
    return X.indptr.astype(np.uint64), X.indices.astype(np.uint64), None if (data == 1).all() else data


def _lines_of(rows: Any) -> bytes:
    if isinstance(rows, bytes):
        return rows
    if isinstance(rows, str):
        return rows.encode()
    return "\n".join(json.dumps(row, default=_plain) for row in rows).encode()


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # a number or an array of numpy
        return value.tolist()
    raise TypeError(f"expected a text, a number or a list of these, found {type(value).__name__}")


def _is_matrix(rows: Any) -> bool:
    return sp.issparse(rows) or isinstance(rows, np.ndarray)


class Scorer:
    """A serving model, which `millrace-predict export` or `export_model` writes.

    Any number of threads may use one scorer: calls release the GIL, take no lock and do not wait, also while `swap`
    replaces the model. Scores are those of millrace-predict, bit for bit if the file's weights are f32.

    preload  maps the whole file now
    verify   checks its checksums, about 1 GB/s
    copy     copies the weights into memory of this process: faster for large models, not shared
    """

    def __init__(
        self,
        path: Union[str, "os.PathLike[str]"],
        *,
        preload: bool = False,
        verify: bool = False,
        copy: bool = False,
    ) -> None:
        self._scorer = _core.Scorer(os.fspath(path), _flags(preload, verify, copy))

    def swap(
        self,
        path: Union[str, "os.PathLike[str]"],
        *,
        preload: bool = True,
        verify: bool = False,
        copy: bool = False,
    ) -> None:
        """Replaces the model. Calls that are running finish with the old one."""
        self._scorer.swap(os.fspath(path), _flags(preload, verify, copy))

    @property
    def info(self) -> Dict[str, Any]:
        """kind, num_features, digest, examples, feature_spec, ... of the model of the moment."""
        return self._scorer.info()

    def score(self, rows: Any, output: str = "probability") -> np.ndarray:
        """One float64 a row: the probability of a click, or the margin.

        `rows` is a CSR matrix (of keys); or rows of named fields, which need a model with a feature spec: a pandas
        frame, a dictionary of columns, a list of dictionaries, or JSON lines as text.
        """
        kind = _kind(output)
        if _is_matrix(rows):
            return self._scorer.score_keys(_key_arrays(rows), kind)
        if is_frame(rows):
            columns, count = frame_columns(rows)
            return self._scorer.score_frame(columns, count, kind)
        return self._scorer.score_json(_lines_of(rows), kind)

    def score_candidates(self, context: Any, candidates: Any, output: str = "probability") -> np.ndarray:
        """One score a candidate: of the row that has the fields (or keys) of the context and of the candidate.

        `context` is one row: a dictionary, a frame or matrix of one row. `candidates` are as the rows of `score`; a
        field of a candidate replaces that of the context. What depends on the context alone is computed once.
        """
        kind = _kind(output)
        if _is_matrix(candidates):
            one = csr_of(context)
            if one.shape[0] != 1:
                raise ValueError(f"context: expected one row, found {one.shape[0]}")
            return self._scorer.key_candidates(_key_arrays(one), _key_arrays(candidates), kind)
        if is_frame(candidates):
            return self._score_frame_candidates(context, candidates, kind)
        if isinstance(context, Mapping):
            context = [context]
        return self._scorer.json_candidates(_lines_of(context), _lines_of(candidates), kind)

    def _score_frame_candidates(self, context: Any, candidates: Any, kind: int) -> np.ndarray:
        if isinstance(context, Mapping):
            context = {name: [value] for name, value in context.items()}
        columns, rows = frame_columns(context)
        if rows != 1:
            raise ValueError(f"context: expected one row, found {rows}")
        many, count = frame_columns(candidates)
        return self._scorer.frame_candidates(columns, many, count, kind)

    def __repr__(self) -> str:
        info = self.info
        return f"<millrace.Scorer {info['path']!r}: {info['kind']}, {info['num_weights']:,} weights>"


def verify_model(path: Union[str, "os.PathLike[str]"]) -> None:
    """Reads a serving model and checks the checksum of each block; a ValueError says what is damaged."""
    _core.verify_model(os.fspath(path))


def _kind(output: str) -> int:
    if output not in _OUTPUTS:
        raise ValueError(f"output: expected probability or margin, found '{output}'")
    return _OUTPUTS[output]


def _flags(preload: bool, verify: bool, copy: bool) -> int:
    return (
        (_core.PRELOAD if preload else 0)
        | (_core.VERIFY if verify else 0)
        | (_core.COPY if copy else 0)
    )
