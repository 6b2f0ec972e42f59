"""Watching as a whole: what it changes (nothing), what it takes, how it is cut off and goes on."""

import io
import json
import subprocess
import sys

import pytest
import torch
from torch import nn

import durm
from durm.errors import InputError
from durm.probes import PROBES, watch
from tests.probes.small import CLASSES, batches, network, train

EVERY_PROBE = ["distance", "dummy_gradient", "dummy_mass", "gradient_norm", "gradient_variance", "push_pull"]


def test_the_probes_there_are() -> None:
    assert PROBES.names() == EVERY_PROBE


@pytest.mark.parametrize("dummies", [0, 2])
def test_training_goes_the_same_way_bit_for_bit(dummies: int) -> None:
    epochs = [batches(), batches(seed=2)]
    alone, watched = network(dummies), network(dummies)
    watching = watch(watched, EVERY_PROBE)
    before = torch.get_rng_state()
    train(watched, epochs, watching)
    watching.results()
    assert torch.equal(torch.get_rng_state(), before)
    train(alone, epochs)
    for name, value in alone.state_dict().items():
        assert torch.equal(watched.state_dict()[name], value), name


def test_nothing_is_left_on_the_model() -> None:
    model = network()

    def everything() -> list[object]:
        return [(sorted(vars(module)), len(module._forward_hooks)) for module in model.modules()]

    before = everything()
    with watch(model, EVERY_PROBE) as watching:
        train(model, [batches()], watching)
    assert everything() == before


def test_results_are_json_and_belong_to_the_caller() -> None:
    model = network()
    watching = watch(model, {name: {"every": 1} if name == "distance" else {} for name in EVERY_PROBE})
    nothing = watching.results()
    assert all(values == [] for result in nothing.values() for values in result.values())
    train(model, [batches()], watching)
    results = watching.results()
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert list(results) == EVERY_PROBE
    for result in results.values():
        for values in result.values():
            values.clear()
    assert all(values for result in watching.results().values() for values in result.values())


def test_leaving_the_context_ends_the_epoch() -> None:
    model = network()
    with watch(model, ["dummy_mass"]) as watching:
        logits = model(torch.zeros(4, 4))
        watching.step(logits, torch.tensor([0, 1, 2, 0]))
        assert watching.results()["dummy_mass"]["samples"] == []
    assert watching.results()["dummy_mass"]["samples"] == [4]
    with watch(model, ["dummy_mass"]) as watching:
        train(model, [batches()], watching)
    assert watching.results()["dummy_mass"]["samples"] == [13]


def test_an_error_within_does_not_end_the_epoch() -> None:
    model = network()
    watching = watch(model, ["dummy_mass"])
    watching.step(model(torch.zeros(4, 4)), torch.tensor([0, 1, 2, 0]))
    with pytest.raises(KeyboardInterrupt), watching:
        raise KeyboardInterrupt
    assert watching.results()["dummy_mass"]["samples"] == []


def test_streaming_is_one_batch() -> None:
    logits, targets = torch.randn(40, CLASSES + 2), torch.randint(CLASSES, (40,))
    found = []
    for size in (40, 7, 1):
        with watch(network(), ["dummy_gradient", "dummy_mass", "gradient_variance", "push_pull"]) as watching:
            for rows, labels in zip(logits.split(size), targets.split(size), strict=True):
                watching.step(rows, labels)
        found.append(flat(watching.results()))
    assert found[1] == pytest.approx(found[0], rel=1e-6)
    assert found[2] == pytest.approx(found[0], rel=1e-6)


@pytest.mark.parametrize("cut", [1, 2, 3, 4])  # the third step ends the epoch, before `epoch` is called
def test_a_run_that_is_cut_off_ends_with_the_same_numbers(cut: int) -> None:
    steps = [*batches(), *batches(seed=2)]

    def go(model: nn.Module, watching, first: int, last: int) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for step in range(first, last):
            if step == 3:
                watching.epoch()
            inputs, targets = steps[step]
            logits = model(inputs)
            durm.cross_entropy(logits, targets, CLASSES).backward()
            watching.step(logits, targets)
            optimizer.step()
            optimizer.zero_grad()
        if last == len(steps):
            watching.epoch()

    probes = {name: {"every": 2} if name == "distance" else {} for name in EVERY_PROBE}
    whole_model = network()
    whole = watch(whole_model, probes)
    go(whole_model, whole, 0, 6)

    model = network()
    watching = watch(model, probes)
    go(model, watching, 0, cut)
    saved = io.BytesIO()
    torch.save({"model": model.state_dict(), "watch": watching.state_dict()}, saved)
    go(model, watching, cut, 6)  # what is saved does not change with what goes on
    saved.seek(0)
    state = torch.load(saved, weights_only=True)
    again_model = network(dummies=2)
    again_model.load_state_dict(state["model"])
    again = watch(again_model, probes)  # the start of the distance is the saved one, not these weights
    again.load_state_dict(state["watch"])
    go(again_model, again, cut, 6)
    assert again.results() == watching.results() == whole.results()


def test_the_state_of_other_probes_is_refused() -> None:
    state = watch(network(), ["dummy_mass"]).state_dict()
    with pytest.raises(ValueError, match=r"of the probes \['dummy_mass'\], not \['push_pull'\]"):
        watch(network(), ["push_pull"]).load_state_dict(state)


def test_a_state_keeps_what_it_was() -> None:
    model = network()
    watching = watch(model, EVERY_PROBE)
    train(model, [batches()], watching)
    state = watching.state_dict()
    before = io.BytesIO()
    torch.save(state, before)
    train(model, [batches(), batches()], watching)
    after = io.BytesIO()
    torch.save(state, after)
    assert before.getvalue() == after.getvalue()


def test_half_precision_logits_and_double_ones() -> None:
    logits, targets = torch.randn(20, CLASSES + 2), torch.randint(CLASSES, (20,))
    found = []
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        with watch(network(), ["gradient_variance", "dummy_mass"]) as watching:
            watching.step(logits.bfloat16().to(dtype), targets)
        found.append(flat(watching.results()))
    assert found[1] == pytest.approx(found[0], rel=1e-6, abs=1e-7)
    assert found[2] == found[1]


def test_a_model_that_lost_its_numbers_is_seen_as_null() -> None:
    with watch(network(), ["gradient_variance", "dummy_gradient", "dummy_mass", "push_pull"]) as watching:
        watching.step(torch.full((3, CLASSES + 2), torch.nan), torch.tensor([0, 1, 2]))
    results = watching.results()
    json.dumps(results, allow_nan=False)
    assert results["dummy_mass"]["mass"] == [None]


# What is refused.


def test_an_unknown_probe_gets_the_closest_name() -> None:
    with pytest.raises(InputError, match="probe 'gradient_norms' is unknown: did you mean 'gradient_norm'"):
        watch(network(), ["gradient_norms"])


def test_a_single_string_is_no_list() -> None:
    with pytest.raises(TypeError, match="expected a list of names"):
        watch(network(), "distance")


def test_logits_without_the_dummies_are_refused() -> None:
    """Of a model in eval mode: C would be taken for 1."""
    model = network().eval()
    with pytest.raises(ValueError, match=r"logits of shape \(2, 3\): expected \(N, 5, ...\), dummies included"):
        watch(model, ["dummy_mass"]).step(model(torch.zeros(2, 4)), torch.tensor([0, 0]))


@pytest.mark.parametrize("targets", [torch.tensor([0, 3]), torch.tensor([0]), torch.zeros(2, CLASSES + 2)])
def test_targets_that_do_not_fit_are_refused(targets: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="target"):
        watch(network(), ["dummy_mass"]).step(torch.zeros(2, CLASSES + 2), targets)


def test_an_epoch_without_steps_is_refused() -> None:
    with pytest.raises(ValueError, match=r"without a step\(\)"):
        watch(network(), ["dummy_mass"]).epoch()


def test_probes_need_nothing_but_torch() -> None:
    code = (
        "import sys\n"
        "class Wall:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'numpy', 'scipy', 'sklearn', 'timm', 'torchvision', 'pydantic'}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Wall())\n"
        "import torch, durm.probes\n"
        "model = durm.widen(torch.nn.Linear(8, 5), 2)\n"
        "with durm.probes.watch(model, durm.probes.PROBES.names()) as watching:\n"
        "    logits = model(torch.zeros(1, 8))\n"
        "    torch.nn.functional.cross_entropy(logits, torch.tensor([1])).backward()\n"
        "    watching.step(logits, torch.tensor([1]))\n"
        "watching.results()\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def flat(results: dict) -> list[float]:
    def leaves(value) -> list[float]:
        if isinstance(value, dict):
            value = list(value.values())
        return [leaf for part in value for leaf in leaves(part)] if isinstance(value, list) else [value]

    return leaves(results)
