"""Domains of text in a CSV file and of arrays in an .npz file: splits and ids by hand, notes, and what is refused."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from durm.data import DataOptions, load, settings_of
from durm.data.bundle import DataBundle, Samples
from durm.errors import InputError
from durm.training.outcomes import samples_sha256
from tests.cli.calling import call, refusal

DOMAINS = ["books", "films", "games", "songs"]
EACH = 10
"""Texts of each class in each domain."""


def write_reviews(folder: Path, **column: str) -> Path:
    """Text number i of a domain has the words `good` or `bad`, the name of the domain, and a word of its own."""
    path = folder / "reviews.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "domain", *column])
        for domain in reversed(DOMAINS):
            for number in range(EACH):
                writer.writerow([f"good {domain} {domain}{number}", "fine", domain, *column.values()])
                writer.writerow([f"bad {domain} {domain}{number + EACH}", "poor", domain, *column.values()])
    return path


def tokens(samples: Samples) -> list[list[int]]:
    assert isinstance(samples.inputs, torch.Tensor)
    return samples.inputs.tolist()


def refused(name: str, options: DataOptions | None = None) -> str:
    with pytest.raises(InputError) as error:
        load(name, seed=0, options=options)
    assert "\n" not in str(error.value)
    return str(error.value)


# Text.


def test_a_domain_of_texts_is_held_out(tmp_path: Path) -> None:
    """A fifth of 10 texts of each class of each of three domains is validation: 12 of 60; the test set has all 20."""
    name = f"domains:{write_reviews(tmp_path)}"
    assert settings_of(name) == [f"{name}:{domain}" for domain in DOMAINS]
    data = load(f"{name}:games", seed=0)
    assert (len(data.train), len(data.val), len(data.test)) == (48, 12, 20)
    assert (data.domain_names, data.held_out, data.class_names) == (
        ["books", "films", "songs"],
        "games",
        ["fine", "poor"],
    )
    for part, each in ((data.train, 16), (data.val, 4)):
        assert part.domains is not None
        assert torch.bincount(part.domains).tolist() == [each] * 3
    assert data.test.domains is None
    assert data.notes == [
        "domain 'games' is held out as the test set",
        "the training domains are 'books', 'films', 'songs'",
        "20 % of the texts of each class of each training domain are the validation set, by seed",
        "texts are cut to 3 tokens, of which there are 67",
    ]


def test_the_vocabulary_is_that_of_the_training_domains(tmp_path: Path) -> None:
    """`bad` and `good` occur 30 times each (ids 2 and 3), then the names of the domains, 20 times each; 60 others."""
    data = load(f"domains:{write_reviews(tmp_path)}:films", seed=1)
    assert data.input.vocabulary == 2 + 2 + 3 + 60
    assert tokens(data.test) == [[3, 1, 1], [2, 1, 1]] * EACH
    assert data.test.labels.tolist() == [0, 1] * EACH
    learned = {4: 0, 5: 1, 6: 2}  # books, games, songs
    for part in (data.train, data.val):
        assert part.domains is not None
        assert [learned[row[1]] for row in tokens(part)] == part.domains.tolist()
        assert [int(row[0] == 2) for row in tokens(part)] == part.labels.tolist()
    words = [row[2] for part in (data.train, data.val) for row in tokens(part)]
    assert sorted(words) == list(range(7, 67))


def test_every_seed_has_the_same_test_texts_and_another_split(tmp_path: Path) -> None:
    name = f"domains:{write_reviews(tmp_path)}:songs"
    first, again, other = (load(name, seed=seed) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert samples_sha256(first.test) == samples_sha256(other.test)
    assert tokens(first.val) != tokens(other.val)


def test_the_plain_form_says_that_the_domains_are_not_used(tmp_path: Path) -> None:
    path = write_reviews(tmp_path)
    data = load(f"csv:{path}", seed=0)
    assert data.notes[0] == f"the column domain is not used; domains:{path} holds out one domain after the other"
    assert (data.held_out, data.domain_names, data.train.domains) == (None, [], None)
    lines = [line.rpartition(",")[0] for line in path.read_text().splitlines()]
    (tmp_path / "without.csv").write_text("\n".join(lines))
    without = load(f"csv:{tmp_path / 'without.csv'}", seed=0)
    assert without.fingerprint == data.fingerprint
    assert without.notes == data.notes[1:]


def test_a_split_is_not_used_with_domains(tmp_path: Path) -> None:
    data = load(f"domains:{write_reviews(tmp_path, split='train')}:books", seed=0)
    assert data.notes[0] == "the column split is not used: the held-out domain is the test set"
    assert len(data.test) == 20


ROWS = "a,x,one\nb,y,one\nc,x,one\nd,y,one\ne,x,two\nf,y,two\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\na,x\n", " has no column domain; expected text, label and domain"),
        ("text,label,domain\n", " has no rows to train on"),
        ("text,label,domain\na,x,one\nb,y,\n", ", line 3: the domain is empty"),
        ("text,label,domain\na,,one\n", ", line 2: the label is empty"),
        ("text,label,domain\na,x,one\nb,x,two\n", " has one class only, 'x'; a classifier needs at least two"),
        ("text,label,domain\na,x,one\nb,y,one\n", " has one domain only, 'one'; leaving one out needs at least two"),
        (
            "text,label,domain\na,x,one\nb,y,a/b\n",
            ": the domain 'a/b' has a slash in its name, and cannot be named after a colon",
        ),
        (
            "text,label,domain\na,x,one\nb,y,one\nc,z,two\n",
            ": class 'z' cannot be learned with 'two' held out: the domain 'one' has no texts of it",
        ),
    ],
)
def test_a_csv_that_has_no_domains_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(content)
    assert refused(f"domains:{path}:two") == f"data 'domains:{path}'{message}"


def test_what_does_not_fit_a_csv_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    assert refused(f"domains:{path}:one") == f"data 'domains:{path}' cannot be read: No such file or directory"
    path.write_text(f"text,label,domain\n{ROWS}")
    assert refused(f"domains:{path}:tow") == f"data 'domains:{path}': domain 'tow' is unknown: did you mean 'two'?"
    assert refused(f"domains:{path}:two", DataOptions(image_size=8)) == (
        f"image size 8: the samples of data 'domains:{path}' have a size of their own"
    )
    assert refused(f"domains:{path}").endswith(f"name one: domains:{path}:one, domains:{path}:two")


# Arrays.


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """40 samples: number, domain, label."""
    number = np.arange(40)
    return np.stack([number, number % 4, number // 4 % 2], 1).astype(np.float32), number // 4 % 2, number % 4


def check_arrays(data: DataBundle, held_out: int) -> None:
    """Of 10 samples of each of three domains, 5 of each class, 2 are validation."""
    rest = [domain for domain in range(4) if domain != held_out]
    assert (len(data.train), len(data.val), len(data.test)) == (24, 6, 10)
    for part in (data.train, data.val):
        assert isinstance(part.inputs, torch.Tensor)
        assert part.domains is not None
        assert [rest[domain] for domain in part.domains.tolist()] == part.inputs[:, 1].tolist()
        assert part.labels.tolist() == part.inputs[:, 2].tolist()
    assert isinstance(data.test.inputs, torch.Tensor)
    assert data.test.inputs[:, 0].tolist() == [number for number in range(40) if number % 4 == held_out]


@pytest.mark.parametrize("names", [["0", "1", "2", "3"], ["east", "north", "south", "west"]])
def test_a_domain_of_arrays_is_held_out(names: list[str], tmp_path: Path) -> None:
    x, y, domain = arrays()
    np.savez(tmp_path / "mine.npz", x=x, y=y, domain=domain if names[0] == "0" else np.array(names)[domain])
    name = f"domains:{tmp_path / 'mine.npz'}"
    assert settings_of(name) == [f"{name}:{each}" for each in names]
    data = load(f"{name}:{names[2]}", seed=0)
    check_arrays(data, 2)
    assert (data.domain_names, data.held_out) == ([names[0], names[1], names[3]], names[2])
    assert isinstance(data.train.inputs, torch.Tensor)
    np.testing.assert_allclose(data.input.mean.numpy(), data.train.inputs.numpy().mean(0), rtol=1e-6)
    assert "20 % of the samples of each class of each training domain are the validation set, by seed" in data.notes


def test_whole_numbers_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    x, y, domain = arrays()
    np.savez(tmp_path / "mine.npz", x=x, y=y, domain=np.array([10, 9, -1, 0])[domain])
    name = f"domains:{tmp_path / 'mine.npz'}"
    assert settings_of(name) == [f"{name}:{each}" for each in (-1, 0, 9, 10)]


def test_parts_of_arrays_are_taken_together_with_domains_and_apart_without(tmp_path: Path) -> None:
    x, y, domain = arrays()
    path, parts = tmp_path / "mine.npz", {"train": slice(0, 24), "test": slice(24, 40)}
    values = {}
    for part, rows in parts.items():
        values |= {f"x_{part}": x[rows], f"y_{part}": y[rows], f"domain_{part}": domain[rows]}
    np.savez(path, **values)
    data = load(f"domains:{path}:1", seed=0)
    check_arrays(data, 1)
    assert data.notes[0] == "x_train and x_test are taken together: the held-out domain is the test set"
    plain = load(f"arrays:{path}", seed=0)
    assert plain.notes[0] == (
        f"not used: domain_test, domain_train; domains:{path} holds out one domain after the other"
    )
    assert len(plain.test) == 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domain": None}, " lacks domain; it holds x, y"),
        ({"x": None}, " lacks x; it holds domain, y"),
        ({"domain": np.zeros(40)}, ": domain holds float64 of shape (40,); expected integers or text of shape (40,)"),
        (
            {"domain": np.zeros(3, int)},
            ": domain holds int64 of shape (3,); expected integers or text of shape (40,)",
        ),
        ({"domain": np.zeros(40, int)}, " has one domain only, '0'; leaving one out needs at least two"),
        (
            {"domain": np.array(["a ", "b"] * 20)},
            ": the domain 'a ' is empty, or begins or ends with a space",
        ),
        (
            {"domain": np.array(["a:b", "b"] * 20)},
            ": the domain 'a:b' has a colon in its name, and cannot be named after a colon",
        ),
        ({"y": np.zeros(40, int)}, " has one class only, 0; a classifier needs at least two"),
        ({"y": np.zeros(40)}, ": x must hold numbers and y integers, not float32 and float64"),
    ],
)
def test_arrays_that_have_no_domains_are_refused(
    changes: dict[str, np.ndarray | None], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.npz"
    values = dict(zip(("x", "y", "domain"), arrays(), strict=True)) | changes
    np.savez(path, **{name: value for name, value in values.items() if value is not None})
    assert refused(f"domains:{path}:1") == f"data 'domains:{path}'{message}"


# From the command line.


def test_texts_of_four_domains_are_left_out_in_turn_under_four_methods(tmp_path: Path) -> None:
    """One command: 4 domains × 4 arms × 1 seed, each tested on the 20 texts of its own domain."""
    out = tmp_path / "out"
    arms = [part for name in ("coral", "groupdro", "vrex") for part in ("--arm", f"{name}: method={name}")]
    answer = call(
        "compare", "--data", f"domains:{write_reviews(tmp_path)}", "--model", "transformer", "--arm", "erm: method=erm",
        *arms, "--seeds", 1, "--iterations", 2, "--batch-size", 4, "--out", out,
    )  # fmt: skip
    assert answer.code in (0, None), answer
    results = [json.loads(path.read_text()) for path in out.glob("trials/*/result.json")]
    assert sorted({result["held_out"] for result in results}) == DOMAINS
    assert len(results) == 16
    assert all(len(np.load(path)["correct"]) == 20 for path in out.glob("trials/*/outcomes.npz"))
    summary = json.loads((out / "summary.json").read_text())
    assert [average["domains"] for average in summary["averages"]] == [DOMAINS]
    assert [arm["arm"] for arm in summary["averages"][0]["arms"]] == ["erm", "coral", "groupdro", "vrex"]


def test_the_command_line_lists_the_domains_of_a_file(tmp_path: Path) -> None:
    answer = call("data", "check", f"domains:{write_reviews(tmp_path)}", "--json")
    facts = json.loads(answer.out)
    assert facts["domains"] == {"films": 20, "games": 20, "songs": 20}
    assert (facts["held_out"], facts["test"]) == ("books", 20)
    assert refusal(call("train", "--data", f"domains:{tmp_path / 'reviews.csv'}:book")).endswith(
        "domain 'book' is unknown: did you mean 'books'?"
    )
