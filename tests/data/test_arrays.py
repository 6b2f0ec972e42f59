"""Arrays in an .npz file: what is read, what is split off, and everything that can be wrong with such a file."""

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from durm.data import load
from durm.errors import InputError

Arrays = dict[str, np.ndarray]


def good(shape: tuple[int, ...] = (4,), dtype: str = "float32") -> Arrays:
    random = np.random.default_rng(0)
    return {
        "x_train": (100 * random.random((40, *shape))).astype(dtype),
        "y_train": np.arange(40) % 2,
        "x_test": (100 * random.random((10, *shape))).astype(dtype),
        "y_test": np.arange(10) % 2,
    }


def save(path: Path, arrays: Arrays) -> str:
    np.savez(path / "data.npz", **arrays)
    return f"arrays:{path / 'data.npz'}"


@pytest.mark.parametrize(
    ("shape", "read"), [((4,), (4,)), ((6, 5), (1, 6, 5)), ((3, 6, 5), (3, 6, 5))], ids=["flat", "grey", "colour"]
)
def test_the_three_shapes_of_samples(shape: tuple[int, ...], read: tuple[int, ...], tmp_path: Path) -> None:
    arrays = good(shape)
    data = load(save(tmp_path, arrays), seed=0)
    assert data.input.shape == read
    assert np.array_equal(data.test.inputs.numpy(), arrays["x_test"].reshape(10, *read))
    assert data.test.labels.tolist() == arrays["y_test"].tolist()
    assert (data.num_classes, data.class_names) == (2, ["0", "1"])
    assert data.augment == "none"


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float16", "float32", "float64", "bool"])
def test_bytes_stay_bytes_and_other_numbers_become_floats(dtype: str, tmp_path: Path) -> None:
    arrays = good(dtype=dtype)
    inputs = load(save(tmp_path, arrays), seed=0).test.inputs
    assert inputs.dtype == (torch.uint8 if dtype == "uint8" else torch.float32)
    np.testing.assert_array_equal(inputs.numpy(), arrays["x_test"].astype("float32"))


def test_a_validation_set_of_one_s_own_is_kept(tmp_path: Path) -> None:
    arrays = good()
    arrays |= {"x_val": arrays["x_test"] + 1, "y_val": arrays["y_test"]}
    for seed in (0, 1):
        data = load(save(tmp_path, arrays), seed=seed)
        assert np.array_equal(data.train.inputs.numpy(), arrays["x_train"])
        assert np.array_equal(data.val.inputs.numpy(), arrays["x_val"])
        assert data.notes == []


def test_without_one_a_tenth_of_each_class_is_split_off_by_seed(tmp_path: Path) -> None:
    arrays = good()
    name = save(tmp_path, arrays)
    first, again, other = (load(name, seed=seed) for seed in (0, 0, 1))
    assert torch.bincount(first.val.labels).tolist() == [2, 2]
    assert torch.bincount(first.train.labels).tolist() == [18, 18]
    together = np.concatenate([first.train.inputs.numpy(), first.val.inputs.numpy()])
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, arrays["x_train"].tolist()))
    assert torch.equal(first.val.inputs, again.val.inputs)
    assert not torch.equal(first.val.inputs, other.val.inputs)
    assert np.array_equal(other.test.inputs.numpy(), arrays["x_test"])
    assert "10 %" in first.notes[0]


def test_a_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    arrays = good()
    name = save(tmp_path, arrays)
    before = load(name, seed=0).fingerprint
    arrays["x_test"][3, 2] += 1
    save(tmp_path, arrays)
    os.utime(tmp_path / "data.npz", (1, 1))
    assert load(name, seed=0).fingerprint != before


# Wrong content.

SHAPES = "expected (N, features), (N, height, width) or (N, channels, height, width), and (N,)"

CONTENTS: dict[str, tuple[Arrays, str]] = {
    "texts": ({"x_train": np.array([["a"]] * 40)}, "x_train must hold numbers and y_train integers, not <U1 and int64"),
    "complex": ({"x_test": np.zeros((10, 4), complex)}, "x_test must hold numbers and y_test integers, not complex128"),
    "objects": ({"x_train": np.array([None] * 40)}, "cannot be read as an .npz file"),
    "float labels": ({"y_train": np.arange(40) % 2 / 1}, "y_train integers, not float32 and float64"),
    "boolean labels": ({"y_test": np.arange(10) > 4}, "y_test integers, not float32 and bool"),
    "negative label": ({"y_train": np.arange(40) % 2 - 1}, "y_train holds the label -1; labels count from 0"),
    "label beyond 64 bit": (
        {"y_train": np.arange(40, dtype=np.uint64) % np.uint64(2) * np.uint64(2**63)},
        "9223372036854775808",
    ),
    "class without training samples": ({"y_train": np.arange(40) % 2 * 3}, "class 1"),
    "class of the test set only": ({"y_test": np.arange(10) % 3}, "class 2"),
    "one class": ({"y_train": np.zeros(40, int)}, "has one class only in y_train; a classifier needs at least two"),
    "NaN": ({"x_train": np.full((40, 4), np.nan)}, "x_train holds NaN or infinite values"),
    "infinity": ({"x_test": np.full((10, 4), np.inf)}, "x_test holds NaN or infinite values"),
    "infinite in 32 bit": ({"x_train": np.full((40, 4), 1e300)}, "x_train holds NaN or infinite values"),
    "fewer labels": ({"y_train": np.arange(39) % 2}, f"x_train of shape (40, 4) and y_train of shape (39,); {SHAPES}"),
    "labels in a column": ({"y_train": np.zeros((40, 1), int)}, f"y_train of shape (40, 1); {SHAPES}"),
    "no features": (
        {"x_train": np.zeros((40, 0)), "x_test": np.zeros((10, 0))},
        f"x_train of shape (40, 0) and y_train of shape (40,); {SHAPES}",
    ),
    "a number for each sample": (
        {"x_train": np.zeros(40)},
        f"x_train of shape (40,) and y_train of shape (40,); {SHAPES}",
    ),
    "five axes": ({"x_train": np.zeros((40, 1, 2, 3, 4))}, "x_train of shape (40, 1, 2, 3, 4) and"),
    "no samples": ({"x_test": np.zeros((0, 4)), "y_test": np.zeros(0, int)}, "x_test of shape (0, 4) and"),
    "different shapes": ({"x_test": np.zeros((10, 5))}, "has samples of different shapes: [(4,), (5,)]"),
    "half a validation set": ({"x_val": np.zeros((10, 4))}, "lacks y_val; it holds x_test, x_train, x_val, y_test"),
    "one sample of each class": ({"x_train": np.zeros((2, 4)), "y_train": np.arange(2)}, "validation"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_wrong_content_is_named(name: str, tmp_path: Path) -> None:
    changes, message = CONTENTS[name]
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        load(save(tmp_path, good() | changes), seed=0)
    assert str(tmp_path / "data.npz") in str(refusal.value)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (["x_train", "y_train"], "lacks x_test and y_test; it holds x_train, y_train"),
        (["x_train", "x_test", "y_test"], "lacks y_train; it holds x_test, x_train, y_test"),
        ([], "lacks x_train and y_train; it holds nothing"),
    ],
)
def test_missing_arrays_are_named(held: list[str], message: str, tmp_path: Path) -> None:
    arrays = good()
    with pytest.raises(InputError, match=re.escape(message)):
        load(save(tmp_path, {name: arrays[name] for name in held}), seed=0)


# LazyImages that are none.


def npy(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def bent(path: Path) -> None:
    """Compressed arrays, some bytes of which have changed on the way."""
    np.savez_compressed(path, **good())
    content = bytearray(path.read_bytes())
    for index in range(80, 200):
        content[index] ^= 255
    path.write_bytes(content)


def cut(path: Path) -> None:
    np.savez(path, **good())
    path.write_bytes(path.read_bytes()[:-200])


def zip_of_texts(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "hello")


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "there is no such file"),
    "folder": (lambda path: path.mkdir(), "there is no such file"),
    "empty": (lambda path: path.write_bytes(b""), "cannot be read as an .npz file"),
    "text": (lambda path: path.write_text("hello"), "cannot be read as an .npz file"),
    "half a zip": (lambda path: path.write_bytes(b"PK\x03\x04hello"), "cannot be read as an .npz file"),
    "npy": (npy, "lacks x_train and y_train; it holds nothing"),
    "bent": (bent, "cannot be read as an .npz file"),
    "cut": (cut, "cannot be read as an .npz file"),
    "zip of texts": (zip_of_texts, "lacks x_train and y_train; it holds readme.txt"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_npz_is_refused(name: str, tmp_path: Path) -> None:
    write, message = FILES[name]
    path = tmp_path / "data.npz"
    write(path)
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        load(f"arrays:{path}", seed=0)
    assert f"data 'arrays:{path}'" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_with_code_in_it_does_not_run_it(tmp_path: Path) -> None:
    class Code:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(tmp_path / "ran"),)

    np.savez(tmp_path / "data.npz", x_train=np.array([Code()], dtype=object))
    with pytest.raises(InputError, match=r"cannot be read as an \.npz file"):
        load(f"arrays:{tmp_path / 'data.npz'}", seed=0)
    assert not (tmp_path / "ran").exists()
