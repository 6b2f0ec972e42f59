"""Sound: UrbanSound8K, the Free Spoken Digit Dataset, and class folders of sound files of one's own.

A clip becomes log-mel features of shape (frames, mels): mixed to one channel, brought to one rate and one length (cut
off, or with silence behind it), and then `log_mel`. The clips of a data set have one format, and are kept in memory.
"""

import csv
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durm._words import counted
from durm.data import LOADERS, DataOptions, find_files
from durm.data.bundle import DataBundle, InputFormat, Samples, split_by_seed, split_parts
from durm.data.folder import scan
from durm.errors import InputError

SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au")
LOWEST_RATE, HIGHEST_RATE = 1_000, 384_000
MOST_SECONDS = 4
MELS = 40

FLOOR = 1e-4
"""The least power that counts: 76 dB below a tone of full scale in a window of 256 samples, 88 dB in one of 1024."""

Members = dict[str, list[tuple[Path, int]]]
"""The files of each part with their labels."""


class UrbanSound8K:
    """UrbanSound8K: 8,732 street sounds of up to 4 s, 10 classes; UrbanSound8K/metadata/ and UrbanSound8K/audio/."""

    takes_path = False
    takes_image_size = False
    published = (7_895, 837, 10)

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        read = _urbansound8k(self.find(options), options.skip_bad)
        notes = [*read.notes, "fold 10 is the test set, fold 9 the validation set; published results average ten folds"]
        return _bundle(read.parts, read.classes, notes)

    def find(self, options: DataOptions) -> Path:
        return find_files("urbansound8k", options, {"UrbanSound8K": ["metadata/UrbanSound8K.csv"]})

    def checksums(self, folder: Path) -> dict[str, str]:
        return {}

    def write_sample(self, root: Path) -> None:
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


class SpokenDigits:
    """Free Spoken Digit Dataset: 3,000 spoken digits of 6 speakers; fsdd/recordings/DIGIT_SPEAKER_INDEX.wav."""

    takes_path = False
    takes_image_size = False
    published = (2_700, 300, 10)

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        read = _spoken_digits(self.find(options), options.skip_bad)
        train, val = split_by_seed(read.parts["train"], 0.1, seed, "val")
        notes = [
            *read.notes,
            "recordings 0 to 4 of each speaker and digit are the test set, as published",
            "10 % of the training clips of each class are the validation set, by seed",
        ]
        return _bundle({"train": train, "val": val, "test": read.parts["test"]}, read.classes, notes)

    def find(self, options: DataOptions) -> Path:
        needed = ["recordings/"]
        return find_files("fsdd", options, {"fsdd": needed, "free-spoken-digit-dataset": needed})

    def checksums(self, folder: Path) -> dict[str, str]:
        return {}

    def write_sample(self, root: Path) -> None:
        """Two speakers who hum each digit ten times, at a pitch of its own."""
        for digit in range(10):
            for number, speaker in enumerate(("jackson", "nicolas")):
                for index in range(10):
                    file = root / "fsdd" / "recordings" / f"{digit}_{speaker}_{index}.wav"
                    _write_tone(file, digit, 100 * digit + 10 * number + index, rate=8_000, channels=1)


class SoundFolder:
    """Class folders of sounds (folder/class/sound), with train/, val/, test/ above them or split by seed."""

    takes_path = True
    takes_image_size = False

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        read = _sound_folder(Path(path).expanduser(), options.skip_bad)
        parts, notes = split_parts(read.parts, seed, "clips")
        return _bundle(parts, read.classes, [*read.notes, *notes])


def is_sound(path: Path) -> bool:
    """Whether the name is that of a sound file; the file is not opened."""
    return path.suffix.lower() in SUFFIXES


def log_mel(waveform: Tensor, rate: int, window: int, hop: int, mels: int) -> Tensor:
    """The log-mel features of a sound (samples,) at `rate`: float32 (frames, mels) with 1 + samples // hop frames.

    log(max(|X|² · F, FLOOR)), the natural logarithm. X is the short-time Fourier transform under a periodic Hann window
    of so many samples, one frame every `hop` of them, the first and the last centred on the ends of the sound with
    zeros beyond; F are the filters of `mel_filters`.
    """
    hann = torch.hann_window(window, dtype=waveform.dtype)
    spectrum = torch.stft(waveform, window, hop, window=hann, pad_mode="constant", return_complex=True)
    power = (spectrum.real.square() + spectrum.imag.square()).T
    return (power @ mel_filters(rate, window, mels).to(power.dtype)).clamp(min=FLOOR).log().float()


@lru_cache(maxsize=8)
def mel_filters(rate: int, window: int, mels: int) -> Tensor:
    """Triangles over the frequencies k · rate / window of the Fourier transform, (window // 2 + 1, mels) in float64.

    The corners are mels + 2 points from 0 to rate / 2, evenly spaced on the mel scale of HTK, 2595 log₁₀(1 + f / 700);
    triangle m rises from corner m to 1 at corner m + 1 and falls to 0 at corner m + 2.
    """
    frequencies = torch.arange(window // 2 + 1, dtype=torch.float64).unsqueeze(1) * rate / window
    highest = 2595 * math.log10(1 + rate / 2 / 700)
    corners = 700 * (10 ** (torch.linspace(0, highest, mels + 2, dtype=torch.float64) / 2595) - 1)
    left, centre, right = corners[:-2], corners[1:-1], corners[2:]
    rising, falling = (frequencies - left) / (centre - left), (right - frequencies) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0)


@dataclass(frozen=True)
class SoundFormat:
    """What all clips of a data set are brought to: so many samples at that rate (per second)."""

    rate: int
    samples: int

    @property
    def window(self) -> int:
        """The power of two next to 40 ms (28 to 57): long enough to tell pitches, short enough to follow speech."""
        return int(2 ** round(math.log2(self.rate / 25)))

    @property
    def hop(self) -> int:
        return self.window // 2

    def features(self, clip: Tensor) -> Tensor:
        """(samples,) → (frames, mels)."""
        return log_mel(clip, self.rate, self.window, self.hop, MELS)

    def __str__(self) -> str:
        shape = f"{1 + self.samples // self.hop} frames of {MELS} log-mel features"
        return f"{self.samples / self.rate:.3g} s at {self.rate:,} Hz: {shape}"


def read_sound(path: Path, format: SoundFormat) -> Tensor:
    """The beginning of a sound file in that format, (samples,) in float64 between -1 and 1.

    The mean of its channels, resampled by a polyphase filter, with silence behind it if it is short.

    Raises:
        InputError: if the file cannot be read, or has no samples.
    """
    from scipy.signal import resample_poly

    with _opened(path) as file:
        rate = file.samplerate
        content = file.read(math.ceil(format.samples * rate / format.rate), dtype="float64", always_2d=True)
        if not np.isfinite(content).all():
            raise InputError(f"{path} cannot be read as a sound: it holds NaN or infinite values")
    mono = content.mean(1)
    if rate != format.rate:
        common = math.gcd(rate, format.rate)
        mono = resample_poly(mono, format.rate // common, rate // common)
    clip = torch.zeros(format.samples, dtype=torch.float64)
    clip[: len(mono)] = torch.from_numpy(mono[: format.samples])
    return clip


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The open file. Whatever is wrong with it, there or while it is read, is one sentence that names it."""
    soundfile = _soundfile()
    try:
        if not path.is_file():
            raise ValueError("there is no such file")
        with soundfile.SoundFile(path) as file:
            if file.frames == 0:
                raise ValueError("it has no samples")
            if not LOWEST_RATE <= file.samplerate <= HIGHEST_RATE:
                allowed = f"expected {LOWEST_RATE:,} to {HIGHEST_RATE:,}"
                raise ValueError(f"it has {file.samplerate:,} samples a second; {allowed}")
            yield file
    except InputError:
        raise
    except Exception as error:  # besides its own errors, soundfile raises those of a caller who gave no format
        reason = " ".join(str(error).split()).removeprefix(f"Error opening {str(path)!r}: ").rstrip(".")
        raise InputError(f"{path} cannot be read as a sound: {reason}") from None


def _soundfile() -> Any:
    try:
        return import_module("soundfile")
    except (ImportError, OSError):  # an OSError where the C library below it is missing
        raise InputError("sounds are read with the package soundfile: pip install 'durm[audio]'") from None


@dataclass(frozen=True)
class _Read:
    parts: dict[str, Samples]
    classes: list[str]
    notes: list[str]


# What follows does not depend on the seed, and is kept: every trial of a study asks for it.


@lru_cache(maxsize=2)
def _urbansound8k(folder: Path, skip_bad: bool) -> _Read:
    members: Members = {"train": [], "val": [], "test": []}
    classes = [str(label) for label in range(10)]
    for file, fold, label, name in _metadata(folder / "metadata" / "UrbanSound8K.csv"):
        part = {9: "val", 10: "test"}.get(fold, "train")
        members[part].append((folder / "audio" / f"fold{fold}" / file, label))
        classes[label] = name
    format = SoundFormat(rate=22_050, samples=4 * 22_050)
    return _read("data 'urbansound8k'", members, classes, format, skip_bad, needed=1)


def _metadata(path: Path) -> Iterator[tuple[str, int, int, str]]:
    """The file, fold, label and class name of each row."""
    columns = ("slice_file_name", "fold", "classID", "class")
    try:
        reader = csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines())
    except UnicodeDecodeError:
        raise InputError(f"{path} cannot be read: not UTF-8 text") from None
    if missing := [column for column in columns if column not in (reader.fieldnames or ())]:
        raise InputError(f"{path} has no column {' and '.join(missing)}; expected {', '.join(columns)}")
    names: dict[int, str] = {}
    for row in reader:
        where = f"{path}, line {reader.line_num}"
        file, fold, label, name = ((row[column] or "").strip() for column in columns)
        if not file:
            raise InputError(f"{where}: slice_file_name is empty; expected the name of a file in audio/fold{fold}")
        if not fold.isdecimal() or not 1 <= int(fold) <= 10:
            raise InputError(f"{where}: fold {fold!r}; expected 1 to 10")
        if not label.isdecimal() or int(label) > 9:
            raise InputError(f"{where}: classID {label!r}; expected 0 to 9")
        if (known := names.setdefault(int(label), name)) != name:
            raise InputError(f"{where}: classID {label} is {name!r}; expected {known!r}, as in the lines before")
        yield file, int(fold), int(label), name


@lru_cache(maxsize=2)
def _spoken_digits(folder: Path, skip_bad: bool) -> _Read:
    members: Members = {"train": [], "test": []}
    for path in sorted((folder / "recordings").glob("*.wav")):
        named = re.fullmatch(r"([0-9])_([^_]+)_([0-9]+)", path.stem)
        if named is None:
            raise InputError(f"data 'fsdd': {path} is no name of a recording; expected DIGIT_SPEAKER_INDEX.wav")
        members["test" if int(named[3]) < 5 else "train"].append((path, int(named[1])))
    classes = [str(digit) for digit in range(10)]
    return _read("data 'fsdd'", members, classes, SoundFormat(rate=8_000, samples=6_000), skip_bad, needed=2)


@lru_cache(maxsize=2)
def _sound_folder(root: Path, skip_bad: bool) -> _Read:
    where = f"data 'audio:{root}'"
    members, classes = scan(root, "audio")
    if len(classes) < 2:
        raise InputError(f"{where} has one class only, {classes[0]!r}; a classifier needs at least two")
    format = _common_format([path for part in members.values() for path, _ in part])
    if format is None:
        raise InputError(f"{where} has no sound that can be read")
    needed = 4 - len(members)  # one for each part that is split off the training clips, and one that stays
    return _read(where, members, classes, format, skip_bad, needed)


def _common_format(paths: Sequence[Path]) -> SoundFormat | None:
    """The most common rate of the files, and a length that 95 % of them do not exceed, but at most 4 s."""

    def header(path: Path) -> tuple[int, float] | None:
        try:
            with _opened(path) as file:
                return file.samplerate, file.frames / file.samplerate
        except InputError:
            return None

    _soundfile()  # or its absence would pass for that of sounds
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        headers = [found for found in pool.map(header, paths) if found is not None]
    if not headers:
        return None
    counts = Counter(rate for rate, _ in headers)
    rate = max(counts, key=lambda rate: (counts[rate], rate))
    seconds = min(MOST_SECONDS, float(np.quantile([seconds for _, seconds in headers], 0.95)))
    return SoundFormat(rate, max(1, round(seconds * rate)))


def _read(where: str, members: Members, classes: list[str], format: SoundFormat, skip_bad: bool, needed: int) -> _Read:
    """The features of all files; each class must have so many training clips as are `needed`."""
    features, bad = _all_features([path for part in members.values() for path, _ in part], format)
    if bad and not skip_bad:
        others = f", as {counted(len(bad) - 1, 'file')} more cannot" if len(bad) > 1 else ""
        raise InputError(f"{where}: {bad[0]}{others}; mend or remove what is bad, or leave it out with --skip-bad")
    parts = {}
    for name, part in members.items():
        good = [(features[path], label) for path, label in part if path in features]
        if not good:
            raise InputError(f"{where} has no sound in its {name} part that can be read")
        parts[name] = Samples(torch.stack([clip for clip, _ in good]), torch.tensor([label for _, label in good]))
    for label, count in enumerate(torch.bincount(parts["train"].labels, minlength=len(classes)).tolist()):
        if count < needed:
            raise InputError(
                f"{where}: class {classes[label]!r} has {count} training clips; expected at least {needed}"
            )
    notes = [f"{len(features):,} clips of {format}"]
    if bad:
        notes.append(f"{counted(len(bad), 'file')} that cannot be read as sounds were left out")
    return _Read(parts, classes, notes)


def _all_features(paths: Sequence[Path], format: SoundFormat) -> tuple[dict[Path, Tensor], list[InputError]]:
    """The features, (frames, mels), of the files that can be read, and what is wrong with the others.

    Each thread has a file of its own, so torch needs no more in each; it would start as many again in every one. What
    is read is float64: the float32 that comes of it is then the same on nearly every machine.
    """

    def attempt(path: Path) -> Tensor | InputError:
        try:
            return format.features(read_sound(path, format))
        except InputError as error:
            return error

    _soundfile()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(zip(paths, pool.map(attempt, paths), strict=True))
    finally:
        torch.set_num_threads(threads)
    features = {path: clip for path, clip in found if isinstance(clip, Tensor)}
    return features, [error for _, error in found if isinstance(error, InputError)]


def _bundle(parts: dict[str, Samples], classes: list[str], notes: list[str]) -> DataBundle:
    """The three parts with mean and standard deviation of each mel band over the training clips, of shape (1, mels)."""
    inputs = parts["train"].inputs
    assert isinstance(inputs, Tensor)
    mean, std = inputs.mean((0, 1)), inputs.std((0, 1))
    std = torch.where(std > 1e-3, std, 1.0)  # a band that is always silent is not quite constant after rounding
    format = InputFormat(tuple(inputs.shape[1:]), mean.unsqueeze(0), std.unsqueeze(0))
    return DataBundle(parts["train"], parts["val"], parts["test"], len(classes), classes, format, notes=notes)


def _write_tone(path: Path, label: int, seed: int, rate: int, channels: int) -> None:
    """A noisy tone of about half a second as 16-bit WAV: 200 Hz for label 0, a third higher for each next one."""
    from scipy.io import wavfile

    random = np.random.default_rng(seed)
    time = np.arange(round(rate * random.uniform(0.4, 0.6))) / rate
    tone = 0.3 * np.sin(2 * np.pi * 200 * 1.26**label * random.uniform(0.97, 1.03) * time)
    noisy = tone[:, None] + 0.03 * random.standard_normal((len(time), channels))
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, (noisy * 32_767).astype(np.int16))


LOADERS.register("urbansound8k")(UrbanSound8K())
LOADERS.register("fsdd")(SpokenDigits())
LOADERS.register("audio")(SoundFolder())
