"""Names of nodes as Slurm writes them: "n[1-3,07],rack[1-2]n[1-4]"."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 10_000
_ONE = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def node_names(text: str) -> list[str]:
    """Each name, at most MOST of them; what is no range between brackets stands for itself."""
    return list(itertools.islice((name for one in _ONE.findall(text) for name in _names(one)), MOST))


def _names(one: str) -> Iterator[str]:
    literal, *rest = re.split(r"\[([^\]]*)\]", one, maxsplit=1)
    if not rest:
        yield literal
        return
    numbers, after = rest
    for number in _numbers(numbers):
        for following in _names(after):
            yield f"{literal}{number}{following}"


def _numbers(ranges: str) -> Iterator[str]:
    """Of "1-3,07", with the zeros that the first number of a range begins with."""
    for each in ranges.split(","):
        found = _RANGE.fullmatch(each)
        if found is None:
            yield each
        else:
            first, last = found[1], found[2] or found[1]
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
