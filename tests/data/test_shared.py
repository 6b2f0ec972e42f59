"""Decoded samples are in memory once, whatever the number of processes, and are what the loaders read."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from durm.data import arrays, load, manifest, reading, shared
from durm.data.bundle import DataBundle, InputFormat, MappedRows, ReadData, Samples, sample_keys
from durm.training.loaders import TrainLoader


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shared, "SMALLEST", 1)
    monkeypatch.setattr(manifest, "FRESH_NANOSECONDS", -(10**12))  # files are old enough at once
    reading._read.cache_clear()


def write_arrays(path: Path, samples: int = 40, seed: int = 0) -> str:
    random = np.random.default_rng(seed)
    parts = {}
    for part in ("train", "test"):
        parts[f"x_{part}"] = random.integers(0, 256, (samples, 3, 8, 8), dtype=np.uint8)
        parts[f"y_{part}"] = np.arange(samples) % 4
    np.savez(path, **parts)
    return f"arrays:{path}"


def write_images(root: Path) -> str:
    random = np.random.default_rng(1)
    for domain in ("one", "two", "three"):
        for label in ("a", "b"):
            folder = root / domain / label
            folder.mkdir(parents=True)
            for number in range(6):
                Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return f"domains:{root}:three"


def unshared(name: str, monkeypatch: pytest.MonkeyPatch) -> DataBundle:
    with monkeypatch.context() as patch:
        patch.setattr(shared, "SMALLEST", 2**60)
        patch.setenv("DURM_CACHE", "/nowhere")
        reading._read.cache_clear()
        bundle = load(name, seed=3)
    reading._read.cache_clear()
    assert isinstance(bundle.train.inputs, torch.Tensor)
    return bundle


@pytest.mark.parametrize("write", [lambda path: write_arrays(path / "data.npz"), lambda path: write_images(path / "d")])
def test_mapped_samples_are_those_that_were_read(
    write: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (write(tmp_path), f"subset:samples=4:{write_arrays(tmp_path / 'more.npz')}"):
        plain = unshared(name, monkeypatch)
        for _ in range(2):  # written, and then found
            reading._read.cache_clear()
            bundle = load(name, seed=3)
            for part in ("train", "val", "test"):
                ours, theirs = getattr(bundle, part), getattr(plain, part)
                assert isinstance(ours.inputs, MappedRows)
                assert torch.equal(ours.inputs.whole(), theirs.inputs)
                assert torch.equal(ours.inputs[1], theirs.inputs[1])
                assert torch.equal(ours.labels, theirs.labels)
                assert sample_keys(ours) == sample_keys(theirs)
            assert torch.equal(bundle.input.mean, plain.input.mean)
            assert torch.equal(bundle.input.std, plain.input.std)
            assert (bundle.input.shape, bundle.input.pixel_max) == (plain.input.shape, plain.input.pixel_max)
            assert (bundle.fingerprint, bundle.notes, bundle.class_names) == (
                plain.fingerprint,
                plain.notes,
                plain.class_names,
            )
            for augment in ("none", "crop-flip"):
                for mine, other in zip(batches(bundle, augment), batches(plain, augment), strict=True):
                    assert torch.equal(mine, other)


def batches(bundle: DataBundle, augment: str) -> list[torch.Tensor]:
    return [batch.inputs for batch in TrainLoader(bundle.train, bundle.input, augment, 4, seed=1).epoch(0)]


def test_nothing_is_read_again_until_the_content_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, read = write_arrays(tmp_path / "data.npz"), []
    plain = arrays.read_npz
    monkeypatch.setattr(arrays, "read_npz", lambda path: read.append(path) or plain(path))
    for seed in (0, 1):
        reading._read.cache_clear()
        load(name, seed=seed)
    assert len(read) == 1
    write_arrays(tmp_path / "data.npz", seed=1)
    changed = load(name, seed=0).train.inputs
    assert len(read) == 2
    assert isinstance(changed, MappedRows)
    (tmp_path / "data.npz").rename(tmp_path / "moved.npz")
    reading._read.cache_clear()
    load(f"arrays:{tmp_path / 'moved.npz'}", seed=0)
    assert len(read) == 3
    assert len(list((tmp_path / "cache" / "samples").iterdir())) == 3  # a manifest names the files


def test_a_damaged_entry_is_made_again(tmp_path: Path) -> None:
    name = write_arrays(tmp_path / "data.npz")
    expected = load(name, seed=0).fingerprint
    (file,) = (tmp_path / "cache").glob("samples/*/inputs.npy")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    reading._read.cache_clear()
    assert load(name, seed=0).fingerprint == expected
    for meta in ("{}", "[]", "no JSON", json.dumps({"sha256": {}})):
        (file.parent / "meta.json").write_text(meta)
        reading._read.cache_clear()
        assert load(name, seed=0).fingerprint == expected
    assert shared._open(file.parent) is not None


def test_without_a_cache_every_process_has_its_own_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write_arrays(tmp_path / "data.npz")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DURM_CACHE", str(tmp_path / "file"))
    assert isinstance(load(name, seed=0).train.inputs, torch.Tensor)


def test_files_that_changed_a_moment_ago_are_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FRESH_NANOSECONDS", 10**15)
    assert isinstance(load(write_arrays(tmp_path / "data.npz"), seed=0).train.inputs, torch.Tensor)


def test_the_oldest_entries_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [write_arrays(tmp_path / f"{number}.npz", seed=number) for number in range(3)]
    size = 2 * 40 * 3 * 8 * 8
    monkeypatch.setattr(shared, "LARGEST_TOTAL", 2 * size + 1000)
    folders = []
    for second, name in enumerate(names):
        inputs = load(name, seed=0).train.inputs
        assert isinstance(inputs, MappedRows)
        folders.append(inputs.folder)
        os.utime(inputs.folder / "meta.json", (second, second))
    assert [folder.is_dir() for folder in folders] == [False, True, True]


def test_an_entry_keeps_formats_and_vectors(tmp_path: Path) -> None:
    given = InputFormat((5,), torch.zeros(1), torch.ones(1), 7, torch.rand(7, 3), None)
    parts = {"train": Samples(torch.arange(20).view(4, 5), torch.tensor([0, 1, 0, 1]))}
    shared._write(tmp_path / "entry", ReadData(parts, ["x", "y"], ["a note"], given, [(1, 2, 3)], [4]))
    found = shared._open(tmp_path / "entry")
    assert found is not None
    assert found.format is not None
    assert (found.format.shape, found.format.vocabulary, found.format.pixel_max) == ((5,), 7, None)
    torch.testing.assert_close(found.format.embedding, given.embedding, rtol=0, atol=0)
    assert (found.classes, found.notes, found.palette, found.mask_ids) == (["x", "y"], ["a note"], [(1, 2, 3)], [4])


# Memory.

WORKER = """
import sys
from pathlib import Path
from durm.data import manifest
manifest.FRESH_NANOSECONDS = -(10**12)

def own():
    rows = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return sum(int(rows[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) * 1024

def ready(value=0):
    print(value, flush=True)
    sys.stdin.readline()

import torch
from durm.training.loaders import TrainLoader
from durm.data import load

def use(name):
    bundle = load(name, seed=0)
    loader = TrainLoader(bundle.train, bundle.input, "none", 64, seed=0)
    for batch in loader.epoch(0):
        pass
    bundle.fingerprint
    return bundle, loader

small = use(sys.argv[1])
before = own()
large = use(sys.argv[2])
ready()  # all have it now
ready(own() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux alone says what a process shares")
def test_memory_grows_by_less_than_a_tenth_of_the_data_with_each_worker(tmp_path: Path) -> None:
    """An epoch over 128 MiB of arrays: what each of three processes has for itself, beyond what 3 MB took before.

    The small set has whole batches, and more rows than are hashed at a time, so that their buffers are there before.
    Images of this size keep those below 1 MB: of larger ones, the heap keeps some more or fewer, whatever the data.
    """
    random = np.random.default_rng(0)
    sizes = {"small": 1024, "large": 2**27 // (3 * 32 * 32)}
    for name, samples in sizes.items():
        images = random.integers(0, 256, (samples, 3, 32, 32), dtype=np.uint8)
        labels = np.arange(samples) % 10
        np.savez(tmp_path / f"{name}.npz", x_train=images, y_train=labels, x_test=images[:300], y_test=labels[:300])
    small, large = (f"arrays:{tmp_path / name}.npz" for name in sizes)
    load(large, seed=0)  # as the parent of the workers does when it checks the study
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WORKER, small, large]
    workers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(3)]
    for _ in ("read", "measured"):
        grown = [int(worker.stdout.readline()) for worker in workers if worker.stdout]
        for worker in workers:
            assert worker.stdin is not None
            print(file=worker.stdin, flush=True)
    assert [worker.wait(600) for worker in workers] == [0, 0, 0]
    assert max(grown) < 0.1 * images.nbytes, [round(one / images.nbytes, 3) for one in grown]
