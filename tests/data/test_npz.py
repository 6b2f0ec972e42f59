"""Files that lie about their size are refused before anything is allocated."""

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from durm.data.npz import read_npz
from tests.cli.calling import call, refusal


def header(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read_as_numpy_reads_it(save, tmp_path: Path) -> None:
    arrays = {
        "zeros": np.zeros((500, 500)),  # which compresses by nearly as much as is possible
        "numbers": np.asfortranarray(np.random.default_rng(0).normal(size=(3, 4))),
        "one": np.array(3),
        "none": np.zeros((0, 5), np.uint8),
        "words": np.array(["a", "ü"]),
        "fields": np.zeros(2, [("größe", "f4")]),  # version 3 of the format
    }
    save(tmp_path / "a.npz", **arrays)
    with np.load(tmp_path / "a.npz") as expected:
        for found in (read_npz(tmp_path / "a.npz"), read_npz((tmp_path / "a.npz").read_bytes())):
            assert list(found) == list(arrays)
            for name in arrays:
                np.testing.assert_array_equal(found[name], expected[name])
                assert found[name].dtype == expected[name].dtype


def lying_directory() -> bytes:
    """An honest header of 8 GB, and a directory which says that so much is there."""
    content = bytearray(archive({"x.npy": header((10**9,))}))
    size = (8 * 10**9 % 2**32).to_bytes(4, "little")
    place = content.rindex(b"PK\x01\x02")
    content[place + 24 : place + 28] = size
    return bytes(content)


LIES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "a terabyte": (archive({"x.npy": header((10**6, 125_000)) + bytes(80)}), ("x.npy", "(1000000, 125000)", "80")),
    "more than any number of 64 bits": (archive({"x.npy": header((2**62, 2**62))}), ("x.npy",)),
    "fewer than none": (archive({"x.npy": header((-1, 8)) + bytes(64)}), ("x.npy", "-1")),
    "one byte short": (archive({"x.npy": header((3,), "|u1") + bytes(2)}), ("x.npy", "3", "2")),
    "in the directory": (lying_directory(), ("x.npy", "not in the file")),
    "code": (archive({"x.npy": header((1,), "|O") + b"cos\nsystem\n"}), ("allow_pickle",)),
    "no zip": (b"PK\x03\x04 and nothing more", ("zip",)),
    "nothing": (b"", ("zip",)),
}


@pytest.mark.parametrize("name", LIES)
def test_a_file_that_lies_is_refused(name: str) -> None:
    content, fragments = LIES[name]
    with pytest.raises(ValueError, match=".*".join(map(re.escape, fragments))):
        read_npz(content)


def test_what_does_not_fit_into_memory_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    content = archive({"x.npy": header((1000, 1000)) + bytes(8 * 10**6)}, zipfile.ZIP_DEFLATED)
    monkeypatch.setattr("durm._memory.machine_bytes", lambda: 7 * 10**6)
    with pytest.raises(ValueError, match=r"8\.0 MB.*7\.0 MB"):
        read_npz(content)


@pytest.mark.parametrize("command", ["train --data", "data check", "compare --data"])
def test_the_command_line_refuses_it_in_one_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_bytes(archive({"x_train.npy": header((10**6, 10**6)) + bytes(80)}))
    line = refusal(call(*command.split(), f"arrays:{tmp_path / 'data.npz'}"))
    assert "data.npz" in line
    assert "x_train.npy" in line
    assert "(1000000, 1000000)" in line
