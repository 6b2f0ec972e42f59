"""The cross-entropy on widened logits against the formula, torch and the identities that the method rests on."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import durm
import durm.models
from tests.oracle import cross_entropy as oracle

REDUCTIONS = ["none", "mean", "sum"]
IGNORE = -100


def make(samples: int, classes: int, dummies: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(samples, classes + dummies, generator=random, dtype=torch.float64)
    return logits, torch.randint(classes, (samples,), generator=random)


@st.composite
def problems(draw: st.DrawFn) -> dict:
    classes, dummies = draw(st.integers(1, 7)), draw(st.integers(0, 4))
    inner = draw(st.lists(st.integers(1, 3), max_size=2))
    samples = draw(st.integers(1, 5))
    random = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    logits = 4 * torch.randn(samples, *inner, classes + dummies, generator=random, dtype=torch.float64)
    dim = draw(st.integers(0, logits.ndim - 1))
    labels = torch.randint(classes, (samples, *inner), generator=random)
    if draw(st.booleans()) and labels.numel() > 1:
        labels[torch.rand(labels.shape, generator=random) < 0.3] = IGNORE
        labels.view(-1)[0] = 0  # the mean over no target at all is NaN, as it is in torch
    return {
        "logits": logits,  # the class axis last; a test moves it to dim
        "dim": dim,
        "classes": classes,
        "labels": labels,
        "soft": torch.rand(samples, *inner, classes, generator=random, dtype=torch.float64).softmax(-1),
        "weight": torch.rand(classes, generator=random, dtype=torch.float64) + 0.1 if draw(st.booleans()) else None,
        "smoothing": draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        "reduction": draw(st.sampled_from(REDUCTIONS)),
    }


@settings(max_examples=150, deadline=None)
@given(problems())
def test_index_targets_follow_the_formula(p: dict) -> None:
    ours = durm.cross_entropy(
        p["logits"].movedim(-1, p["dim"]),
        p["labels"],
        p["classes"],
        weight=p["weight"],
        label_smoothing=p["smoothing"],
        reduction=p["reduction"],
        dim=p["dim"],
    )
    weights = None if p["weight"] is None else p["weight"].tolist()
    truth = oracle.index_loss(
        p["logits"].flatten(0, -2).tolist(),
        p["labels"].flatten().tolist(),
        p["classes"],
        weights,
        p["smoothing"],
        IGNORE,
        p["reduction"],
    )
    torch.testing.assert_close(
        ours.flatten(), torch.tensor(truth, dtype=torch.float64).flatten(), rtol=1e-10, atol=1e-12
    )


@settings(max_examples=150, deadline=None)
@given(problems())
def test_soft_targets_follow_the_formula(p: dict) -> None:
    ours = durm.cross_entropy(
        p["logits"].movedim(-1, p["dim"]),
        p["soft"].movedim(-1, p["dim"]),
        p["classes"],
        weight=p["weight"],
        label_smoothing=p["smoothing"],
        reduction=p["reduction"],
        dim=p["dim"],
    )
    weights = None if p["weight"] is None else p["weight"].tolist()
    truth = oracle.soft_loss(
        p["logits"].flatten(0, -2).tolist(), p["soft"].flatten(0, -2).tolist(), weights, p["smoothing"], p["reduction"]
    )
    torch.testing.assert_close(
        ours.flatten(), torch.tensor(truth, dtype=torch.float64).flatten(), rtol=1e-10, atol=1e-12
    )


@settings(max_examples=60, deadline=None)
@given(problems(), st.booleans())
def test_without_dummies_it_is_torch_bit_for_bit(p: dict, soft: bool) -> None:
    logits = p["logits"][..., : p["classes"]].movedim(-1, 1) if p["logits"].ndim > 1 else p["logits"]
    target = p["soft"].movedim(-1, 1) if soft else p["labels"]
    options = {"weight": p["weight"], "label_smoothing": p["smoothing"], "reduction": p["reduction"]}
    ours = durm.cross_entropy(logits, target, p["classes"], **options)
    assert torch.equal(ours, F.cross_entropy(logits, target, **options))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_dtypes(dtype: torch.dtype, reduction: str) -> None:
    logits, labels = make(16, 5, 2)
    for smoothing in (0.0, 0.1):
        truth = durm.cross_entropy(logits, labels, 5, label_smoothing=smoothing, reduction=reduction)
        ours = durm.cross_entropy(logits.to(dtype), labels, 5, label_smoothing=smoothing, reduction=reduction)
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), truth, rtol=30 * torch.finfo(dtype).eps, atol=0.05)


def test_plain_torch_loss_is_right_for_index_targets() -> None:
    """What the docs promise: no smoothing, no weights, and `nn.CrossEntropyLoss` does it."""
    logits, labels = make(32, 10, 3)
    assert torch.equal(nn.CrossEntropyLoss()(logits, labels), durm.cross_entropy(logits, labels, 10))


def test_one_sample_without_a_batch_axis() -> None:
    logits, labels = make(1, 4, 2)
    for smoothing in (0.0, 0.2):
        for reduction in REDUCTIONS:
            options = {"label_smoothing": smoothing, "reduction": reduction}
            alone = durm.cross_entropy(logits[0], labels[0], 4, **options)
            batched = durm.cross_entropy(logits, labels, 4, **options)
            assert alone.shape == ()
            assert torch.equal(alone, batched.squeeze())


def test_an_ignored_class_may_have_any_index() -> None:
    """Segmentation data marks void pixels with 255, or with the number after the last class."""
    logits = torch.randn(2, 5, 4, 4, dtype=torch.float64)
    labels = torch.randint(3, (2, 4, 4))
    void = labels.clone()
    void[0] = 255
    ours = durm.cross_entropy(logits, void, 3, ignore_index=255, label_smoothing=0.1)
    torch.testing.assert_close(ours, durm.cross_entropy(logits[1:], labels[1:], 3, label_smoothing=0.1))


# The identities of the method, in float64.


def test_the_loss_is_that_of_erm_plus_the_cost_of_the_dummy_mass() -> None:
    """L_DuRM = L_ERM - log(1 - p_D)."""
    logits, labels = make(64, 10, 3)
    ours = durm.cross_entropy(logits, labels, 10, reduction="none")
    erm = F.cross_entropy(logits[:, :10], labels, reduction="none")
    mass = torch.tensor([oracle.dummy_mass(row, 10) for row in logits.tolist()], dtype=torch.float64)
    torch.testing.assert_close(ours, erm - torch.log1p(-mass), rtol=1e-12, atol=1e-12)


def test_dummies_are_only_pushed_and_real_gradients_sum_to_minus_their_mass() -> None:
    """dL/dd_j = p_j >= 0, and sum_c dL/dz_c = -p_D."""
    logits, labels = make(64, 10, 3)
    logits.requires_grad_()
    durm.cross_entropy(logits, labels, 10, reduction="sum").backward()
    gradient = logits.grad
    probabilities = logits.detach().exp() / logits.detach().exp().sum(1, keepdim=True)
    torch.testing.assert_close(gradient[:, 10:], probabilities[:, 10:])
    assert (gradient[:, 10:] >= 0).all()
    torch.testing.assert_close(gradient[:, :10].sum(1), -probabilities[:, 10:].sum(1))


def test_the_gradient_at_the_features_differs_by_the_mass_times_the_mean_weights() -> None:
    """With z = W h, d = V h: dL/dh - dL_ERM/dh = p_D (E_D[v] - E_real[w])."""
    random = torch.Generator().manual_seed(0)
    features = torch.randn(6, generator=random, dtype=torch.float64).requires_grad_()
    real = torch.randn(4, 6, generator=random, dtype=torch.float64)
    dummy = torch.randn(2, 6, generator=random, dtype=torch.float64)
    label = torch.tensor(1)
    logits = torch.cat([real, dummy]) @ features
    (ours,) = torch.autograd.grad(durm.cross_entropy(logits, label, 4), features)
    (erm,) = torch.autograd.grad(F.cross_entropy(real @ features, label), features)
    weights = logits.detach().exp()
    mass = weights[4:].sum() / weights.sum()
    mean_dummy = weights[4:] / weights[4:].sum() @ dummy
    mean_real = weights[:4] / weights[:4].sum() @ real
    torch.testing.assert_close(ours - erm, mass * (mean_dummy - mean_real), rtol=1e-12, atol=1e-12)


def test_equal_dummies_are_one_dummy_with_a_bias_of_log_their_number() -> None:
    logits, labels = make(16, 5, 1)
    copies = torch.cat([logits[:, :5], logits[:, 5:].expand(-1, 4)], 1)
    shifted = torch.cat([logits[:, :5], logits[:, 5:] + math.log(4)], 1)
    torch.testing.assert_close(
        durm.cross_entropy(copies, labels, 5), durm.cross_entropy(shifted, labels, 5), rtol=1e-12, atol=1e-12
    )


# The traps.


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_masked_dummies_give_erm_and_no_nan(smoothing: float, soft: bool, weighted: bool) -> None:
    """Logits of -inf on the dummies: a padded soft target would give 0 · -inf = NaN here."""
    logits, labels = make(16, 5, 2)
    target = F.one_hot(labels, 5).double() * 0.8 + 0.04 if soft else labels
    weight = torch.rand(5, dtype=torch.float64) + 0.5 if weighted else None
    logits = logits.requires_grad_()
    masked = torch.cat([logits[:, :5], torch.full_like(logits[:, 5:], -math.inf)], 1)
    loss = durm.cross_entropy(masked, target, 5, weight=weight, label_smoothing=smoothing)
    torch.testing.assert_close(loss, F.cross_entropy(logits[:, :5], target, weight, label_smoothing=smoothing))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("soft", [False, True])
def test_smoothing_gives_the_dummies_no_target_mass(soft: bool) -> None:
    """The label smoothing of torch pulls the dummies up: its gradient on them is p_j - s / (C + C_d)."""
    logits, labels = make(8, 5, 2)
    logits.requires_grad_()
    target = F.one_hot(labels, 5).double() if soft else labels
    durm.cross_entropy(logits, target, 5, label_smoothing=0.3, reduction="sum").backward()
    torch.testing.assert_close(logits.grad[:, 5:], logits.detach().softmax(1)[:, 5:])

    naive = logits.detach().clone().requires_grad_()
    F.cross_entropy(naive, labels, label_smoothing=0.3, reduction="sum").backward()
    torch.testing.assert_close(naive.grad[:, 5:], logits.detach().softmax(1)[:, 5:] - 0.3 / 7)


def test_mixup_targets_of_timm_are_accepted() -> None:
    from timm.data import Mixup

    mixup = Mixup(mixup_alpha=0.8, label_smoothing=0.1, num_classes=5)
    _, targets = mixup(torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 3]))
    assert targets.shape == (4, 5)
    loss = durm.cross_entropy(torch.zeros(4, 7), targets, 5)
    assert loss.item() == pytest.approx(math.log(7), rel=1e-5)


# The module.


def test_without_dummies_it_is_the_loss_of_timm() -> None:
    from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy

    logits, labels = make(6, 5, 0)
    soft = logits.roll(1, 0).softmax(1)
    smoothed = durm.CrossEntropyLoss(5, label_smoothing=0.1)
    torch.testing.assert_close(smoothed(logits, labels), LabelSmoothingCrossEntropy(0.1)(logits, labels))
    torch.testing.assert_close(durm.CrossEntropyLoss(5)(logits, soft), SoftTargetCrossEntropy()(logits, soft))


def test_module_is_the_function() -> None:
    logits, labels = make(16, 5, 2)
    weight = torch.rand(5, dtype=torch.float64)
    criterion = durm.CrossEntropyLoss(5, weight, label_smoothing=0.1, ignore_index=3, reduction="sum", dim=-1)
    expected = durm.cross_entropy(
        logits, labels, 5, weight=weight, label_smoothing=0.1, ignore_index=3, reduction="sum"
    )
    assert torch.equal(criterion(logits, labels), expected)
    assert criterion.float().weight.dtype == torch.float32
    assert "num_classes=5" in repr(criterion)


def test_the_class_weights_of_the_module_move_with_it() -> None:
    criterion = durm.CrossEntropyLoss(2, torch.ones(2))
    assert set(criterion.state_dict()) == {"weight"}
    assert criterion.to("meta").weight.is_meta


# Push and pull.


def test_push_and_pull_add_up_to_the_gradient() -> None:
    logits, labels = make(64, 10, 3)
    logits.requires_grad_()
    F.cross_entropy(logits, labels, reduction="sum").backward()
    push, pull = durm.push_pull(logits.detach(), labels, 10)
    torch.testing.assert_close(push + pull, logits.grad.sum(0))
    assert (push >= 0).all()
    assert (pull <= 0).all()
    assert (pull[10:] == 0).all()


def test_push_and_pull_by_hand() -> None:
    """Two classes and a dummy, p = (1/2, 1/3, 1/6) for both samples, which are of class 0 and 1."""
    logits = torch.tensor([[3.0, 2.0, 1.0]] * 2, dtype=torch.float64).log()
    push, pull = durm.push_pull(logits, torch.tensor([0, 1]), 2)
    torch.testing.assert_close(push, torch.tensor([1 / 2, 1 / 3, 2 / 6], dtype=torch.float64))
    torch.testing.assert_close(pull, torch.tensor([-1 / 2, -2 / 3, 0.0], dtype=torch.float64))


def test_push_and_pull_of_pixels_and_tokens() -> None:
    logits = torch.randn(2, 6, 3, 3, dtype=torch.float64)
    labels = torch.randint(4, (2, 3, 3))
    labels[0, 0] = IGNORE
    pixels = durm.push_pull(logits, labels, 4)
    tokens = durm.push_pull(logits.movedim(1, -1), labels, 4, dim=-1)
    counted = labels != IGNORE
    flat = durm.push_pull(logits.movedim(1, -1)[counted], labels[counted], 4)
    for a, b, c in zip(pixels, tokens, flat, strict=True):
        torch.testing.assert_close(a, c)
        torch.testing.assert_close(b, c)


# Bad input.


@pytest.mark.parametrize("value", [5, 6, -1, 100])
@pytest.mark.parametrize("call", [durm.cross_entropy, durm.push_pull])
def test_a_label_that_is_no_real_class_is_named(value: int, call) -> None:
    """A label of C … C + C_d - 1 would silently train a dummy."""
    with pytest.raises(ValueError, match=rf"target {value} is outside 0 … 4 \(num_classes=5\)"):
        call(torch.zeros(3, 7), torch.tensor([0, value, 1]), 5)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"num_classes": 8}, ValueError, r"\(3, 7\) have 7 classes along dim 1, fewer than num_classes=8"),
        ({"num_classes": 0}, ValueError, "num_classes=0: expected an int of at least 1"),
        ({"num_classes": 5.0}, TypeError, "num_classes=5.0: expected an int, not float"),
        ({"num_classes": True}, TypeError, "num_classes=True: expected an int, not bool"),
        ({"weight": torch.ones(7)}, ValueError, r"weight of shape \(7,\): expected \(5,\)"),
        ({"weight": torch.ones(4)}, ValueError, r"weight of shape \(4,\): expected \(5,\)"),
        ({"label_smoothing": 1.5}, ValueError, "label_smoothing=1.5: expected a number from 0 to 1"),
        ({"reduction": "avg"}, ValueError, "reduction='avg': expected one of 'none', 'mean', 'sum'"),
        ({"dim": 2}, ValueError, r"dim=2: logits of shape \(3, 7\) have no such axis"),
        (
            {"target": torch.zeros(4).long()},
            ValueError,
            r"target of shape \(4,\): expected class indices of shape \(3,\)",
        ),
        ({"target": torch.zeros(3)}, ValueError, "class indices need an integer dtype"),
        ({"target": torch.zeros(3, 7)}, ValueError, r"probabilities over the 5 real classes, \(3, 5\)"),
        ({"target": torch.zeros(3).bool()}, TypeError, "target of dtype torch.bool"),
    ],
)
def test_bad_input_is_named(change: dict, error: type[Exception], message: str) -> None:
    arguments = {"logits": torch.zeros(3, 7), "target": torch.zeros(3).long(), "num_classes": 5} | change
    with pytest.raises(error, match=message):
        durm.cross_entropy(**arguments)


def test_push_and_pull_refuse_probabilities() -> None:
    with pytest.raises(TypeError, match="need class indices"):
        durm.push_pull(torch.zeros(3, 7), torch.zeros(3, 5), 5)


def test_the_module_checks_when_it_is_made() -> None:
    with pytest.raises(ValueError, match=r"weight of shape \(12,\): expected \(10,\)"):
        durm.CrossEntropyLoss(10, torch.ones(12))


# Other ways to run.


def test_under_compile_export_and_vmap() -> None:
    logits, labels = make(16, 5, 2)
    expected = durm.cross_entropy(logits, labels, 5, label_smoothing=0.1)
    compiled = torch.compile(durm.cross_entropy, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(logits, labels, 5, label_smoothing=0.1), expected)
    each = torch.func.vmap(lambda one, label: durm.cross_entropy(one, label, 5, label_smoothing=0.1))(logits, labels)
    torch.testing.assert_close(each.mean(), expected)


def test_under_autocast_it_computes_in_float32() -> None:
    logits, labels = make(16, 5, 2)
    with torch.autocast("cpu", torch.bfloat16):
        for smoothing in (0.0, 0.1):
            loss = durm.cross_entropy(logits.bfloat16(), labels, 5, label_smoothing=smoothing)
            assert loss.dtype == torch.float32
