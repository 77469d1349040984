# SPDX-License-Identifier: Apache-2.0
"""Matrices as the arrays that the compiled part takes."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np
import scipy.sparse as sp

# The number of columns of a matrix whose keys may be any number.
ANY_KEY = 2**63 - 1


def csr_of(X: Any) -> Any:
    """X as a CSR matrix of float32 or float64; the same object if it is one."""
    if not sp.issparse(X):
        X = sp.csr_matrix(np.atleast_2d(np.asarray(X)))
    elif X.format != "csr":
        X = X.tocsr()
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return X


def csr_arrays(X: Any) -> tuple:
    """(indptr, indices, data, columns) of a CSR matrix of float32 or float64: views, not copies."""
    indptr, indices = X.indptr, X.indices
    wide = np.int64 if np.int64 in (indptr.dtype, indices.dtype) else np.int32
    return (
        np.ascontiguousarray(indptr, dtype=wide),
        np.ascontiguousarray(indices, dtype=wide),
        np.ascontiguousarray(X.data),
        X.shape[1],
    )


def csr_matrix(
    indptr: np.ndarray, indices: np.ndarray, data: Optional[np.ndarray], num_features: int
) -> Any:
    """The matrix of the arrays; `data` None: all ones; `num_features` 0: any key."""
    if data is None:
        data = np.ones(len(indices), dtype=np.float32)
    columns = num_features or ANY_KEY
    matrix = sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, columns), copy=False)
    return matrix
