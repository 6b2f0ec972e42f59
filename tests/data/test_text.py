"""Text: ids by hand, both formats, damaged files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from durm.data import DataOptions, load
from durm.errors import InputError


def write_thucnews(root: Path, *, vocabulary: bool = False) -> Path:
    folder = root / "THUCNews" / "data"
    folder.mkdir(parents=True)
    (folder / "class.txt").write_text("money\nsport\n", encoding="utf-8")
    (folder / "train.txt").write_text("股市 涨\t0\n球球赛\t1\n股\t0\n", encoding="utf-8")
    (folder / "dev.txt").write_text("股球\t1\n", encoding="utf-8")
    (folder / "test.txt").write_text("未知股\t0\n" + "球" * 40 + "\t1\n", encoding="utf-8")
    if vocabulary:
        (folder / "vocab.txt").write_text("球\n股\n<UNK>\n<PAD>\n", encoding="utf-8")
        vectors = np.array([[1, 1], [2, 2], [3, 3], [4, 4]], np.float64)
        np.savez(folder / "embedding_Made.npz", embeddings=vectors)
    return folder


def test_titles_become_ids_by_frequency(tmp_path: Path) -> None:
    """球 and 股 occur twice and come first, in the order of their code points; the rest once, the space among them."""
    write_thucnews(tmp_path)
    bundle = load("thucnews", seed=0, options=DataOptions(tmp_path))
    order = [*sorted("球股"), *sorted("市 涨赛")]
    ids = {character: index for index, character in enumerate(order, 2)}
    assert isinstance(bundle.train.inputs, torch.Tensor)
    assert isinstance(bundle.test.inputs, torch.Tensor)
    assert bundle.train.inputs.shape == (3, 32)
    assert bundle.train.inputs[0].tolist() == [ids[c] for c in "股市 涨"] + [0] * 28
    assert bundle.test.inputs[0].tolist() == [1, 1, ids["股"]] + [0] * 29
    assert bundle.test.inputs[1].tolist() == [ids["球"]] * 32
    assert bundle.train.labels.tolist() == [0, 1, 0]
    assert bundle.class_names == ["money", "sport"]
    assert bundle.input.vocabulary == 8
    assert bundle.input.normalise(bundle.train.inputs).dtype == torch.int64


def test_the_vocabulary_and_the_vectors_of_the_data_set_are_used(tmp_path: Path) -> None:
    write_thucnews(tmp_path, vocabulary=True)
    bundle = load("thucnews", seed=0, options=DataOptions(tmp_path))
    assert isinstance(bundle.train.inputs, torch.Tensor)
    assert bundle.train.inputs[0].tolist()[:4] == [3, 1, 1, 1]
    assert bundle.input.embedding is not None
    assert bundle.input.embedding.tolist() == [[4, 4], [3, 3], [1, 1], [2, 2]]  # <PAD>, <UNK>, 球, 股


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train.txt", b"no label\n", r"train.txt, line 1: expected a title, a tab and a label from 0 to 1"),
        ("dev.txt", "好\t0\n好\t2\n".encode(), r"dev.txt, line 2: expected"),
        ("test.txt", b"", r"test.txt is empty"),
        ("test.txt", b"\xff\xfe\t0\n", r"test.txt cannot be read: not UTF-8"),
    ],
)
def test_wrong_lines_are_named(file: str, content: bytes, message: str, tmp_path: Path) -> None:
    (write_thucnews(tmp_path) / file).write_bytes(content)
    with pytest.raises(InputError, match=message):
        load("thucnews", seed=0, options=DataOptions(tmp_path))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train.txt, dev.txt, test.txt and 1 more not found in .*THUCNews"):
        load("thucnews", seed=0, options=DataOptions(tmp_path))


def test_an_embedding_of_another_size_is_refused(tmp_path: Path) -> None:
    folder = write_thucnews(tmp_path, vocabulary=True)
    np.savez(folder / "embedding_Made.npz", embeddings=np.zeros((3, 2)))
    with pytest.raises(InputError, match="has 3 vectors; expected 4"):
        load("thucnews", seed=0, options=DataOptions(tmp_path))


# CSV.


def write_csv(folder: Path, *, parts: bool = False) -> str:
    lines = ["text,label" + (",split" if parts else "")]
    for index in range(40):
        part = f",{('train', 'train', 'val', 'test')[index % 4]}" if parts else ""
        lines.append(f'"Good, number {index}!",fine{part}')
        lines.append(f"bad thing {index},poor{part}")
    path = folder / "mine.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return f"csv:{path}"


def test_a_csv_is_split_by_seed(tmp_path: Path) -> None:
    name = write_csv(tmp_path)
    bundle = load(name, seed=0)
    assert (len(bundle.train), len(bundle.val), len(bundle.test)) == (58, 6, 16)
    assert bundle.class_names == ["fine", "poor"]
    assert bundle.fingerprint == load(name, seed=0).fingerprint != load(name, seed=1).fingerprint


def test_a_csv_may_bring_its_split(tmp_path: Path) -> None:
    bundle = load(write_csv(tmp_path, parts=True), seed=0)
    assert (len(bundle.train), len(bundle.val), len(bundle.test)) == (40, 20, 20)
    assert bundle.input.shape == (5,)  # good , number 12 !


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column label and text"),
        ("text\nx\n", "no column label;"),
        ("text,label\n", "no rows"),
        ("text,label\na,x\nb,x\nc,x\nd,x\n", "one class only, 'x'"),
        ("text,label\na,x\nb,x\nc,x\nd,y\n", "class 'y' has 1 training rows; expected at least 3"),
        ("text,label\na,\n", "line 2: the label is empty"),
        ("text,label,split\na,x,dev\n", "line 2: split 'dev'; expected train, val or test"),
    ],
)
def test_a_wrong_csv_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        load(f"csv:{tmp_path / 'mine.csv'}", seed=0)


def test_a_missing_csv_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load(f"csv:{tmp_path / 'none.csv'}", seed=0)
