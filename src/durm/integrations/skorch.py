"""A scikit-learn classifier that trains with dummies: `DuRMClassifier(dummies=2).fit(X, y)`."""

import copy
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from durm.integrations import need

need("skorch", "numpy", "sklearn", "skorch")

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn
from torch.utils.data import Dataset

from durm.heads import full_logits, widen
from durm.heads.finding import Head, find_heads
from durm.heads.layer import width
from durm.losses import CrossEntropyLoss
from durm.scores import dummy_mass

from skorch import NeuralNetClassifier  # isort: skip


class MLP(nn.Sequential):
    """One hidden layer: `(N, in_features)` to `(N, num_classes)` logits."""

    def __init__(self, in_features: int, num_classes: int, hidden: int = 64) -> None:
        super().__init__(nn.Linear(in_features, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))

    def forward(self, input: Tensor) -> Tensor:
        first, activation, last = self
        logits: Tensor = last(activation(first(input.float())))
        return logits


class DuRMClassifier(NeuralNetClassifier):  # type: ignore[misc]
    """A `skorch.NeuralNetClassifier` whose module is trained with C_d dummy classes.

    It is a scikit-learn classifier: labels may be anything, `predict_proba` has one column for each of `classes_`, its
    rows sum to 1, and `dummies` can be searched by `GridSearchCV`. Arrays, lists and data frames are checked as
    scikit-learn does; tensors, tuples, dictionaries and data sets go to skorch as they are. All other parameters are
    skorch's, `module__hidden=32`, `optimizer__weight_decay=1e-4` and `callbacks` among them.

    Args:
        module: a module that gives C logits, or its class. Parameters `in_features` and `num_classes` of a class are
            taken from the data unless they are set. Left out, it is `MLP`. A module that is given is copied first.
        dummies: C_d; 0 trains without.
        head: which layer to widen, as for `durm.widen`.
        criterion: its `num_classes` is C; `criterion__label_smoothing=0.1` smooths over the real classes.
        random_state: an integer seeds torch within `fit`, and the dummies; with None the global random state is used,
            and the seed of the dummies is 0.
        optimizer: as in skorch.
        lr: as in skorch.
        max_epochs: as in skorch.
        train_split: as in skorch; None trains on all of the data.
        verbose: as in skorch.
        **options: as in skorch.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> classifier = DuRMClassifier(dummies=2, random_state=0).fit(X, y)
        >>> classifier.predict_proba(X).shape
        (150, 3)
        >>> classifier.dummy_mass(X).shape
        (150,)
    """

    def __init__(
        self,
        module: Any = MLP,
        *,
        dummies: int = 1,
        head: Head | None = None,
        criterion: Any = CrossEntropyLoss,
        random_state: int | None = None,
        optimizer: Any = torch.optim.Adam,
        lr: float = 0.01,
        max_epochs: int = 100,
        train_split: Any = None,
        verbose: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(
            module,
            criterion=criterion,
            optimizer=optimizer,
            lr=lr,
            max_epochs=max_epochs,
            train_split=train_split,
            verbose=verbose,
            **options,
        )
        self.dummies, self.head, self.random_state = dummies, head, random_state
        self.encoded_ = False
        self.sizes_: dict[str, int] = {}

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> "DuRMClassifier":
        """Trains from the beginning, or on from where it is with `warm_start`."""
        if not self.warm_start:
            self.initialized_ = False
        return self.partial_fit(X, y, **fit_params)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, **fit_params: Any) -> "DuRMClassifier":
        """Trains on. All classes must be in the `y` of the first call, or in its `classes`."""
        with _seeded(self.random_state):
            X, y = self._check_training(X, y, classes)
            if not self.initialized_:
                self.initialize()
            self.encoded_ = True  # what callbacks score while training has the labels 0 … C - 1
            try:
                super().partial_fit(X, y, **fit_params)
            finally:
                self.encoded_ = False
        return self

    def initialize_module(self) -> "DuRMClassifier":
        own = self.get_params_for("module")
        if isinstance(self.module, nn.Module):
            module: Any = copy.deepcopy(self.module)
        else:
            wanted = inspect.signature(self.module).parameters
            module = self.module(**{name: size for name, size in self.sizes_.items() if name in wanted} | own)
        (outputs,) = {width(layer) for layer in find_heads(module, self.head, None).values()}
        if "num_classes" not in self.sizes_:  # the labels are somewhere in a data set, and are 0 … C - 1
            self.classes_inferred_, self.sizes_["num_classes"] = np.arange(outputs), outputs
        if outputs != (classes := self.sizes_["num_classes"]):
            raise ValueError(f"the module gives {outputs} logits, and y has {classes} classes; expected as many")
        self.module_ = widen(module, self.dummies, head=self.head, seed=int(self.random_state or 0))
        return self

    def initialize_criterion(self) -> "DuRMClassifier":
        options = self.get_params_for("criterion")
        if isinstance(self.criterion, type) and issubclass(self.criterion, CrossEntropyLoss):
            options = {"num_classes": self.sizes_["num_classes"], **options}
        self.criterion_ = self.initialized_instance(self.criterion, options)
        if isinstance(self.criterion_, nn.NLLLoss):
            raise ValueError(
                "criterion: skorch gives NLLLoss the logarithms of probabilities, and the module gives logits; "
                "expected durm.CrossEntropyLoss"
            )
        return self

    def _get_predict_nonlinearity(self) -> Any:
        """The softmax, whatever the criterion is; skorch knows by the class of the criterion that it takes logits."""
        return (
            partial(torch.softmax, dim=-1)
            if self.predict_nonlinearity == "auto"
            else super()._get_predict_nonlinearity()
        )

    def check_data(self, X: Any, y: Any) -> None:
        """Done before; skorch's would take the encoded labels for the classes."""

    @property
    def classes_(self) -> Any:
        """The classes, sorted."""
        return self.classes_inferred_

    def predict(self, X: Any) -> Any:
        """The class of each sample, `(N,)`."""
        indices = super().predict(X)
        return indices if self.encoded_ else self.classes_[indices]

    def predict_proba(self, X: Any) -> Any:
        """Softmax over the real classes, `(N, C)`, in the order of `classes_`."""
        with torch.random.fork_rng(devices=()):  # a DataLoader draws from the global random state
            return super().predict_proba(self._check_inputs(X))

    def dummy_mass(self, X: Any) -> Any:
        """p_D for each sample, `(N,)`: the softmax probability on the dummies, 0 without any."""
        X = self._check_inputs(X)
        with full_logits(self.module_), torch.random.fork_rng(devices=()):
            return dummy_mass(self.forward(X), len(self.classes_)).numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _check_inputs(self, X: Any) -> Any:
        check_is_fitted(self)
        return _single_precision(validate_data(self, X, reset=False, allow_nd=True)) if _is_array(X) else X

    def _check_training(self, X: Any, y: Any, classes: Any) -> tuple[Any, Any]:
        """The inputs and the labels as 0 … C - 1; the first time, also what the module must fit."""
        first = not self.initialized_
        if _is_array(X):
            X = _single_precision(validate_data(self, X, reset=first, allow_nd=True))
        if y is not None:
            y = column_or_1d(y.numpy(force=True) if isinstance(y, Tensor) else y, warn=True)
            check_classification_targets(y)
            check_consistent_length(X if _is_array(X) else y, y)
        if first:
            given = self.classes if self.classes is not None else classes
            if y is None and _is_array(X):
                raise ValueError("DuRMClassifier requires y to be passed, but the target y is None")
            if given is not None or y is not None:
                self.classes_inferred_ = np.unique(y if given is None else given)
                self.sizes_ = {"num_classes": len(self.classes_inferred_)}
                if len(self.classes_inferred_) == 1:
                    raise ValueError(
                        f"y: one class, {self.classes_inferred_.tolist()[0]!r}; expected at least 2 classes"
                    )
            else:
                self.sizes_ = {}
            if getattr(X, "ndim", 0) == 2:
                self.sizes_["in_features"] = X.shape[1]
        return X, y if y is None else self._encode(y)

    def _encode(self, y: Any) -> Any:
        indices = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        if (strange := self.classes_[indices] != y).any():
            raise ValueError(f"y: {y[strange].tolist()[0]!r} is none of the classes {self.classes_.tolist()}")
        return indices


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    with torch.random.fork_rng(enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        yield


def _is_array(X: Any) -> bool:
    """Whether scikit-learn should check it. Tensors, tuples and dictionaries of arrays and data sets are skorch's."""
    sparse = hasattr(X, "toarray")  # some are dictionaries
    return sparse or not isinstance(X, Tensor | Mapping | tuple | Dataset)


def _single_precision(X: Any) -> Any:
    return X.astype(np.float32) if np.issubdtype(X.dtype, np.floating) else X
