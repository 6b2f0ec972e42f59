"""The content of data: against hashes of the standard library, on real files that are changed, added and removed."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from durm.data import DataOptions, load, manifest
from durm.data.manifest import Cache, changes, content_name, manifest_of, manifest_of_files
from durm.errors import InputError
from tests.data.images import fill, write
from tests.data.masks import fill_scenes
from tests.data.samples import SAMPLES, write_sample


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read from now on, which are old enough for the cache."""
    read: list[str] = []
    original = manifest.hash_file

    def hash_file(path: str) -> str:
        read.append(Path(path).name)
        return original(path)

    monkeypatch.setattr(manifest, "hash_file", hash_file)
    monkeypatch.setattr(manifest, "FRESH_NANOSECONDS", -(10**12))
    return read


def make(root: Path, **content: bytes) -> Path:
    for name, value in content.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    return root


def test_hashes_are_those_of_the_system_tool(tmp_path: Path) -> None:
    root = make(tmp_path / "data", one=b"1", a__two=b"22", a__b__three=os.urandom(3_000_000), empty=b"")
    found = manifest_of_files(root)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    printed = subprocess.run(["sha256sum", *names], cwd=root, capture_output=True, text=True, check=True).stdout
    expected = {line[66:]: line[:64] for line in printed.splitlines()}
    assert {path: sha256 for path, (_, sha256) in found.read_files().items()} == expected
    lines = [f"{expected[name]} {(root / name).stat().st_size} {name}\n" for name in names]
    assert found.sha256 == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert (found.files, found.bytes) == (4, 3_000_003)


def test_moving_and_touching_change_nothing(tmp_path: Path) -> None:
    root = make(tmp_path / "data", a__one=b"1", a__two=b"22")
    before = manifest_of_files(root).sha256
    shutil.copytree(root, tmp_path / "copy")
    os.utime(root / "a" / "one", (1, 1))
    assert manifest_of_files(tmp_path / "copy").sha256 == manifest_of_files(root).sha256 == before


def test_content_names_and_places_count(tmp_path: Path) -> None:
    folders = [
        make(tmp_path / "0", a__x=b"1", a__y=b"2"),
        make(tmp_path / "1", a__x=b"2", a__y=b"1"),
        make(tmp_path / "2", a__x=b"1", b__y=b"2"),
        make(tmp_path / "3", a__x=b"1", a__y=b"2", a__z=b""),
        make(tmp_path / "4", a__x=b"1"),
    ]
    assert len({manifest_of_files(folder).sha256 for folder in folders}) == 5


def test_the_second_time_nothing_is_read_and_then_only_what_changed(tmp_path: Path, hashed: list[str]) -> None:
    root = make(tmp_path / "data", one=b"1", a__two=b"22", a__three=b"333")
    first = manifest_of_files(root)
    assert sorted(hashed) == ["one", "three", "two"]
    hashed.clear()
    second = manifest_of_files(root)
    assert (second.sha256, second.files, second.bytes) == (first.sha256, 3, 6)
    assert second.read_files() == first.read_files()
    assert hashed == []
    (root / "a" / "two").write_bytes(b"2!")
    third = manifest_of_files(root)
    assert hashed == ["two"]
    assert changes(first.read_files(), third.read_files()) == "changed: a/two"


def test_a_change_that_keeps_size_and_mtime_is_seen(tmp_path: Path, hashed: list[str]) -> None:
    path = make(tmp_path / "data", one=b"1234") / "one"
    before, times = manifest_of_files(path.parent), path.stat()
    path.write_bytes(b"4321")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert manifest_of_files(path.parent).sha256 != before.sha256
    other = make(tmp_path / "other", one=b"abcd") / "one"  # another inode
    before, times = manifest_of_files(path.parent), path.stat()
    other.replace(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert manifest_of_files(path.parent).sha256 != before.sha256


def test_files_that_were_written_just_now_are_not_cached(
    tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "FRESH_NANOSECONDS", 10**18)
    root = make(tmp_path / "data", one=b"1")
    manifest_of_files(root)
    manifest_of_files(root)
    assert hashed == ["one", "one"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]\n[]\n", b'{"signature": 1}\n{"one": 3}\n', b"\xff\n\xff"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, content: bytes) -> None:
    root = make(tmp_path / "data", one=b"1")
    expected = manifest_of_files(root)
    Cache(root).path.write_bytes(content)
    assert manifest_of_files(root).sha256 == expected.sha256


def test_without_a_place_for_the_cache_this_process_remembers(
    tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DURM_CACHE", str(make(tmp_path, file=b"") / "file"))
    root = make(tmp_path / "data", one=b"1")
    first = manifest_of_files(root)
    assert manifest_of_files(root).sha256 == first.sha256
    assert hashed == ["one"]


def test_hidden_files_pipes_dead_links_and_studies_are_no_data(tmp_path: Path) -> None:
    root = make(tmp_path / "data", a__one=b"1")
    before = manifest_of_files(root)
    make(root, **{".hidden": b"x", "a__.cache__x": b"x", "runs__s__study.yaml": b"", "runs__s__result.json": b"{}"})
    os.mkfifo(root / "a" / "pipe")
    (root / "a" / "dead").symlink_to("nowhere")
    (root / "a" / "up").symlink_to(root)  # a circle
    assert manifest_of_files(root).read_files() == before.read_files()


def test_links_to_folders_are_followed(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere", one=b"1")
    root = make(tmp_path / "data", b__two=b"2")
    (root / "a").symlink_to(tmp_path / "elsewhere")
    assert sorted(manifest_of_files(root).read_files()) == ["a/one", "b/two"]


def test_names_that_are_no_text_and_names_with_newlines(tmp_path: Path) -> None:
    root = make(tmp_path / "data", one=b"1")
    (root / "a\nb").write_bytes(b"2")
    if sys.platform == "linux":
        Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_bytes(b"3")
    found = manifest_of_files(root)
    assert found.files == 2 + (sys.platform == "linux")
    assert manifest_of_files(root).sha256 == found.sha256


def test_changes_name_the_first_files() -> None:
    before = dict.fromkeys("abcdefg", (1, "0"))
    after = {"g": (1, "0"), "f": (1, "1"), "e": (2, "0"), "new": (0, "0")}
    assert changes(before, after) == "changed: e, f; removed: a, b, c and 1 more; added: new"
    assert changes(before, before) == ""


def write_arrays(path: Path, shift: float = 0.0) -> str:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(30, 4)).astype(np.float32), np.arange(30) % 3
    np.savez(path, x_train=x + np.float32(shift), y_train=y, x_test=x, y_test=y)
    return f"arrays:{path}"


def test_arrays_and_what_is_derived_from_them(tmp_path: Path) -> None:
    name = write_arrays(tmp_path / "toy.npz")
    before = manifest_of(name)
    assert [*before.read_files()] == ["toy.npz"]
    for derived in (f"subset:samples=3:{name}", f"longtail:2:{name}", f"longtail:2:subset:samples=5:{name}"):
        assert content_name(derived) == name
        assert manifest_of(derived).sha256 == before.sha256
    write_arrays(tmp_path / "toy.npz", shift=1.0)
    assert manifest_of(f"longtail:2:{name}").sha256 != before.sha256


def test_text_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("text,label\n" + "good,1\nbad,0\n" * 10)
    before = manifest_of(f"csv:{path}").sha256
    path.write_text("text,label\n" + "fine,1\nbad,0\n" * 10)
    assert manifest_of(f"csv:{path}").sha256 != before


def test_of_class_folders_the_files_in_them_count(tmp_path: Path) -> None:
    name = fill(tmp_path / "shots", {"cat": 6, "dog": 6})
    before = manifest_of(name)
    assert before.files == 12
    make(tmp_path / "shots", **{"study.yaml": b"seeds: 3", "README": b"mine"})
    assert manifest_of(name).sha256 == before.sha256
    write(tmp_path / "shots" / "cat" / "0003.png", 99)
    after = manifest_of(name)
    assert changes(before.read_files(), after.read_files()) == "changed: cat/0003.png"


def test_domains_share_their_content(tmp_path: Path) -> None:
    root = tmp_path / "shots"
    fill(root, {f"{domain}/{kind}": 3 for domain in ("day", "night") for kind in ("cat", "dog")})
    day, night = (f"domains:{root}:{domain}" for domain in ("day", "night"))
    assert content_name(day) == content_name(night) == f"domains:{root}"
    before = manifest_of(day)
    assert (before.files, manifest_of(night).sha256) == (12, before.sha256)
    write(root / "night" / "dog" / "new.png", 99)
    assert changes(before.read_files(), manifest_of(day).read_files()) == "added: night/dog/new.png"


def test_of_scenes_images_masks_and_classes_count(tmp_path: Path) -> None:
    root = tmp_path / "scenes"
    name = fill_scenes(root, {"": 5})
    before = manifest_of(name)
    assert before.files == 10
    make(root, predictions__x=b"x", notes=b"x")
    assert manifest_of(name).sha256 == before.sha256
    make(root, **{"classes.txt": b"a\nb\nc\n"})
    assert manifest_of(name).files == 11
    mask = next((root / "masks").iterdir())
    mask.unlink()
    assert changes(before.read_files(), manifest_of(name).read_files()) == (
        f"removed: masks/{mask.name}; added: classes.txt"
    )


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_published_sets(name: str, tmp_path: Path) -> None:
    write_sample(name, tmp_path / "data")
    options = DataOptions(tmp_path / "data")
    before = manifest_of(name, options)
    assert before.files > 0
    path = max(
        (path for path in (tmp_path / "data").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    shutil.move(tmp_path / "data", tmp_path / "moved")
    after = manifest_of(name, DataOptions(tmp_path / "moved"))
    assert changes(before.read_files(), after.read_files()).startswith("changed: ")


def test_data_in_memory_have_a_hash_of_their_samples() -> None:
    digits = manifest_of("digits")
    assert digits.sha256 == manifest_of("subset:samples=20:digits").sha256
    assert (digits.files, digits.read_files()) == (0, {})
    assert digits.bytes == 1797 * (64 + 8)
    rotated, noisy = (manifest_of(f"digits-domains:{domain}").sha256 for domain in ("rotated", "noisy"))
    assert len({digits.sha256, rotated, noisy}) == 3


def test_data_that_are_not_there_are_refused_as_by_their_loader(tmp_path: Path) -> None:
    for name in (f"arrays:{tmp_path}/none.npz", f"folder:{tmp_path}/none", f"csv:{tmp_path}/none.csv", "cifar10"):
        options = DataOptions(tmp_path)
        with pytest.raises(InputError) as expected:
            load(name, seed=0, options=options)
        with pytest.raises(InputError) as found:
            manifest_of(name, options)
        assert str(found.value) == str(expected.value)


def test_a_changed_image_is_read_again_by_the_next_trial(tmp_path: Path) -> None:
    name = fill(tmp_path, {"cat": 6, "dog": 6})
    before = load(name, seed=0).fingerprint
    write(tmp_path / "cat" / "0003.png", 99)  # the folder itself is as it was
    assert load(name, seed=0).fingerprint != before
