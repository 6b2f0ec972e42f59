"""Calls the command line in this process, through its real entry point, and gives back all that it says."""

import io
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from durm import cli


@dataclass(frozen=True)
class Answer:
    code: object
    out: str
    err: str


def call(*arguments: object) -> Answer:
    """What `durm ARGUMENTS` prints, and its exit code. Warnings stand in `err`, as they would on a terminal."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with (
        patch.object(sys, "argv", ["durm", *map(str, arguments)]),
        patch.object(sys, "path", [*sys.path]),
        warnings.catch_warnings(record=True) as caught,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        warnings.simplefilter("default")
        for hidden in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", hidden)
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
    warned = "".join(f"{warning.category.__name__}: {warning.message}\n" for warning in caught)
    return Answer(code, out.getvalue(), warned + err.getvalue())


def refusal(answer: Answer) -> str:
    """The one line in which bad input is refused."""
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("durm: "), answer.err
    assert answer.err.endswith("\n"), answer.err
    assert len(answer.err.splitlines()) == 1, answer.err
    assert "Traceback" not in answer.err
    return answer.err.strip()
