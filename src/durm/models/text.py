"""Text classifiers: a Transformer encoder of our own size, and those of Hugging Face."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from durm.data.bundle import PADDING
from durm.errors import InputError


class TransformerClassifier(nn.Module):
    """Token ids (N, length) → logits (N, C).

    Embedding, sinusoidal positions, two post-norm encoder layers with 5 heads and 1024 hidden units, the mean over the
    tokens that are not padding, and a linear head. The width is that of the embedding: 300 unless one is given, which
    is brought to a standard deviation of 1, because the positions would drown smaller vectors.
    """

    def __init__(self, num_classes: int, vocabulary: int, length: int, embedding: Tensor | None = None) -> None:
        super().__init__()
        width = 300 if embedding is None else embedding.shape[1]
        heads = next(count for count in (5, 4, 2, 1) if width % count == 0)
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        if embedding is not None:
            with torch.no_grad():
                self.embedding.weight.copy_(embedding / embedding.std())
        self.register_buffer("positions", _sinusoids(length, width), persistent=False)
        layer = nn.TransformerEncoderLayer(width, heads, 1024, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(width, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():  # what all texts pad is left out; a graph has one length
            tokens = tokens[:, : int((tokens != PADDING).sum(1).max().clamp(min=1))]
        padding = tokens == PADDING
        padding = padding & ~padding.all(1, keepdim=True)  # an empty text attends to its padding, or there is nothing
        embedded = self.dropout(self.embedding(tokens) + self.positions[: tokens.shape[1]])  # type: ignore[index]
        encoded = self.encoder(embedded, src_key_padding_mask=padding)
        weights = (~padding).unsqueeze(2).to(encoded.dtype)
        logits: Tensor = self.head(self.dropout((encoded * weights).sum(1) / weights.sum(1)))
        return logits


class HuggingFaceClassifier(nn.Module):
    """Token ids (N, length) → the logits of a sequence classifier of Hugging Face; its padding is id 0."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=tokens, attention_mask=(tokens != PADDING).long()).logits
        return logits


def huggingface(name: str, num_classes: int, vocabulary: int, *, pretrained: bool) -> nn.Module:
    """The sequence classifier `name`, a kind such as distilbert, a folder or a name on the hub.

    Pretrained, it keeps its own vocabulary, which the data must have been cut by. Otherwise it is made with that of the
    data: of a kind in its standard size, of a folder or name in the size that is written there. Code that comes with a
    folder or name is never run.
    """
    try:
        from transformers import AutoConfig
        from transformers import AutoModelForSequenceClassification as Classifier
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    except ImportError:
        raise InputError(f"model 'hf:{name}' needs transformers: pip install 'durm[transformers]'") from None
    auto: Any = Classifier
    try:
        if pretrained:
            made = auto.from_pretrained(name, num_labels=num_classes, trust_remote_code=False)
        else:
            options = {"vocab_size": vocabulary, "num_labels": num_classes, "pad_token_id": PADDING}
            kind = name in CONFIG_MAPPING
            read = AutoConfig.for_model if kind else partial(AutoConfig.from_pretrained, trust_remote_code=False)
            made = auto.from_config(read(name, **options), trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"model 'hf:{name}' cannot be made: {' '.join(str(error).split())[:200]}") from None
    return HuggingFaceClassifier(made)


def _sinusoids(length: int, width: int) -> Tensor:
    """sin and cos of position · 10000^(−2i/width), (length, width)."""
    place = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)[:, : width // 2]
    return table
