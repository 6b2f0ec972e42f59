"""Text: THUCNews titles, and a CSV file of one's own.

A text becomes token ids of a fixed length: cut off, or padded with id 0. Id 1 stands for tokens that are not in the
vocabulary, which is made of the training texts unless the data set brings one. A pretrained model of Hugging Face
brings a tokenizer of its own instead.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from durm.data import LOADERS, DataOptions, find_files
from durm.data.bundle import PADDING, DataBundle, InputFormat, Samples, split_by_seed
from durm.errors import InputError

UNKNOWN = 1
TITLE_LENGTH = 32
MOST_TOKENS, MOST_WORDS = 256, 20_000
_TOKENS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+|[^\w\s]")
"""A Chinese, Japanese or Korean character, a word, or a mark."""

Labelled = tuple[list[str], list[int]]


class ThucNews:
    """THUCNews: Chinese news titles, 10 classes; THUCNews/data/{train,dev,test,class}.txt, by character."""

    takes_path = False
    takes_image_size = False

    files = ("train.txt", "dev.txt", "test.txt", "class.txt")
    published = (190_000, 10_000, 10)

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        return _thucnews(self.find(options), options.tokenizer)

    def find(self, options: DataOptions) -> Path:
        return find_files("thucnews", options, {"THUCNews/data": self.files})

    def checksums(self, folder: Path) -> dict[str, str]:
        """None are published."""
        return {}

    def write_sample(self, root: Path) -> None:
        """Titles of a few characters, most of them the class's own."""
        random = np.random.default_rng(0)
        folder = root / "THUCNews" / "data"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "class.txt").write_text("\n".join(f"class{label}" for label in range(10)) + "\n", encoding="utf-8")
        for name, each in (("train", 8), ("dev", 2), ("test", 2)):
            lines = []
            for label in list(range(10)) * each:
                characters = 0x4E00 + 20 * label + random.integers(0, 20, 12)
                lines.append("".join(map(chr, characters)) + f"\t{label}")
            (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@lru_cache(maxsize=1)
def _thucnews(folder: Path, tokenizer: str | None) -> DataBundle:
    names = [line.strip() for line in _lines(folder / "class.txt")]
    parts = {part: _titles(folder / f"{part}.txt", len(names)) for part in ("train", "dev", "test")}
    embedding = None
    notes = []
    if tokenizer is not None:
        encode, vocabulary = _huggingface(tokenizer, TITLE_LENGTH)
    else:
        given = folder / "vocab.txt"
        if given.is_file():
            tokens = [line for line in given.read_text(encoding="utf-8").split("\n") if line]
            embedding = _embedding(folder, tokens)
            notes.append("the vocabulary is that of vocab.txt")
        else:
            tokens = _vocabulary(list(title) for title in parts["train"][0])
        encode, vocabulary = _encoder(tokens, list, TITLE_LENGTH), len(_ids(tokens))
    train, val, test = (_samples(encode, texts, labels) for texts, labels in parts.values())
    return DataBundle(
        train, val, test, len(names), names, _format(TITLE_LENGTH, vocabulary, embedding), notes=notes
    )  # fmt: skip


class Csv:
    """Text of one's own: a CSV file with the columns text and label, and split (train, val, test) if there is one."""

    takes_path = True
    takes_image_size = False

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        parts, names = _rows(Path(path).expanduser())
        notes = []
        if "test" not in parts:
            parts["train"], parts["test"] = _split(parts["train"], 0.2, seed, "test")
            notes.append("20 % of each class are the test set, by seed")
        if "val" not in parts:
            parts["train"], parts["val"] = _split(parts["train"], 0.1, seed, "val")
            notes.append("10 % of the training texts of each class are the validation set, by seed")
        cut = [_TOKENS.findall(text.lower()) for text in parts["train"][0]]
        length = int(min(MOST_TOKENS, max(1, np.ceil(np.quantile([len(tokens) for tokens in cut], 0.95)))))
        if options.tokenizer is not None:
            encode, vocabulary = _huggingface(options.tokenizer, length + 2)
            length += 2  # it marks the beginning and the end
        else:
            tokens = _vocabulary(cut)
            encode, vocabulary = (
                _encoder(tokens, lambda text: _TOKENS.findall(text.lower()), length),
                len(_ids(tokens)),
            )
        notes.append(f"texts are cut to {length} tokens, of which there are {vocabulary}")
        train, val, test = (_samples(encode, *parts[part]) for part in ("train", "val", "test"))
        return DataBundle(train, val, test, len(names), names, _format(length, vocabulary), notes=notes)


def _rows(path: Path) -> tuple[dict[str, Labelled], list[str]]:
    where = f"data 'csv:{path}'"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{where} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    reader = csv.DictReader(text.splitlines(keepends=True), skipinitialspace=True)
    reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
    if missing := {"text", "label"} - {*reader.fieldnames}:
        raise InputError(f"{where} has no column {' and '.join(sorted(missing))}; expected text and label")
    found: dict[str, tuple[list[str], list[str]]] = {}
    for row in reader:
        part = (row.get("split") or "train").strip().lower()
        if part not in ("train", "val", "test"):
            raise InputError(f"{where}, line {reader.line_num}: split {part!r}; expected train, val or test")
        if not (row["label"] or "").strip():
            raise InputError(f"{where}, line {reader.line_num}: the label is empty")
        texts, labels = found.setdefault(part, ([], []))
        texts.append(row["text"] or "")
        labels.append(row["label"].strip())
    if not found.get("train"):
        raise InputError(f"{where} has no rows to train on")
    names = sorted({label for _, labels in found.values() for label in labels})
    counts = Counter(found["train"][1])
    needed = 4 - len(found)  # one for each part that is split off, and one that stays
    if len(names) < 2:
        raise InputError(f"{where} has one class only, {names[0]!r}; a classifier needs at least two")
    for name in names:
        if counts[name] < needed:
            raise InputError(f"{where}: class {name!r} has {counts[name]} training rows; expected at least {needed}")
    return {part: (texts, [names.index(label) for label in labels]) for part, (texts, labels) in found.items()}, names


def _split(part: Labelled, share: float, seed: int, purpose: str) -> tuple[Labelled, Labelled]:
    texts, labels = part
    places = Samples(torch.arange(len(texts)), torch.tensor(labels))
    rest, taken = split_by_seed(places, share, seed, purpose)

    def chosen(samples: Samples) -> Labelled:
        assert isinstance(samples.inputs, torch.Tensor)
        return [texts[index] for index in samples.inputs.tolist()], samples.labels.tolist()

    return chosen(rest), chosen(taken)


def _titles(path: Path, classes: int) -> Labelled:
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
    try:
        return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except UnicodeDecodeError:
        raise InputError(f"{path} cannot be read: not UTF-8 text") from None


def _vocabulary(texts: Any) -> list[str]:
    """The tokens of the training texts, the most frequent first; equal ones in the order of the alphabet."""
    counts = Counter(token for text in texts for token in text)
    return sorted(counts, key=lambda token: (-counts[token], token))[:MOST_WORDS]


def _ids(tokens: Sequence[str]) -> dict[str, int]:
    """Token → id. A vocabulary that names its own <PAD> and <UNK> has them at 0 and 1 here like any other."""
    words = [token for token in tokens if token not in ("<PAD>", "<UNK>")]
    return {"<PAD>": PADDING, "<UNK>": UNKNOWN, **{word: index for index, word in enumerate(words, 2)}}


def _encoder(
    tokens: Sequence[str], cut: Callable[[str], list[str]], length: int
) -> Callable[[Sequence[str]], torch.Tensor]:
    ids = _ids(tokens)

    def encode(texts: Sequence[str]) -> torch.Tensor:
        encoded = np.full((len(texts), length), PADDING, np.int64)
        for row, text in enumerate(texts):
            found = [ids.get(token, UNKNOWN) for token in cut(text)[:length]]
            encoded[row, : len(found)] = found
        return torch.from_numpy(encoded)

    return encode


def _huggingface(name: str, length: int) -> tuple[Callable[[Sequence[str]], torch.Tensor], int]:
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise InputError(f"tokenizer {name!r} needs transformers: pip install 'durm[transformers]'") from None
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
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
    with np.load(files[0], allow_pickle=False) as content:
        vectors = torch.from_numpy(content[content.files[0]].astype(np.float32))
    if len(vectors) != len(tokens):
        raise InputError(f"{files[0]} has {len(vectors)} vectors; expected {len(tokens)}, as vocab.txt has tokens")
    row = {token: index for index, token in enumerate(tokens)}
    missing = torch.zeros(vectors.shape[1])
    return torch.stack([vectors[row[token]] if token in row else missing for token in _ids(tokens)])


def _samples(encode: Callable[[Sequence[str]], torch.Tensor], texts: list[str], labels: list[int]) -> Samples:
    return Samples(encode(texts), torch.tensor(labels))


def _format(length: int, vocabulary: int, embedding: torch.Tensor | None = None) -> InputFormat:
    return InputFormat((length,), torch.zeros(1), torch.ones(1), vocabulary, embedding)


LOADERS.register("thucnews")(ThucNews())
LOADERS.register("csv")(Csv())
