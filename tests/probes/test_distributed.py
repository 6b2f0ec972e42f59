"""Two processes over gloo, each with its half of every batch, against one with whole batches."""

import json
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from durm.probes import PROBES, watch
from tests.probes.small import batches, network, train
from tests.probes.test_watch import flat

PROCESSES = 2


def epochs(rank: int | None = None) -> list[list[tuple[Tensor, Tensor]]]:
    whole = [batches((8, 6), seed=1), batches((4, 2), seed=2)]
    if rank is None:
        return whole
    return [[(x[rank::PROCESSES], y[rank::PROCESSES]) for x, y in epoch] for epoch in whole]


def process(rank: int, folder: str, finished: Barrier) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=PROCESSES)
    model = nn.parallel.DistributedDataParallel(network())
    watching = watch(model, PROBES.names())
    train(model, epochs(rank), watching)
    Path(folder, f"{rank}.json").write_text(json.dumps(watching.results()))
    finished.wait(600)  # a process that leaves early closes connections that the other may still be using
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path: Path) -> None:
    finished = torch.multiprocessing.get_context("spawn").Barrier(PROCESSES)
    torch.multiprocessing.spawn(process, (str(tmp_path), finished), nprocs=PROCESSES)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(PROCESSES))
    assert first == second
    model = network()
    alone = watch(model, PROBES.names())
    train(model, epochs(), alone)
    assert flat(first) == pytest.approx(flat(alone.results()), rel=2e-6, abs=1e-7)


def test_sharded_weights_are_refused() -> None:
    model = network()
    model[0].weight.device_mesh = None
    for name in ("distance", "gradient_norm"):
        with pytest.raises(ValueError, match="sharded over processes"):
            watch(model, [name])
