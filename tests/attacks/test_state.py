"""What every attack promises: where its points lie, that the best is kept, and that it leaves no trace."""

import copy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import durm
from durm.attacks import LOSSES, NORMS, SURFACES, Attack, Normalised
from durm.attacks.loss import AttackLoss
from tests.attacks.small import batch, linear, network, predictions, within

STEPS = {"fgsm": 1, "pgd": 5, "apgd": 8, "square": 25}
KINDS = [(kind, norm) for kind in STEPS for norm in NORMS]
GOALS = [(dummies, through, loss) for dummies in (0, 2) for through in ("real", "full") for loss in LOSSES]
GOALS += [(2, "dummy", "ce"), (2, "dummy", "cw")]
EPS = {"linf": 0.06, "l2": 0.4}


def attack_of(kind: str, norm: str = "linf", **settings) -> Attack:
    return Attack(kind, EPS[norm], norm, STEPS[kind], **settings)


def rank(model: nn.Module, points: Tensor, targets: Tensor, attack: Attack) -> list[tuple[bool, float]]:
    """(success, loss) of each point."""
    goal = AttackLoss(attack.through, attack.loss or ("cw" if attack.kind == "square" else "ce"), attack.targeted)
    with torch.no_grad(), durm.full_logits(model):
        loss, success = goal(model(points), targets, 5)
    return list(zip(success.tolist(), loss.tolist(), strict=True))


def never_lower(after: list[tuple[bool, float]], before: list[tuple[bool, float]]) -> bool:
    return all(
        (now[0], now[1] + 1e-9) >= then if now[0] == then[0] else now[0]
        for now, then in zip(after, before, strict=True)
    )


@pytest.mark.parametrize(("dummies", "through", "loss"), GOALS)
@pytest.mark.parametrize(("kind", "norm"), KINDS)
def test_points_lie_in_the_ball_and_the_box(kind: str, norm: str, loss: str, through: str, dummies: int) -> None:
    model = network(dummies=dummies, dtype=torch.float32)
    inputs, targets = batch(dtype=torch.float32)
    inputs = inputs.round(decimals=1)  # some on the walls of the box
    attack = attack_of(kind, norm, loss=loss, through=through, restarts=1 if kind == "fgsm" else 2)
    for early_stop in (False, True):
        points = attack(model, inputs, targets, early_stop=early_stop)
        assert points.dtype == inputs.dtype
        assert within(points, inputs, attack.eps, norm)
        assert not points.requires_grad
        assert not torch.equal(points, inputs)


@pytest.mark.parametrize(("kind", "norm"), KINDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_without_dummies_full_is_real(kind: str, norm: str, loss: str) -> None:
    model, (inputs, targets) = network(dummies=0), batch()
    real, full = (
        attack_of(kind, norm, loss=loss, through=through)(model, inputs, targets) for through in ("real", "full")
    )
    assert torch.equal(real, full)


@pytest.mark.parametrize("through", SURFACES)
@pytest.mark.parametrize("norm", NORMS)
def test_more_steps_of_one_size_never_lower_success_or_loss(norm: str, through: str) -> None:
    model, (inputs, targets) = network(), batch(20)
    # Steps so large that the loss goes up and down.
    attack = Attack("pgd", EPS[norm], norm, step_size=1.5 * EPS[norm], through=through)
    before = [(False, -float("inf"))] * 20
    unsteady = False
    for steps in range(1, 9):
        points = replace(attack, steps=steps)(model, inputs, targets)
        now = rank(model, points, targets, attack)
        assert never_lower(now, before)
        unsteady |= any(a == b for a, b in zip(now, before, strict=True))
        before = now
    assert unsteady


@pytest.mark.parametrize("through", SURFACES)
@pytest.mark.parametrize(("kind", "norm"), KINDS[2:])
def test_more_restarts_never_lower_success_or_loss(kind: str, norm: str, through: str) -> None:
    model, (inputs, targets) = network(), batch(20)
    attack = replace(attack_of(kind, norm, through=through), steps=3)
    points = [
        replace(attack, restarts=restarts)(model, inputs, targets, generator=torch.Generator().manual_seed(3))
        for restarts in range(1, 5)
    ]
    ranks = [rank(model, found, targets, attack) for found in points]
    assert all(never_lower(after, before) for before, after in pairwise(ranks))
    assert ranks[-1] != ranks[0]
    # A sample that more restarts did not help keeps its point: they begin with the same restarts.
    kept = [torch.equal(a, b) for a, b in zip(points[0], points[1], strict=True)]
    assert any(kept)


@pytest.mark.parametrize(("kind", "norm"), KINDS)
def test_the_start_counts(kind: str, norm: str) -> None:
    """So an ε curve that goes on from the last ε's result never rises."""
    model, (inputs, targets) = network(), batch(20)
    attack, start, before = attack_of(kind, norm), None, None
    for share in (0.25, 0.5, 0.75, 1.0):
        now = replace(attack, eps=share * attack.eps)
        start = now(model, inputs, targets, start=start)
        assert within(start, inputs, now.eps, norm)
        after = rank(model, start, targets, attack)
        assert before is None or never_lower(after, before)
        before = after


def test_a_start_outside_is_projected() -> None:
    model, (inputs, targets) = network(), batch()
    far = (5 * torch.randn(inputs.shape, generator=torch.Generator().manual_seed(0))).requires_grad_()
    for norm in NORMS:
        points = attack_of("pgd", norm)(model, inputs, targets, start=far)  # of another dtype, too
        assert within(points, inputs, EPS[norm], norm)
        assert points.dtype == inputs.dtype
        assert not points.requires_grad


@pytest.mark.parametrize("kind", ["fgsm", "pgd", "apgd"])
def test_a_success_comes_before_a_higher_loss(kind: str) -> None:
    """z = (x - 1/2, 0), d = 20 x: the full loss of class 0 rises with x, but only below 1/2 the model is fooled."""
    model = durm.widen(linear(torch.tensor([[1.0], [0.0]]), torch.tensor([-0.5, 0.0])), 1).eval()
    with torch.no_grad():
        model.weight[2], model.bias[2] = 20.0, 0.0
    inputs, targets = torch.tensor([[0.45], [0.55]]), torch.tensor([0, 0])
    points = Attack(kind, 0.2, through="full", random_start=False)(model, inputs, targets, keep_best=True)
    torch.testing.assert_close(points, torch.tensor([[0.45], [0.75]]))


@pytest.mark.parametrize(("kind", "norm"), KINDS)
def test_eps_0_changes_nothing(kind: str, norm: str) -> None:
    model, (inputs, targets) = network(), batch()
    points = Attack(kind, 0.0, norm)(model, inputs, targets, start=torch.rand_like(inputs))
    assert torch.equal(points, inputs)
    assert points.data_ptr() != inputs.data_ptr()


@pytest.mark.parametrize(("kind", "norm"), KINDS[2:])
def test_randomness_comes_from_the_generator_alone(kind: str, norm: str) -> None:
    model, (inputs, targets) = network(), batch()
    attack = attack_of(kind, norm, step_size=None if kind == "square" else 0.01)
    before = torch.random.get_rng_state()

    def points(seed: int | None) -> Tensor:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        return attack(model, inputs, targets, generator=generator)

    assert torch.equal(points(7), points(7))
    assert not torch.equal(points(7), points(8))
    assert torch.equal(points(None), points(0))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_one_generator_serves_several_batches() -> None:
    """Each attack takes one number of it, so a later batch does not depend on the settings of an earlier attack."""
    model, (inputs, targets) = network(), batch()
    random = torch.Generator().manual_seed(0)
    first, second = (attack_of("pgd")(model, inputs, targets, generator=random) for _ in range(2))
    assert not torch.equal(first, second)
    random = torch.Generator().manual_seed(0)
    attack_of("square", restarts=3)(model, inputs, targets, generator=random)
    assert torch.equal(attack_of("pgd")(model, inputs, targets, generator=random), second)


class Unsettled(nn.Module):
    """A model with all that an attack could disturb: batch statistics, dropout, frozen and half-trained parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten())
        self.head = nn.Linear(64, 5)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs))


@pytest.mark.parametrize(("kind", "norm"), KINDS)
@pytest.mark.parametrize("through", SURFACES)
def test_the_model_is_left_as_it_was(kind: str, norm: str, through: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = durm.widen(Unsettled(), 2).train()
        inputs, targets = batch(dtype=torch.float32)
        durm.cross_entropy(model(inputs), targets, 5).backward()  # some gradients, some batch statistics
    model.body[0].bias.grad = None
    model.body[0].weight.requires_grad_(False)
    model.body[1].eval()
    before, gradients = copy.deepcopy(model), [parameter.grad for parameter in model.parameters()]
    copies = [gradient if gradient is None else gradient.clone() for gradient in gradients]
    calls: list[bool] = []
    hook = model.body[1].register_forward_hook(lambda module, given, result: calls.append(module.training))
    with torch.no_grad():
        attacked = attack_of(kind, norm, through=through)(model, inputs, targets)
    hook.remove()
    assert calls
    assert not any(calls)
    assert torch.equal(attack_of(kind, norm, through=through)(before.eval(), inputs, targets), attacked)
    assert [module.training for module in model.modules()] == [
        not isinstance(module, nn.BatchNorm2d) for module in model.modules()
    ]
    assert not model.head.full
    for (name, ours), (_, theirs) in zip(model.named_parameters(), before.named_parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert ours.requires_grad == (name != "body.0.weight")
    for parameter, gradient, values in zip(model.parameters(), gradients, copies, strict=True):
        assert parameter.grad is gradient
        assert gradient is None or torch.equal(gradient, values)
    for ours, theirs in zip(model.buffers(), before.buffers(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_model_is_left_as_it_was_by_an_error() -> None:
    model = durm.widen(nn.Sequential(nn.Flatten(), nn.Linear(35, 5)), 2).train()
    inputs, targets = batch(dtype=torch.float32)
    with pytest.raises(RuntimeError):  # the shapes do not fit
        attack_of("pgd", through="full")(model, inputs, targets)
    assert all(module.training for module in model.modules())
    assert not model[1].full


@pytest.mark.parametrize("kind", STEPS)
def test_it_works_where_the_caller_wants_no_gradients(kind: str) -> None:
    model, (inputs, targets) = network(), batch()
    expected = attack_of(kind)(model, inputs, targets)
    with torch.no_grad():
        assert torch.equal(attack_of(kind)(model, inputs, targets), expected)
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        assert torch.equal(attack_of(kind)(model, inputs.clone(), targets.clone(), start=None), expected)
        assert torch.is_inference_mode_enabled()
    assert not attack_of(kind)(model, inputs.clone().requires_grad_(), targets).requires_grad


def test_no_samples_are_no_trouble() -> None:
    for kind, norm in KINDS:
        points = attack_of(kind, norm)(network(), torch.zeros(0, 1, 6, 6), torch.zeros(0, dtype=torch.long))
        assert points.shape == (0, 1, 6, 6)


def test_nan_logits_neither_spread_nor_count() -> None:
    """The logits of the samples that are marked are NaN once they are changed."""

    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, inputs: Tensor) -> Tensor:
            logits = self.inner(inputs)
            broken = (inputs[:, 0, 0, 0] != 0.5) & (inputs[:, 0, 0, 1] > 0.5)
            return logits + torch.where(broken, torch.nan, 0.0)[:, None]

    inputs, _ = batch()
    inputs[:, 0, 0, 0], inputs[:, 0, 0, 1] = 0.5, torch.tensor([0.0, 1.0] * 4)
    model = Broken()
    targets = predictions(model, inputs)
    assert targets[1::2].any()  # or argmax, which is 0 for NaN, would be right by chance
    for norm in NORMS:
        points = attack_of("pgd", norm, random_start=False)(model, inputs, targets)
        assert torch.equal(points[1::2], inputs[1::2])
        expected = attack_of("pgd", norm, random_start=False)(model, inputs[::2], targets[::2])
        torch.testing.assert_close(points[::2], expected, rtol=0, atol=1e-9)
        assert (points[::2] != inputs[::2]).flatten(1).any(1).all()
        assert points.isfinite().all()


class Counter(nn.Module):
    """The model, counting the samples that it sees."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.seen: list[int] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen.append(len(inputs))
        return self.model(inputs)


@pytest.mark.parametrize("through", SURFACES)
@pytest.mark.parametrize(("kind", "norm"), KINDS)
def test_early_stop_leaves_out_what_is_done_and_finds_the_same(kind: str, norm: str, through: str) -> None:
    model = network()
    with torch.no_grad():
        model[-1].bias[5:] += 4  # so that dummies come into reach
    inputs, targets = batch(40)
    attack = attack_of(kind, norm, through=through, restarts=1 if kind == "fgsm" else 2)
    attack = attack if kind == "fgsm" else replace(attack, steps=2 * STEPS[kind])
    counter = Counter(model)
    early = attack(counter, inputs, targets, early_stop=True, keep_best=True)
    seen_early, counter.seen = sum(counter.seen), []
    whole = attack(counter, inputs, targets, keep_best=True)
    done_early, done = ([success for success, _ in rank(model, points, targets, attack)] for points in (early, whole))
    assert done_early == done
    assert any(done)
    assert seen_early < sum(counter.seen)


@pytest.mark.parametrize("targeted", [False, True])
def test_early_stop_returns_the_first_success(targeted: bool) -> None:
    """A sample that is misclassified to begin with is not attacked at all, nor is one that is already as wanted."""
    model, (inputs, _) = network(), batch()
    predicted = predictions(model, inputs)
    targets = torch.where(torch.arange(8) < 3, predicted if targeted else (predicted + 1) % 5, predicted)
    targets[3:] = (predicted[3:] + 1) % 5 if targeted else predicted[3:]
    counter = Counter(model)
    attack = Attack("pgd", 0.5, steps=30, random_start=False, targeted=targeted)
    points = attack(counter, inputs, targets, early_stop=True)
    assert torch.equal(points[:3], inputs[:3])
    assert counter.seen[:2] == [8, 5]
    assert ((predictions(model, points) == targets) == targeted).all()
    assert counter.seen[-1] < 5


def test_passes() -> None:
    """Ten steps are ten passes, and one more forward of the samples that are not fooled by then."""
    model, (inputs, _) = network(), batch()
    targets = predictions(model, inputs)
    counter = Counter(model)
    Attack("pgd", 1e-6)(counter, inputs, targets)
    assert counter.seen == [8] * 11
    counter.seen = []
    fooled = Attack("pgd", 0.5)(counter, inputs, targets)
    assert (predictions(model, fooled) != targets).all()
    assert counter.seen == [8] * 10
    for attack, passes in ((Attack("fgsm"), 1), (Attack("apgd", steps=7, restarts=3), 21), (Attack("square"), 0)):
        assert attack.gradient_passes == passes


def test_through_a_wrapper_and_on_flat_inputs() -> None:
    """`Normalised` scales what a model sees; dummies are found within it."""
    model = network((36,))
    inputs, targets = batch(shape=(36,))
    mean, std = torch.tensor(100.0, dtype=torch.float64), torch.tensor(50.0, dtype=torch.float64)
    wrapped = Normalised(nn.Sequential(Unscale(), model), mean, std, scale=255)
    for kind, norm in KINDS:
        for through in SURFACES:
            attack = attack_of(kind, norm, through=through)
            plain, through_wrapper = (attack(each, inputs, targets) for each in (model, wrapped))
            torch.testing.assert_close(plain, through_wrapper, rtol=0, atol=1e-6)


class Unscale(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs * 50 + 100) / 255
