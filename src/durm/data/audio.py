"""Sound: UrbanSound8K, the Free Spoken Digit Dataset, and class folders of sound files of one's own.

A clip becomes log-mel features of shape (frames, mels): mixed to one channel, brought to one rate and one length (cut
off, or with silence behind it), and then `log_mel`. The clips of a data set have one format, and are kept in memory.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durm._files import read_text
from durm._text import pluralize
from durm.data import LOADERS, DataOptions
from durm.data.bundle import InputFormat, LazyImages, MappedRows
from durm.data.folder import scan
from durm.data.reading import FileLoader, Members, PublishedFiles, ReadData, check_parts, make_parts, read_all, readable
from durm.data.shared import measured
from durm.errors import InputError

SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au")
LOWEST_RATE, HIGHEST_RATE = 1_000, 384_000
MOST_SECONDS = 4
MELS = 40

FLOOR = 1e-4
"""The least power that counts: 76 dB below a tone of full scale in a window of 256 samples, 88 dB in one of 1024."""


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


class Sounds(FileLoader):
    """What the loaders of sound files have in common."""

    things = "clips"

    def measure(self, inputs: Tensor | LazyImages) -> InputFormat:
        if isinstance(inputs, MappedRows):
            return measured(inputs, _measure, "mel bands")
        assert isinstance(inputs, Tensor)
        return _measure(inputs)


def _measure(inputs: Tensor) -> InputFormat:
    """Mean and standard deviation of each mel band, of shape (1, mels)."""
    mean, std = inputs.mean((0, 1)), inputs.std((0, 1))
    std = torch.where(std > 1e-3, std, 1.0)  # a band that is always silent is not quite constant after rounding
    return InputFormat(tuple(inputs.shape[1:]), mean.unsqueeze(0), std.unsqueeze(0))


class UrbanSound8K(Sounds, PublishedFiles):
    """UrbanSound8K: 8,732 street sounds of up to 4 s, 10 classes; UrbanSound8K/metadata/ and UrbanSound8K/audio/."""

    name = "urbansound8k"
    published = (7_895, 837, 10)
    folders = ("UrbanSound8K",)
    needed = ("metadata/UrbanSound8K.csv",)
    format = SoundFormat(rate=22_050, samples=4 * 22_050)

    def read(self, source: Path, options: DataOptions) -> ReadData:
        members: Members = {"train": [], "val": [], "test": []}
        classes = [str(label) for label in range(10)]
        for file, fold, label, name in _metadata(source / "metadata" / "UrbanSound8K.csv"):
            part = {9: "val", 10: "test"}.get(fold, "train")
            members[part].append((source / "audio" / f"fold{fold}" / file, label))
            classes[label] = name
        note = "fold 10 is the test set, fold 9 the validation set; published results average ten folds"
        return _read("data 'urbansound8k'", members, classes, self.format, options.skip_bad, note)


class SpokenDigits(Sounds, PublishedFiles):
    """Free Spoken Digit Dataset: 3,000 spoken digits of 6 speakers; fsdd/recordings/DIGIT_SPEAKER_INDEX.wav."""

    name = "fsdd"
    published = (2_700, 300, 10)
    folders = ("fsdd", "free-spoken-digit-dataset")
    needed = ("recordings/",)
    format = SoundFormat(rate=8_000, samples=6_000)

    def read(self, source: Path, options: DataOptions) -> ReadData:
        members: Members = {"train": [], "test": []}
        for path in sorted((source / "recordings").glob("*.wav")):
            named = re.fullmatch(r"([0-9])_([^_]+)_([0-9]+)", path.stem)
            if named is None:
                raise InputError(f"data 'fsdd': {path} is no name of a recording; expected DIGIT_SPEAKER_INDEX.wav")
            members["test" if int(named[3]) < 5 else "train"].append((path, int(named[1])))
        note = "recordings 0 to 4 of each speaker and digit are the test set, as published"
        return _read("data 'fsdd'", members, list("0123456789"), self.format, options.skip_bad, note)


class SoundFolder(Sounds):
    """Class folders of sounds (folder/class/sound), with train/, val/, test/ above them or split by seed."""

    takes_path = True

    def is_read(self, name: str, is_folder: bool) -> bool:
        return is_folder

    def read(self, source: Path, options: DataOptions) -> ReadData:
        members, classes = scan(source, "audio")
        where = f"data 'audio:{source}'"
        format = _common_format(where, [path for part in members.values() for path, _ in part])
        return _read(where, members, classes, format, options.skip_bad)


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
            raise ValueError("it holds NaN or infinite values")
    mono = content.mean(1)
    if rate != format.rate:
        common = math.gcd(rate, format.rate)
        mono = resample_poly(mono, format.rate // common, rate // common)
    clip = torch.zeros(format.samples, dtype=torch.float64)
    clip[: len(mono)] = torch.from_numpy(mono[: format.samples])
    return clip


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        soundfile = import_module("soundfile")
    except (ImportError, OSError):  # an OSError where the C library below it is missing
        raise InputError("sounds are read with the package soundfile: pip install 'durm[audio]'") from None
    with readable(path, "a sound"):
        if not path.is_file():
            raise ValueError("there is no such file")
        with soundfile.SoundFile(path) as file:
            if file.frames == 0:
                raise ValueError("it has no samples")
            if not LOWEST_RATE <= file.samplerate <= HIGHEST_RATE:
                allowed = f"expected {LOWEST_RATE:,} to {HIGHEST_RATE:,}"
                raise ValueError(f"it has {file.samplerate:,} samples a second; {allowed}")
            yield file


def _metadata(path: Path) -> Iterator[tuple[str, int, int, str]]:
    """The file, fold, label and class name of each row."""
    columns = ("slice_file_name", "fold", "classID", "class")
    reader = csv.DictReader(read_text(path).splitlines())
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


def _common_format(where: str, paths: Sequence[Path]) -> SoundFormat:
    """The most common rate of the files, and a length that 95 % of them do not exceed, but at most 4 s."""

    def header(path: Path) -> tuple[int, float]:
        with _opened(path) as file:
            return file.samplerate, file.frames / file.samplerate

    headers = read_all(header, paths)[0].values()
    if not headers:
        raise InputError(f"{where} has no sound that can be read")
    counts = Counter(rate for rate, _ in headers)
    rate = max(counts, key=lambda rate: (counts[rate], rate))
    seconds = min(MOST_SECONDS, float(np.quantile([seconds for _, seconds in headers], 0.95)))
    return SoundFormat(rate, max(1, round(seconds * rate)))


def _read(
    where: str, members: Members, classes: list[str], format: SoundFormat, skip_bad: bool, *notes: str
) -> ReadData:
    """The features of all files: float64 until the last step, so they are the same on nearly every machine."""
    paths, threads = [path for part in members.values() for path, _ in part], torch.get_num_threads()
    torch.set_num_threads(1)  # or torch would start as many threads again in each of those that read
    try:
        features, bad = read_all(lambda path: format.features(read_sound(path, format)), paths)
    finally:
        torch.set_num_threads(threads)
    if bad and not skip_bad:
        others = f", as {pluralize(len(bad) - 1, 'file')} more cannot" if len(bad) > 1 else ""
        raise InputError(f"{where}: {bad[0]}{others}; mend or remove what is bad, or leave it out with `skip_bad`")
    parts, left_out = make_parts(
        where, members, features, "sounds", lambda paths: torch.stack([features[path] for path in paths])
    )
    check_parts(where, parts, classes, "clips")
    return ReadData(parts, classes, [f"{len(features):,} clips of {format}", *left_out, *notes])


LOADERS.register("urbansound8k")(UrbanSound8K())
LOADERS.register("fsdd")(SpokenDigits())
LOADERS.register("audio")(SoundFolder())
