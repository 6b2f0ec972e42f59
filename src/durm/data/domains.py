"""Images of several domains, such as photographs and sketches, of which one is held out: leave one domain out.

| | under the data root |
|---|---|
| pacs | PACS/{art_painting,cartoon,photo,sketch}/CLASS/ |
| vlcs | VLCS/{Caltech101,LabelMe,SUN09,VOC2007}/CLASS/ |
| officehome | office_home/{Art,Clipart,Product,Real World}/CLASS/ (or Real/), or in OfficeHomeDataset_10072016/ |
| terraincognita | terra_incognita/{location_100,location_38,location_43,location_46}/CLASS/ |

The domain that is held out comes last in the name: `pacs:sketch`, `domains:./shots:night`. It is the test set, all of
it; of each class of every other domain 80 % are training and 20 % validation images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import torch

from durm._words import some
from durm.data import LOADERS, DataOptions, find_files, root_folder
from durm.data.bundle import DataBundle, Samples, joined, split_by_seed
from durm.data.folder import folders_in, labelled_files
from durm.data.images import coloured_noise, write_pictures
from durm.data.pictures import MEMORY_LIMIT, Pictures, check_classes, measure_pictures, read_pictures
from durm.errors import InputError, unknown

VALIDATION = 0.2


def without_domain(
    name: str,
    parts: Mapping[str, Samples],
    classes: list[str],
    domain: str,
    seed: int,
    *,
    augment: str = "none",
    notes: Sequence[str] = (),
) -> DataBundle:
    """The data for testing on a domain that no training or validation sample is of.

    How a domain is split depends on the seed and on that domain alone, not on which other one is held out.

    Args:
        name: of the data set, without the domain.
        parts: the samples of each domain.
        classes: their names.
        domain: the one that is held out.
        seed: of the split.
        augment: the augmentation that suits the data.
        notes: what was done to the data before.

    Raises:
        InputError: if a class cannot be learned, or nothing can be split off for validation.
    """
    where, learned = f"data {name!r}", [other for other in parts if other != domain]
    lacking = {part: _lacking(samples, classes) for part, samples in parts.items()}
    for label in classes:
        if all(label in lacking[other] for other in learned):
            told = f"domain {learned[0]!r} has" if len(learned) == 1 else f"domains {', '.join(learned)} have"
            raise InputError(
                f"{where}: class {label!r} cannot be learned with {domain!r} held out: the {told} no images of it"
            )
    splits = []
    for number, other in enumerate(learned):
        numbered = replace(parts[other], domains=torch.full((len(parts[other]),), number))
        splits.append(split_by_seed(numbered, VALIDATION, seed, f"val {other}"))
    train, val = (joined(*halves) for halves in zip(*splits, strict=True))
    if not len(val):
        raise InputError(f"{where}: no class of a training domain has two images, one of them for validation")
    words = [
        *notes,
        f"domain {domain!r} is held out as the test set",
        f"the training domain{'s are' if len(learned) > 1 else ' is'} {', '.join(map(repr, learned))}",
        f"{100 * VALIDATION:.0f} % of the images of each class of each training domain are the validation set, by seed",
        *(f"domain {part!r} has no images of {_some(missing)}" for part, missing in lacking.items() if missing),
    ]
    return DataBundle(
        train, val, parts[domain], len(classes), classes, measure_pictures(train.inputs),
        augment=augment, notes=words, domain_names=learned, held_out=domain,
    )  # fmt: skip


def one_of(name: str, domain: str | None, known: Sequence[str]) -> str:
    """The domain to hold out, which must be named and known."""
    if domain is None:
        names = ", ".join(f"{name}:{each}" for each in known)
        raise InputError(f"data {name!r} stands for {len(known)} held-out domains; name one: {names}")
    if domain not in known:
        raise unknown(f"data {name!r}: domain", domain, known)
    return domain


def _lacking(samples: Samples, classes: list[str]) -> list[str]:
    counts = torch.bincount(samples.labels, minlength=len(classes)).tolist()
    return [name for name, count in zip(classes, counts, strict=True) if not count]


def _some(names: Sequence[str]) -> str:
    return f"class{'es' if len(names) > 1 else ''} {some(list(map(repr, names)))}"


class DomainFolders:
    r"""Images in domain and class folders (folder/domain/class/image); domains:PATH:DOMAIN holds one domain out.

    The domain is what follows the last colon, if neither / nor \ does and something stands before it. So `domains:a:b`
    holds b out of the folder a, and the folder a:b is `domains:a:b/`.
    """

    takes_path = True
    takes_image_size = True

    def held_out(self, path: str) -> tuple[str, str | None]:
        folder, _, domain = path.rpartition(":")
        if not folder or not domain or "/" in domain or "\\" in domain:
            return path, None
        return folder, domain

    def domains(self, path: str, options: DataOptions) -> list[str]:
        root = Path(path).expanduser()
        where = f"data 'domains:{path}'"
        if not root.exists():
            raise InputError(f"{where}: there is no such folder")
        if not root.is_dir():
            raise InputError(f"{where} is a file; expected a folder that has a folder for each domain")
        names = [folder.name for folder in folders_in(root)]
        if not names:
            raise InputError(f"{where} has no domain folders; expected {root}/DOMAIN/CLASS/IMAGE")
        if len(names) == 1:
            raise InputError(f"{where} has one domain only, {names[0]!r}; leaving one out needs at least two")
        if odd := [name for name in names if ":" in name]:
            raise InputError(
                f"{where}: the domain {odd[0]!r} has a colon in its name, and cannot be named after a colon"
            )
        return names

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        folder, named = self.held_out(path)
        name, known = f"domains:{folder}", self.domains(folder, options)
        domain = one_of(name, named, known)
        tops = tuple((each, Path(folder).expanduser() / each) for each in known)
        read = _read(name, tops, options.image_size, options.skip_bad, MEMORY_LIMIT)
        return without_domain(name, read.parts, read.classes, domain, seed, augment="crop-flip", notes=read.notes)


class KnownDomains:
    """What data sets whose domains are known by name have in common; the domain alone follows their colon."""

    takes_path = False

    name: str
    domain_names: tuple[str, ...]

    def held_out(self, path: str) -> tuple[str, str | None]:
        return "", path or None

    def domains(self, path: str, options: DataOptions) -> list[str]:
        return list(self.domain_names)


class PublishedDomains(KnownDomains):
    """What the published data sets have in common.

    `folders` are those under the root that may hold the domains; `images` is how many there are, in each of the copies
    that go around, and `classes` of how many classes; `sample_classes` are names for generated images.
    """

    takes_image_size = True

    folders: tuple[str, ...]
    images: tuple[int, ...]
    classes: int
    sample_classes: tuple[str, ...]

    def find(self, options: DataOptions) -> Path:
        root = root_folder(options)
        layouts = {
            folder: [f"{self.folder_of(root / folder, domain)}/" for domain in self.domain_names]
            for folder in self.folders
        }
        return find_files(self.name, options, layouts)

    def folder_of(self, folder: Path, domain: str) -> str:
        """The name under which the domain lies there."""
        return domain

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        domain = one_of(self.name, self.held_out(path)[1], self.domain_names)
        folder = self.find(options)
        tops = tuple((each, folder / self.folder_of(folder, each)) for each in self.domain_names)
        read = _read(self.name, tops, options.image_size, options.skip_bad, MEMORY_LIMIT)
        notes = [*read.notes, *self.differences(read)]
        return without_domain(self.name, read.parts, read.classes, domain, seed, augment="crop-flip", notes=notes)

    def differences(self, read: Pictures) -> list[str]:
        """From what is published, as a note."""
        count = sum(len(part) for part in read.parts.values())
        if count in self.images and len(read.classes) == self.classes:
            return []
        told = " or ".join(f"{images:,}" for images in self.images)
        return [f"{count:,} images of {len(read.classes)} classes; published are {told} of {self.classes}"]

    def write_sample(self, root: Path) -> None:
        """Four images of 32 × 32 pixels of some classes in each domain: a class has a colour, a domain black lines."""
        labels = [label for _ in range(4) for label in range(len(self.sample_classes))]
        images = coloured_noise(labels * len(self.domain_names), 32, 3)
        for number, domain in enumerate(self.domain_names):
            mine = images[number * len(labels) : (number + 1) * len(labels)]
            mine[:, :: number + 2] = 0
            tops = [root / self.folders[0] / domain / self.sample_classes[label] for label in labels]
            write_pictures([top / f"{index:05}.jpg" for index, top in enumerate(tops)], mine)


@lru_cache(maxsize=2)
def _read(
    name: str, tops: tuple[tuple[str, Path], ...], image_size: int | None, skip_bad: bool, memory_limit: int
) -> Pictures:
    """What does not depend on the seed or on the domain that is held out. Kept: every trial of a study asks for it."""
    where = f"data {name!r}"
    classes = sorted({folder.name for _, top in tops for folder in folders_in(top)})
    parts = {domain: labelled_files(top, classes) for domain, top in tops}
    root = tops[0][1].parent
    for domain, top in tops:
        if not parts[domain]:
            raise InputError(f"{where} has no images in {top}; expected {top}/CLASS/IMAGE")
    check_classes(where, classes)
    present = [{label for _, label in part} for part in parts.values()]
    if sum(map(len, present)) == len(set.union(*present)):
        raise InputError(f"{where}: no two domains have a class in common; expected {root}/DOMAIN/CLASS/IMAGE")
    return read_pictures(where, root, parts, classes, image_size, skip_bad, memory_limit)


class Pacs(PublishedDomains):
    """PACS: 9,991 paintings, cartoons, photographs and sketches, 4 domains, 7 classes; PACS/DOMAIN/CLASS/."""

    name = "pacs"
    domain_names = ("art_painting", "cartoon", "photo", "sketch")
    folders = ("PACS",)
    images = (9991,)
    classes = 7
    sample_classes = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


class Vlcs(PublishedDomains):
    """VLCS: 10,729 photographs from 4 data sets as domains, 5 classes; VLCS/DOMAIN/CLASS/."""

    name = "vlcs"
    domain_names = ("Caltech101", "LabelMe", "SUN09", "VOC2007")
    folders = ("VLCS",)
    images = (10_729,)
    classes = 5
    sample_classes = ("bird", "car", "chair", "dog", "person")


class OfficeHome(PublishedDomains):
    """Office-Home: 15,588 images of things at work and at home, 4 domains, 65 classes; office_home/DOMAIN/CLASS/."""

    name = "officehome"
    domain_names = ("Art", "Clipart", "Product", "Real World")
    folders = ("office_home", "OfficeHomeDataset_10072016")
    images = (15_588,)
    classes = 65
    sample_classes = ("Alarm_Clock", "Backpack", "Batteries")

    def folder_of(self, folder: Path, domain: str) -> str:
        return "Real" if domain == "Real World" and (folder / "Real").is_dir() else domain


class TerraIncognita(PublishedDomains):
    """Terra Incognita: 24,788 photographs by camera traps at 4 places, 10 classes; terra_incognita/DOMAIN/CLASS/."""

    name = "terraincognita"
    domain_names = ("location_100", "location_38", "location_43", "location_46")
    folders = ("terra_incognita",)
    images = (24_788, 24_330)  # as DomainBed's paper counts them, and in the copy that it downloads
    classes = 10
    sample_classes = (
        "bird", "bobcat", "cat", "coyote", "dog", "empty", "opossum", "rabbit", "raccoon", "squirrel",
    )  # fmt: skip


LOADERS.register("domains")(DomainFolders())
LOADERS.register("pacs")(Pacs())
LOADERS.register("vlcs")(Vlcs())
LOADERS.register("officehome")(OfficeHome())
LOADERS.register("terraincognita")(TerraIncognita())
