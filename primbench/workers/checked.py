"""The outputs that workers of a session found to be right, for the processes of the same arm that come after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.measurement.outputs import Checked

if TYPE_CHECKING:
    from primbench.measurement import Measurement
    from primbench.spec.case import Case

MOST = 2
"""Outputs of one case: of one that gives others each time no more is to be learnt."""


class CheckedOutputs:
    """Those that were compared with the reference in this session: what a file says of them is not believed."""

    def __init__(self) -> None:
        self._found: dict[bytes, list[Checked]] = {}

    def of(self, case: Case) -> list[Checked]:
        """Those of earlier processes of the arm."""
        return self._found.get(_key(case), [])

    def add(self, case: Case, measured: Measurement | None) -> None:
        """What was measured, where its output was checked."""
        if measured is None or measured.output is None or measured.error is None:
            return
        found = self._found.setdefault(_key(case), [])
        if len(found) < MOST and measured.output.digest not in (each.digest for each in found):
            found.append(Checked(digest=measured.output.digest, error=measured.error))


def _key(case: Case) -> bytes:
    return replace(case, process=0).key()
