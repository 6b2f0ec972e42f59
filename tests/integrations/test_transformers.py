"""Hugging Face's Trainer trains, saves, resumes and reloads widened models; what it cannot train is told."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm
from durm.integrations.transformers import DuRMTrainer, transformers

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
TEXT = {**SMALL, "vocab_size": 20, "max_position_embeddings": 8}
IMAGE = {**SMALL, "image_size": 8, "patch_size": 4}
SCENE = {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [1, 1], "hidden_sizes": [8, 8], "patch_sizes": [3, 3]}
SCENE |= {"strides": [2, 2], "num_attention_heads": [1, 1], "mlp_ratios": [1, 1], "decoder_hidden_size": 8}


def build(kind: str, **settings: Any) -> nn.Module:
    transformers.set_seed(0)
    if kind == "sequence":
        return transformers.BertForSequenceClassification(transformers.BertConfig(**TEXT, num_labels=3, **settings))
    if kind == "token":
        return transformers.BertForTokenClassification(transformers.BertConfig(**TEXT, num_labels=3, **settings))
    if kind == "image":
        return transformers.ViTForImageClassification(transformers.ViTConfig(**IMAGE, num_labels=3, **settings))
    return transformers.SegformerForSemanticSegmentation(
        transformers.SegformerConfig(**SCENE, num_labels=3, **settings)
    )


def samples(kind: str, count: int = 8) -> list[dict[str, Tensor]]:
    random = torch.Generator().manual_seed(1)
    words = torch.randint(20, (count, 6), generator=random)
    images = torch.randn(count, 3, 8, 8, generator=random)
    classes = torch.randint(3, (count,), generator=random)
    tags = torch.randint(3, (count, 6), generator=random)
    tags[:, 4:] = -100
    masks = torch.randint(3, (count, 8, 8), generator=random)
    masks[:, :3] = 255
    inputs = {"input_ids": words} if kind in ("sequence", "token") else {"pixel_values": images}
    inputs["labels"] = {"sequence": classes, "token": tags, "image": classes, "scene": masks}[kind]
    return [{name: value[i] for name, value in inputs.items()} for i in range(count)]


def uneven() -> list[dict[str, Tensor]]:
    """Tokens that count differ from sample to sample."""
    data = samples("token")
    for i, sample in enumerate(data):
        sample["labels"][i % 4 + 1 :] = -100
    return data


def trainer(model: nn.Module, kind: str, folder: Path, cls: type = DuRMTrainer, **settings: Any) -> Any:
    quiet = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "save_strategy": "no"}
    options = {"per_device_train_batch_size": 4, "learning_rate": 0.01, "num_train_epochs": 1, "logging_steps": 1}
    args = transformers.TrainingArguments(str(folder), **{**quiet, **options, **settings})
    return cls(model=model, args=args, train_dataset=samples(kind), eval_dataset=samples(kind))


def head(model: Any) -> nn.Module:
    return model.decode_head.classifier if hasattr(model, "decode_head") else model.classifier


KINDS = ["sequence", "token", "image", "scene"]
LOAD = """
import sys, durm._torchvision, torch  # the cure alone
sys.modules["durm.heads"] = None
import transformers
model = getattr(transformers, sys.argv[1]).from_pretrained(sys.argv[2])
print(model.config.num_labels, *model(**torch.load(sys.argv[2] + "/inputs.pt")).logits.shape)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_evaluates_saves_and_the_folder_is_a_plain_model(kind: str, tmp_path: Path) -> None:
    model = durm.widen(build(kind), dummies=2)
    before = head(model).weight.detach().clone()
    one = trainer(model, kind, tmp_path)
    one.train()
    changed = (head(model).weight != before).flatten(1).any(1)
    assert changed.tolist() == [True] * 5
    assert model.config.num_labels == 3
    seen = [entry for entry in one.state.log_history if "loss" in entry]
    assert all(0 < entry["dummy_mass"] < 1 and 0 <= entry["dummy_hits"] <= 1 for entry in seen)
    predictions = one.predict(samples(kind)).predictions
    assert predictions.shape[1 if kind == "scene" else -1] == 3
    one.save_model(str(tmp_path / "out"))
    plain = type(model).from_pretrained(tmp_path / "out")
    assert durm.dummies(plain) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "config.json", "model.safetensors", "training_args.bin",
    ]  # fmt: skip
    inputs = {k: v[None] for k, v in samples(kind)[0].items() if k != "labels"}
    with torch.no_grad():
        assert torch.equal(plain(**inputs).logits, model.eval()(**inputs).logits)


@pytest.mark.slow
def test_the_folder_loads_where_widening_cannot_be_imported(tmp_path: Path) -> None:
    model = durm.widen(build("sequence"), dummies=2)
    model.save_pretrained(tmp_path)
    torch.save({"input_ids": samples("sequence")[0]["input_ids"][None]}, tmp_path / "inputs.pt")
    command = [sys.executable, "-c", LOAD, "BertForSequenceClassification", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["3", "1", "3"], found.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_without_dummies_it_is_their_trainer(kind: str, smoothing: float, tmp_path: Path) -> None:
    if kind == "scene" and smoothing:
        pytest.skip("their label smoother takes the last axis of (N, C, H, W) for the classes")
    weights = []
    for cls in (transformers.Trainer, DuRMTrainer):
        model = build(kind)
        trainer(model, kind, tmp_path, cls, label_smoothing_factor=smoothing).train()
        weights.append(head(model).weight)
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)


def test_labels_are_smoothed_over_the_real_classes(tmp_path: Path) -> None:
    """−Σ_c t_c log p_c, t having 0.8 + 0.2/3 and 0.2/3 on the real classes and 0 on the dummies."""
    logits, labels = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0])
    one = trainer(durm.widen(build("sequence"), 2), "sequence", tmp_path, label_smoothing_factor=0.2)
    targets = F.pad(0.8 * F.one_hot(labels, 3) + 0.2 / 3, (0, 2))
    expected = -(targets * logits.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(one._durm_loss({"logits": logits}, labels), expected)
    torch.testing.assert_close(one._durm_loss({"logits": logits}, labels, num_items_in_batch=8), expected / 2)


def test_accumulated_batches_train_as_one(tmp_path: Path) -> None:
    """A mean of means would not do."""
    weights = []
    for size, steps in ((4, 1), (1, 4)):
        model = durm.widen(build("token", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 2)
        one = trainer(model, "token", tmp_path, per_device_train_batch_size=size, gradient_accumulation_steps=steps)
        one.train_dataset = uneven()
        one.train()
        weights.append(model.classifier.weight)
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)


def test_a_checkpoint_is_a_plain_model_and_goes_on_as_a_widened_one(tmp_path: Path) -> None:
    whole = durm.widen(build("sequence"), dummies=2)
    settings = {"save_strategy": "steps", "save_steps": 1, "load_best_model_at_end": False, "num_train_epochs": 2}
    trainer(whole, "sequence", tmp_path / "whole", **settings).train()
    checkpoint = tmp_path / "whole" / "checkpoint-1"
    assert type(whole).from_pretrained(checkpoint).classifier.weight.shape == (3, 8)

    resumed = durm.widen(build("sequence"), dummies=2, seed=5)
    trainer(resumed, "sequence", tmp_path / "more", **settings).train(resume_from_checkpoint=str(checkpoint))
    assert all(torch.equal(one, other) for one, other in zip(whole.parameters(), resumed.parameters(), strict=True))

    for dummies, count in ((0, "0"), (1, "1")):
        other = trainer(durm.widen(build("sequence"), dummies), "sequence", tmp_path / "other", **settings)
        with pytest.raises(ValueError, match=f"checkpoint-1 is of a model with 2 dummies, and this one has {count}"):
            other.train(resume_from_checkpoint=str(checkpoint))


def test_the_best_model_is_loaded_with_its_dummies(tmp_path: Path) -> None:
    model = durm.widen(build("sequence"), dummies=2)
    each = {"save_strategy": "steps", "save_steps": 1, "eval_strategy": "steps", "eval_steps": 1, "save_total_limit": 4}
    one = trainer(model, "sequence", tmp_path, load_best_model_at_end=True, learning_rate=5.0, **each)
    one.train()
    best = Path(one.state.best_model_checkpoint)
    saved = torch.load(best / "dummies.pt", weights_only=True)
    assert torch.equal(model.classifier.weight[3:], saved["classifier.weight"])
    assert torch.equal(model.classifier.weight[:3], type(model).from_pretrained(best).classifier.weight)


def test_copies_save_themselves_and_a_narrowed_model_saves_as_before(tmp_path: Path) -> None:
    model = durm.widen(build("sequence"), dummies=2)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        nn.init.ones_(copied.classifier.weight)
        copied.save_pretrained(tmp_path)
        assert torch.equal(type(model).from_pretrained(tmp_path).classifier.weight, torch.ones(3, 8))
    durm.narrow(model)
    assert "save_pretrained" not in vars(model)
    loss = model(input_ids=torch.zeros(1, 4, dtype=torch.long), labels=torch.tensor([1])).loss
    assert loss.isfinite()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_their_own_trainer_says_which_to_take(smoothing: float, tmp_path: Path) -> None:
    model = durm.widen(build("sequence"), dummies=2)
    plain = trainer(model, "sequence", tmp_path, transformers.Trainer, label_smoothing_factor=smoothing)
    named = "label_smoothing_factor=0.1" if smoothing else "labels="
    with pytest.raises(ValueError, match=f"{named}.*durm.integrations.transformers.DuRMTrainer"):
        plain.train()


def test_their_own_trainer_works_with_a_loss_of_ours(tmp_path: Path) -> None:
    def loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        return durm.cross_entropy(outputs.logits, labels, num_classes=3)

    model = durm.widen(build("sequence"), dummies=2)
    plain = trainer(model, "sequence", tmp_path, transformers.Trainer, label_smoothing_factor=0.1)
    plain.compute_loss_func = loss
    plain.train()
    plain.save_model(str(tmp_path / "out"))
    assert type(model).from_pretrained(tmp_path / "out").classifier.weight.shape == (3, 8)


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_what_has_no_softmax_is_refused(problem: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"config.problem_type='{problem}'.*'single_label_classification'"):
        durm.widen(build("sequence", problem_type=problem), dummies=2)
    late = durm.widen(build("sequence"), 2)
    late.config.problem_type = problem
    with pytest.raises(ValueError, match=f"config.problem_type='{problem}'"):
        trainer(late, "sequence", tmp_path)
    one = trainer(durm.widen(build("sequence"), 2), "sequence", tmp_path)
    for sample in one.train_dataset:
        sample["labels"] = torch.rand(3)
    with pytest.raises(ValueError, match=r"labels of torch.float32: expected class indices"):
        one.train()


def test_an_auxiliary_head_is_refused(tmp_path: Path) -> None:
    model = durm.widen(build("scene"), 2)
    model.config.use_auxiliary_head = True
    with pytest.raises(ValueError, match=r"use_auxiliary_head=True.*False"):
        trainer(model, "scene", tmp_path).train()


PROCESSES = """
import sys, torch
from tests.integrations.test_transformers import *
model = durm.widen(build("token", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 2)
one = trainer(model, "token", Path(sys.argv[1]), per_device_train_batch_size=2, save_strategy="steps", save_steps=1,
              average_tokens_across_devices=True)
one.train_dataset = uneven()
one.train()
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROCESSES)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    environment = {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(tmp_path / "two")], capture_output=True, text=True, check=False, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr
    model = durm.widen(build("token", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 2)
    one = trainer(model, "token", tmp_path / "one")
    one.train_dataset = uneven()
    one.train()
    last = tmp_path / "two" / "checkpoint-2"
    plain = type(model).from_pretrained(last)
    dummies = torch.load(last / "dummies.pt", weights_only=True)["classifier.weight"]
    found = torch.cat([plain.classifier.weight, dummies])
    torch.testing.assert_close(found, model.classifier.weight, rtol=1e-4, atol=1e-5)
