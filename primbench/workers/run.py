"""From problems to records: choose backends and devices, run every case in workers, write the results file."""

from __future__ import annotations

from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from primbench.results.file import Results
from primbench.results.writer import Writer, check_kept, header, keep
from primbench.spec.defaults import ALL, DEFAULT_TIMEOUT_S
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.workers.plan import plan
from primbench.workers.session import Session

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from primbench.problem import Problem
    from primbench.results.record import Record, Worker


def run(
    problems: Sequence[Problem],
    *,
    backend: str | Sequence[str] | None = None,
    device: str | None = None,
    method: Method | None = None,
    placement: Placement | None = None,
    processes: int = 1,
    trace: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    output: str | os.PathLike[str] | None = None,
) -> list[Record]:
    """Run problems in worker processes and return their records; a failed case is a record, not an exception.

    backend: one, several, "all", or None for the best one on the device. device: "cpu", "cuda:N", "all", or None for
    the first GPU where there is one. output: a results file to make. Raises InvalidRequest where the request cannot
    be met, OutputError where the file cannot be written.
    """
    wanted = [backend] if isinstance(backend, str) else list(backend or ())
    cases = plan(
        [(problem, {}) for problem in problems],
        backends=wanted,
        device=device,
        method=method or Method(),
        placement=placement or Placement(),
        processes=processes,
    )
    session = Session(timeout_s=timeout_s, trace=trace, skip_unavailable=ALL in wanted)
    found = Results(header=header(["primbench.run"], {}), workers=[], records=[])
    writing = closing(Writer(output, found.header)) if output else nullcontext()
    with writing as writer:
        keep_all(session, session.run(cases), writer, found)
    return found.records


def keep_all(session: Session, lines: Iterable[Worker | Record], writer: Writer | None, found: Results) -> None:
    """Add the lines that a session makes to ``found`` and to the results file, and end the session.

    Raises OutputError where the file cannot be written, or is not there any more as it was left.
    """
    with session:
        keep(lines, writer, found)
    check_kept(writer, found)
