"""Tiny data sets in the true formats of the published ones: what tests, and smoke runs in them, read."""

import gzip
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat, wavfile

from durm.data import LOADERS
from durm.data.cifar import PIXELS, Cifar10
from durm.data.domains import PublishedDomains
from durm.data.segmentation_labels import Colour, LabelMap
from durm.data.segmentation_pairs import Pair, Pairs
from durm.data.segmentation_sets import PublishedScenes, voc_colour


def write_sample(name: str, root: Path) -> None:
    """Writes the tiny data set of that name under the root."""
    SAMPLES[name](root)


# Images.


def _cifar(name: str, root: Path) -> None:
    """A few images of every class in the binary layout: noise around a colour of the class."""
    cifar = LOADERS[name]
    assert isinstance(cifar, Cifar10)
    random = np.random.default_rng(0)
    folder = root / cifar.binary
    folder.mkdir(parents=True, exist_ok=True)
    colours = random.integers(0, 256, (cifar.classes, 3, 1))
    for files, each in zip(cifar.files, (4 * cifar.classes, 2 * cifar.classes), strict=True):
        labels = np.arange(each * len(files)) % cifar.classes
        images = colours[labels] + random.integers(-40, 40, (len(labels), 3, 1024))
        records = np.zeros((len(labels), cifar.labels + PIXELS), np.uint8)
        records[:, cifar.labels - 1] = labels
        records[:, cifar.labels :] = images.clip(0, 255).reshape(len(labels), -1)
        for file, chunk in zip(files, np.split(records, len(files)), strict=True):
            (folder / f"{file}.bin").write_bytes(chunk.tobytes())
    names = "\n".join(f"class {label}" for label in range(cifar.classes))
    (folder / cifar.binary_names).write_text(names + "\n")


def _stl10(root: Path) -> None:
    """Six training and two test images of every class."""
    folder = root / "stl10_binary"
    folder.mkdir(parents=True, exist_ok=True)
    for part, each in (("train", 6), ("test", 2)):
        labels = np.tile(np.arange(10), each)
        _coloured_noise(labels, 96, 3).transpose(0, 3, 2, 1).tofile(folder / f"{part}_X.bin")
        (labels + 1).astype(np.uint8).tofile(folder / f"{part}_y.bin")
    (folder / "class_names.txt").write_text("\n".join(f"class{label}" for label in range(10)) + "\n")


def _mnist(name: str, root: Path) -> None:
    """Six training and two test images of every class, packed."""
    folder = root / name / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    for part, each in (("train", 6), ("t10k", 2)):
        labels = np.tile(np.arange(10, dtype=np.uint8), each)
        for content, values in (("images-idx3", _coloured_noise(labels, 28, 1)[..., 0]), ("labels-idx1", labels)):
            header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
            (folder / f"{part}-{content}-ubyte.gz").write_bytes(gzip.compress(header + values.tobytes(), mtime=0))


def _oxford_pet(root: Path) -> None:
    """Four training images and a test image of 16 × 16 pixels of every breed."""
    folder = root / "oxford-iiit-pet"
    (folder / "annotations").mkdir(parents=True, exist_ok=True)
    stems = [f"Breed_{label:02}_{number}" for number in range(1, 6) for label in range(1, 38)]
    labels = [label for _ in range(5) for label in range(1, 38)]
    images = _coloured_noise([label - 1 for label in labels], 16, 3)
    _write_pictures([folder / "images" / f"{stem}.jpg" for stem in stems], images)
    lines = [f"{stem} {label} 1 {label}" for stem, label in zip(stems, labels, strict=True)]
    for file, part in (("trainval.txt", lines[37:]), ("test.txt", lines[:37])):
        (folder / "annotations" / file).write_text("\n".join(part) + "\n")


def _flowers102(root: Path) -> None:
    """Two training images, a validation image and a test image of 12 × 12 pixels of every kind."""
    folder = root / "flowers-102"
    labels = np.tile(np.arange(1, 103), 4)
    numbers = np.arange(1, len(labels) + 1)
    _write_pictures([folder / "jpg" / f"image_{n:05}.jpg" for n in numbers], _coloured_noise(labels - 1, 12, 3))
    savemat(folder / "imagelabels.mat", {"labels": labels[None]})
    parts = {"trnid": numbers[:204], "valid": numbers[204:306], "tstid": numbers[306:]}
    savemat(folder / "setid.mat", {name: part[None] for name, part in parts.items()})


def _imagenet(root: Path) -> None:
    """Six training and two test images of 16 × 16 pixels of three classes."""
    wnids = ("n01440764", "n01443537", "n01484850")
    for part, each in (("train", 6), ("val", 2)):
        labels = list(range(3)) * each
        paths = [root / "imagenet" / part / wnids[label] / f"{i}.JPEG" for i, label in enumerate(labels)]
        _write_pictures(paths, _coloured_noise(labels, 16, 3))


def _domains(name: str, classes: Sequence[str], root: Path) -> None:
    """Four images of 32 × 32 pixels of these classes in each domain: a class has a colour, a domain black lines."""
    loader = LOADERS[name]
    assert isinstance(loader, PublishedDomains)
    labels = [label for _ in range(4) for label in range(len(classes))]
    images = _coloured_noise(labels * len(loader.domain_names), 32, 3)
    for number, domain in enumerate(loader.domain_names):
        mine = images[number * len(labels) : (number + 1) * len(labels)]
        mine[:, :: number + 2] = 0
        tops = [root / loader.folders[0] / domain / classes[label] for label in labels]
        _write_pictures([top / f"{index:05}.jpg" for index, top in enumerate(tops)], mine)


def _coloured_noise(labels: Sequence[int] | np.ndarray, side: int, channels: int) -> np.ndarray:
    """Images of shape (N, side, side, channels): noise around a colour of the class.

    Colours depend on the number of classes alone, noise on that of the images: two parts of a data set differ in it.
    """
    colours = np.random.default_rng(0).integers(0, 256, (max(labels) + 1, 1, 1, channels))
    noise = np.random.default_rng(len(labels)).integers(-40, 40, (len(labels), side, side, channels))
    images: np.ndarray = (colours[labels] + noise).clip(0, 255).astype(np.uint8)
    return images


def _write_pictures(paths: Sequence[Path], images: np.ndarray) -> None:
    for path, image in zip(paths, images, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)


# Text and sound.


def _thucnews(root: Path) -> None:
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


def _urbansound8k(root: Path) -> None:
    """One tone of each class in each fold, of several rates and with one channel or two, like the true ones."""
    folder = root / "UrbanSound8K"
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    rows = ["slice_file_name,fsID,start,end,salience,fold,classID,class"]
    for fold in range(1, 11):
        for label in range(10):
            rate, channels = ((44_100, 2), (22_050, 1), (8_000, 1))[(fold + label) % 3]
            number = 1000 * fold + label
            file = f"{number}-{label}-0-0.wav"
            _write_tone(folder / "audio" / f"fold{fold}" / file, label, number, rate, channels)
            rows.append(f"{file},{number},0.0,0.5,1,{fold},{label},class_{label}")
    (folder / "metadata" / "UrbanSound8K.csv").write_text("\n".join(rows) + "\n")


def _fsdd(root: Path) -> None:
    """Two speakers who hum each digit ten times, at a pitch of its own."""
    for digit in range(10):
        for number, speaker in enumerate(("jackson", "nicolas")):
            for index in range(10):
                file = root / "fsdd" / "recordings" / f"{digit}_{speaker}_{index}.wav"
                _write_tone(file, digit, 100 * digit + 10 * number + index, rate=8_000, channels=1)


def _write_tone(path: Path, label: int, seed: int, rate: int, channels: int) -> None:
    """A noisy tone of about half a second as 16-bit WAV: 200 Hz for label 0, a third higher for each next one."""
    random = np.random.default_rng(seed)
    time = np.arange(round(rate * random.uniform(0.4, 0.6))) / rate
    tone = 0.3 * np.sin(2 * np.pi * 200 * 1.26**label * random.uniform(0.97, 1.03) * time)
    noisy = tone[:, None] + 0.03 * random.standard_normal((len(time), channels))
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, (noisy * 32_767).astype(np.int16))


# Images with masks: eight training images, and four of each other part.


def _cityscapes(root: Path) -> None:
    pairs = {
        part: [
            (f"leftImg8bit/{part}/{scene}_leftImg8bit.png", f"gtFine/{part}/{scene}_gtFine_labelIds.png")
            for scene in (f"{city}/{city}_{index:06}_000019" for index in range(count))
        ]
        for part, city, count in (("train", "aachen", 8), ("val", "munster", 4))
    }
    _write_scenes("cityscapes", pairs, root)


def _voc2012(root: Path) -> None:
    pairs = {
        part: [
            (f"JPEGImages/{stem}.jpg", f"SegmentationClass/{stem}.png")
            for stem in (f"{year}_{index:06}" for index in range(count))
        ]
        for part, year, count in (("train", 2007, 8), ("val", 2008, 4))
    }
    folder = _write_scenes("voc2012", pairs, root, sizes=((48, 64), (64, 48)), mask_mode="P")
    lists = folder / "ImageSets" / "Segmentation"
    lists.mkdir(parents=True, exist_ok=True)
    for part, scenes in pairs.items():
        (lists / f"{part}.txt").write_text("\n".join(Path(image).stem for image, _ in scenes) + "\n")


def _loveda(root: Path) -> None:
    pairs = {
        part: [
            (f"{part}/{region}/images_png/{index}.png", f"{part}/{region}/masks_png/{index}.png")
            for region in ("Urban", "Rural")
            for index in range(count)
        ]
        for part, count in (("Train", 4), ("Val", 2))
    }
    _write_scenes("loveda", pairs, root)


def _camvid(root: Path) -> None:
    """With lists as in the tutorial, whose paths begin in a folder of its authors'."""
    pairs = {
        part: [
            (f"{part}/{stem}.png", f"{part}annot/{stem}.png")
            for stem in (f"{film}_{index:05}" for index in range(count))
        ]
        for part, film, count in (("train", "0001TP", 8), ("val", "0016E5", 4), ("test", "Seq05VD", 4))
    }
    folder = _write_scenes("camvid", pairs, root)
    for part, scenes in pairs.items():
        lines = [f"/SegNet/CamVid/{image} /SegNet/CamVid/{mask}" for image, mask in scenes]
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")


def _write_scenes(
    name: str, parts: Pairs, root: Path, sizes: Sequence[tuple[int, int]] = ((48, 64),), mask_mode: str = "L"
) -> Path:
    """Scenes of these heights and widths in turn; gives their folder. The mode is Pillow's word for kinds of images."""
    loader = LOADERS[name]
    assert isinstance(loader, PublishedScenes)
    folder, palette = root / loader.folders[0], [colour for _, colour in loader.classes]
    for number, pairs in enumerate(parts.values()):
        for index, pair in enumerate(pairs):
            size, seed = sizes[index % len(sizes)], 100 * number + index
            _write_scene(folder, pair, size, loader.label_map, palette, mask_mode, seed)
    return folder


def _write_scene(
    folder: Path,
    pair: Pair,
    size: tuple[int, int],
    label_map: LabelMap,
    palette: Sequence[Colour],
    mode: str,
    seed: int,
) -> None:
    """An image of blocks of 16 × 16 noisy pixels in the colours of classes, over a black edge that does not count."""
    random = np.random.default_rng(seed)
    rows, columns = size[0] // 16, size[1] // 16
    blocks = random.permutation((rows * columns * seed + np.arange(rows * columns)) % len(palette))
    labels = blocks.reshape(rows, columns).repeat(16, 0).repeat(16, 1)
    image = np.array(palette)[labels] + random.integers(-10, 11, (*labels.shape, 3))
    ids = np.array(label_map.ids)[labels]
    image[-4:], ids[-4:] = 0, label_map.ignored[0]
    for name in pair:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(folder / pair[0], quality=95)
    mask = Image.fromarray(ids.astype(np.uint8))
    if mode == "P":
        mask.putpalette([value for number in range(256) for value in voc_colour(number)])
    mask.save(folder / pair[1])


PACS = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
VLCS = ("bird", "car", "chair", "dog", "person")
OFFICE_HOME = ("Alarm_Clock", "Backpack", "Batteries")
TERRA_INCOGNITA = ("bird", "bobcat", "cat", "coyote", "dog", "empty", "opossum", "rabbit", "raccoon", "squirrel")

SAMPLES: dict[str, Callable[[Path], None]] = {
    "camvid": _camvid,
    "cifar10": partial(_cifar, "cifar10"),
    "cifar100": partial(_cifar, "cifar100"),
    "cityscapes": _cityscapes,
    "coloredmnist": partial(_mnist, "MNIST"),
    "fashion-mnist": partial(_mnist, "FashionMNIST"),
    "flowers102": _flowers102,
    "fsdd": _fsdd,
    "imagenet": _imagenet,
    "loveda": _loveda,
    "mnist": partial(_mnist, "MNIST"),
    "officehome": partial(_domains, "officehome", OFFICE_HOME),
    "oxford-pet": _oxford_pet,
    "pacs": partial(_domains, "pacs", PACS),
    "rotatedmnist": partial(_mnist, "MNIST"),
    "stl10": _stl10,
    "terraincognita": partial(_domains, "terraincognita", TERRA_INCOGNITA),
    "thucnews": _thucnews,
    "urbansound8k": _urbansound8k,
    "vlcs": partial(_domains, "vlcs", VLCS),
    "voc2012": _voc2012,
}
