"""Models of text: what they may and may not see, and that they widen."""

from pathlib import Path

import pytest
import torch

import durm
from durm import models
from durm.data import DataOptions, load
from durm.errors import InputError
from durm.training.building import load_bundle
from durm.training.trainer import run
from durm.training.trial import TrainSpec, Trial
from tests.data.test_text import write_csv


def transformer(**options: object) -> torch.nn.Module:
    torch.manual_seed(0)
    return models.build("transformer", 4, (6,), vocabulary=11, **options).eval()  # type: ignore[arg-type]


def test_padding_changes_nothing() -> None:
    model = transformer()
    text = torch.tensor([[5, 3, 2, 0, 0, 0]])
    assert torch.allclose(model(text), model(text[:, :3]), atol=1e-5)
    assert not torch.allclose(model(text), model(torch.tensor([[5, 3, 2, 7, 0, 0]])), atol=1e-3)


def test_the_order_of_tokens_matters() -> None:
    model = transformer()
    assert not torch.allclose(model(torch.tensor([[5, 3]])), model(torch.tensor([[3, 5]])), atol=1e-3)


def test_an_empty_text_has_logits() -> None:
    assert transformer()(torch.zeros(2, 6, dtype=torch.long)).isfinite().all()


def test_it_widens_and_narrows() -> None:
    model = transformer()
    text = torch.randint(0, 11, (3, 6))
    before = model(text)
    durm.widen(model, 2)
    assert model.train()(text).shape == (3, 6)
    assert torch.equal(model.eval()(text), before)
    assert torch.equal(durm.narrow(model)(text), before)


def test_a_given_embedding_is_the_start() -> None:
    vectors = torch.arange(44.0).reshape(11, 4)
    model = transformer(pretrained=True, embedding=vectors)
    assert torch.allclose(model.embedding.weight, vectors / vectors.std())  # type: ignore[union-attr]
    assert transformer(embedding=vectors).embedding.weight.shape == (11, 300)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        ("transformer", (3, 8, 8), {}, "takes text"),
        ("resnet18", (6,), {"vocabulary": 11}, "does not take text"),
        ("mlp", (6,), {"vocabulary": 11}, "does not take text"),
        ("transformer", (6,), {"vocabulary": 11, "pretrained": True}, "without an embedding"),
        pytest.param(  # transformers looks through all its models
            *("hf:no-such-kind-of-model", (6,), {"vocabulary": 11}, "cannot be made"), marks=pytest.mark.slow
        ),
        ("lstm", (6,), {}, "takes sequences"),
        ("hf:", (6,), {"vocabulary": 11}, "hf:"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, shape: tuple[int, ...], options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        models.build(name, 4, shape, **options)


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as Hugging Face saves it: a BERT of 16 units, its tokenizer, random weights."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "thing", "number", ",", "!"]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=32, num_labels=2,
    )  # fmt: skip
    torch.manual_seed(3)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_classifier_of_hugging_face_is_trained_from_its_folder(tiny_bert: Path, tmp_path: Path) -> None:
    described = Trial(
        data=write_csv(tmp_path), model=f"hf:{tiny_bert}", pretrained=True, dummies=2,
        train=TrainSpec(epochs=8, batch_size=8, lr=0.01, optimizer="adam", weight_decay=0.0),
    )  # fmt: skip
    bundle = load_bundle(described)
    assert bundle.input.vocabulary == 11
    assert isinstance(bundle.train.inputs, torch.Tensor)
    assert (bundle.train.inputs[:, 0] == 2).all()  # [CLS]
    assert run(described).metrics["accuracy"] == 100


def test_without_its_weights_it_takes_the_vocabulary_of_the_data(tiny_bert: Path, tmp_path: Path) -> None:
    bundle = load(write_csv(tmp_path), seed=0, options=DataOptions())
    vocabulary = bundle.input.vocabulary
    made = models.build(f"hf:{tiny_bert}", 2, bundle.input.shape, vocabulary=vocabulary)
    assert made.model.config.vocab_size == vocabulary  # type: ignore[union-attr]
    assert isinstance(bundle.train.inputs, torch.Tensor)
    assert made.eval()(bundle.train.inputs[:3]).shape == (3, 2)


def test_padding_is_not_attended_to(tiny_bert: Path) -> None:
    model = models.build(f"hf:{tiny_bert}", 2, (4,), vocabulary=11, pretrained=True).eval()
    text = torch.tensor([[2, 5, 3, 0]])
    assert torch.allclose(model(text), model(text[:, :3]), atol=1e-5)
