"""A neighbour: the work that another process does over and over beside the cases of an arm."""

from __future__ import annotations

from itertools import takewhile

import msgspec

from primbench.problem import Value


class Neighbour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One problem. words: as the command line has it. parameters: every field of the problem.

    backend, device: None are those of the case beside which it runs, where the primitive has them.
    """

    words: str
    primitive: str
    parameters: dict[str, Value]
    backend: str | None = None
    device: str | None = None

    @property
    def name(self) -> str:
        """The words before the first option, such as "model alexnet"."""
        return " ".join(takewhile(lambda word: not word.startswith("-"), self.words.split()))
