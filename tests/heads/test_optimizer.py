"""An optimizer that is passed to `widen` goes on as if nothing had happened to the real rows."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import durm
from tests.heads.small import batch, mlp


def step(model: nn.Module, optimizer: torch.optim.Optimizer, classes: int = 5) -> None:
    optimizer.zero_grad()
    F.cross_entropy(model(batch())[:, :classes], torch.arange(4)).backward()
    optimizer.step()


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_real_rows_go_on_as_in_the_narrow_model(name: str) -> None:
    """With a loss on the real logits alone, the widened model's real rows must move as the narrow model's do."""
    narrow, wide = mlp().eval(), mlp().eval()
    optimizers = [OPTIMIZERS[name](model.parameters()) for model in (narrow, wide)]
    for model, optimizer in zip((narrow, wide), optimizers, strict=True):
        for _ in range(3):
            step(model, optimizer)
    durm.widen(wide, 2, optimizer=optimizers[1])
    for model, optimizer in zip((narrow, wide), optimizers, strict=True):
        for _ in range(3):
            step(model, optimizer)
    torch.testing.assert_close(wide[3].weight[:5], narrow[3].weight, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(wide[3].bias[:5], narrow[3].bias, rtol=1e-6, atol=1e-7)


def test_the_dummies_are_trained() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters()}, {"params": model[3].parameters(), "lr": 0.5}], lr=0.1
    )
    durm.widen(model, 2, optimizer=optimizer)
    before = model[3].weight[5:].detach().clone()
    step(model, optimizer, classes=7)
    assert not torch.equal(model[3].weight[5:], before)
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 2]
    assert optimizer.param_groups[1]["params"][0] is model[3].weight


def test_state_of_the_dummies_starts_at_zero_and_saves() -> None:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer)
    kept = optimizer.state[model[3].weight]["exp_avg"].clone()
    durm.widen(model, 2, optimizer=optimizer)
    state = optimizer.state[model[3].weight]
    assert torch.equal(state["exp_avg"][:5], kept)
    assert not state["exp_avg"][5:].any()
    assert state["step"].item() == 1
    assert len(optimizer.state) == 4
    optimizer.load_state_dict(optimizer.state_dict())


def test_factored_state_grows_along_the_rows_only() -> None:
    model = mlp()
    optimizer = torch.optim.Adafactor(model.parameters())
    step(model, optimizer)
    durm.widen(model, 2, optimizer=optimizer)
    state = optimizer.state[model[3].weight]
    assert state["row_var"].shape == (7, 1)
    assert state["col_var"].shape == (1, 16)
    step(model, optimizer, classes=7)


def test_a_frozen_head_need_not_be_in_the_optimizer() -> None:
    model = mlp()
    model[3].requires_grad_(False)
    durm.widen(model, 2, optimizer=torch.optim.SGD(model[0].parameters(), lr=0.1))


def test_the_optimizer_of_another_model_is_refused_and_nothing_changes() -> None:
    model = mlp()
    with pytest.raises(ValueError, match=r"this SGD does not hold '3.weight'; is it another model's\?"):
        durm.widen(model, 2, optimizer=torch.optim.SGD(mlp().parameters(), lr=0.1))
    assert durm.dummies(model) == 0


def test_history_that_cannot_be_widened_is_refused() -> None:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch()), torch.arange(4))
        loss.backward()
        return loss

    optimizer.step(closure)
    with pytest.raises(ValueError, match="history of LBFGS cannot be widened"):
        durm.widen(model, 2, optimizer=optimizer)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.state[model[3].weight]["sketch"] = torch.zeros(3, 3)
    with pytest.raises(ValueError, match="how to widen the state 'sketch' of this SGD"):
        durm.widen(model, 2, optimizer=optimizer)
