# SPDX-License-Identifier: Apache-2.0
"""Click models: sparse logistic regression and factorization machines for millions of features.

    import millrace

    model = millrace.LogisticRegression().fit(X, y)     # X: scipy.sparse CSR
    model.predict_proba(X)[:, 1]

Estimators follow scikit-learn's conventions. `Scorer` scores with serving models, `Run` reads the folder of a run of
millrace-lr, `read_records` reads files of any format, `FeatureSpec` makes matrices of frames, and `read_model` gives
the weights of a model as arrays.
"""
from ._core import __version__
from ._features import FeatureSpec
from ._model import ModelWeights, export_model, read_model
from ._records import Batch, read_records
from ._run import Run
from ._scorer import Scorer, verify_model

__all__ = [
    "Batch",
    "FactorizationMachine",
    "FeatureSpec",
    "LogisticRegression",
    "ModelWeights",
    "Run",
    "Scorer",
    "__version__",
    "export_model",
    "read_model",
    "read_records",
    "verify_model",
]


def __getattr__(name):
    # The estimators need scikit-learn; all else does without it.
    if name in ("LogisticRegression", "FactorizationMachine"):
        from . import _estimators

        return getattr(_estimators, name)
    raise AttributeError(f"module 'millrace' has no attribute '{name}'")


def __dir__():
    return sorted(__all__)
