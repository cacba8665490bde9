"""``python -m primbench``, and the program itself."""

from __future__ import annotations

# The module signal itself takes milliseconds to import, in which Ctrl-C would show a traceback.
# mypy has no types of _signal, which is the part of it written in C.
import _signal as signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

OBJECTS_BETWEEN_COLLECTIONS = 100_000  # in place of Python's 700


def main() -> None:
    """The command line, from the first moment on: importing it takes a while, in which Ctrl-C ends it without ado."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)
    from primbench.errors import PrimbenchError
    from primbench.system import collector, streams

    collector.rest(OBJECTS_BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)  # else all that is left is searched for garbage, which takes a tenth of --help's time
    streams.take_over()
    from primbench.cli import main as command_line

    try:
        command_line(prog_name="primbench")
    except PrimbenchError as error:  # of --kernels, --help or completion, which come before any command begins
        print(f"Error: {' '.join(str(error).splitlines())}", file=sys.stderr)
        sys.exit(error.exit_code)


def _end_at_once(number: int, frame: object) -> None:
    try:
        os.write(2, b"Interrupted.\n")
    finally:
        os._exit(128 + number)  # errors.INTERRUPTED, before that can be imported


if __name__ == "__main__":
    main()
