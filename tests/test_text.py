"""Names as they are printed."""

import pytest

from durm._text import duration, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ümlaut, 中文, 🙂, é", "plain text, ümlaut, 中文, 🙂, é"),
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("one\ntwo\r\tthree", r"one\ntwo\r\tthree"),
        ("\x00\x07\x7f", r"\x00\x07\x7f"),
        ("\x9b31m", r"\x9b31m"),  # the control sequence introducer in one byte
        ("gpj.\u202egnp", r"gpj.\u202egnp"),
        ("\u2066a\u2069\u200f", r"\u2066a\u2069\u200f"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), r"caf\xe9"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # joins letters, and turns nothing around
    ],
)
def test_control_characters_are_shown_and_letters_are_kept(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert len(visible(text).splitlines()) <= 1
    visible(text).encode("utf-8")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (89, "1 min"), (91, "2 min"), (3569, "59 min")),
        *((3571, "1 h 0 min"), (7800, "2 h 10 min"), (86_399, "1 d 0 h"), (273_600, "3 d 4 h")),
    ],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said
