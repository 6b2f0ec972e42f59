"""Widened models in two processes, over gloo: DDP, and FSDP on CPU, against one process with the whole batch."""

from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import durm

PROCESSES = 2


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return durm.widen(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5)), 2)


def data() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    return torch.randn(8, 8, generator=random), torch.randint(5, (8,), generator=random)


def train(model: nn.Module, x: Tensor, y: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def smooth_over_all(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """What the guard warns of."""
    for _ in range(15):
        F.cross_entropy(model(x), y, label_smoothing=0.1).backward()


def ddp(rank: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    model = nn.parallel.DistributedDataParallel(network())
    with pytest.raises(ValueError, match="already wrapped in DistributedDataParallel"):
        durm.widen(model, 1)
    train(model, x, y)
    model.eval()
    assert model(x).shape == (4, 5)
    with durm.full_logits(model):
        assert model(x).shape == (4, 7)
    model.train()
    with pytest.warns(UserWarning, match="durm guard"):
        smooth_over_all(model, 10 * x, y)
    return durm.narrow_state_dict(model.state_dict())


def fsdp(rank: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = network()
    mesh = init_device_mesh("cpu", (PROCESSES,))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    assert durm.dummies(model) == 2
    train(model, x, y)
    model.eval()
    assert model(x).shape == (4, 5)
    with durm.full_logits(model):
        assert model(x).shape == (4, 7)
    with pytest.raises(ValueError, match="cannot narrow a sharded model"):
        durm.narrow(model)
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    return durm.narrow_state_dict(state, head="2", num_classes=5) if rank == 0 else {}


def process(rank: int, job, folder: str, finished: Barrier) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=PROCESSES)
    x, y = data()
    state = job(rank, x[rank::PROCESSES], y[rank::PROCESSES])
    if rank == 0:
        torch.save(dict(state), f"{folder}/state.pt")
    finished.wait(600)  # a process that leaves early closes connections that the other may still be using
    dist.destroy_process_group()


@pytest.mark.parametrize("job", [ddp, fsdp])
def test_two_processes_equal_one(job, tmp_path: Path) -> None:
    finished = torch.multiprocessing.get_context("spawn").Barrier(PROCESSES)
    torch.multiprocessing.spawn(process, (job, str(tmp_path), finished), nprocs=PROCESSES)
    state = {key.removeprefix("module."): value for key, value in torch.load(tmp_path / "state.pt").items()}
    alone = network()
    train(alone, *data())
    for key, value in durm.narrow(alone).state_dict().items():
        torch.testing.assert_close(state[key], value, rtol=1e-5, atol=1e-6)
