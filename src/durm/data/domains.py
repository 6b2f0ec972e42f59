"""Data of several domains, such as photographs and sketches, of which one is held out: leave one domain out.

| | under the data root |
|---|---|
| pacs | PACS/{art_painting,cartoon,photo,sketch}/CLASS/ |
| vlcs | VLCS/{Caltech101,LabelMe,SUN09,VOC2007}/CLASS/ |
| officehome | office_home/{Art,Clipart,Product,Real World}/CLASS/ (or Real/), or in OfficeHomeDataset_10072016/ |
| terraincognita | terra_incognita/{location_100,location_38,location_43,location_46}/CLASS/ |

The domain that is held out comes last in the name: `pacs:sketch`, `domains:./shots:night`. It is the test set, all of
it; of each class of every other domain 80 % are training and 20 % validation samples. One's own images lie in folders,
texts in a CSV file with a column domain, arrays in an .npz file with an array domain: `domains:./reviews.csv:books`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from durm._text import some
from durm.data import LOADERS, DataOptions, Loader, find_files, root_folder
from durm.data.arrays import arrays_by_domain
from durm.data.bundle import DataBundle, joined, split_by_seed
from durm.data.folder import check_folder, folders_in, labelled_files
from durm.data.image_files import read_pictures
from durm.data.reading import FileLoader, PublishedFiles, ReadData, check_classes, measure_inputs
from durm.errors import InputError, unknown

VALIDATION = 0.2


def without_domain(
    name: str, read: ReadData, domain: str, seed: int, augment: str = "none", pixel_max: float | None = None,
    things: str = "images",
) -> DataBundle:  # fmt: skip
    """The data for testing on a domain that no training or validation sample is of; the parts are the domains.

    How a domain is split depends on the seed and on that domain alone, not on which other one is held out.
    """
    where, learned = f"data {name!r}", [other for other in read.parts if other != domain]
    lacking = {}
    for part, samples in read.parts.items():
        present = {*samples.labels.tolist()}
        lacking[part] = [repr(each) for label, each in enumerate(read.classes) if label not in present]
    for label in map(repr, read.classes):
        if all(label in lacking[other] for other in learned):
            others = f"domain {learned[0]!r} has" if len(learned) == 1 else f"domains {', '.join(learned)} have"
            raise InputError(
                f"{where}: class {label} cannot be learned with {domain!r} held out: the {others} no {things} of it"
            )
    splits = []
    for number, other in enumerate(learned):
        numbered = replace(read.parts[other], domains=torch.full((len(read.parts[other]),), number))
        splits.append(split_by_seed(numbered, VALIDATION, seed, f"val {other}"))
    train, val = (joined(*halves) for halves in zip(*splits, strict=True))
    if not len(val):
        raise InputError(f"{where}: no class of a training domain has two {things}, one of them for validation")
    share = f"{100 * VALIDATION:.0f} % of the {things} of each class of each training domain"
    notes = [
        *read.notes,
        f"domain {domain!r} is held out as the test set",
        f"the training domain{'s are' if len(learned) > 1 else ' is'} {', '.join(map(repr, learned))}",
        f"{share} are the validation set, by seed",
    ]
    for part, missing in lacking.items():
        if missing:
            notes.append(f"domain {part!r} has no {things} of class{'es' if len(missing) > 1 else ''} {some(missing)}")
    return DataBundle(
        train, val, read.parts[domain], len(read.classes), read.classes,
        read.format or measure_inputs(train.inputs, pixel_max),
        augment=augment, notes=notes, domain_names=learned, held_out=domain,
    )  # fmt: skip


def one_of(name: str, domain: str | None, known: Sequence[str]) -> str:
    """The domain to hold out, which must be named and known."""
    if domain is None:
        names = ", ".join(f"{name}:{each}" for each in known)
        raise InputError(f"data {name!r} stands for {len(known)} held-out domains; name one: {names}")
    if domain not in known:
        raise unknown(f"data {name!r}: domain", domain, known)
    return domain


class KnownDomains(Loader):
    """A loader of data whose domains are known by name; the domain alone follows the colon."""

    name: str
    domain_names: tuple[str, ...]

    def held_out(self, path: str) -> tuple[str, str | None]:
        return "", path or None

    def domains(self, path: str, options: DataOptions) -> list[str]:
        return list(self.domain_names)


class DomainImages(KnownDomains, FileLoader):
    """A loader of images in domain and class folders."""

    takes_image_size = True

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        folder, named = self.held_out(path)
        name = f"{self.name}:{folder}" if folder else self.name
        domain = one_of(name, named, self.domains(folder, options))
        return without_domain(name, self.kept(folder, options), domain, seed, augment="crop-flip")

    def read(self, source: Path, options: DataOptions) -> ReadData:
        where = f"data '{self.name}:{source}'" if self.takes_path else f"data {self.name!r}"
        tops = {each: source / self.folder_of(source, each) for each in self.domains(str(source), options)}
        classes = sorted({folder.name for top in tops.values() for folder in folders_in(top)})
        parts = {domain: labelled_files(top, classes) for domain, top in tops.items()}
        for domain, top in tops.items():
            if not parts[domain]:
                raise InputError(f"{where} has no images in {top}; expected {top}/CLASS/IMAGE")
        check_classes(where, classes)
        present = [{label for _, label in part} for part in parts.values()]
        if sum(map(len, present)) == len(set.union(*present)):
            raise InputError(f"{where}: no two domains have a class in common; expected {source}/DOMAIN/CLASS/IMAGE")
        return read_pictures(where, source, parts, classes, options.image_size, options.skip_bad)

    def folder_of(self, folder: Path, domain: str) -> str:
        """The name under which the domain lies there."""
        return domain


class OwnDomains(DomainImages):
    r"""Domains of one's own: folder/domain/class/image, or a .csv or .npz file that names them; domains:PATH:DOMAIN.

    The domain is what follows the last colon, if neither / nor \ does and something stands before it. So `domains:a:b`
    holds b out of the folder a, and the folder a:b is `domains:a:b/`.
    """

    name = "domains"
    takes_path = True

    def is_read(self, name: str, is_folder: bool) -> bool:
        return is_folder

    def held_out(self, path: str) -> tuple[str, str | None]:
        folder, _, domain = path.rpartition(":")
        if not folder or not domain or "/" in domain or "\\" in domain:
            return path, None
        return folder, domain

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        file, named = self.held_out(path)
        if (kind := self.kind(file)) == "folder":
            return super().__call__(path, seed, options)
        name = f"{self.name}:{file}"
        if options.image_size is not None:
            raise InputError(f"image size {options.image_size}: the samples of data {name!r} have a size of their own")
        if kind == ".npz":
            read = self.kept(file, options)
            return without_domain(name, read, one_of(name, named, self.names_of(name, read)), seed, things="samples")
        from durm.data.text import encoded, texts_by_domain  # which takes half a second

        texts, read = texts_by_domain(f"data {name!r}", self.source(file, options))
        rows = without_domain(name, read, one_of(name, named, self.names_of(name, read)), seed, things="texts")
        # The vocabulary is that of all texts of the training domains, so that the test set is the same for every seed.
        return encoded(rows, texts, joined(rows.train, rows.val), options)

    def read(self, source: Path, options: DataOptions) -> ReadData:
        if self.kind(str(source)) == ".npz":
            return arrays_by_domain(f"data '{self.name}:{source}'", source)
        return super().read(source, options)

    def domains(self, path: str, options: DataOptions) -> list[str]:
        root, name = self.source(path, options), f"{self.name}:{path}"
        where = f"data {name!r}"
        if (kind := self.kind(path)) == ".npz":
            return self.names_of(name, self.kept(path, options))
        if kind == ".csv":
            from durm.data.text import texts_by_domain

            return self.names_of(name, texts_by_domain(where, root)[1])
        check_folder(where, root, "a folder that has a folder for each domain, or a .csv or .npz file")
        names = [folder.name for folder in folders_in(root)]
        if not names:
            raise InputError(f"{where} has no domain folders; expected {root}/DOMAIN/CLASS/IMAGE")
        return checked(where, names)

    def kind(self, path: str) -> str:
        """`.csv`, `.npz` or `folder`."""
        source = Path(path).expanduser()
        suffix = source.suffix.lower()
        return suffix if suffix in (".csv", ".npz") and not source.is_dir() else "folder"

    def names_of(self, name: str, read: ReadData) -> list[str]:
        return checked(f"data {name!r}", list(read.parts))


def checked(where: str, names: list[str]) -> list[str]:
    """The names of the domains, each of which can be held out by it."""
    if len(names) == 1:
        raise InputError(f"{where} has one domain only, {names[0]!r}; leaving one out needs at least two")
    for name in names:
        for mark, word in ((":", "colon"), ("/", "slash"), ("\\", "backslash")):
            if mark in name:
                raise InputError(
                    f"{where}: the domain {name!r} has a {word} in its name, and cannot be named after a colon"
                )
        if name != name.strip() or not name:
            raise InputError(f"{where}: the domain {name!r} is empty, or begins or ends with a space")
    return names


class PublishedDomains(DomainImages, PublishedFiles):
    """A published data set.

    `folders` are those under the root that may hold the domains; `images` is how many there are, in each of the copies
    that go around, and `classes` of how many classes.
    """

    images: tuple[int, ...]
    classes: int

    def find(self, options: DataOptions) -> Path:
        root = root_folder(options)
        layouts = {
            folder: [f"{self.folder_of(root / folder, domain)}/" for domain in self.domain_names]
            for folder in self.folders
        }
        return find_files(self.name, options, layouts)

    def read(self, source: Path, options: DataOptions) -> ReadData:
        read = super().read(source, options)
        count = sum(len(part) for part in read.parts.values())
        if count not in self.images or len(read.classes) != self.classes:
            published = " or ".join(f"{images:,}" for images in self.images)
            read.notes.append(
                f"{count:,} images of {len(read.classes)} classes; published are {published} of {self.classes}"
            )
        return read


class Pacs(PublishedDomains):
    """PACS: 9,991 paintings, cartoons, photographs and sketches, 4 domains, 7 classes; PACS/DOMAIN/CLASS/."""

    name = "pacs"
    domain_names = ("art_painting", "cartoon", "photo", "sketch")
    folders = ("PACS",)
    images = (9991,)
    classes = 7


class Vlcs(PublishedDomains):
    """VLCS: 10,729 photographs from 4 data sets as domains, 5 classes; VLCS/DOMAIN/CLASS/."""

    name = "vlcs"
    domain_names = ("Caltech101", "LabelMe", "SUN09", "VOC2007")
    folders = ("VLCS",)
    images = (10_729,)
    classes = 5


class OfficeHome(PublishedDomains):
    """Office-Home: 15,588 images of things at work and at home, 4 domains, 65 classes; office_home/DOMAIN/CLASS/."""

    name = "officehome"
    domain_names = ("Art", "Clipart", "Product", "Real World")
    folders = ("office_home", "OfficeHomeDataset_10072016")
    images = (15_588,)
    classes = 65

    def folder_of(self, folder: Path, domain: str) -> str:
        return "Real" if domain == "Real World" and (folder / "Real").is_dir() else domain


class TerraIncognita(PublishedDomains):
    """Terra Incognita: 24,788 photographs by camera traps at 4 places, 10 classes; terra_incognita/DOMAIN/CLASS/."""

    name = "terraincognita"
    domain_names = ("location_100", "location_38", "location_43", "location_46")
    folders = ("terra_incognita",)
    images = (24_788, 24_330)  # as DomainBed's paper counts them, and in the copy that it downloads
    classes = 10


for loader in (OwnDomains(), Pacs(), Vlcs(), OfficeHome(), TerraIncognita()):
    LOADERS.register(loader.name)(loader)
