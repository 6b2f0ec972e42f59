"""The benchmark of curvature, with a stand-in for PyHessian: power iteration by hand, under its names."""

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional


@pytest.fixture
def curvature(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield import_module("curvature")
    torch.set_num_threads(threads)


def stand_in() -> SimpleNamespace:
    """With `hessian(…).eigenvalues(…)`, which calls `hessian_vector_product` of the module, as PyHessian does."""
    library = SimpleNamespace()

    def group_product(first, second):
        return sum((one * other).sum() for one, other in zip(first, second, strict=True))

    def scaled(vector):
        length = group_product(vector, vector) ** 0.5
        return [part / length for part in vector]

    class Hessian:
        def __init__(self, model, criterion, data, cuda):
            self.parameters = list(model.parameters())
            loss = criterion(model(data[0]), data[1])
            self.gradient = torch.autograd.grad(loss, self.parameters, create_graph=True)

        def eigenvalues(self, maxIter, tol):
            vector, before = scaled([torch.randn(one.shape) for one in self.parameters]), None
            for _ in range(maxIter):
                image = library.hessian_vector_product(self.gradient, self.parameters, vector)
                value = group_product(image, vector).item()
                if before is not None and abs(before - value) / (abs(before) + 1e-6) < tol:
                    break
                vector, before = scaled(image), value
            return [before], [vector]

    library.group_product, library.hessian = group_product, Hessian
    library.hessian_vector_product = lambda gradient, parameters, vector: torch.autograd.grad(
        gradient, parameters, vector, retain_graph=True
    )
    return library


def test_both_arms_look_at_the_same_loss(curvature):
    """In eval mode, over all parameters; and both find its top eigenvalue, also where they are told to."""
    model, images, labels = curvature.make(curvature.SUBJECTS["tiny"])
    loss = curvature.ClassifierLoss(model, images, labels, num_classes=curvature.CLASSES)
    assert loss.size == sum(parameter.numel() for parameter in model.parameters())
    assert loss.value() == pytest.approx(functional.cross_entropy(model(images), labels).item(), rel=1e-5)
    assert not model.training
    (reference,) = curvature.top_eigenvalues(loss, tolerance=1e-4).values
    library = stand_in()
    theirs = curvature.pyhessian(library, model, images, labels, 5, reference)
    ours = curvature.ours(library, model, images, labels, 5, reference)
    assert theirs[1e-6].error < 1e-4
    assert ours[1e-3].error < 1e-4
    assert theirs["told"].products < theirs[1e-6].products
    assert theirs[1e-3].products <= theirs[1e-4].products <= theirs[1e-5].products <= theirs[1e-6].products
    assert ours["told"].products <= ours[1e-3].products < theirs[1e-6].products
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_loosest_tolerance_with_which_all_runs_are_accurate(curvature):
    stop = curvature.Stop
    runs = [{1e-1: stop(1, 2, 1e-3), 1e-2: stop(2, 3, 1e-5), 1e-3: stop(3, 4, 1e-6)}] * 2
    assert curvature.loosest("ours", runs) == 1e-2
    runs = [*runs, {1e-1: stop(1, 2, 1e-5), 1e-2: stop(2, 3, 2e-4), 1e-3: stop(3, 4, 1e-6)}]
    assert curvature.loosest("ours", runs) == 1e-3
    with pytest.raises(RuntimeError, match=r"ours: not all runs are within 0\.0001 at 0\.001"):
        curvature.loosest("ours", [{}])


def test_a_resnet_is_measured_on_512_images_of_32_pixels(curvature):
    subject = curvature.SUBJECTS["resnet18"]
    assert (subject.model, subject.batch) == ("resnet18", (512, 3, 32, 32))
    assert (curvature.LIMIT, curvature.WITHIN) == (1.5, 1e-4)


def test_numbers_are_written(curvature, tmp_path, capsys, monkeypatch):
    out, library = tmp_path / "curvature.json", stand_in()
    monkeypatch.setattr(curvature, "import_module", lambda name: library)
    code = curvature.main(["--size", "tiny", "--pairs", "6", "--out", str(out)])
    record = json.loads(out.read_text())
    accurate, default, told = record["results"]
    table = capsys.readouterr().out
    for result in (accurate, default, told):
        assert result["case"] in table
        assert result["pairs"] == 6
        assert 0 < result["low"] <= result["ratio"] <= result["high"]
        assert min(result["cpu_seconds"].values()) > 0
    assert all(error <= 1e-4 for result in (accurate, told) for error in result["errors"].values())
    assert accurate["products"]["ours"] < accurate["products"]["pyhessian"]
    assert default["tolerances"] == {"pyhessian": 1e-3, "ours": 1e-3}
    assert told["tolerances"] is None
    assert "limit" not in told
    assert {"durm", "torch", "python", "cpu", "threads", "date"} <= set(record["provenance"])
    assert accurate["holds"] == (accurate["high"] >= 1.5)
    assert code == (0 if accurate["holds"] else 1)


def test_without_pyhessian_it_says_so(curvature, capsys, monkeypatch):
    def missing(name):
        raise ImportError

    monkeypatch.setattr(curvature, "import_module", missing)
    assert curvature.main([]) == 2
    assert "--pyhessian takes the folder" in capsys.readouterr().err
