"""The extra-logit family: learned dummies, frozen ones, constant logits, and copies of one."""

import copy
import io
import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm
from durm.heads.init import KINDS
from tests.heads.small import CONVOLUTIONS, batch, mlp

LABELS = torch.tensor([0, 1, 2, 3])
OTHERS = [kind for kind in KINDS if kind != "learned"]


def network(kind: str, dummies: int = 2, **options) -> nn.Sequential:
    model = mlp()
    model[2] = nn.Identity()  # no dropout
    return durm.widen(model, dummies, kind=kind, **options)


def train(model: nn.Module, steps: int = 5) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(batch()), LABELS).backward()
        optimizer.step()


def dummy_logits(model: nn.Module) -> Tensor:
    with durm.full_logits(model), torch.no_grad():
        return model(batch())[:, 5:]


class TestLogits:
    @pytest.mark.parametrize("kind", KINDS)
    def test_widths_and_real_bits(self, kind: str) -> None:
        plain, model = network("learned", 0).eval(), network(kind)
        assert model(batch()).shape == (4, 7)
        assert durm.dummies(model) == 2
        assert torch.equal(model.eval()(batch()), plain(batch()))
        with durm.full_logits(model):
            torch.testing.assert_close(model(batch())[:, :5], plain(batch()))

    def test_frozen_ones_begin_as_the_learned_ones_and_stay(self) -> None:
        frozen, learned = network("frozen"), network("learned")
        assert torch.equal(frozen(batch()), learned(batch()))
        rows = frozen[3].dummy_weight.clone(), frozen[3].dummy_bias.clone()
        train(frozen)
        assert torch.equal(frozen[3].dummy_weight, rows[0])  # in spite of weight decay
        assert torch.equal(frozen[3].dummy_bias, rows[1])
        assert frozen[3].weight.shape == (5, 16)

    def test_constant_ones_are_zero_and_stay(self) -> None:
        model = network("constant", 3)
        train(model)
        assert torch.equal(dummy_logits(model), torch.zeros(4, 3))

    def test_copies_stay_equal_and_are_learned(self) -> None:
        model, learned = network("copies", 3), network("learned", 1)
        before = dummy_logits(model)
        assert torch.equal(model[3].weight[5:], learned[3].weight[5:].expand(3, -1))
        train(model, 30)
        after = dummy_logits(model)
        torch.testing.assert_close(after, after[:, :1].expand(-1, 3))
        assert not torch.allclose(after, before)

    @pytest.mark.parametrize("kind", OTHERS)
    @pytest.mark.parametrize("layer", CONVOLUTIONS)
    def test_every_layer(self, layer: str, kind: str) -> None:
        make, shape = CONVOLUTIONS[layer]
        torch.manual_seed(0)
        plain = make()
        model = durm.widen(copy.deepcopy(plain), 2, kind=kind)
        x = torch.randn(shape)
        axis = -1 if layer == "linear" else 1
        assert model(x).shape[axis] == 7
        assert torch.equal(model.eval()(x), plain(x))
        assert torch.equal(durm.narrow(model)(x), plain(x))


class TestMathematics:
    """In float64."""

    @pytest.mark.parametrize("count", [1, 2, 7])
    def test_constants_are_one_logit_of_log_their_number(self, count: int) -> None:
        """One is the softmax-one: the loss is -z_y + log(1 + sum e^z)."""
        model = network("constant", count).double()
        x = batch().double()
        wide = model(x)
        loss = F.cross_entropy(wide, LABELS)
        loss.backward()
        gradient = model[3].weight.grad.clone()
        z = wide[:, :5].detach()
        one = torch.cat([z, torch.full((4, 1), math.log(count), dtype=torch.float64)], 1)
        torch.testing.assert_close(loss.detach(), F.cross_entropy(one, LABELS))
        by_hand = (torch.log(count + z.exp().sum(1)) - z.gather(1, LABELS[:, None])[:, 0]).mean()
        torch.testing.assert_close(loss.detach(), by_hand)
        features = model[:3](x).detach()
        p = z.exp() / (count + z.exp().sum(1, keepdim=True))
        torch.testing.assert_close(gradient, (p - F.one_hot(LABELS, 5)).T @ features / 4)

    def test_the_first_gradient_of_frozen_ones_is_that_of_learned_ones(self) -> None:
        frozen, learned = network("frozen"), network("learned")
        for model in (frozen, learned):
            F.cross_entropy(model(batch()), LABELS).backward()
        for (name, one), other in zip(frozen.named_parameters(), learned.parameters(), strict=True):
            assert torch.equal(one.grad, other.grad[: len(one)]), name

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_seed_gives_the_same_real_rows_and_the_same_random_state(self, kind: str) -> None:
        plain = mlp()
        torch.manual_seed(7)
        expected = torch.get_rng_state()
        model = durm.widen(copy.deepcopy(plain), 2, kind=kind, seed=3)
        assert torch.equal(torch.get_rng_state(), expected)
        for one, other in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.equal(one[: len(other)], other)


class TestCopiesAndFiles:
    @pytest.mark.parametrize("kind", KINDS)
    def test_narrow_and_its_state_dict(self, kind: str) -> None:
        model = network(kind)
        train(model)
        expected = model.eval()(batch())
        plain = network("learned", 0).eval()
        plain.load_state_dict(durm.narrow_state_dict(model.state_dict()))
        assert torch.equal(plain(batch()), expected)
        plain.load_state_dict(durm.narrow_state_dict(dict(model.state_dict()), head="3", num_classes=5))
        assert torch.equal(plain(batch()), expected)
        narrowed = durm.narrow(model)
        assert torch.equal(narrowed(batch()), expected)
        assert type(narrowed[3]) is nn.Linear
        assert list(narrowed.state_dict()) == list(plain.state_dict())
        assert vars(narrowed[3]).keys() == vars(plain[3]).keys()

    @pytest.mark.parametrize("kind", KINDS)
    def test_copies_pickles_and_state_dicts(self, kind: str) -> None:
        model = network(kind, seed=3)
        train(model)
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        loaded = network(kind, seed=4)
        loaded.load_state_dict(torch.load(file, weights_only=True))
        for other in (loaded, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(other(batch()), model(batch()))
            assert other[3].dummy_kind == kind

    @pytest.mark.parametrize("kind", OTHERS)
    def test_an_optimizer_that_exists(self, kind: str) -> None:
        model = network("learned", 0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        durm.widen(model, 2, kind=kind, optimizer=optimizer)
        before = model[3].weight.clone()
        F.cross_entropy(model(batch()), LABELS).backward()
        optimizer.step()
        assert (model[3].weight != before).any(1).all()

    @pytest.mark.parametrize("kind", ["frozen", "constant"])
    def test_compile_export_and_dtype(self, kind: str) -> None:
        model = network(kind)
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(batch()), model(batch()))
        program = torch.export.export(model.eval(), (batch(),))
        torch.testing.assert_close(program.module()(batch()), model(batch()))
        half = model.to(torch.bfloat16).train()
        assert half(batch().to(torch.bfloat16)).shape == (4, 7)


def test_the_kind_is_shown() -> None:
    shown = repr(durm.widen(nn.Linear(8, 5), 2, kind="frozen"))
    assert shown == "WidenedLinear(in_features=8, out_features=7, bias=True, dummies=2, kind='frozen')"


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match=r"kind='froze'.*did you mean 'frozen'"):
        durm.widen(nn.Linear(8, 5), 2, kind="froze")


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(5, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.tokens.T

    def class_parameters(self) -> dict[str, None]:
        return {"tokens": None}

    def resize_classes(self, count: int) -> None: ...


def test_heads_that_widen_themselves_have_learned_dummies_and_copies() -> None:
    model = durm.widen(Tokens(), 2, kind="copies")
    assert torch.equal(model.tokens[5], model.tokens[6])
    for kind in ("frozen", "constant"):
        with pytest.raises(ValueError, match=f"kind='{kind}'"):
            durm.widen(Tokens(), 2, kind=kind)
