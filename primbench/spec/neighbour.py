"""A neighbour: the work that another process does over and over beside the cases of an arm."""

from __future__ import annotations

from itertools import takewhile

import msgspec

from primbench.problem import Value


class Neighbour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A problem that runs beside the cases of an arm."""

    words: str
    """Primitive and options as the command line has them."""
    primitive: str
    parameters: dict[str, Value]
    """Every field of the problem."""
    backend: str | None = None
    """None is that of the case beside which it runs, where the primitive has it."""
    device: str | None = None
    """None is that of the case beside which it runs, where the primitive has it."""

    @property
    def name(self) -> str:
        """The words before the first option, such as "model alexnet"."""
        return " ".join(takewhile(lambda word: not word.startswith("-"), self.words.split()))
