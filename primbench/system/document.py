"""A suite's file as a TOML document, whatever somebody wrote into it."""

from __future__ import annotations

import os
import tomllib
from typing import Any

from primbench.errors import FileError, cut
from primbench.system.inputs import opened
from primbench.units import format_bytes, parse_size

MAX_FILE_BYTES = parse_size("16MiB")
# tomllib keeps every prefix of a dotted key: without a limit, 200 kB of "a.a.a. ..." take 40 GB.
MAX_SQUARED_DOTS = 10**7
TOO_LARGE = "holds a number of more than 64 bits, which TOML has not"


def read_document(source: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    """source: what messages call the file. Raises FileError, or FileNotFoundError where there is none."""
    try:
        with opened(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise
    except ValueError:  # a null character in the name
        raise FileNotFoundError(os.fspath(path)) from None
    except OSError as error:
        raise FileError(f"{source}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise FileError(f"{source}: larger than {format_bytes(MAX_FILE_BYTES)}: not a suite")
    return _parsed(source, content)


def _parsed(source: str, content: bytes) -> dict[str, Any]:
    try:
        text = content.decode("utf-8-sig")  # editors of Windows begin a file with a mark
        if sum(line.count(".") ** 2 for line in text.split("\n")) > MAX_SQUARED_DOTS:
            raise FileError(f"{source}: too many dotted keys: a suite needs none but defaults.PRIMITIVE")
        found = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise FileError(f"{source}: not UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise FileError(f"{source}: nested too deeply for a suite") from None
    except ValueError as error:  # TOMLDecodeError, and integers of more digits than Python converts
        raise FileError(f"{source}: not TOML: {cut(str(error))}") from None
    if has_larger(found):
        raise FileError(f"{source}: {TOO_LARGE}")
    return found


def has_larger(value: Any) -> bool:
    """Whether there is an integer that Python may not even be able to print."""
    if isinstance(value, dict):
        return any(map(has_larger, value.values()))
    if isinstance(value, list):
        return any(map(has_larger, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63
