# SPDX-License-Identifier: Apache-2.0
"""Files as batches of rows."""
from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Union

import numpy as np

from . import _core
from ._features import FeatureSpec
from ._matrices import csr_matrix


class Batch(NamedTuple):
    """Some rows: a CSR matrix of float32, labels (0 or 1, NaN: none), weights (None: all ones)."""

    X: Any
    y: np.ndarray
    weights: Optional[np.ndarray]


def read_records(
    files: Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]],
    *,
    format: str = "auto",
    num_features: Optional[int] = None,
    features: Union[None, str, "os.PathLike[str]", dict, FeatureSpec] = None,
    batch_size: int = 10000,
    shuffle: bool = False,
    random_state: int = 1,
    epochs: int = 1,
    hash_bits: int = 0,
    index_base: int = 0,
    positive_label: Optional[float] = None,
    labels: bool = True,
    on_corrupt: str = "fail",
    threads: int = 0,
) -> Iterator[Batch]:
    """Yields the rows of files in batches, read and decoded by threads of their own.

    files           names or globs of TFRecord, libsvm, libffm, VW, Criteo, CSV, JSON or Parquet files, plain or
                    compressed
    format          tfrecord, libsvm, libffm, vw, criteo, csv, json or table; auto: by the content
    num_features    columns of the matrices: a key that is not below is an error. None: 2^63 - 1, any key
    features        feature spec of rows of named columns (CSV, JSON, Parquet, ...)
    shuffle         False: files in the order of their names, rows as they stand
    hash_bits       VW and Criteo: bits of the hashed keys
    index_base      libsvm and libffm: subtracted from every index
    positive_label  this label becomes 1 and every other 0
    labels          whether a row without a label is an error
    on_corrupt      fail, or skip corrupt records
    threads         0: one per core

    An error is a ValueError that names file, offset or line, expected and found.
    """
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    reader = _core.RecordReader(
        files=",".join(os.fspath(path) for path in paths),
        format=format,
        features="" if features is None else FeatureSpec(features).to_json(),
        num_features=num_features or 0,
        batch_size=batch_size,
        shuffle=shuffle,
        seed=random_state,
        epochs=epochs,
        hash_bits=hash_bits,
        index_base=index_base,
        positive_label=positive_label,
        on_corrupt=on_corrupt,
        require_labels=labels,
        threads=threads,
    )
    return _batches(reader)


def _batches(reader: Any) -> Iterator[Batch]:
    try:
        while True:
            arrays = reader.next()
            if arrays is None:
                return
            indptr, indices, data, y, weights = arrays
            yield Batch(csr_matrix(indptr, indices, data, reader.num_features), y, weights)
    finally:
        reader.close()
