"""What a session knows of the check of each case, for the processes that come after those which found it out."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.measurement.outputs import Checked
from primbench.runtimes.leftovers import launch_folder
from primbench.timing.references import KnownOfCase, ReferenceFolder

if TYPE_CHECKING:
    from primbench.measurement import Measurement
    from primbench.spec.case import Case

MOST = 2
"""Outputs of one case: of one that gives others each time no more is to be learnt."""


class CheckedOutputs:
    """Those that were compared with the reference in this session: what a file says of them is not believed."""

    def __init__(self) -> None:
        self._found: dict[bytes, list[Checked]] = {}
        self._references: ReferenceFolder | None = None
        self._folder = contextlib.ExitStack()

    def keep_references(self) -> None:
        """Have workers keep them in a folder until close(); of a session that was killed, the next sweep removes it."""
        folder = self._folder.enter_context(launch_folder())
        self._references = ReferenceFolder(path=str(folder), key=os.urandom(32).hex())

    def close(self) -> None:
        self._references = None
        self._folder.close()

    def of(self, case: Case) -> KnownOfCase:
        """By earlier processes of the arm, and where references are."""
        return KnownOfCase(outputs=self._found.get(_key(case), []), references=self._references)

    def add(self, case: Case, measured: Measurement | None) -> None:
        """What was measured, where its output was checked."""
        if measured is None or measured.output is None or measured.error is None:
            return
        found = self._found.setdefault(_key(case), [])
        if len(found) < MOST and measured.output.digest not in (each.digest for each in found):
            output, error = measured.output, measured.error
            found.append(Checked(digest=output.digest, error=error, compared_fraction=output.compared_fraction))


def _key(case: Case) -> bytes:
    return replace(case, process=0).key()
