"""What calls of a case gave, to the last bit."""

from __future__ import annotations

import msgspec

from primbench.quantities import Amount, Whole

WORD_BYTES, PARTS, COLUMNS = 4, 16, 4096  # of which a digest is made: primbench/timing/digest.py


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a case in one process, by digests: two that are alike to the last bit have the same one.

    ``primbench/timing/digest.py`` says what a digest is made of.
    """

    digest: str
    """Of the output that was checked."""
    calls: dict[str, Whole]
    """Digest -> how many calls of this process gave such an output, of those that were looked at; that one included."""
    compared_fraction: Amount | None = None
    """Of the elements of the output, the share that was compared with the reference; of all it was seen that they were
    written and are no NaN. None in files from before it was kept.
    """


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """An output that agreed with the reference in an earlier process of the same arm."""

    digest: str
    error: Amount
    """``Measurement.error`` of it."""
    compared_fraction: Amount | None = None
    """``Output.compared_fraction`` of it."""


def part_words(size_bytes: int) -> int:
    """How many words a part has of so many bytes: one of PARTS, at least, and whole rows of COLUMNS if it is longer."""
    words = max(1, -(-size_bytes // (WORD_BYTES * PARTS)))
    return words if words <= COLUMNS else -(-words // COLUMNS) * COLUMNS
