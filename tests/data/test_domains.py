"""Data with domains: one held out, the others split each by itself; layouts, odd folders, and the digits' domains."""

import json
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from sklearn.datasets import load_digits
from torch import Tensor

from durm.data import LOADERS, DataOptions, Divided, base_name, load, reading, settings_of, split_name
from durm.data.bundle import ConcatDataset, DataBundle, Samples, joined, sample_keys
from durm.errors import InputError
from tests.cli.calling import Answer, call, refusal
from tests.data.images import fill, pixels
from tests.data.samples import write_sample

DAY, DUSK, NIGHT = "day", "dusk", "night"
COUNTS = {"day/cat": 10, "day/dog": 20, "dusk/cat": 15, "dusk/dog": 5, "night/cat": 5, "night/dog": 10}
MEMBERS = {DAY: range(30), DUSK: range(30, 50), NIGHT: range(50, 65)}
CATS = {*range(10), *range(30, 45), *range(50, 55)}

PUBLISHED = {
    "pacs": ("PACS", ["art_painting", "cartoon", "photo", "sketch"], 7),
    "vlcs": ("VLCS", ["Caltech101", "LabelMe", "SUN09", "VOC2007"], 5),
    "officehome": ("office_home", ["Art", "Clipart", "Product", "Real World"], 3),
    "terraincognita": ("terra_incognita", ["location_100", "location_38", "location_43", "location_46"], 10),
}
DIGITS = ["rotated", "inverted", "blurred", "noisy"]


def shots(root: Path, counts: dict[str, int] = COUNTS) -> str:
    """Writes so many images of 8 × 8 pixels into each folder, numbered through, and returns the name of the data."""
    fill(root, counts)
    return f"domains:{root}"


def numbers(samples: Samples) -> list[int]:
    """Which of the images 0 … 99 the samples are."""
    known = {pixels(number).transpose(2, 0, 1).tobytes(): number for number in range(100)}
    return [known[image.contiguous().numpy().tobytes()] for image in images(samples)]


def images(samples: Samples) -> list[Tensor]:
    return [samples.inputs[index] for index in range(len(samples))]


def of_domain(data: DataBundle, domain: str) -> tuple[list[int], list[int]]:
    """The numbers of its images for training and for validation."""
    place = data.domain_names.index(domain)
    parts = []
    for part in (data.train, data.val):
        assert part.domains is not None
        parts.append([number for number, its in zip(numbers(part), part.domains.tolist(), strict=True) if its == place])
    return parts[0], parts[1]


def refused(name: str, options: DataOptions | None = None) -> str:
    with pytest.raises(InputError) as error:
        load(name, seed=0, options=options)
    assert "\n" not in str(error.value)
    return str(error.value)


# The split.


@pytest.mark.parametrize(
    ("domain", "others", "sizes"),
    [(DAY, [DUSK, NIGHT], (28, 7, 30)), (DUSK, [DAY, NIGHT], (36, 9, 20)), (NIGHT, [DAY, DUSK], (40, 10, 15))],
)
def test_one_domain_is_the_test_set_and_the_others_are_split(
    domain: str, others: list[str], sizes: tuple[int, int, int], tmp_path: Path
) -> None:
    data = load(f"{shots(tmp_path)}:{domain}", seed=0)
    assert (len(data.train), len(data.val), len(data.test)) == sizes
    assert numbers(data.test) == list(MEMBERS[domain])
    assert data.test.domains is None
    assert (data.domain_names, data.held_out) == (others, domain)
    for other in others:
        train, val = of_domain(data, other)
        assert sorted(train + val) == list(MEMBERS[other])
        cats = len(CATS & {*MEMBERS[other]})
        assert len(CATS & {*val}) == cats // 5
        assert len(val) == len(MEMBERS[other]) // 5
    for part in (data.train, data.val, data.test):
        assert part.labels.tolist() == [int(number not in CATS) for number in numbers(part)]
    for part in (data.train, data.val):
        assert part.domains is not None
        assert part.domains.tolist() == sorted(part.domains.tolist())
        assert part.domains.dtype == torch.int64
    assert (data.num_classes, data.class_names, data.augment) == (2, ["cat", "dog"], "crop-flip")


def test_a_domain_is_split_in_the_same_way_whatever_is_held_out(tmp_path: Path) -> None:
    name = shots(tmp_path)
    for seed in (0, 1):
        assert of_domain(load(f"{name}:day", seed=seed), DUSK) == of_domain(load(f"{name}:night", seed=seed), DUSK)


def test_what_is_left_out_of_one_domain_does_not_change_the_split_of_another(tmp_path: Path) -> None:
    name = shots(tmp_path)
    before = of_domain(load(f"{name}:night", seed=0), DUSK)
    (tmp_path / "day" / "cat" / "0003.png").write_text("no image")
    data = load(f"{name}:night", seed=0, options=DataOptions(image_size=8, skip_bad=True))
    assert sorted(chain(*of_domain(data, DAY))) == [number for number in MEMBERS[DAY] if number != 3]
    assert of_domain(data, DUSK) == before
    assert "1 file that cannot be read as images were left out" in data.notes


def test_two_domains_of_equal_folders_are_split_each_in_its_own_way(tmp_path: Path) -> None:
    data = load(f"{shots(tmp_path, {f'{domain}/{label}': 15 for domain in 'abc' for label in 'xy'})}:c", seed=0)
    (_, first), (_, second) = of_domain(data, "a"), of_domain(data, "b")
    assert first != [number - 30 for number in second]


def test_the_split_is_a_function_of_the_seed(tmp_path: Path) -> None:
    name = f"{shots(tmp_path)}:night"
    first, again, other = (load(name, seed=seed) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert numbers(first.val) != numbers(other.val)
    assert numbers(first.test) == numbers(other.test)


def test_loading_draws_nothing_from_the_global_generator(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    load(f"{shots(tmp_path)}:night", seed=0)
    load("digits-domains:noisy", seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_format_is_measured_on_the_training_images_alone(tmp_path: Path) -> None:
    data = load(f"{shots(tmp_path)}:day", seed=0)
    values = np.stack([pixels(number) for number in numbers(data.train)]).astype(float)
    np.testing.assert_allclose(data.input.mean.flatten().numpy(), values.mean((0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(data.input.std.flatten().numpy(), values.std((0, 1, 2), ddof=1), rtol=1e-5)


def test_notes_say_what_was_done(tmp_path: Path) -> None:
    assert load(f"{shots(tmp_path)}:night", seed=0).notes == [
        "65 images of 8 × 8 pixels, in memory",
        "domain 'night' is held out as the test set",
        "the training domains are 'day', 'dusk'",
        "20 % of the images of each class of each training domain are the validation set, by seed",
    ]


def test_streamed_images_are_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{shots(tmp_path)}:dusk"
    kept = load(name, seed=3)
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    read = load(name, seed=3)
    for part in ("train", "val", "test"):
        mine, theirs = getattr(kept, part), getattr(read, part)
        assert isinstance(mine.inputs, Tensor)
        assert not isinstance(theirs.inputs, Tensor)
        assert len(mine.inputs) == len(theirs.inputs) == len(theirs.labels)
        assert torch.equal(mine.inputs, torch.stack(images(theirs)))
        assert torch.equal(mine.labels, theirs.labels)
        if part != "test":
            assert torch.equal(mine.domains, theirs.domains)
    assert torch.equal(kept.input.mean, read.input.mean)
    assert read.notes[0] == "65 images of 8 × 8 pixels, read from disk"


def test_images_are_brought_to_the_size_that_is_asked_for(tmp_path: Path) -> None:
    name = f"{shots(tmp_path)}:night"
    assert load(name, seed=0, options=DataOptions(image_size=12)).input.shape == (3, 12, 12)


# Joining, and what is derived from it.


class Letters:
    """Files of which each has one letter, by its number."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __len__(self) -> int:
        return len(self.text)

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(ord(self.text[index]))

    def key(self, index: int) -> bytes:
        return self.text[index].encode()


def test_any_number_of_parts_can_be_joined() -> None:
    files = ConcatDataset((Letters("ab"), Letters(""), Letters("c"), Letters("def")))
    assert len(files) == 6
    assert [chr(int(files[index])) for index in range(6)] == list("abcdef")
    assert b"".join(files.key(index) for index in range(6)) == b"abcdef"
    with pytest.raises(IndexError):
        files[6]


@pytest.mark.parametrize("in_memory", [True, False])
def test_joined_samples_keep_labels_and_domains(in_memory: bool) -> None:
    def part(text: str, domain: int | None) -> Samples:
        values = torch.tensor([ord(letter) for letter in text])
        domains = None if domain is None else torch.full_like(values, domain)
        return Samples(values[:, None] if in_memory else Letters(text), values - 97, domains)

    whole = joined(part("ab", 0), part("c", 2), part("de", 1))
    assert [int(whole.inputs[index]) for index in range(5)] == [97, 98, 99, 100, 101]
    assert whole.labels.tolist() == [0, 1, 2, 3, 4]
    assert whole.domains is not None
    assert whole.domains.tolist() == [0, 0, 2, 1, 1]
    assert joined(part("ab", None), part("c", None)).domains is None


def test_files_of_one_name_in_two_domains_are_told_apart() -> None:
    samples = Samples(Letters("xx"), torch.zeros(2, dtype=torch.long), torch.tensor([0, 1]))
    assert len({*sample_keys(samples)}) == 2


def test_domains_are_part_of_the_fingerprint_where_there_are_any(tmp_path: Path) -> None:
    data = load(f"{shots(tmp_path)}:night", seed=0)
    assert data.train.domains is not None
    changed = Samples(data.train.inputs, data.train.labels, 1 - data.train.domains)
    other = DataBundle(changed, data.val, data.test, 2, data.class_names, data.input)
    assert data.fingerprint != other.fingerprint


@pytest.mark.parametrize("name", ["subset:samples=8,classes=2:{}", "longtail:2:{}"])
def test_what_is_derived_keeps_the_domains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of files, whose names are the same in all domains here."""
    counts = {f"{domain}/{label}": 10 for domain in MEMBERS for label in ("cat", "dog")}
    base = f"{shots(tmp_path, counts)}:night"
    for domain in MEMBERS:
        for label in ("cat", "dog"):
            for place, path in enumerate(sorted((tmp_path / domain / label).iterdir())):
                path.rename(path.with_name(f"{place}.png"))
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    data, other = (load(name.format(base), seed=seed) for seed in (0, 1))
    assert (data.domain_names, data.held_out) == ([DAY, DUSK], NIGHT)
    for part in (data.train, data.val):
        assert part.domains is not None
        assert part.domains.tolist() == [number // 20 for number in numbers(part)]
    learned, others = (sorted(numbers(each.train) + numbers(each.val)) for each in (data, other))
    assert learned == others


# Names.


@pytest.mark.parametrize(
    ("name", "base", "domain"),
    [
        ("pacs", "pacs", None),
        ("pacs:sketch", "pacs", "sketch"),
        ("officehome:Real World", "officehome", "Real World"),
        ("digits-domains:rotated", "digits-domains", "rotated"),
        ("domains:./shots", "domains:./shots", None),
        ("domains:./shots:night", "domains:./shots", "night"),
        ("domains:./a:b/shots", "domains:./a:b/shots", None),
        ("domains:./a:b/shots:night", "domains:./a:b/shots", "night"),
        ("domains:a:b/", "domains:a:b/", None),
        ("domains:a:b/:c", "domains:a:b/", "c"),
        ("domains:C:\\shots", "domains:C:\\shots", None),
        ("domains:C:\\shots:night", "domains:C:\\shots", "night"),
        ("domains::night", "domains::night", None),
        ("domains:./shots:", "domains:./shots:", None),
        ("digits", "digits", None),
        ("longtail:10:pacs:sketch", "longtail:10:pacs:sketch", None),
    ],
)
def test_a_name_and_its_domain(name: str, base: str, domain: str | None) -> None:
    assert split_name(name) == (base, domain)


@pytest.mark.parametrize("name", ["pacs", "pacs:sketch", "longtail:10:pacs:sketch"])
def test_what_a_name_stands_on(name: str) -> None:
    assert base_name(name) == "pacs"


@pytest.mark.parametrize("name", [*PUBLISHED, "digits-domains"])
def test_a_name_without_a_domain_stands_for_all(name: str) -> None:
    domains = PUBLISHED[name][1] if name in PUBLISHED else DIGITS
    assert isinstance(LOADERS[name], Divided)
    assert settings_of(name) == [f"{name}:{domain}" for domain in domains]
    assert settings_of(f"{name}:{domains[2]}") == [f"{name}:{domains[2]}"]
    listed = ", ".join(f"{name}:{domain}" for domain in domains)
    assert refused(name) == f"data '{name}' stands for 4 held-out domains; name one: {listed}"


def test_a_folder_stands_for_its_domains(tmp_path: Path) -> None:
    name = shots(tmp_path)
    assert settings_of(name) == [f"{name}:day", f"{name}:dusk", f"{name}:night"]
    assert refused(name) == (
        f"data '{name}' stands for 3 held-out domains; name one: {name}:day, {name}:dusk, {name}:night"
    )
    assert settings_of("digits") == ["digits"]


def test_a_folder_with_a_colon_in_its_name(tmp_path: Path) -> None:
    shots(tmp_path / "a:b")
    assert settings_of(f"domains:{tmp_path}/a:b/")[0] == f"domains:{tmp_path}/a:b/:day"
    assert len(load(f"domains:{tmp_path}/a:b/:day", seed=0).test) == 30


def test_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shots(tmp_path / "shots")
    assert len(load("domains:~/shots:day", seed=0).test) == 30


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pacs:skecth", "data 'pacs': domain 'skecth' is unknown: did you mean 'sketch'?"),
        ("officehome:real world", "data 'officehome': domain 'real world' is unknown: did you mean 'Real World'?"),
        (
            "digits-domains:x",
            "data 'digits-domains': domain 'x' is unknown: there are blurred, inverted, noisy, rotated",
        ),
        ("vlcs:", "data 'vlcs:' names no domain after its colon"),
        ("domains", "data 'domains' needs a path: domains:PATH"),
    ],
)
def test_a_wrong_domain_is_told_with_what_would_be_right(name: str, message: str) -> None:
    assert refused(name) == message


def test_a_misspelt_domain_of_a_folder(tmp_path: Path) -> None:
    name = shots(tmp_path)
    assert refused(f"{name}:nigt") == f"data '{name}': domain 'nigt' is unknown: did you mean 'night'?"


# Odd folders.


def nothing(root: Path) -> None: ...


FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda root: root.rmdir(), ": there is no such folder"),
    "file": (
        lambda root: (root.rmdir(), root.write_text("x")),
        " is a file; expected a folder that has a folder for each domain, or a .csv or .npz file",
    ),
    "empty": (nothing, " has no domain folders; expected {root}/DOMAIN/CLASS/IMAGE"),
    "hidden": (lambda root: (root / ".git").mkdir(), " has no domain folders; expected {root}/DOMAIN/CLASS/IMAGE"),
    "one domain": (
        lambda root: fill(root, {"day/cat": 3, "day/dog": 3}),
        " has one domain only, 'day'; leaving one out needs at least two",
    ),
    "empty domain": (
        lambda root: (shots(root, {"day/cat": 3, "day/dog": 3}), (root / "night").mkdir()),
        " has no images in {root}/night; expected {root}/night/CLASS/IMAGE",
    ),
    "images without classes": (
        lambda root: shots(root, {"day/cat": 3, "day/dog": 3, "night": 3}),
        " has no images in {root}/night; expected {root}/night/CLASS/IMAGE",
    ),
    "one class": (
        lambda root: shots(root, {"day/cat": 3, "night/cat": 3}),
        " has one class only, 'cat'; a classifier needs at least two",
    ),
    "no class in common": (
        lambda root: shots(root, {"day/cat": 3, "dusk/cow": 3, "night/dog": 3}),
        ": no two domains have a class in common; expected {root}/DOMAIN/CLASS/IMAGE",
    ),
    "class of the test domain only": (
        lambda root: shots(root, {"day/cat": 3, "dusk/cat": 3, "night/cat": 3, "night/dog": 3}),
        ": class 'dog' cannot be learned with 'night' held out: the domains day, dusk have no images of it",
    ),
    "class of the test domain only, of two": (
        lambda root: shots(root, {"day/cat": 3, "night/cat": 3, "night/dog": 3}),
        ": class 'dog' cannot be learned with 'night' held out: the domain 'day' has no images of it",
    ),
    "single images": (
        lambda root: shots(root, {"day/cat": 1, "day/dog": 1, "night/cat": 3, "night/dog": 3}),
        ": no class of a training domain has two images, one of them for validation",
    ),
    "colon": (
        lambda root: shots(root, {"day/cat": 1, "day/dog": 1, "night:2/cat": 3}),
        ": the domain 'night:2' has a colon in its name, and cannot be named after a colon",
    ),
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_that_is_no_data_set_is_refused(folder: str, tmp_path: Path) -> None:
    make, message = FOLDERS[folder]
    root = tmp_path / "root"
    root.mkdir()
    make(root)
    assert refused(f"domains:{root}:night") == f"data 'domains:{root}'{message.format(root=root)}"


def test_a_file_that_is_no_image_is_named(tmp_path: Path) -> None:
    name = shots(tmp_path)
    (tmp_path / "dusk" / "cat" / "notes.txt").write_text("no image")
    assert refused(f"{name}:night") == (
        f"data '{name}': 1 file cannot be read as images: dusk/cat/notes.txt; "
        "remove them, or leave them out with `skip_bad`"
    )


def test_a_domain_without_one_good_image_is_refused(tmp_path: Path) -> None:
    name = shots(tmp_path)
    for path in (tmp_path / "dusk").rglob("*.png"):
        path.write_text("no image")
    told = refused(f"{name}:night", DataOptions(image_size=8, skip_bad=True))
    assert told == f"data '{name}' has no image in its dusk part that can be read"


def test_two_domains_are_enough(tmp_path: Path) -> None:
    data = load(f"{shots(tmp_path, {'a/x': 5, 'a/y': 5, 'b/x': 5, 'b/y': 5})}:b", seed=0)
    assert (len(data.train), len(data.val), len(data.test), data.domain_names) == (8, 2, 10, ["a"])


def test_classes_that_domains_lack_are_noted(tmp_path: Path) -> None:
    """Classes are numbered over all domains; that of an empty folder is lacking there as well."""
    counts = {"day/cat": 5, "day/dog": 5, "dusk/ant": 5, "dusk/dog": 1, "night/cat": 5, "night/dog": 5}
    name = shots(tmp_path, counts)
    (tmp_path / "night" / "ant").mkdir()
    data = load(f"{name}:night", seed=0)
    assert data.class_names == ["ant", "cat", "dog"]
    assert data.notes[4:] == [
        "domain 'day' has no images of class 'ant'",
        "domain 'dusk' has no images of class 'cat'",
        "domain 'night' has no images of class 'ant'",
    ]
    assert data.test.labels.tolist() == [1] * 5 + [2] * 5
    assert of_domain(data, DUSK)[0][-1] == 15  # a class of a single image keeps it for training


def test_many_lacking_classes_are_counted(tmp_path: Path) -> None:
    data = load(f"{shots(tmp_path, {**{f'a/{label}': 2 for label in 'pqrst'}, 'b/p': 2})}:b", seed=0)
    assert data.notes[4:] == ["domain 'b' has no images of classes 'q', 'r', 's' and 1 more"]


@pytest.mark.parametrize("hidden", [".DS_Store", ".git/x/y.png", "day/.cache/x.png", "day/cat/._0000.png", "list.txt"])
def test_hidden_files_and_files_beside_folders_are_ignored(hidden: str, tmp_path: Path) -> None:
    name = shots(tmp_path)
    path = tmp_path / hidden
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"no image")
    data = load(f"{name}:night", seed=0)
    assert (len(data.train), len(data.val), len(data.test)) == (40, 10, 15)
    assert data.class_names == ["cat", "dog"]
    assert len(settings_of(name)) == 3


# The published ones.


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_sample_can_be_loaded(name: str, tmp_path: Path) -> None:
    folder, domains, classes = PUBLISHED[name]
    write_sample(name, tmp_path)
    assert sorted(path.name for path in (tmp_path / folder).iterdir()) == domains
    for place, domain in enumerate(domains):
        data = load(f"{name}:{domain}", seed=0, options=DataOptions(tmp_path))
        assert data.input.shape == (3, 32, 32)
        assert data.domain_names == domains[:place] + domains[place + 1 :]
        assert (len(data.train), len(data.val), len(data.test)) == (9 * classes, 3 * classes, 4 * classes)
        for part in (data.train, data.val, data.test):
            assert part.labels.unique().numel() == data.num_classes == len(data.class_names) == classes
        contents = [image.numpy().tobytes() for part in (data.train, data.val, data.test) for image in images(part)]
        assert len({*contents}) == len(contents)
        assert data.notes[1].startswith(f"{16 * classes} images of {classes} classes; published are ")


def test_the_domains_of_a_sample_look_different(tmp_path: Path) -> None:
    """So that there is something to generalise over: the first has the most black lines, and is the darkest."""
    write_sample("vlcs", tmp_path)
    means = [
        np.mean([np.asarray(Image.open(path)).mean() for path in (tmp_path / "VLCS" / domain).rglob("*.jpg")])
        for domain in PUBLISHED["vlcs"][1]
    ]
    assert np.all(np.diff(means) > 3)


@pytest.mark.parametrize(
    ("folder", "real"), [("office_home", "Real"), ("OfficeHomeDataset_10072016", "Real World"), ("office_home", None)]
)
def test_the_layouts_of_officehome(folder: str, real: str | None, tmp_path: Path) -> None:
    domains = ["Art", "Clipart", "Product", real or "Real World"]
    fill(tmp_path / folder, {f"{domain}/{label}": 3 for domain in domains for label in ("Bed", "Mop")})
    (tmp_path / folder / "ImageInfo.csv").write_text("as published")
    data = load("officehome:Real World", seed=0, options=DataOptions(tmp_path))
    assert numbers(data.test) == [18, 19, 20, 21, 22, 23]
    assert data.domain_names == domains[:3]
    data = load("officehome:Art", seed=0, options=DataOptions(tmp_path))
    assert data.domain_names == ["Clipart", "Product", "Real World"]
    assert sorted(chain(*of_domain(data, "Real World"))) == [18, 19, 20, 21, 22, 23]


def test_a_count_that_is_published_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sample("terraincognita", tmp_path)
    name, options = "terraincognita:location_46", DataOptions(tmp_path)
    told = "160 images of 10 classes; published are 24,788 or 24,330 of 10"
    assert told in load(name, seed=0, options=options).notes
    monkeypatch.setattr(LOADERS["terraincognita"], "images", (24_788, 160), raising=False)
    reading._read.cache_clear()
    assert not any("published" in note for note in load(name, seed=0, options=options).notes)


@pytest.mark.parametrize("name", PUBLISHED)
def test_missing_files_are_told_in_one_line(name: str, tmp_path: Path) -> None:
    folder, domains, _ = PUBLISHED[name]
    told = refused(f"{name}:{domains[0]}", DataOptions(tmp_path))
    assert told.startswith(f"data '{name}': {'/, '.join(domains[:3])}/ and 1 more not found in {tmp_path / folder}")
    assert told.endswith("; `data_root` names the folder above it")


def test_a_missing_domain_is_named(tmp_path: Path) -> None:
    write_sample("pacs", tmp_path)
    (tmp_path / "PACS" / "photo").rename(tmp_path / "PACS" / "photos")
    assert refused("pacs:photo", DataOptions(tmp_path)).startswith(f"data 'pacs': photo/ not found in {tmp_path}/PACS;")


def test_an_empty_domain_of_a_published_set_is_named(tmp_path: Path) -> None:
    write_sample("pacs", tmp_path)
    (tmp_path / "PACS" / "photo").rename(tmp_path / "photo")
    (tmp_path / "PACS" / "photo").mkdir()
    assert refused("pacs:sketch", DataOptions(tmp_path)).startswith(
        f"data 'pacs' has no images in {tmp_path}/PACS/photo"
    )


# The domains of the digits, against scikit-learn, scipy and numpy.

ORIGINALS = load_digits().images
LABELS = load_digits().target


def whole(domain: str) -> tuple[np.ndarray, np.ndarray]:
    """All images of a domain, of shape (N, 8, 8), and their labels."""
    test = load(f"digits-domains:{domain}", seed=0).test
    assert isinstance(test.inputs, Tensor)
    assert (test.inputs.dtype, test.inputs.shape[1:]) == (torch.uint8, (1, 8, 8))
    return test.inputs[:, 0].numpy().astype(int), test.labels.numpy()


def rotated(image: np.ndarray) -> np.ndarray:
    return ndimage.rotate(image, 30, reshape=False, order=1, mode="grid-constant")


TRUTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rotated": rotated,
    "inverted": lambda image: 16 - image,
    "blurred": lambda image: ndimage.uniform_filter(image, 3, mode="constant"),
}


def members(domain: str) -> list[int]:
    """Which of the originals a domain was made of: images are in their order, so each is looked for after the last."""
    found: list[int] = []
    truths = [TRUTHS[domain](image) for image in ORIGINALS]
    for image, label in zip(*whole(domain), strict=True):
        start = found[-1] + 1 if found else 0
        found.append(
            next(
                index
                for index in range(start, len(truths))
                if LABELS[index] == label and np.abs(truths[index] - image).max() <= 0.5 + 1e-9
            )
        )
    return found


def test_every_digit_is_in_one_domain_and_transformed_as_it_should_be() -> None:
    used = {domain: members(domain) for domain in TRUTHS}
    assert [len(each) for each in used.values()] == [len(whole(domain)[0]) for domain in TRUTHS]
    taken = [index for each in used.values() for index in each]
    assert len({*taken}) == len(taken)
    left = [index for index in range(1797) if index not in {*taken}]
    noisy, labels = whole("noisy")
    assert labels.tolist() == LABELS[left].tolist()
    noise = noisy - ORIGINALS[left]
    grey = (ORIGINALS[left] >= 7) & (ORIGINALS[left] <= 9)  # noise is hardly ever cut off there
    assert abs(noise[grey].mean()) < 0.3
    assert abs(noise[grey].std() - 4) < 0.3
    assert (noisy.min(), noisy.max()) == (0, 16)
    assert np.unique(noise[grey]).size > 15


def test_a_digit_is_turned_against_the_clock() -> None:
    """A bar to the right of the middle goes up."""
    from durm.data import digits

    bar = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    bar[..., 3:5, 4:] = 16
    turned = digits.rotated(bar)[0, 0].numpy()
    np.testing.assert_allclose(turned, rotated(bar[0, 0].numpy()), atol=1e-9)
    assert turned[:3].sum() > 5 * turned[5:].sum()


def test_the_domains_of_the_digits_are_alike_in_size_and_classes() -> None:
    counts = np.array([np.bincount(whole(domain)[1], minlength=10) for domain in DIGITS])
    assert counts.sum(0).tolist() == np.bincount(LABELS).tolist()
    assert (counts.max(0) - counts.min(0)).max() <= 1


@pytest.mark.parametrize("domain", DIGITS)
def test_the_bundle_of_the_digits(domain: str) -> None:
    data, again, other = (load(f"digits-domains:{domain}", seed=seed) for seed in (0, 0, 1))
    assert len(data.train) + len(data.val) + len(data.test) == 1797
    assert data.domain_names == [name for name in DIGITS if name != domain]
    assert (data.num_classes, data.class_names[9], data.augment, data.input.shape) == (10, "9", "none", (1, 8, 8))
    assert abs(len(data.val) / (len(data.train) + len(data.val)) - 0.2) < 0.01
    assert data.fingerprint == again.fingerprint != other.fingerprint
    for number, name in enumerate(data.domain_names):
        assert data.train.domains is not None
        assert data.val.domains is not None
        parts = [part.inputs[part.domains == number] for part in (data.train, data.val)]
        mine = sorted(map(bytes, torch.cat(parts).flatten(1).numpy()))
        assert mine == sorted(map(bytes, whole(name)[0].astype(np.uint8).reshape(-1, 64)))


def test_the_digits_have_a_size_of_their_own() -> None:
    told = refused("digits-domains:noisy", DataOptions(image_size=16))
    assert told == "image size 16: the samples of data 'digits-domains:noisy' have a size of their own"


# The command.


def facts(answer: Answer) -> dict[str, str]:
    assert (answer.code, answer.err) == (0, ""), answer
    return dict(line.split(": ", 1) for line in answer.out.splitlines())


def test_the_list_says_which_are_there(tmp_path: Path) -> None:
    write_sample("pacs", tmp_path)
    rows = json.loads(call("data", "list", "--json", "--data-root", tmp_path).out)
    assert {name: rows[name]["found"] for name in PUBLISHED} == {name: name == "pacs" for name in PUBLISHED}
    assert rows["digits-domains"]["found"] is rows["domains:PATH"]["found"] is None
    lines = call("data", "list", "--data-root", tmp_path).out.splitlines()
    assert any(re.fullmatch(r"pacs +found +PACS: 9,991 .+", line) for line in lines)
    assert any(re.fullmatch(r"vlcs +not found +VLCS: 10,729 .+", line) for line in lines)


def test_a_check_without_a_domain_reads_the_first_and_tells_all(tmp_path: Path) -> None:
    write_sample("pacs", tmp_path)
    told = facts(call("data", "check", "pacs", "--data-root", tmp_path))
    assert told["domains"] == "cartoon 28, photo 28, sketch 28"
    assert told["held_out"] == "art_painting"
    assert (told["train"], told["val"], told["test"], told["classes"]) == ("63", "21", "28", "7")
    names = "pacs:art_painting, pacs:cartoon, pacs:photo, pacs:sketch"
    assert told["notes"].startswith(f"pacs stands for {names}, of which the first was read; 112 images of 32 × 32")
    assert "112 images of 7 classes; published are 9,991 of 7" in told["notes"]


def test_a_check_of_one_domain(tmp_path: Path) -> None:
    write_sample("pacs", tmp_path)
    told = json.loads(call("data", "check", "pacs:sketch", "--data-root", tmp_path, "--json").out)
    assert told["domains"] == {"art_painting": 28, "cartoon": 28, "photo": 28}
    assert told["held_out"] == "sketch"
    assert not any("stands for" in note for note in told["notes"])


def test_a_check_of_what_is_derived(tmp_path: Path) -> None:
    told = json.loads(call("data", "check", "subset:samples=8:digits-domains:noisy", "--json").out)
    assert sum(told["domains"].values()) == 80
    assert told["held_out"] == "noisy"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pacs", "data 'pacs': art_painting/, cartoon/, photo/ and 1 more not found in"),
        ("pacs:sketsh", "data 'pacs': domain 'sketsh' is unknown: did you mean 'sketch'?"),
        ("domains:nowhere", "data 'domains:nowhere': there is no such folder"),
    ],
)
def test_a_check_that_is_refused(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refusal(call("data", "check", name))


def test_there_is_no_download() -> None:
    told = refusal(call("data", "check", "pacs", "--download"))
    assert told.startswith("durm: data 'pacs' has no download: PACS: 9,991 ")
