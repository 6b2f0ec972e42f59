"""What loaders of files have in common: files are read once, and again when they have changed; bad ones are named."""

import os
from pathlib import Path

import pytest
import torch

from durm.data import DataOptions
from durm.data.bundle import Samples
from durm.data.reading import FileLoader, ReadData, Unreadable, read_all, readable
from durm.errors import InputError


class Lines(FileLoader):
    """A number a line; the class is whether it is odd."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, source: Path, options: DataOptions) -> ReadData:
        self.reads += 1
        numbers = torch.tensor([int(line) for line in source.read_text().split()])
        return ReadData({"train": Samples(numbers[:, None], numbers % 2)}, ["even", "odd"])


def test_a_file_is_read_once_for_all_seeds_and_again_when_it_has_changed(tmp_path: Path) -> None:
    path, lines = tmp_path / "numbers.txt", Lines()
    path.write_text("\n".join(map(str, range(20))))
    first, second = (lines(str(path), seed, DataOptions()) for seed in (0, 1))
    assert lines.reads == 1
    assert first.fingerprint != second.fingerprint
    path.write_text("\n".join(map(str, range(40))))
    os.utime(path, (0, path.stat().st_mtime + 10))
    changed = lines(str(path), 0, DataOptions())
    assert lines.reads == 2
    assert sum(map(len, (changed.train, changed.val, changed.test))) == 40


def _number(path: Path) -> int:
    with readable(path, "a number"):
        return int(path.read_text())


def test_bad_files_are_named_in_order_and_the_others_are_read(tmp_path: Path) -> None:
    contents = {"a": "1", "b": "two", "c": "3", "d": ""}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    paths = [tmp_path / name for name in contents]
    found, bad = read_all(_number, paths)
    assert found == {tmp_path / "a": 1, tmp_path / "c": 3}
    assert [str(error).partition(" cannot be read as a number: ")[0] for error in bad] == list(map(str, paths[1::2]))
    assert read_all(_number, paths, keep=False)[0] == {tmp_path / "a": None, tmp_path / "c": None}


def test_an_error_without_words_is_named_by_its_kind(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="cannot be read as a sound: ValueError"), readable(tmp_path, "a sound"):
        raise ValueError
    with pytest.raises(InputError, match="as it was") as kept, readable(tmp_path, "a sound"):
        raise InputError("as it was")
    assert not isinstance(kept.value, Unreadable)
