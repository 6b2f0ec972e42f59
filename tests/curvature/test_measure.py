"""Everything at once: the front door."""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from durm.curvature import bottom_eigenvalues, density, loss_along, measure, stability, top_eigenvalues, trace
from durm.curvature.products import operator
from tests.curvature.small import CLASSES, batch, loss_of, network, unchanged

QUICK = {"trace_samples": 4, "steps": 2, "starts": 2, "points": 3, "distances": (-0.1, 0.0, 0.1)}


def test_it_holds_what_its_parts_find() -> None:
    model = network()
    found = measure(model, *batch(), num_classes=CLASSES, eigenvalues=2, radius=0.1, **QUICK)
    assert (found.samples, found.num_classes, found.dummies) == (20, CLASSES, 2)
    for kind, shape in (("training", found.training), ("real", found.real)):
        loss = loss_of(model, kind)
        assert shape.loss == loss.value()
        assert shape.weights == loss.size
        assert shape.gradient_norm == pytest.approx(loss.gradient()[1].norm().item())
        assert shape.eigenvalues == top_eigenvalues(loss, 2)
        assert shape.trace == trace(loss, samples=4)
        assert shape.stability == stability(loss, 0.1, steps=2, starts=2, points=3)
    assert found.paths == loss_along(loss_of(model), distances=QUICK["distances"])


@pytest.mark.parametrize("matrix", ["hessian", "ggn"])
def test_what_is_asked_for_besides(matrix: str) -> None:
    found = measure(
        network(),
        DataLoader(TensorDataset(*batch()), batch_size=7),
        num_classes=CLASSES,
        matrix=matrix,
        smallest=2,
        density_samples=3,
        **QUICK,
    )
    assert (found.samples, found.matrix) == (20, matrix)
    with operator(loss_of(network(), "real"), matrix) as product:
        assert found.real.smallest.values == pytest.approx(bottom_eigenvalues(product, 2).values, rel=1e-6, abs=1e-9)
        assert found.real.density.moment(3) == pytest.approx(density(product, samples=3).moment(3), rel=1e-6)
        assert found.real.eigenvalues.values == pytest.approx(top_eigenvalues(product).values, rel=1e-6)
    json.dumps(found.record(), allow_nan=False)
    assert (found.real.smallest.values[0] < -1e-3) == (matrix == "hessian")


def test_the_record_is_json() -> None:
    found = measure(network(), *batch(), num_classes=CLASSES, **QUICK)
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["samples"] == 20
    assert record["real"]["eigenvalues"]["values"] == list(found.real.eigenvalues.values)
    assert "vectors" not in record["real"]["eigenvalues"]
    assert record["training"]["stability"]["starts"] == list(found.training.stability.starts)
    assert [path["direction"] for path in record["paths"]] == ["random", "gradient"]


def test_what_is_not_finite_is_null() -> None:
    model = nn.Linear(4, 3)
    inputs = torch.full((3, 4), 1e19)
    found = measure(model, inputs, torch.tensor([0, 1, 2]), num_classes=3, **(QUICK | {"distances": [0.0, 1e20]}))
    text = json.dumps(found.record(), allow_nan=False)
    assert "null" in text


def test_without_dummies_both_losses_are_one() -> None:
    model = network(0)
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    found = measure(model, *batch(), num_classes=CLASSES, **QUICK)
    alone = len(calls)
    assert found.training is found.real
    measure(network(2), *batch(), num_classes=CLASSES, **QUICK)
    smoothed = measure(model, *batch(), num_classes=CLASSES, label_smoothing=0.1, **QUICK)
    assert smoothed.training.loss != smoothed.real.loss == found.real.loss
    assert len(calls) - alone > 1.5 * alone


def test_progress() -> None:
    told = []
    measure(network(), *batch(), num_classes=CLASSES, progress=lambda *what: told.append(what), **QUICK)
    assert [stage for stage, _ in told] == [
        *(f"{kind} loss: {what}" for kind in ("training", "real") for what in ("eigenvalues", "trace", "stability")),
        "loss along directions",
        "done",
    ]
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)


@pytest.mark.parametrize("dummies", [0, 2])
def test_the_model_is_left_as_it_was(dummies: int) -> None:
    model = network(dummies)
    unchanged(model, lambda: measure(model, *batch(), num_classes=CLASSES, **QUICK))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eigenvalues", 0),
        ("eigenvalues", 10**4),
        ("max_products", 0),
        ("tolerance", -1.0),
        ("trace_samples", 1),
        ("radius", -1.0),
        ("steps", 0),
        ("starts", 0),
        ("points", 1),
        ("chunk", 0),
        ("smallest", -1),
        ("smallest", 101),
        ("density_samples", -1),
        ("matrix", "'fisher'"),
    ],
)
def test_bad_input_is_refused_before_any_work(name: str, value: float) -> None:
    model = network()
    model.register_forward_hook(lambda *_: pytest.fail("it was run"))
    with pytest.raises(ValueError, match=f"^{name}={value}: expected"):
        measure(
            model, *batch(), num_classes=CLASSES, **(QUICK | {name: value.strip("'") if name == "matrix" else value})
        )


def test_it_needs_nothing_but_torch() -> None:
    code = (
        "import sys\n"
        "class Wall:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'numpy', 'scipy', 'curvlinops', 'matplotlib', 'pydantic'}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Wall())\n"
        "import torch, durm.curvature\n"
        "model, labels = torch.nn.Linear(4, 3), torch.tensor([0, 1, 2, 0])\n"
        "found = durm.curvature.measure(model, torch.eye(4), labels, num_classes=3)\n"
        "assert found.real.eigenvalues.converged\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
