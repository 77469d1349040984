# SPDX-License-Identifier: Apache-2.0
"""Estimators with scikit-learn's conventions."""
from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Dict, Optional, Union

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from . import _core
from ._features import FeatureSpec, is_frame
from ._matrices import csr_arrays, csr_of
from ._model import export_model
from ._progress import Progress

try:  # scikit-learn 1.6 and newer
    from sklearn.utils.validation import validate_data as _validate_data
except ImportError:

    def _validate_data(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        return estimator._validate_data(*args, **kwargs)


# Columns up to which a table with one slot a column is the default: 1 GB with ftrl.
_DENSE_COLUMNS = 2**27
_RULE_OPTIONS = (
    "optimizer",
    "decay",
    "l1",
    "l2",
    "ftrl_beta",
    "adagrad_epsilon",
    "adagrad_initial",
)


class _Estimator(ClassifierMixin, BaseEstimator):
    """What the kinds of models share."""

    _kind = "lr"
    _factor_options = ()

    # ---- scikit-learn ----

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "_Estimator":
        """Trains a new model in `epochs` passes over the rows.

        X is a CSR matrix (used as it is), anything that becomes one, or with `features` a frame; then y may be None:
        the label is a column of the frame. An interrupted call (Ctrl-C) leaves the model of the steps until then.
        """
        X, y, sample_weight = self._rows(X, y, sample_weight, reset=True, fit_spec=True)
        check_classification_targets(y)
        self._set_classes(np.unique(y))
        self._new_learner(X)
        self._train(X, y, sample_weight, self.epochs, self.shuffle)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> "_Estimator":
        """Continues the training with one pass over the rows, in the order in which they stand.

        The first call needs `classes`, the two labels, unless it has both or the labels come from a frame. Batches
        do not reach from call to call: with calls of whole batches the model has the bits of one call.
        """
        first = not hasattr(self, "_learner")
        X, y, sample_weight = self._rows(X, y, sample_weight, reset=first, fit_spec=False)
        if first:
            if classes is None and self.features is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self._set_classes(np.unique(np.array([0, 1]) if classes is None else classes))
            self._new_learner(X)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"`classes={np.unique(classes)}` is not the same as on the last call to "
                f"partial_fit, which was: {self.classes_}"
            )
        self._train(X, y, sample_weight, 1, False)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The margin of each row: above 0 for the class classes_[1]."""
        check_is_fitted(self)
        return self._learner.margins(csr_arrays(self._matrix(X)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """[rows][2]: the probabilities of classes_."""
        positive = _core.probabilities(self.decision_function(X))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> np.ndarray:
        """The more probable class of each row."""
        margins = self.decision_function(X)
        return self.classes_[(margins > 0).astype(np.intp)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The accuracy. With `features` the labels and weights may be those of the frame."""
        if y is None and self._takes(X):
            encoded = self.features_.encode(X)
            y = self.classes_[(encoded.y > 0).astype(np.intp)]
            sample_weight = encoded.weights if sample_weight is None else sample_weight
        return super().score(X, y, sample_weight)

    @property
    def coef_(self) -> np.ndarray:
        """[1][n_features_in_]: the weights, float32. See `weights` for hashed tables."""
        keys, numbers, _ = self._weights()
        if self._is_hashed():
            raise AttributeError("a hashed table has no array of all columns: use weights()")
        coef = np.zeros((1, self.n_features_in_), dtype=np.float32)
        coef[0, keys.astype(np.int64)] = numbers[:, 0]
        return coef

    @property
    def intercept_(self) -> np.ndarray:
        """[1]: the intercept, float32."""
        return np.array([self._weights()[2]], dtype=np.float32)

    def _more_tags(self) -> Dict[str, Any]:
        return {
            "binary_only": True,
            "requires_fit": True,
            "_xfail_checks": {
                "check_sample_weights_invariance": (
                    "rows of weight 0 are part of a batch: steps with and without them differ"
                )
            },
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    # ---- Files ----

    def weights(self) -> tuple:
        """(keys, weights): uint64 and float32 arrays of the features that were trained, keys ascending."""
        keys, numbers, _ = self._weights()
        return keys, numbers[:, 0]

    def save(self, path: Union[str, "os.PathLike[str]"], format: str = "binary") -> None:
        """Writes the model as millrace-lr does (binary, text or npy): for millrace-predict and `read_model`.

        The optimizer's state is not part of it: pickle the estimator to continue its training later.
        """
        check_is_fitted(self)
        spec = self.features_.to_json() if hasattr(self, "features_") else ""
        self._learner.save(os.fspath(path), format, spec)

    def export(self, path: Union[str, "os.PathLike[str]"], weights: str = "f32") -> Dict[str, Any]:
        """Writes a serving model for `Scorer` and millrace-serve; `weights` is f32, f16 or bf16."""
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.bin")
            self.save(model)
            return export_model(model, path, weights)

    def load_weights(
        self, path: Union[str, "os.PathLike[str]"], classes: Any = (0, 1)
    ) -> "_Estimator":
        """Starts from the weights of a model of millrace-lr (a file or a run folder), for partial_fit or predict.

        The optimizer's state starts anew, as with `millrace-lr --model_in`. If the model has a feature spec, the
        estimator uses it.
        """
        info = _core.read_model(os.fspath(path))[0]
        if info["features"] is not None:
            self.features_ = FeatureSpec(info["features"])
        self._set_classes(np.unique(classes))
        options = self._options(info["num_features"], normalize=self.normalize is True)
        learner = _core.Learner(**options)
        learner.load_weights(os.fspath(path))
        self._learner, self.n_features_in_ = learner, info["num_features"] or 2**63 - 1
        return self

    # ---- The rest ----

    def _takes(self, X: Any) -> bool:
        """Whether X is a frame that the feature spec encodes."""
        return (self.features is not None or hasattr(self, "features_")) and is_frame(X)

    def _rows(self, X: Any, y: Any, weight: Any, reset: bool, fit_spec: bool) -> tuple:
        """X as CSR, y, and float64 weights or None: checked."""
        if self._takes(X):
            return self._frame_rows(X, y, weight, reset, fit_spec)
        X, y = _validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset
        )
        return csr_of(X), y, self._weights_of(X, weight)

    def _frame_rows(self, X: Any, y: Any, weight: Any, reset: bool, fit_spec: bool) -> tuple:
        if reset:
            spec = FeatureSpec(self.features_ if self.features is None else self.features)
            if not spec.is_fitted and not fit_spec:
                raise ValueError("the feature spec needs a first pass: FeatureSpec.fit(frame) makes it")
            self.features_ = spec if spec.is_fitted else spec.fit(X)
        encoded = self.features_.encode(X, labels=y is None)
        y = encoded.y if y is None else np.asarray(y)
        if len(y) != encoded.X.shape[0]:
            raise ValueError(f"y: expected {encoded.X.shape[0]} labels, found {len(y)}")
        if reset:
            self.n_features_in_ = self.features_.num_features
        weight = encoded.weights if weight is None else weight
        return encoded.X, y, self._weights_of(encoded.X, weight)

    def _weights_of(self, X: Any, weight: Any) -> Optional[np.ndarray]:
        if weight is None:
            return None
        weight = np.ascontiguousarray(_check_sample_weight(weight, X, dtype=np.float64))
        if (weight < 0).any():
            raise ValueError("sample_weight: expected numbers from 0 on, found a negative one")
        return weight

    def _matrix(self, X: Any) -> Any:
        """X of a prediction as CSR."""
        if self._takes(X):
            return self.features_.transform(X)
        return csr_of(
            _validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
            )
        )

    def _set_classes(self, classes: np.ndarray) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of 2 classes in the data, but the data contains "
                f"only one class: {classes}"
            )
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(classes)}: found {len(classes)} classes."
            )
        self.classes_ = classes

    def _options(self, num_features: int, normalize: bool) -> Dict[str, Any]:
        if isinstance(self.learning_rate, str):
            raise ValueError(f"learning_rate: expected a number or None, found '{self.learning_rate}'")
        options = {name: getattr(self, name) for name in _RULE_OPTIONS + self._factor_options}
        options.update(
            model=self._kind,
            num_features=num_features,
            intercept=bool(self.fit_intercept),
            learning_rate=0.0 if self.learning_rate is None else self.learning_rate,
            normalize=normalize,
            seed=self._seed(),
        )
        return options

    def _new_learner(self, X: Any) -> None:
        if self.table not in ("auto", "dense", "hashed"):
            raise ValueError(f"table: expected auto, dense or hashed, found '{self.table}'")
        if self.normalize not in ("auto", True, False):
            raise ValueError(f"normalize: expected 'auto', True or False, found {self.normalize!r}")
        self._check_spec()
        columns = X.shape[1]
        hashed = self.table == "hashed" or (self.table == "auto" and columns > _DENSE_COLUMNS)
        normalize = bool((X.data != 1).any()) if self.normalize == "auto" else bool(self.normalize)
        self._learner = _core.Learner(**self._options(0 if hashed else columns, normalize))

    def _check_spec(self) -> None:
        if not hasattr(self, "features_"):
            return
        for field in json.loads(self.features_.to_json())["fields"]:
            own = [name for name in ("l1", "l2", "rate") if name in field]
            if own:
                raise ValueError(
                    f"field '{field['name']}' of the feature spec has {own[0]}, which estimators do not "
                    "support: train with millrace-lr"
                )

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _train(self, X: Any, y: np.ndarray, weight: Any, epochs: int, shuffle: bool) -> None:
        positive = y == self.classes_[1]
        unknown = ~(positive | (y == self.classes_[0]))
        if unknown.any():
            raise ValueError(f"y: expected the classes {self.classes_}, found {y[unknown][0]!r}")
        rows = X.shape[0]
        batch_size = _core.auto_batch_size(rows) if self.batch_size == "auto" else self.batch_size
        progress = Progress(type(self).__name__, rows * epochs) if self.verbose else None
        loss = self._learner.train(
            csr_arrays(X),
            np.ascontiguousarray(positive, dtype=np.uint8),
            weight,
            epochs,
            batch_size,
            bool(shuffle),
            self._seed(),
            progress,
        )
        self.loss_ = loss
        if progress:
            progress.finish(loss)

    def _is_hashed(self) -> bool:
        return self._learner.num_features == 0

    def _weights(self) -> tuple:
        check_is_fitted(self)
        return self._learner.weights()


_SHARED_PARAMETERS = """
    Parameters
    ----------
    The names and defaults are those of millrace-lr's flags; scikit-learn's where it has a name.

    optimizer : ftrl, adagrad, sgd or adam
    learning_rate : float or None (the optimizer's default: ftrl and adagrad 0.1, sgd 0.5, adam 0.001)
    l1, l2 : strengths (l1: ftrl only)
    decay : constant, or sqrt: rate / sqrt(step), of sgd and adam
    ftrl_beta, adagrad_epsilon, adagrad_initial : see millrace-lr --help
    fit_intercept : whether the model has an intercept, which is not regularised
    normalize : train on values divided by the largest of their column so far; auto: if the first rows have values
        other than 1
    epochs : passes of fit over the rows
    batch_size : rows a step; auto: 100, or fewer if a pass would have less than 300 steps
    shuffle : whether fit shuffles the rows in each pass; partial_fit never does
    random_state : int, RandomState or None: the order of the rows, and initial factors
    features : feature spec (path, dictionary or FeatureSpec), to train on frames
    table : dense (one slot a column), hashed (only columns that were seen), or auto: dense up to 2^27 columns
    verbose : whether fit and partial_fit show their progress on standard error

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_
    loss_ : mean logloss of the rows of the last call, each before its step
    features_ : the feature spec in use
"""


class LogisticRegression(_Estimator):
    __doc__ = f"""Sparse logistic regression, trained row by row in minibatches (two classes).

    The model has the bits of `millrace-lr --order=files` with the same options, for the same rows in the same order.
    {_SHARED_PARAMETERS}"""

    def __init__(
        self,
        *,
        optimizer: str = "ftrl",
        learning_rate: Optional[float] = None,
        l1: float = 0.0,
        l2: float = 0.0,
        decay: str = "constant",
        ftrl_beta: float = 1.0,
        adagrad_epsilon: float = 1e-6,
        adagrad_initial: float = 0.0,
        fit_intercept: bool = True,
        normalize: Union[str, bool] = "auto",
        epochs: int = 1,
        batch_size: Union[str, int] = "auto",
        shuffle: bool = True,
        random_state: Any = 1,
        features: Any = None,
        table: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.l1 = l1
        self.l2 = l2
        self.decay = decay
        self.ftrl_beta = ftrl_beta
        self.adagrad_epsilon = adagrad_epsilon
        self.adagrad_initial = adagrad_initial
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.epochs = epochs
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.random_state = random_state
        self.features = features
        self.table = table
        self.verbose = verbose


class FactorizationMachine(_Estimator):
    __doc__ = f"""Factorization machine: logistic regression with pairwise interactions (Rendle 2010).

    margin = intercept + sum_i w_i x_i + sum_i<j <v_i, v_j> x_i x_j
    {_SHARED_PARAMETERS}
    factors : numbers in v_i, a multiple of 4 up to 64
    factor_l2 : L2 strength of the factors
    factor_init : standard deviation of the initial factors, which derive from random_state and the column
    factors_ : [n_features_in_][factors], float32 (attribute)
    """

    _kind = "fm"
    _factor_options = ("factors", "factor_l2", "factor_init")

    def __init__(
        self,
        *,
        factors: int = 8,
        factor_l2: float = 0.0,
        factor_init: float = 0.01,
        optimizer: str = "ftrl",
        learning_rate: Optional[float] = None,
        l1: float = 0.0,
        l2: float = 0.0,
        decay: str = "constant",
        ftrl_beta: float = 1.0,
        adagrad_epsilon: float = 1e-6,
        adagrad_initial: float = 0.0,
        fit_intercept: bool = True,
        normalize: Union[str, bool] = "auto",
        epochs: int = 1,
        batch_size: Union[str, int] = "auto",
        shuffle: bool = True,
        random_state: Any = 1,
        features: Any = None,
        table: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.factors = factors
        self.factor_l2 = factor_l2
        self.factor_init = factor_init
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.l1 = l1
        self.l2 = l2
        self.decay = decay
        self.ftrl_beta = ftrl_beta
        self.adagrad_epsilon = adagrad_epsilon
        self.adagrad_initial = adagrad_initial
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.epochs = epochs
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.random_state = random_state
        self.features = features
        self.table = table
        self.verbose = verbose

    @property
    def factors_(self) -> np.ndarray:
        """[n_features_in_][factors]: float32; zeros for columns that were never trained."""
        keys, numbers, _ = self._weights()
        if self._is_hashed():
            raise AttributeError("a hashed table has no array of all columns: use weights()")
        factors = np.zeros((self.n_features_in_, self.factors), dtype=np.float32)
        factors[keys.astype(np.int64)] = numbers[:, 1:]
        return factors
