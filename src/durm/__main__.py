"""`python -m durm` is `durm`."""

import os
import sys


def main() -> None:
    """Runs the command line, or says what it needs that the core does without."""
    try:
        from durm.cli import main as run
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("durm"):
            raise
        print(f"durm: there is no {error.name!r} here; the commands need pip install 'durm[bench]'", file=sys.stderr)
        sys.exit(2)
    run()


if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False) and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]  # the current folder, which Python puts before everything that is installed
    main()
