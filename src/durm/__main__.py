"""`python -m durm` is `durm`."""

from durm.cli import main

main()
