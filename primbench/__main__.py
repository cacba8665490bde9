"""``python -m primbench``."""

from primbench.cli import main

main(prog_name="primbench")
