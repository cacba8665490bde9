"""What runs in files of other programs have alike: their surroundings are what these say, in their own names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from primbench.history.series import Observed, RunSurroundings, RunValue
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COMMIT_LETTERS = 12


@dataclass(frozen=True)
class ForeignRun:
    """One file. group: what the names in ``facts`` are of, as in a fact's id."""

    path: Path
    group: str
    machine: str
    facts: Mapping[str, Any]
    commit: str = ""

    @classmethod
    def of(cls, path: Path, group: str, machine: object, facts: Mapping[str, Any], commit: object = "") -> ForeignRun:
        """Without what the program leaves empty."""
        known = {name: value for name, value in facts.items() if value not in (None, "", [], {})}
        return cls(path, group, str(machine or ""), known, str(commit or "")[:COMMIT_LETTERS])

    def around(self, **more: object) -> RunSurroundings:
        """more: of one time alone."""
        facts = {FactId(self.group, name): value for name, value in {**self.facts, **more}.items()}
        return RunSurroundings(None, facts | {FactId("labels", name): value for name, value in self.labels.items()})

    @property
    def labels(self) -> dict[str, str]:
        return {"commit": self.commit} if self.commit else {}

    def observation(self, name: str, metric: str, estimate_s: float, around: RunSurroundings) -> RunValue:
        """Of a series that is of that name, metric and machine."""
        return RunValue(
            key=(self.group, self.machine, name, metric), name=name, metric=metric, machine=self.machine,
            estimate_s=estimate_s, surroundings=around,
        )  # fmt: skip

    def observed(
        self, found: Sequence[RunValue], time: datetime, *, started: datetime | None = None, boot: str | None = None
    ) -> Observed:
        """started: where it is another time than that by which it is put in order."""
        return Observed(
            file=str(self.path), time=time, boot=boot, started=started or time, labels=self.labels, read=lambda: found
        )


def moment(milliseconds: float) -> datetime:
    """Since 1970."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
