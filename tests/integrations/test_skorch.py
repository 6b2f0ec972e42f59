"""DuRMClassifier is a scikit-learn classifier, and trains as a plain loop does."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import durm
from durm.integrations.skorch import MLP, DuRMClassifier, NeuralNetClassifier

X, NUMBERS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[NUMBERS]


def small(**options: Any) -> DuRMClassifier:
    return DuRMClassifier(**{"dummies": 2, "max_epochs": 3, "module__hidden": 4, "random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted() -> DuRMClassifier:
    return DuRMClassifier(dummies=2, random_state=0).fit(X, NAMES)


def full_logits(classifier: DuRMClassifier) -> torch.Tensor:
    module = classifier.module_.eval()
    with durm.full_logits(module), torch.no_grad():
        return module(torch.tensor(X))


def test_predictions_are_of_the_real_classes(fitted: DuRMClassifier) -> None:
    p = fitted.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(p, full_logits(fitted)[:, :3].softmax(1).numpy(), rtol=1e-5, atol=1e-7)
    assert fitted.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert (fitted.predict(X) == fitted.classes_[p.argmax(1)]).all()
    assert fitted.score(X, NAMES) > 0.9


def test_the_dummy_mass_is_the_softmax_probability_on_the_dummies(fitted: DuRMClassifier) -> None:
    logits = full_logits(fitted)
    assert logits.shape == (150, 5)
    np.testing.assert_allclose(fitted.dummy_mass(X), logits.softmax(1)[:, 3:].sum(1).numpy(), rtol=1e-4)
    assert (small(dummies=0).fit(X, NAMES).dummy_mass(X) == 0).all()


class Focal(nn.Module):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(logits, labels, reduction="none")
        return ((1 - (-loss).exp()).square() * loss).mean()


def test_a_criterion_of_ones_own_gives_probabilities_too() -> None:
    """skorch takes the softmax for its own cross-entropy alone."""
    p = small(criterion=Focal).fit(X, NAMES).predict_proba(X)
    assert (p > 0).all()
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)
    logits = small(criterion=Focal, predict_nonlinearity=None).fit(X, NAMES).predict_proba(X)
    np.testing.assert_allclose(p, torch.tensor(logits).softmax(1).numpy(), rtol=1e-5)
    with pytest.raises(ValueError, match=r"criterion: .*NLLLoss.*durm\.CrossEntropyLoss"):
        small(criterion=nn.NLLLoss).fit(X, NAMES)


def test_skorchs_own_classifier_gives_probabilities_too() -> None:
    torch.manual_seed(0)
    options = {"criterion__num_classes": 3, "max_epochs": 2, "verbose": 0}
    net = NeuralNetClassifier(durm.widen(MLP(4, 3), 2), criterion=durm.CrossEntropyLoss, **options)
    p = net.fit(X.astype(np.float32), NUMBERS).predict_proba(X.astype(np.float32))
    assert p.shape == (150, 3)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)


def test_it_trains_as_a_plain_loop_does() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    options = {"optimizer": torch.optim.SGD, "lr": 0.1, "batch_size": -1, "criterion__label_smoothing": 0.1}
    classifier = DuRMClassifier(module, dummies=2, max_epochs=3, **options)
    before = copy.deepcopy(module.state_dict())
    classifier.fit(X, NAMES)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())

    model = durm.widen(module, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        logits = model(torch.tensor(X, dtype=torch.float32))
        durm.cross_entropy(logits, torch.tensor(NUMBERS), 3, label_smoothing=0.1).backward()
        optimizer.step()
    for name, value in classifier.module_.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name])


def test_a_seed_fixes_the_training_and_leaves_the_global_random_state() -> None:
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, other, third = (small(random_state=seed).fit(X, NAMES).predict_proba(X) for seed in (0, 0, 1))
    assert (one == other).all()
    assert (one != third).any()
    assert torch.equal(torch.get_rng_state(), state)


def test_copies_and_pickles(fitted: DuRMClassifier) -> None:
    copied = clone(fitted)
    assert copied.get_params()["dummies"] == 2
    assert not copied.initialized_
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    assert (again.dummy_mass(X) == fitted.dummy_mass(X)).all()


def test_the_module_is_a_plain_one_when_narrowed(fitted: DuRMClassifier) -> None:
    plain = MLP(4, 3)
    plain.load_state_dict(durm.narrow_state_dict(fitted.module_.state_dict()))
    expected = plain(torch.tensor(X, dtype=torch.float32)).softmax(1).detach().numpy()
    assert (expected.argmax(1) == fitted.predict_proba(X).argmax(1)).all()
    np.testing.assert_allclose(expected, fitted.predict_proba(X), rtol=1e-4, atol=1e-7)


def test_dummies_can_be_searched() -> None:
    search = GridSearchCV(small(max_epochs=1), {"dummies": [0, 2], "criterion__label_smoothing": [0.0, 0.1]}, cv=2)
    search.fit(X, NAMES)
    assert durm.dummies(search.best_estimator_.module_) == search.best_params_["dummies"]
    pipeline = make_pipeline(StandardScaler(), small())
    assert GridSearchCV(pipeline, {"durmclassifier__dummies": [1]}, cv=2).fit(X, NAMES).best_score_ > 0


def test_callbacks_score_labels_of_any_kind() -> None:
    from skorch.dataset import ValidSplit

    classifier = small(max_epochs=20, train_split=ValidSplit(5, stratified=True)).fit(X, NAMES)
    _, held_out = next(StratifiedKFold(5).split(X, NAMES))
    assert classifier.history[-1, "valid_acc"] == classifier.score(X[held_out], NAMES[held_out]) > 0


def test_training_in_parts() -> None:
    classifier = small(module__hidden=8)
    classifier.partial_fit(X[:60], NAMES[:60], classes=np.unique(NAMES))
    classifier.partial_fit(X[60:], NAMES[60:])
    assert classifier.predict_proba(X).shape == (150, 3)
    order = small(classes=["virginica", "setosa", "versicolor"], random_state=0).fit(X, NAMES)
    assert (order.predict_proba(X) == small().fit(X, NAMES).predict_proba(X)).all()
    with pytest.raises(ValueError, match="y: 'rose' is none of the classes"):
        classifier.partial_fit(X[:2], np.array(["rose", "setosa"]))


def test_tensors_and_data_sets_go_to_skorch() -> None:
    inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(NUMBERS)
    by_tensor = small().fit(inputs, labels)
    data = torch.utils.data.TensorDataset(inputs, labels)
    by_data = small(module__in_features=4, module__num_classes=3).fit(data, None)
    np.testing.assert_allclose(by_tensor.predict_proba(inputs), by_data.predict_proba(data))


def test_bad_input_is_told() -> None:
    with pytest.raises(ValueError, match="the module gives 4 logits, and y has 3 classes"):
        small(module__num_classes=4).fit(X, NAMES)
    with pytest.raises(ValueError, match="y: one class, 'setosa'; expected at least 2"):
        small().fit(X[:50], NAMES[:50])
    with pytest.raises(ValueError, match="requires y"):
        small().fit(X)
    with pytest.raises(ValueError, match="dummies=-1"):
        small(dummies=-1).fit(X, NAMES)


EXPECTED = {
    "check_no_attributes_set_in_init": "skorch keeps its history and state there",
    "check_set_params": "skorch takes callbacks and modules for objects, and the check sets them to numbers",
}


@pytest.mark.slow
@parametrize_with_checks([DuRMClassifier()], expected_failed_checks=lambda _: EXPECTED)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_of_estimators(estimator: Any, check: Any) -> None:
    check(estimator)
