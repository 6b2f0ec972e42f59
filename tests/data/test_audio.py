"""Sound: files of every kind that the tests write themselves, features against other computations, splits, refusals."""

import math
import struct
import sys
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from scipy.io import wavfile

from durm.data import DataOptions, load
from durm.data.audio import FLOOR, SoundFormat, is_sound, log_mel, mel_filters, read_sound
from durm.data.bundle import DataBundle, Samples
from durm.errors import InputError
from tests.data.samples import write_sample


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """What is computed here is so small that more would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tone(frequency: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


def noise(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, count)


def write(path: Path, content: np.ndarray, rate: int = 8000, bits: int = 16) -> Path:
    """A WAV file of (samples,) or (samples, channels) between -1 and 1, by the standard library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = np.round(content * 2 ** (bits - 1)).astype(np.int64)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if content.ndim == 1 else content.shape[1])
        file.setsampwidth(bits // 8)
        file.setframerate(rate)
        if bits == 8:  # of which WAV files have no sign
            file.writeframes((whole + 128).astype(np.uint8).tobytes())
        else:
            file.writeframes(b"".join(int(value).to_bytes(bits // 8, "little", signed=True) for value in whole.flat))
    return path


def inputs(samples: Samples) -> torch.Tensor:
    assert isinstance(samples.inputs, torch.Tensor)
    return samples.inputs


def sizes(data: DataBundle) -> tuple[int, int, int]:
    return len(data.train), len(data.val), len(data.test)


def pitch(samples: np.ndarray, rate: int) -> float:
    """The frequency of the strongest bin of the whole sound."""
    return float(np.abs(np.fft.rfft(samples)).argmax() * rate / len(samples))


def mel(frequency: float) -> float:
    return 2595 * math.log10(1 + frequency / 700)


def hertz(mel: float) -> float:
    return 700 * (10 ** (mel / 2595) - 1)


# Features.


@pytest.mark.parametrize(
    ("rate", "window", "hop", "mels", "count"),
    [(8000, 256, 128, 40, 2000), (22_050, 1024, 512, 40, 5000), (16_000, 400, 160, 24, 1001), (8000, 256, 128, 20, 1)],
)
def test_log_mel_is_what_a_plain_loop_computes(rate: int, window: int, hop: int, mels: int, count: int) -> None:
    sound = noise(0, count)
    corners = [hertz(index * mel(rate / 2) / (mels + 1)) for index in range(mels + 2)]
    frequencies = np.arange(window // 2 + 1) * rate / window
    hann = np.array([0.5 - 0.5 * math.cos(2 * math.pi * n / window) for n in range(window)])
    padded = np.concatenate([np.zeros(window // 2), sound, np.zeros(window // 2)])
    expected = []
    for start in range(0, len(padded) - window + 1, hop):
        power = np.abs(np.fft.rfft(hann * padded[start : start + window])) ** 2
        bands = [power @ np.interp(frequencies, corners[m : m + 3], [0, 1, 0]) for m in range(mels)]
        expected.append(np.log(np.maximum(bands, FLOOR)))
    found = log_mel(torch.from_numpy(sound), rate, window, hop, mels)
    assert found.dtype == torch.float32
    assert found.shape == (1 + count // hop, mels)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_log_mel_is_that_of_librosa() -> None:
    feature = pytest.importorskip("librosa.feature")
    sound = noise(1, 22_050)
    power = feature.melspectrogram(
        y=sound, sr=22_050, n_fft=1024, hop_length=512, n_mels=40, htk=True, norm=None, pad_mode="constant"
    )
    found = log_mel(torch.from_numpy(sound), 22_050, 1024, 512, 40)
    np.testing.assert_allclose(found.numpy(), np.log(power.T), rtol=1e-5)


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("frequency", [150.0, 440.0, 1234.0, 3500.0])
def test_a_tone_is_strongest_in_the_band_that_is_centred_nearest_to_it(rate: int, frequency: float) -> None:
    format = SoundFormat(rate, rate // 2)
    features = format.features(torch.from_numpy(tone(frequency, rate)))
    nearest = round(mel(frequency) / (mel(rate / 2) / 41)) - 1
    assert features.shape == (1 + rate // 2 // format.hop, 40)
    assert (features[2:-2].argmax(1) - nearest).abs().max() <= 1


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000, 96_000])
def test_the_window_is_some_40_ms_and_leaves_no_band_empty(rate: int) -> None:
    window = SoundFormat(rate, rate).window
    assert window.bit_count() == 1
    assert 0.028 < window / rate < 0.057
    assert mel_filters(rate, window, 40).sum(0).min() > 0.2


def test_silence_is_the_floor() -> None:
    assert torch.equal(log_mel(torch.zeros(800), 8000, 256, 128, 40), torch.full((7, 40), FLOOR).log())


@pytest.mark.parametrize(("window", "decibels"), [(256, 76.1), (1024, 88.2)])
def test_the_floor_is_so_far_below_a_tone_of_full_scale(window: int, decibels: float) -> None:
    filters = mel_filters(8000, window, 1)  # at the peak of the only band
    frequency = float(filters.argmax() * 8000 / window)
    sound = torch.cos(2 * torch.pi * frequency * torch.arange(4 * window, dtype=torch.float64) / 8000)
    middle = (
        log_mel(sound, 8000, window, window // 2, 1)[4, 0] - (1.5 * filters.max()).log()
    )  # its two neighbours add 1/4
    assert (middle - math.log(FLOOR)).item() * 10 / math.log(10) == pytest.approx(decibels, abs=0.1)


# LazyImages.


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_whole_numbers_of_any_width_are_read(bits: int, tmp_path: Path) -> None:
    sound = noise(bits, 500)
    found = read_sound(write(tmp_path / "x.wav", sound, bits=bits), SoundFormat(8000, 500))
    assert found.dtype == torch.float64
    assert np.abs(found.numpy() - sound).max() <= 0.5 / 2 ** (bits - 1) + 1e-12


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_floating_point_is_read(kind: type, tmp_path: Path) -> None:
    sound = noise(0, 500).astype(kind)
    wavfile.write(tmp_path / "x.wav", 8000, sound)
    assert np.array_equal(read_sound(tmp_path / "x.wav", SoundFormat(8000, 500)).numpy(), sound)


@pytest.mark.parametrize(("name", "tolerance"), [("x.flac", 1e-4), ("x.ogg", 0.1), ("x.aiff", 1e-4), ("x.mp3", 0.1)])
def test_other_formats_are_read(name: str, tolerance: float, tmp_path: Path) -> None:
    if name[2:].upper() not in soundfile.available_formats():
        pytest.skip(f"this libsndfile has no {name[2:]}")
    sound = tone(440, 16_000)
    soundfile.write(tmp_path / name, sound, 16_000)
    found = read_sound(tmp_path / name, SoundFormat(16_000, 8000)).numpy()
    assert pitch(found, 16_000) == 440
    if tolerance < 0.1:  # the others are lossy, and may begin a little later
        assert np.abs(found - sound).max() < tolerance


def test_channels_are_averaged(tmp_path: Path) -> None:
    both = np.stack([noise(0, 300), noise(1, 300), noise(2, 300)], 1)
    found = read_sound(write(tmp_path / "x.wav", both, bits=32), SoundFormat(8000, 300))
    assert np.abs(found.numpy() - both.mean(1)).max() < 1e-8


def test_a_long_sound_is_cut_and_silence_follows_a_short_one(tmp_path: Path) -> None:
    sound = noise(0, 500)
    path = write(tmp_path / "x.wav", sound, bits=32)
    assert np.abs(read_sound(path, SoundFormat(8000, 300)).numpy() - sound[:300]).max() < 1e-8
    padded = read_sound(path, SoundFormat(8000, 700)).numpy()
    assert np.abs(padded[:500] - sound).max() < 1e-8
    assert (padded[500:] == 0).all()


@pytest.mark.parametrize("rate", [8000, 11_025, 44_100, 48_000, 96_000])
def test_a_tone_keeps_its_frequency_and_its_length_at_another_rate(rate: int, tmp_path: Path) -> None:
    path = write(tmp_path / "x.wav", tone(440, rate), rate)
    found = read_sound(path, SoundFormat(22_050, 22_050)).numpy()
    assert pitch(found[:11_000], 22_050) == pytest.approx(440, abs=2)
    assert np.abs(found[500:10_500] - tone(440, 22_050)[500:10_500]).max() < 0.01
    assert (found[11_100:] == 0).all()


def test_what_the_new_rate_cannot_hold_is_filtered_out(tmp_path: Path) -> None:
    path = write(tmp_path / "x.wav", tone(6000, 44_100), 44_100)
    found = read_sound(path, SoundFormat(8000, 4000)).numpy()
    assert np.abs(found[200:3800]).max() < 0.01


def ruin(path: Path, how: str) -> None:
    """Puts something in the place of a file that cannot be read as a sound."""
    path.parent.mkdir(parents=True, exist_ok=True)
    good = write(path, noise(0, 300)).read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "not finite":
        wavfile.write(path, 8000, np.array([0, np.nan, 1], np.float32))
    else:
        slow = good[:24] + struct.pack("<I", 5) + good[28:]
        content = {"empty": b"", "text": b"hello " * 50, "cut": good[:30], "no samples": good[:44], "slow": slow}
        path.write_bytes(content[how])


RUINS = {
    "missing": "there is no such file",
    "empty": "Format not recognised",
    "text": "Format not recognised",
    "cut": "No 'data' chunk marker",
    "no samples": "it has no samples",
    "slow": "it has 5 samples a second; expected 1,000 to 384,000",
    "not finite": "it holds NaN or infinite values",
}


@pytest.mark.parametrize("how", RUINS)
def test_a_file_that_is_no_sound_is_named_in_one_line(how: str, tmp_path: Path) -> None:
    path = tmp_path / "it's.wav"
    ruin(path, how)
    with pytest.raises(InputError) as refused:
        read_sound(path, SoundFormat(8000, 300))
    told = str(refused.value)
    assert told.startswith(f"{path} cannot be read as a sound: ")
    assert told.endswith(RUINS[how])
    assert told.count(str(path)) == 1
    assert "\n" not in told


@pytest.mark.parametrize(
    ("name", "sound"), [("x.wav", True), ("a/X.FLAC", True), ("x.ogg", True), ("x.png", False), ("wav", False)]
)
def test_sounds_are_known_by_their_names(name: str, sound: bool) -> None:
    assert is_sound(Path(name)) == sound


# The Free Spoken Digit Dataset.


def write_digits(root: Path, indices: range = range(9), digits: range = range(10)) -> dict[tuple[int, int], np.ndarray]:
    """One speaker's recordings: noise of 0.5 s, by (digit, index)."""
    recordings = {(digit, index): noise(100 * digit + index, 4000) for digit in digits for index in indices}
    for (digit, index), sound in recordings.items():
        write(root / "fsdd" / "recordings" / f"{digit}_theo_{index}.wav", sound)
    return recordings


def test_recordings_0_to_4_are_the_test_set(tmp_path: Path) -> None:
    recordings = write_digits(tmp_path)
    data = load("fsdd", seed=0, options=DataOptions(tmp_path))
    assert sizes(data) == (30, 10, 50)
    assert data.test.labels.bincount().tolist() == [5] * 10
    assert data.val.labels.bincount().tolist() == [1] * 10
    assert data.class_names == list("0123456789")
    assert data.input.shape == inputs(data.test).shape[1:] == (47, 40)
    features = {}
    for key, sound in recordings.items():
        padded = np.pad(np.round(sound * 2**15) / 2**15, (0, 2000))
        features[key] = log_mel(torch.from_numpy(padded), 8000, 256, 128, 40)
    found = []
    for samples in (data.train, data.val):
        for clip, label in zip(inputs(samples), samples.labels.tolist(), strict=True):
            found += [(label, index) for index in range(9) if torch.equal(clip, features[label, index])]
    assert sorted(found) == [(digit, index) for digit in range(10) for index in range(5, 9)]
    expected = [features[digit, index] for digit in range(10) for index in range(5)]
    assert torch.equal(inputs(data.test), torch.stack(expected))


def test_each_mel_band_is_normalised_over_the_training_clips(tmp_path: Path) -> None:
    write_digits(tmp_path)
    data = load("fsdd", seed=0, options=DataOptions(tmp_path))
    assert data.input.mean.shape == data.input.std.shape == (1, 40)
    values = data.input.normalise(inputs(data.train)).double()
    assert values.mean((0, 1)).abs().max() < 1e-4
    assert (values.std((0, 1)) - 1).abs().max() < 1e-4


def test_bands_that_are_always_silent_stay_zero(tmp_path: Path) -> None:
    for label in range(2):
        for number in range(4):
            write(tmp_path / str(label) / f"{number}.wav", np.zeros(4000))
    data = load(f"audio:{tmp_path}", seed=0)
    assert data.input.normalise(inputs(data.train)).abs().max() < 1e-4


def test_validation_is_a_function_of_the_seed_and_the_files_are_read_once(tmp_path: Path) -> None:
    write_digits(tmp_path)
    first, again, other = (load("fsdd", seed=seed, options=DataOptions(tmp_path)) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.test.inputs is other.test.inputs


def test_the_number_of_threads_is_left_as_it_was(tmp_path: Path) -> None:
    write_digits(tmp_path)
    torch.set_num_threads(3)
    load("fsdd", seed=0, options=DataOptions(tmp_path))
    assert torch.get_num_threads() == 3


def test_the_folder_of_the_repository_will_do(tmp_path: Path) -> None:
    write_digits(tmp_path)
    (tmp_path / "fsdd").rename(tmp_path / "free-spoken-digit-dataset")
    assert sizes(load("fsdd", seed=0, options=DataOptions(tmp_path))) == (30, 10, 50)


@pytest.mark.parametrize("name", ["theo_0.wav", "10_theo_0.wav", "1_theo_x.wav", "1_theo.wav"])
def test_a_recording_of_another_name_is_refused(name: str, tmp_path: Path) -> None:
    write_digits(tmp_path, range(1))
    path = write(tmp_path / "fsdd" / "recordings" / name, noise(0, 100))
    with pytest.raises(InputError, match=rf"{path} is no name of a recording; expected DIGIT_SPEAKER_INDEX\.wav"):
        load("fsdd", seed=0, options=DataOptions(tmp_path))


@pytest.mark.parametrize(
    ("indices", "digits", "message"),
    [
        (range(9), range(9), "class '9' has 0 training clips; expected at least 2"),
        (range(6), range(10), "class '0' has 1 training clips; expected at least 2"),
        (range(5), range(10), "has no sound in its train part"),
        (range(5, 9), range(10), "has no sound in its test part"),
    ],
)
def test_missing_recordings_are_told(indices: range, digits: range, message: str, tmp_path: Path) -> None:
    write_digits(tmp_path, indices, digits)
    with pytest.raises(InputError, match=f"data 'fsdd'.*{message}"):
        load("fsdd", seed=0, options=DataOptions(tmp_path))


# UrbanSound8K.


HEADER = "slice_file_name,fsID,start,end,salience,fold,classID,class"


def write_urban(root: Path) -> Path:
    """One noise of class L in each fold; gives the metadata file."""
    rows = [HEADER]
    for fold in range(1, 11):
        for label in range(10):
            name = f"{fold}-{label}.wav"
            write(root / "UrbanSound8K" / "audio" / f"fold{fold}" / name, noise(100 * fold + label, 200), 22_050)
            rows.append(f"{name},{fold},0.0,0.1,1,{fold},{label},kind {label}")
    path = root / "UrbanSound8K" / "metadata" / "UrbanSound8K.csv"
    path.parent.mkdir()
    path.write_text("\n".join(rows) + "\n")
    return path


def test_the_folds_are_the_parts(tmp_path: Path) -> None:
    write_urban(tmp_path)
    data = load("urbansound8k", seed=0, options=DataOptions(tmp_path))
    assert sizes(data) == (80, 10, 10)
    assert data.class_names == [f"kind {label}" for label in range(10)]
    assert data.input.shape == inputs(data.train).shape[1:] == (173, 40)
    assert any("fold 10 is the test set, fold 9 the validation set" in note for note in data.notes)
    for samples, folds in ((data.train, range(1, 9)), (data.val, [9]), (data.test, [10])):
        expected = [100 * fold + label for fold in folds for label in range(10)]
        assert samples.labels.tolist() == [number % 100 for number in expected]
        for features, number in zip(inputs(samples), expected, strict=True):
            sound = np.pad(np.round(noise(number, 200) * 2**15) / 2**15, (0, 88_000))
            assert torch.allclose(features[:3], log_mel(torch.from_numpy(sound[:4000]), 22_050, 1024, 512, 40)[:3])


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            replaced("fold,classID", "fold,label"),
            r"UrbanSound8K\.csv has no column classID; expected slice_file_name, ",
        ),
        (replaced(HEADER, "a,b"), "has no column slice_file_name and fold and classID and class"),
        (lambda text: "", "has no column slice_file_name"),
        (lambda text: HEADER, "data 'urbansound8k' has no sound in its train part"),
        (replaced("3-4.wav,3,0.0,0.1,1,3,", "3-4.wav,3,0.0,0.1,1,11,"), "line 26: fold '11'; expected 1 to 10"),
        (replaced("3-4.wav,3,0.0,0.1,1,3,", "3-4.wav,3,0.0,0.1,1,,"), "line 26: fold ''; expected 1 to 10"),
        (replaced("1,3,4,kind 4", "1,3,10,kind 4"), "line 26: classID '10'; expected 0 to 9"),
        (replaced("1,3,4,kind 4", "1,3,-1,kind 4"), "line 26: classID '-1'; expected 0 to 9"),
        (replaced("1,3,4,kind 4", "1,3,4,other"), "line 26: classID 4 is 'other'; expected 'kind 4'"),
        (replaced("3-4.wav", ""), "line 26: slice_file_name is empty"),
        (replaced("1,3,4,kind 4", "1"), "line 26: fold ''; expected 1 to 10"),
        (replaced("3-4.wav", "none.wav"), r"fold3/none\.wav cannot be read as a sound: there is no such file; "),
    ],
)
def test_wrong_metadata_are_told_with_the_line(change: Callable[[str], str], message: str, tmp_path: Path) -> None:
    path = write_urban(tmp_path)
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=message) as refused:
        load("urbansound8k", seed=0, options=DataOptions(tmp_path))
    assert "\n" not in str(refused.value)


def test_metadata_that_are_no_text_are_refused(tmp_path: Path) -> None:
    write_urban(tmp_path).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"UrbanSound8K\.csv cannot be read: not UTF-8 text"):
        load("urbansound8k", seed=0, options=DataOptions(tmp_path))


def test_metadata_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = write_urban(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert sizes(load("urbansound8k", seed=0, options=DataOptions(tmp_path))) == (80, 10, 10)


# Class folders.


def fill(root: Path, counts: dict[str, int], rate: int = 8000, seconds: float = 0.1) -> str:
    for folder, count in counts.items():
        for number in range(count):
            write(root / folder / f"{number}.wav", noise(number, round(seconds * rate)), rate)
    return f"audio:{root}"


@pytest.mark.parametrize(
    ("counts", "expected", "note"),
    [
        ({"a": 10, "b": 10}, (14, 2, 4), "20 % of each class are the test set"),
        ({"train/a": 10, "train/b": 10, "test/a": 1, "test/b": 1}, (18, 2, 2), "10 % of the training clips"),
        ({"train/a": 4, "train/b": 4, "val/a": 3, "val/b": 2}, (6, 2, 5), "val/ is the test set"),
        ({"train/a": 2, "train/b": 1, "val/a": 1, "val/b": 1, "test/b": 3}, (3, 2, 3), "8 clips of 0.1 s"),
        ({"a/deep/er": 5, "b": 10}, (10, 2, 3), "15 clips of 0.1 s at 8,000 Hz: 7 frames of 40 log-mel features"),
    ],
)
def test_layouts_are_those_of_folders_of_images(
    counts: dict[str, int], expected: tuple[int, int, int], note: str, tmp_path: Path
) -> None:
    data = load(fill(tmp_path, counts), seed=0)
    assert sizes(data) == expected
    assert data.class_names == ["a", "b"]
    assert any(note in told for told in data.notes), data.notes


def test_the_rate_is_the_most_common_and_the_length_that_of_nearly_all(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 13}, 16_000, 0.5)
    fill(tmp_path, {"b": 12}, 44_100, 0.3)
    write(tmp_path / "a" / "long.wav", noise(0, 30 * 8000), 8000)
    data = load(f"audio:{tmp_path}", seed=0)
    assert data.notes[0].startswith("26 clips of 0.5 s at 16,000 Hz")
    assert data.input.shape == (1 + 8000 // 256, 40)


def test_no_clip_is_longer_than_4_s(tmp_path: Path) -> None:
    data = load(fill(tmp_path, {"a": 3, "b": 3}, 4000, 6), seed=0)
    assert data.notes[0].startswith("6 clips of 4 s at 4,000 Hz")


def test_a_single_sample_is_enough_of_a_sound(tmp_path: Path) -> None:
    data = load(fill(tmp_path, {"a": 3, "b": 3}, 8000, 1 / 8000), seed=0)
    assert data.input.shape == (1, 40)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"a": 5}, "has one class only, 'a'"),
        ({"a": 5, "b": 2}, "class 'b' has 2 training clips; expected at least 3"),
        ({"train/a": 5, "train/b": 5, "test/c": 1}, "class 'c' has 0 training clips; expected at least 2"),
    ],
)
def test_classes_that_are_too_small_are_told(counts: dict[str, int], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"data 'audio:{tmp_path}'.*{message}"):
        load(fill(tmp_path, counts), seed=0)


def test_a_folder_without_a_sound_is_told(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.wav").write_text("no sound")
    with pytest.raises(InputError, match="has no sound that can be read"):
        load(f"audio:{tmp_path}", seed=0)


def test_an_image_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="have a size of their own"):
        load(fill(tmp_path, {"a": 3, "b": 3}), seed=0, options=DataOptions(image_size=32))


# All of them.


def write_any(name: str, root: Path) -> tuple[str, list[Path]]:
    """A data set of that family: its name, and two training files of a class that has enough of them."""
    if name == "fsdd":
        write_digits(root)
        return name, [root / "fsdd" / "recordings" / f"3_theo_{index}.wav" for index in (6, 8)]
    if name == "urbansound8k":
        write_urban(root)
        return name, [root / "UrbanSound8K" / "audio" / f"fold{fold}" / f"{fold}-7.wav" for fold in (2, 5)]
    return fill(root, {"a": 10, "b": 10}), [root / "b" / "3.wav", root / "b" / "7.wav"]


@pytest.mark.parametrize(
    ("family", "how", "total"),
    [("fsdd", "empty", 90), ("urbansound8k", "missing", 100), ("audio", "text", 20), ("audio", "no samples", 20)],
)
def test_files_that_are_no_sounds_are_refused_or_left_out(family: str, how: str, total: int, tmp_path: Path) -> None:
    name, (first, second) = write_any(family, tmp_path)
    ruin(first, how)
    ruin(second, how)
    with pytest.raises(InputError) as refused:
        load(name, seed=0, options=DataOptions(tmp_path))
    told = str(refused.value)
    assert told.startswith(f"data '{name}': {first} cannot be read as a sound: {RUINS[how]}, as 1 file more cannot")
    assert told.endswith("leave it out with `skip_bad`")
    assert "\n" not in told
    data = load(name, seed=0, options=DataOptions(tmp_path, skip_bad=True))
    assert sum(sizes(data)) == total - 2
    assert "2 files that cannot be read as sounds were left out" in data.notes


@pytest.mark.parametrize("family", ["fsdd", "urbansound8k", "audio"])
def test_without_soundfile_the_extra_is_named(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = write_any(family, tmp_path)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputError, match=r"pip install 'durm\[audio\]'"):
        load(name, seed=0, options=DataOptions(tmp_path, skip_bad=True))


@pytest.mark.parametrize(
    ("name", "missing"), [("fsdd", "fsdd.*recordings"), ("urbansound8k", r"metadata/UrbanSound8K\.csv not found in")]
)
def test_data_that_are_not_there_are_told_with_the_place(name: str, missing: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{missing}.*{tmp_path}"):
        load(name, seed=0, options=DataOptions(tmp_path))


@pytest.mark.parametrize(("name", "expected"), [("fsdd", (90, 10, 100)), ("urbansound8k", (80, 10, 10))])
def test_the_sample_can_be_loaded(name: str, expected: tuple[int, int, int], tmp_path: Path) -> None:
    write_sample(name, tmp_path)
    data = load(name, seed=0, options=DataOptions(tmp_path))
    assert sizes(data) == expected
    assert data.train.labels.unique().numel() == data.num_classes == len(data.class_names) == 10
    loudest = inputs(data.train)[:, 1:10].mean(1).argmax(1)  # a class is a pitch: the higher, the higher its band
    bands = torch.stack([loudest[data.train.labels == label].float().mean() for label in range(10)])
    assert (bands.diff() > 0).all()
