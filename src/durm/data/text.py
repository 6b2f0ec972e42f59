"""Text: THUCNews titles, and a CSV file of one's own, which `durm.data.domains` reads too.

A text becomes token ids of a fixed length: cut off, or padded with id 0. Id 1 stands for tokens that are not in the
vocabulary, which is made of the training texts unless the data set brings one. A pretrained model of Hugging Face
brings a tokenizer of its own instead.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from durm._files import read_text
from durm.data import LOADERS, DataOptions, Loader
from durm.data.bundle import PADDING, DataBundle, InputFormat, Samples, split_parts
from durm.data.npz import read_npz
from durm.data.reading import PublishedFiles, ReadData, check_classes, check_parts
from durm.errors import InputError

UNKNOWN = 1
TITLE_LENGTH = 32
MOST_TOKENS, MOST_WORDS = 256, 20_000
_TOKENS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+|[^\w\s]")
"""A Chinese, Japanese or Korean character, a word, or a mark."""

Encoder = tuple[Callable[[Sequence[str]], torch.Tensor], int]
"""Texts → token ids (N, length), and how many tokens there are."""


class ThucNews(PublishedFiles):
    """THUCNews: Chinese news titles, 10 classes; THUCNews/data/{train,dev,test,class}.txt, by character."""

    name = "thucnews"
    published = (190_000, 10_000, 10)
    folders = ("THUCNews/data",)
    needed = ("train.txt", "dev.txt", "test.txt", "class.txt")

    def read(self, source: Path, options: DataOptions) -> ReadData:
        names = [line.strip() for line in _lines(source / "class.txt")]
        files = {"train": "train.txt", "val": "dev.txt", "test": "test.txt"}
        titles = {part: _titles(source / file, len(names)) for part, file in files.items()}
        given, embedding, notes = source / "vocab.txt", None, []
        if options.tokenizer is not None:
            encode, vocabulary = _huggingface(options.tokenizer, TITLE_LENGTH)
        elif given.is_file():
            tokens = [line for line in given.read_text(encoding="utf-8").split("\n") if line]
            encode, vocabulary = _encoder(tokens, list, TITLE_LENGTH)
            embedding = _embedding(source, tokens)
            notes.append("the vocabulary is that of vocab.txt")
        else:
            encode, vocabulary = _encoder(_vocabulary(titles["train"][0]), list, TITLE_LENGTH)
        parts = {part: Samples(encode(texts), torch.tensor(labels)) for part, (texts, labels) in titles.items()}
        format = InputFormat((TITLE_LENGTH,), torch.zeros(1), torch.ones(1), vocabulary, embedding)
        return ReadData(parts, names, notes, format)


class Csv(Loader):
    """Text of one's own: a CSV file with the columns text and label, and split (train, val, test) if there is one."""

    takes_path = True

    def source(self, path: str, options: DataOptions) -> Path:
        return Path(path).expanduser()

    def is_read(self, name: str, is_folder: bool) -> bool:
        return True

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        where = f"data 'csv:{path}'"
        texts, read = _rows(where, self.source(path, options), "split")
        check_parts(where, read.parts, read.classes, "rows")
        parts, notes = split_parts(read.parts, seed, "texts")
        hint = [f"{note}; domains:{path} holds out one domain after the other" for note in read.notes]
        rows = DataBundle(
            parts["train"], parts["val"], parts["test"], len(read.classes), read.classes, ROWS, notes=[*hint, *notes]
        )
        return encoded(rows, texts, parts["train"], options)


ROWS = InputFormat((), torch.zeros(1), torch.ones(1))
"""The format of texts while their rows in the file stand for them."""


def texts_by_domain(where: str, path: Path) -> tuple[list[str], ReadData]:
    """The texts of a CSV file with the columns text, label and domain, and the rows of each domain as its parts."""
    texts, read = _rows(where, path, "domain")
    check_classes(where, read.classes)
    return texts, replace(read, notes=[f"{note}: the held-out domain is the test set" for note in read.notes])


def encoded(rows: DataBundle, texts: Sequence[str], known: Samples, options: DataOptions) -> DataBundle:
    """The data whose inputs are rows of the file, with token ids in their place.

    Vocabulary and length are those of the texts that are `known`.
    """

    def own(samples: Samples) -> list[str]:
        return [texts[int(samples.inputs[index])] for index in range(len(samples))]

    cut = [_cut(text) for text in own(known)]
    length = int(min(MOST_TOKENS, max(1, np.ceil(np.quantile([len(tokens) for tokens in cut], 0.95)))))
    if options.tokenizer is not None:
        length += 2  # it marks the beginning and the end
        encode, vocabulary = _huggingface(options.tokenizer, length)
    else:
        encode, vocabulary = _encoder(_vocabulary(cut), _cut, length)
    notes = [*rows.notes, f"texts are cut to {length} tokens, of which there are {vocabulary}"]
    train, val, test = (replace(part, inputs=encode(own(part))) for part in (rows.train, rows.val, rows.test))
    format = InputFormat((length,), torch.zeros(1), torch.ones(1), vocabulary)
    return replace(rows, train=train, val=val, test=test, input=format, notes=notes)


def _rows(where: str, path: Path, column: str) -> tuple[list[str], ReadData]:
    """The texts, and by what stands in the column, split or domain, which of them with which labels.

    A note names the other of the two columns, if it is there.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{where} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    reader = csv.DictReader(text.splitlines(keepends=True), skipinitialspace=True)
    reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
    needed = ["text", "label", *(["domain"] if column == "domain" else [])]
    if missing := {*needed} - {*reader.fieldnames}:
        expected = f"{', '.join(needed[:-1])} and {needed[-1]}"
        raise InputError(f"{where} has no column {' and '.join(sorted(missing))}; expected {expected}")
    texts: list[str] = []
    found: dict[str, list[tuple[int, str]]] = {}
    for row in reader:
        part = (row.get(column) or "").strip()
        if column == "split":
            part = part.lower() or "train"
            if part not in ("train", "val", "test"):
                raise InputError(f"{where}, line {reader.line_num}: split {part!r}; expected train, val or test")
        for name in ("label", column):
            if name in needed and not (row[name] or "").strip():
                raise InputError(f"{where}, line {reader.line_num}: the {name} is empty")
        found.setdefault(part, []).append((len(texts), row["label"].strip()))
        texts.append(row["text"] or "")
    if not found or (column == "split" and "train" not in found):
        raise InputError(f"{where} has no rows to train on")
    names = sorted({label for members in found.values() for _, label in members})
    parts = {
        part: Samples(torch.tensor([row for row, _ in rows]), torch.tensor([names.index(label) for _, label in rows]))
        for part, rows in sorted(found.items())
    }
    other = "split" if column == "domain" else "domain"
    notes = [f"the column {other} is not used"] if other in reader.fieldnames else []
    return texts, ReadData(parts, names, notes, ROWS)


def _cut(text: str) -> list[str]:
    return _TOKENS.findall(text.lower())


def _titles(path: Path, classes: int) -> tuple[list[str], list[int]]:
    texts, labels = [], []
    for number, line in enumerate(_lines(path), 1):
        title, _, label = line.rpartition("\t")
        if not title or not label.strip().isdigit() or int(label) >= classes:
            raise InputError(f"{path}, line {number}: expected a title, a tab and a label from 0 to {classes - 1}")
        texts.append(title.strip())
        labels.append(int(label))
    if not texts:
        raise InputError(f"{path} is empty")
    return texts, labels


def _lines(path: Path) -> list[str]:
    return [line for line in read_text(path).split("\n") if line.strip()]


def _vocabulary(texts: Iterable[Iterable[str]]) -> list[str]:
    """The tokens of the training texts, the most frequent first; equal ones in the order of the alphabet."""
    counts = Counter(token for text in texts for token in text)
    return sorted(counts, key=lambda token: (-counts[token], token))[:MOST_WORDS]


def _ids(tokens: Sequence[str]) -> dict[str, int]:
    """Token → id. A vocabulary that names its own <PAD> and <UNK> has them at 0 and 1 here like any other."""
    words = [token for token in tokens if token not in ("<PAD>", "<UNK>")]
    return {"<PAD>": PADDING, "<UNK>": UNKNOWN, **{word: index for index, word in enumerate(words, 2)}}


def _encoder(tokens: Sequence[str], cut: Callable[[str], list[str]], length: int) -> Encoder:
    ids = _ids(tokens)

    def encode(texts: Sequence[str]) -> torch.Tensor:
        encoded = np.full((len(texts), length), PADDING, np.int64)
        for row, text in enumerate(texts):
            found = [ids.get(token, UNKNOWN) for token in cut(text)[:length]]
            encoded[row, : len(found)] = found
        return torch.from_numpy(encoded)

    return encode, len(ids)


def _huggingface(name: str, length: int) -> Encoder:
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise InputError(f"tokenizer {name!r} needs transformers: pip install 'durm[transformers]'") from None
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"tokenizer {name!r} cannot be loaded: {reason}") from None

    def encode(texts: Sequence[str]) -> torch.Tensor:
        made = tokenizer(list(texts), padding="max_length", truncation=True, max_length=length, return_tensors="pt")
        ids: torch.Tensor = made["input_ids"]
        return torch.where(made["attention_mask"] == 1, ids, PADDING)

    return encode, len(tokenizer)


def _embedding(folder: Path, tokens: Sequence[str]) -> torch.Tensor | None:
    """The vectors in the folder's embedding_*.npz, one row for each line of vocab.txt, brought into our order."""
    files = sorted(folder.glob("embedding*.npz"))
    if not files:
        return None
    try:
        content = read_npz(files[0])
        vectors = torch.from_numpy(next(iter(content.values())).astype(np.float32))
    except (ValueError, StopIteration) as error:
        raise InputError(f"{files[0]} cannot be read as an .npz file: {error or 'it is empty'}") from None
    if len(vectors) != len(tokens):
        raise InputError(f"{files[0]} has {len(vectors)} vectors; expected {len(tokens)}, as vocab.txt has tokens")
    row = {token: index for index, token in enumerate(tokens)}
    missing = torch.zeros(vectors.shape[1])
    return torch.stack([vectors[row[token]] if token in row else missing for token in _ids(tokens)])


LOADERS.register("thucnews")(ThucNews())
LOADERS.register("csv")(Csv())
