"""`durm data`: what is there, what it is beside what is published, and getting it."""

import hashlib
import json
from pathlib import Path
from urllib.error import URLError

import pytest

from durm.data import LOADERS, torchvision_dataset
from tests.cli.calling import Answer, call, refusal
from tests.data.samples import write_sample

STL10 = ["train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin"]


@pytest.fixture(autouse=True)
def _no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def urlopen(*arguments: object, **options: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.chdir(tmp_path)


def facts(answer: Answer) -> dict[str, str]:
    assert (answer.code, answer.err) == (0, ""), answer
    return dict(line.split(": ", 1) for line in answer.out.splitlines())


def publish(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the files of STL-10 under the root the published ones."""
    known = [[file, hashlib.md5((root / "stl10_binary" / file).read_bytes()).hexdigest()] for file in STL10]
    monkeypatch.setattr(torchvision_dataset("STL10"), "train_list", known[:2])
    monkeypatch.setattr(torchvision_dataset("STL10"), "test_list", known[2:])


# The list.


def test_the_list_says_which_files_are_there(tmp_path: Path) -> None:
    write_sample("stl10", tmp_path / "mine")
    write_sample("cifar10", tmp_path / "data")
    expected = {"mine": {"stl10": True, "cifar10": False}, "data": {"stl10": False, "cifar10": True}}
    for root, found in expected.items():
        flags = ["--data-root", "mine"] if root == "mine" else []
        rows = json.loads(call("data", "list", "--json", *flags).out)
        assert {name: rows[name]["found"] for name in found} == found
        assert rows["digits"]["found"] is rows["folder:PATH"]["found"] is None
        lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in call("data", "list", *flags).out.splitlines()}
        assert {name: lines[name].startswith("found  ") for name in found} == found
        assert {name: not lines[name].startswith("not found  ") for name in found} == found
        assert lines["digits"].startswith("Handwritten")


# Checksums and counts.


def test_files_that_are_not_the_published_ones(tmp_path: Path) -> None:
    write_sample("stl10", tmp_path)
    told = facts(call("data", "check", "stl10", "--data-root", tmp_path))
    assert told["checksums"] == f"not those of the published files: {', '.join(STL10)}"
    assert told["counts"] == "not as published: train and val 60 of 5,000, test 20 of 8,000"
    assert "checked" not in told


def test_files_that_are_the_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sample("stl10", tmp_path)
    publish(tmp_path, monkeypatch)
    monkeypatch.setattr(LOADERS["stl10"], "published", (60, 20, 10), raising=False)
    told = facts(call("data", "check", "stl10", "--data-root", tmp_path))
    assert told["checksums"] == "right"
    assert told["checked"] == ", ".join(STL10)
    assert told["counts"] == "as published"
    assert json.loads(call("data", "check", "stl10", "--data-root", tmp_path, "--json").out)["checksums"] == "right"


@pytest.mark.parametrize("name", ["digits", "cifar10", "imagenet"])
def test_files_without_published_checksums(name: str, tmp_path: Path) -> None:
    if name != "digits":
        write_sample(name, tmp_path)
    flags = ["--image-size", 8] if name == "imagenet" else []
    told = facts(call("data", "check", name, "--data-root", tmp_path, *flags))
    assert told["checksums"] == "none are published"
    assert ("counts" in told) == (name != "digits")


def test_unreadable_data_are_refused(tmp_path: Path) -> None:
    write_sample("stl10", tmp_path)
    (tmp_path / "stl10_binary" / "test_y.bin").write_bytes(b"x")
    assert "test_y.bin has 1 labels; expected 20" in refusal(call("data", "check", "stl10", "--data-root", tmp_path))


def test_missing_files_are_refused_with_the_command_that_gets_them(tmp_path: Path) -> None:
    told = refusal(call("data", "check", "cifar10"))
    assert told.endswith("to download: durm data check cifar10 --download --data-root data")
    assert not (tmp_path / "data").exists()


# Downloads.


def test_a_download_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"

    def download(url: str, download_root: Path, filename: str, md5: str) -> None:
        assert url.endswith(filename)
        assert len(md5) == 32
        print("Downloading", url)  # as older versions do
        write_sample("stl10", Path(download_root))

    monkeypatch.setattr("torchvision.datasets.stl10.download_and_extract_archive", download)
    answer = call("data", "check", "stl10", "--download", "--data-root", root, "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["train"] == 50
    assert answer.err.startswith("Downloading http")
    assert (root / "stl10_binary" / "train_X.bin").is_file()


def test_what_is_there_is_not_downloaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sample("stl10", tmp_path)
    publish(tmp_path, monkeypatch)
    assert facts(call("data", "check", "stl10", "--download", "--data-root", tmp_path))["checksums"] == "right"


MODULES = {
    "stl10": "stl10",
    "cifar10": "cifar",
    "cifar100": "cifar",
    "oxford-pet": "oxford_iiit_pet",
    "flowers102": "flowers102",
    "fashion-mnist": "mnist",
    "mnist": "mnist",
}


@pytest.mark.parametrize(
    "error", [URLError("no route to host"), RuntimeError("File not found or\ncorrupted.")], ids=str
)
@pytest.mark.parametrize("name", MODULES)
def test_a_download_that_fails(name: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torchvision_dataset("STL10")

    def download(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(f"torchvision.datasets.{MODULES[name]}.download_and_extract_archive", download)
    told = refusal(call("data", "check", name, "--download", "--data-root", tmp_path / "root"))
    assert told.startswith(f"durm: data '{name}' could not be downloaded into {tmp_path / 'root'}: ")
    assert " ".join(str(error).split()) in told


@pytest.mark.parametrize(
    ("name", "place"), [("imagenet", "register at image-net.org"), ("digits", "scikit-learn"), ("folder:x", "folder/")]
)
def test_data_without_a_download(name: str, place: str) -> None:
    told = refusal(call("data", "check", name, "--download"))
    assert told.startswith(f"durm: data '{name}' has no download: ")
    assert place in told
