"""What is kept of each sample: the same from any batches, against plain formulas."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from durm.metrics import measure, outcomes
from durm.metrics.classification import predictions_of
from tests.metrics.measuring import classification_metrics
from tests.metrics.test_classification import random_logits


@pytest.mark.parametrize("chunk", [1, 50, 2**20])
@pytest.mark.parametrize("batch", [1, 7, 256])
def test_metrics_do_not_depend_on_batches_and_chunks(chunk: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit: chunks of one row, of a few and of all."""
    logits, targets = random_logits(90, 10, 2)
    groups = {"tail": [1, 2]}
    whole = classification_metrics(logits, targets, 10, groups)
    monkeypatch.setattr(outcomes, "CHUNK", chunk)
    assert measure("classification", predictions_of(lambda: logits.split(batch), targets, 10, groups)) == whole


def test_chunks_are_small_and_have_all_rows_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "CHUNK", 40)
    rows = torch.arange(23.0)[:, None].expand(-1, 10)
    chunks = list(outcomes._chunks(rows.split(3)))
    assert [len(chunk) for chunk in chunks] == [3, 3, 3, 3, 3, 3, 3, 2]
    assert [len(chunk) for chunk in outcomes._chunks([rows])] == [4, 4, 4, 4, 4, 3]
    assert torch.equal(torch.cat(chunks), rows)
    assert [len(chunk) for chunk in outcomes._chunks(torch.zeros(5, 99).split(2))] == [1] * 5


@pytest.mark.parametrize("samples", [1, 250, 5_000])
def test_nll_and_dummy_mass_are_those_of_all_logits_at_once(samples: int) -> None:
    """Bit for bit those of torch's own functions, with any last bits that they have."""
    logits, targets = random_logits(samples, 10, 2)
    metrics = measure("classification", predictions_of(lambda: logits.split(33), targets, 10))
    assert metrics["nll"] == F.cross_entropy(logits[:, :10].double(), targets).item()
    odds = logits[:, 10:].logsumexp(1) - logits[:, :10].logsumexp(1)
    assert metrics["dummy_mass"] == 100 * torch.sigmoid(odds).double().mean().item()


def test_columns_follow_a_plain_loop() -> None:
    logits, targets = random_logits(60, 4, 2, seed=3)
    columns = outcomes.sample_columns(logits, targets, 4)
    for index, (row, target) in enumerate(zip(logits.double().tolist(), targets.tolist(), strict=True)):
        real, total = row[:4], sum(map(math.exp, row[:4]))
        every = sum(map(math.exp, row))
        predicted = int(np.argmax(real))
        shares = [math.exp(z) / total for z in real]
        expected = {
            "correct": predicted == target,
            "predicted": predicted,
            "margin": real[target] - max(z for c, z in enumerate(real) if c != target),
            "log_p": math.log(shares[target]),
            "brier": sum((p - (c == target)) ** 2 for c, p in enumerate(shares)),
            "confidence": max(shares),
            "hit": predicted == target,
            "confidence_all": math.exp(max(real)) / every,
            "hit_all": predicted == target,
            "dummy_log_odds": math.log(every - total) - math.log(total),
            "dummy_hit": int(np.argmax(row)) >= 4,
        }
        found = {name: float(values[index]) for name, values in columns.items()}
        assert found == pytest.approx({name: float(value) for name, value in expected.items()}, abs=1e-5)


def test_logits_are_computed_when_a_metric_asks_for_them() -> None:
    logits, targets = random_logits(20, 4, 1)
    calls = []

    def batches() -> tuple[torch.Tensor, ...]:
        calls.append(1)
        return logits.split(8)

    predictions = predictions_of(batches, targets, 4)
    measure("classification", predictions)
    assert len(calls) == 1
    assert torch.equal(predictions.logits, logits)
    assert torch.equal(predictions.real, logits[:, :4])
    assert len(calls) == 2


def test_other_numbers_of_logits_and_targets_are_refused() -> None:
    logits, targets = random_logits(20, 4, 1)
    with pytest.raises(ValueError, match="20 and targets of 19"):
        classification_metrics(logits, targets[:19], 4)
