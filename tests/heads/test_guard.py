"""The guard: it speaks of every wrong loss, and of no right one, whatever the loss looks like."""

import copy
import gc
import io
import pickle
import warnings
import weakref
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm
import durm.models  # before timm: it cures the import of torchvision
from durm.heads import guard as guard_module
from durm.heads.guard import FIRST_STEPS, POSITIONS, votes
from durm.heads.resizable import ResizableHead

# isort: split
from timm.data import Mixup
from timm.loss import BinaryCrossEntropy, LabelSmoothingCrossEntropy, SoftTargetCrossEntropy

Loss = Callable[[Tensor, Tensor, int], Tensor]


def network(classes: int, dummies: int, **options) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, classes))
    return durm.widen(model, dummies, **options)


def batches(classes: int, steps: int, samples: int = 32):
    """Clusters that can be learned."""
    random = torch.Generator().manual_seed(1)
    centres = 2 * torch.randn(classes, 20, generator=random)
    for _ in range(steps):
        labels = torch.randint(classes, (samples,), generator=random)
        yield centres[labels] + torch.randn(samples, 20, generator=random), labels


def train(model: nn.Module, classes: int, loss: Loss, steps: int, *, dtype: torch.dtype | None = None) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in batches(classes, steps):
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            logits = model(x)
        optimizer.zero_grad()
        loss(logits, y, classes).backward()
        optimizer.step()


@pytest.fixture
def every_step(monkeypatch) -> None:
    monkeypatch.setattr(guard_module, "LATER", 1)


def hugging_face(logits: Tensor, labels: Tensor, classes: int) -> Tensor:
    """What `label_smoothing_factor` of its Trainer does."""
    log_p = -F.log_softmax(logits, -1)
    return 0.9 * log_p.gather(1, labels[:, None]).mean() + 0.1 * log_p.mean()


def timm_mixup(logits: Tensor, labels: Tensor, classes: int) -> Tensor:
    mixup = Mixup(num_classes=logits.shape[1])
    _, targets = mixup(torch.zeros(len(labels), 3, 8, 8), labels)
    return SoftTargetCrossEntropy()(logits, targets.cpu())


WRONG: dict[str, tuple[Loss, str]] = {
    "torch, smoothed": (lambda z, y, c: F.cross_entropy(z, y, label_smoothing=0.1), "label smoothing"),
    "Hugging Face, smoothed": (hugging_face, "label smoothing"),
    "timm, smoothed": (lambda z, y, c: LabelSmoothingCrossEntropy(0.1)(z, y), "label smoothing"),
    "timm, mixup": (timm_mixup, "mixup"),
    "timm, binary": (lambda z, y, c: BinaryCrossEntropy()(z, y), "binary cross-entropy"),
    "binary": (
        lambda z, y, c: F.binary_cross_entropy_with_logits(z, F.one_hot(y, z.shape[1]).float()),
        "binary cross-entropy",
    ),
}


@pytest.mark.parametrize(("classes", "dummies"), [(10, 1), (10, 2), (3, 2)])
@pytest.mark.parametrize("name", WRONG)
def test_a_loss_that_trains_the_dummies(name: str, classes: int, dummies: int) -> None:
    loss, cause = WRONG[name]
    with pytest.warns(UserWarning, match=f"durm guard: .*{cause}") as caught:
        train(network(classes, dummies), classes, loss, 100)
    (warning,) = caught
    assert f"durm.CrossEntropyLoss(num_classes={classes})" in str(warning.message)
    assert "guard=False" in str(warning.message)


def risks_of_domains(logits: Tensor, labels: Tensor, classes: int) -> Tensor:
    """V-REx. A domain whose risk is far below the mean has a negative weight."""
    parts = zip(logits.split(8), labels.split(8), strict=True)
    risks = torch.stack([durm.cross_entropy(z, y, classes, label_smoothing=0.1) for z, y in parts])
    return risks.mean() + 3 * risks.var()


def mixed(logits: Tensor, labels: Tensor, classes: int) -> Tensor:
    one_hot = F.one_hot(labels, classes).float()
    share = torch.distributions.Beta(0.4, 0.4).sample()
    return durm.cross_entropy(logits, share * one_hot + (1 - share) * one_hot.flip(0), classes)


def focal(logits: Tensor, labels: Tensor, classes: int) -> Tensor:
    loss = F.cross_entropy(logits, labels, reduction="none")
    return ((1 - (-loss).exp()).square() * loss).mean()


def distilled(logits: Tensor, labels: Tensor, classes: int) -> Tensor:
    teacher = (3 * torch.randn(len(labels), classes)).softmax(1)
    return durm.cross_entropy(logits, teacher, classes)


RIGHT: dict[str, Loss] = {
    "index targets": lambda z, y, c: F.cross_entropy(z, y),
    "smoothed": lambda z, y, c: durm.cross_entropy(z, y, c, label_smoothing=0.1),
    "strongly smoothed": lambda z, y, c: durm.cross_entropy(z, y, c, label_smoothing=0.5),
    "mixup": mixed,
    "class weights": lambda z, y, c: durm.cross_entropy(z, y, c, weight=torch.linspace(0.1, 2, c), label_smoothing=0.1),
    "V-REx": risks_of_domains,
    "focal": focal,
    "distilled": distilled,
    "some ignored": lambda z, y, c: F.cross_entropy(z, y.where(y > 0, -100)),
}


@pytest.mark.usefixtures("every_step")
@pytest.mark.parametrize(("classes", "dummies"), [(10, 1), (3, 2)])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loss_is_never_spoken_of(name: str, classes: int, dummies: int) -> None:
    """In 200 steps, each of which is looked at."""
    model = network(classes, dummies)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, classes, RIGHT[name], 200)
    assert model[2].guard.steps == 200


@pytest.mark.usefixtures("every_step")
@pytest.mark.parametrize("name", ["index targets", "smoothed", "mixup"])
@pytest.mark.parametrize("low", [False, True])
def test_bfloat16(name: str, low: bool) -> None:
    """By autocast, and with the loss in low precision too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = RIGHT[name]
        train(network(10, 2), 10, loss if low else lambda z, y, c: loss(z.float(), y, c), 200, dtype=torch.bfloat16)


def test_bfloat16_shows_a_wrong_loss() -> None:
    with pytest.warns(UserWarning, match="label smoothing"):
        train(network(10, 2), 10, lambda z, y, c: hugging_face(z.float(), y, c), 100, dtype=torch.bfloat16)


class Scenes(nn.Module):
    """A class for each pixel, an auxiliary head, and logits that are upsampled after the head, or not."""

    def __init__(self, *, upsampled: bool) -> None:
        super().__init__()
        self.body, self.classifier, self.aux_classifier = (nn.Conv2d(a, b, 1) for a, b in ((6, 16), (16, 6), (16, 6)))
        self.upsampled = upsampled

    def forward(self, x: Tensor) -> list[Tensor]:
        features = self.body(x).relu()
        logits = [self.classifier(features), self.aux_classifier(features)]
        if self.upsampled:
            return [F.interpolate(one, scale_factor=4, mode="bilinear") for one in logits]
        return logits


def scene_loss(logits: list[Tensor], labels: Tensor, smooth: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    labels = F.interpolate(labels[:, None].float(), size=logits[0].shape[2:])[:, 0].long()
    own, auxiliary = (smooth(one, labels) for one in logits)
    return own + 0.4 * auxiliary


def train_scenes(model: nn.Module, smooth: Callable[[Tensor, Tensor], Tensor], steps: int) -> None:
    random = torch.Generator().manual_seed(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        labels = torch.randint(6, (2, 8, 8), generator=random)
        x = F.one_hot(labels, 6).movedim(-1, 1) * 2 + torch.randn(2, 6, 8, 8, generator=random)
        optimizer.zero_grad()
        scene_loss(model(x), labels, smooth).backward()
        optimizer.step()


@pytest.mark.usefixtures("every_step")
@pytest.mark.parametrize("upsampled", [False, True])
@pytest.mark.parametrize("dummies", [1, 2])
def test_right_losses_of_pixels(upsampled: bool, dummies: int) -> None:
    torch.manual_seed(0)
    model = durm.widen(Scenes(upsampled=upsampled), dummies)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_scenes(model, lambda z, y: durm.cross_entropy(z, y, 6, label_smoothing=0.1), 200)
    assert model.classifier.guard.steps == model.aux_classifier.guard.steps == 200


def test_a_wrong_loss_of_pixels_is_told_of_each_head_once() -> None:
    torch.manual_seed(0)
    model = durm.widen(Scenes(upsampled=False), 2)
    with pytest.warns(UserWarning, match="durm guard") as caught:
        train_scenes(model, lambda z, y: F.cross_entropy(z, y, label_smoothing=0.1), 100)
    assert len(caught) == 2


class Cosines(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(classes, 64) / 8)

    def forward(self, features: Tensor) -> Tensor:
        return features @ self.tokens.T

    def class_parameters(self) -> dict[str, None]:
        return {"tokens": None}

    def resize_classes(self, count: int) -> None: ...


def test_heads_that_widen_themselves_are_guarded_too() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), Cosines(10))
    assert isinstance(model[2], ResizableHead)
    with pytest.warns(UserWarning, match="label smoothing"):
        train(durm.widen(model, 2), 10, hugging_face, 100)


class TestVotes:
    """One batch of logits at a time."""

    def gradient(self, loss: Loss, dummies: int = 2, samples: int = 32) -> tuple[Tensor, Tensor]:
        random = torch.Generator().manual_seed(0)
        logits = torch.randn(samples, 10 + dummies, generator=random, requires_grad=True)
        labels = torch.randint(10, (samples,), generator=random)
        (gradient,) = torch.autograd.grad(loss(logits, labels, 10), logits)
        return logits.detach(), gradient

    @pytest.mark.parametrize("dummies", [1, 2, 5])
    def test_smoothing_and_sigmoid_are_told_apart(self, dummies: int) -> None:
        judged, softmax, sigmoid = votes(*self.gradient(hugging_face, dummies), 10)
        assert (judged, sigmoid) == (32, 0)
        assert softmax >= 30
        judged, softmax, sigmoid = votes(*self.gradient(WRONG["binary"][0], dummies), 10)
        assert (judged, softmax) == (32, 0)
        assert sigmoid >= 30

    @pytest.mark.parametrize(
        "loss",
        [
            lambda z, y, c: F.multi_margin_loss(z, y),
            lambda z, y, c: F.cross_entropy(z / 2, y),
            lambda z, y, c: F.cross_entropy(30 * z, y),
            lambda z, y, c: F.cross_entropy(z.relu(), y),
            lambda z, y, c: F.cross_entropy(z.view(8, 4, -1).mean(1), y[:8]),
            lambda z, y, c: F.cross_entropy(z, y) + 1e-3 * z.logsumexp(1).square().mean(),
            lambda z, y, c: F.cross_entropy(z + torch.linspace(0, -3, z.shape[1]), y),
            lambda z, y, c: -durm.cross_entropy(z, y, c, label_smoothing=0.1),
        ],
        ids=["margin", "temperature 2", "scale 30", "rectified", "pooled", "z-loss", "priors", "negative weight"],
    )
    def test_other_forms_get_no_vote(self, loss: Loss) -> None:
        for dummies in (1, 2):
            assert max(votes(*self.gradient(loss, dummies), 10)[1:]) <= 3

    def test_too_few_classes_or_equal_logits_are_not_judged(self) -> None:
        logits, gradient = self.gradient(hugging_face)
        assert votes(logits[:, :5], gradient[:, :5], 4)[0] == 0  # four classes and one dummy
        assert votes(logits * 0.01, gradient, 10)[0] == 0

    def test_what_is_no_number_is_not_judged(self) -> None:
        logits, gradient = self.gradient(hugging_face)
        gradient[0, 0], gradient[1], logits[2, 0] = torch.nan, 0, torch.inf
        assert votes(logits, gradient, 10)[0] == 29


class TestOptimizer:
    def fit(self, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 30, accumulate: int = 1) -> None:
        for step, (x, y) in enumerate(batches(10, steps), 1):
            F.cross_entropy(model(x), y).backward()
            if step % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()

    @pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
    def test_one_made_before_widening(self, kind: type[torch.optim.Optimizer]) -> None:
        model = network(10, 0)
        optimizer = kind(model.parameters(), lr=1e-3)
        durm.widen(model, 2)
        with pytest.warns(UserWarning, match=r"durm guard: .*made before durm\.widen.*optimizer=") as caught:
            self.fit(model, optimizer, 200)
        assert len(caught) == 1

    def test_one_made_afterwards_or_passed_is_right(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            passed = network(10, 0)
            optimizer = torch.optim.SGD(passed.parameters(), lr=0.1)
            self.fit(durm.widen(passed, 2, optimizer=optimizer), optimizer)
            later = network(10, 2)
            self.fit(later, torch.optim.SGD(later.parameters(), lr=0.1))

    def test_accumulated_gradients_and_a_head_that_is_left_out_on_purpose(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = network(10, 0)
            kept = list(model.parameters())  # as a logger might
            durm.widen(model, 2)
            self.fit(model, torch.optim.SGD(model.parameters(), lr=0.1), accumulate=25)
            body = network(10, 2)
            self.fit(body, torch.optim.SGD(body[0].parameters(), lr=0.1))
        assert len(kept) == 4


class TestItDisturbsNothing:
    def test_training_is_the_same_to_the_bit(self) -> None:
        with_guard, without = network(10, 2), network(10, 2, guard=False)
        assert without[2].guard is None
        for model in (with_guard, without):
            train(model, 10, RIGHT["smoothed"], 25)
        assert with_guard[2].guard.steps == 25
        for one, other in zip(with_guard.parameters(), without.parameters(), strict=True):
            assert torch.equal(one, other)

    def test_switched_off_it_says_nothing(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            train(network(10, 2, guard=False), 10, hugging_face, 100)
            assert durm.pad_to_multiple(nn.Linear(8, 5), 8, guard=False).guard is None

    def test_it_looks_at_the_first_steps_and_rarely_afterwards(self, monkeypatch) -> None:
        looked = []
        monkeypatch.setattr(guard_module.Guard, "_judge_loss", lambda self, *_: looked.append(self.steps))
        train(network(10, 2), 10, RIGHT["index targets"], 210)
        assert looked == [*range(1, FIRST_STEPS + 1), 100, 200]

    def test_it_keeps_a_few_rows_and_no_logits(self) -> None:
        logits = torch.zeros(8, 7, 64, 64)
        rows = guard_module._some_rows(logits, 1)
        assert rows.shape == (POSITIONS, 7)
        assert rows.untyped_storage().nbytes() == rows.numel() * 4
        model = network(10, 2)
        output = model(torch.randn(4, 20))
        gone = weakref.ref(output)
        output.sum().backward()
        del output
        gc.collect()
        assert gone() is None

    def test_rows_are_those_of_the_layout(self) -> None:
        values = torch.arange(2 * 3 * 5.0).view(2, 3, 5)  # (N, tokens, classes)
        assert torch.equal(guard_module._some_rows(values, -1), values.view(6, 5))
        assert torch.equal(guard_module._some_rows(values.movedim(-1, 1), 1), values.view(6, 5))
        assert torch.equal(guard_module._some_rows(values[0, 0], -1), values[:1, 0])

    def test_copies_and_pickles_keep_it(self) -> None:
        model = network(10, 2)
        train(model, 10, RIGHT["index targets"], 3)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)):
            assert copied[2].guard.steps == 3
            with pytest.warns(UserWarning, match="label smoothing"):
                train(copied, 10, hugging_face, 100)

    def test_narrowing_takes_it_away(self) -> None:
        assert "guard" not in vars(durm.narrow(network(10, 2))[2])

    def test_neither_evaluation_nor_full_logits_are_watched(self) -> None:
        model = network(10, 2).eval()
        with durm.full_logits(model):
            model(torch.randn(4, 20)).sum().backward()
        model.train()
        with torch.no_grad():
            model(torch.randn(4, 20))
        assert model[2].guard.steps == 0

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_it_is_off_in_graphs(self) -> None:
        x = torch.randn(4, 20)
        model = network(10, 2)
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        compiled(x).sum().backward()
        torch.export.export(model, (x,))
        torch.jit.trace(model, x)
        torch.fx.symbolic_trace(model)
        parameters = dict(model.named_parameters())
        loss = torch.func.vmap(lambda one: torch.func.functional_call(model, parameters, (one,)).sum())
        torch.func.grad(lambda one: loss(one).sum())(x)
        assert model[2].guard.steps == 0
        model(x).sum().backward()
        assert model[2].guard.steps == 1
