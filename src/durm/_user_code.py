"""Code of the user's: whether it may be imported, the import, and its own lines of a traceback.

Nothing of durm imports from the current folder. Only a model that is written `package.module:function` does, and then
the folder comes last on `sys.path`, so that a `yaml.py` in it never stands in for an installed module.
"""

import os
import sys
import sysconfig
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from durm.errors import InputError

Trust = bool | Collection[str]
"""Whether code that a file names may be run: all of it, none, or that of those names, `package.module:function`."""

_imported: set[str] = set()
"""The top packages of what was imported here."""


def is_code(name: str) -> bool:
    """Whether a name stands for the user's own code: `package.module:function`, but not `hf:NAME`."""
    return ":" in name and not name.startswith("hf:")


def check_trusted(name: str, source: object, trust_code: Trust) -> None:
    """Refuses code that a file names, unless it is trusted: to open a file that came from others must not run it.

    Raises:
        InputError: with the module, the file and the option that allows it.
    """
    if is_code(name) and not is_trusted(name, trust_code):
        module = name.partition(":")[0]
        raise InputError(
            f"{source} names {name!r}, for which the module {module!r} would be imported and run; "
            "if you trust it, give `trust_code`"
        )


def is_trusted(name: str, trust_code: Trust) -> bool:
    return trust_code if isinstance(trust_code, bool) else name in trust_code


def import_user_module(path: str) -> ModuleType:
    """The module of that path. The current folder is searched too, after everything that is installed.

    Raises:
        ModuleNotFoundError: if there is none, or it imports one that is not there.
        InputError: if it fails while it is imported, with its own lines of the traceback.
    """
    here, top = os.getcwd(), path.partition(".")[0]
    known = top in sys.modules  # such as torch, whose lines are not the user's own
    if here not in sys.path:
        sys.path.append(here)  # and stays: a function may import more of the user's modules when it is called
    try:
        module = import_module(path)
    except ModuleNotFoundError:
        raise
    except (Exception, SystemExit) as error:
        reason = describe_user_error(error) or _message(error)
        raise InputError(f"the module {path!r} cannot be imported: {reason}") from None
    if not known or top in _imported:
        _imported.add(top)
    return module


@contextmanager
def safe_path() -> Iterator[None]:
    """Python that is started within does not put the current folder on its `sys.path`; before Python 3.11 it does.

    A process that multiprocessing starts would import pickle, struct, … from there. It calls `leave_safe_path`, so that
    programs which it starts in turn find their own modules.
    """
    if _SAFE in os.environ:
        yield
        return
    os.environ |= {_SAFE: "1", _OURS: "1"}
    try:
        yield
    finally:
        leave_safe_path()


def leave_safe_path() -> None:
    """What `safe_path` has set is no longer in the environment."""
    if os.environ.pop(_OURS, None):
        os.environ.pop(_SAFE, None)


_SAFE, _OURS = "PYTHONSAFEPATH", "DURM_SAFE_PATH"


def describe_user_error(error: BaseException) -> str | None:
    """`ValueError: too small (net.py, line 12, in forward)`: what was raised and where in the user's own files.

    None if the error went through no file of the user's, and is not of the user's making.
    """
    places = [
        f"{_shown(frame.f_code.co_filename)}, line {line}, in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_users(frame.f_code.co_filename, frame.f_globals.get("__name__"))
    ]
    if isinstance(error, SyntaxError) and error.filename is not None and _is_users(error.filename, None):
        return f"{type(error).__name__}: {error.msg} ({_shown(error.filename)}, line {error.lineno})"
    return f"{_message(error)} ({'; '.join(places)})" if places else None


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_users(file: str, module: object) -> bool:
    """Neither of durm, of Python nor of what is installed; but a package that was asked for by name is the user's."""
    if isinstance(module, str) and module.partition(".")[0] in _imported:
        return True
    if file.startswith("<"):
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in _installed())


def _installed() -> set[Path]:
    places = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return {Path(__file__).resolve().parent, *(Path(place).resolve() for place in places if place)}


def _shown(file: str) -> str:
    """As short as it can be: from the current folder on."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
