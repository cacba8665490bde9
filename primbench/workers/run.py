"""From problems to records: choose backends and devices, run every case in workers, write the results file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from primbench.environment.difference import machine_changes
from primbench.environment.fingerprint import collect
from primbench.errors import FileError, InvalidRequest
from primbench.problem import Problem, checked_problem
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Worker
from primbench.results.writer import Writer, check_kept, header, keep, left_to_do
from primbench.spec.defaults import ALL, DEFAULT_TIMEOUT_S
from primbench.spec.method import Method
from primbench.spec.naming import name_of
from primbench.spec.placement import Placement
from primbench.workers.plan import plan
from primbench.workers.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.environment.fingerprint import Environment
    from primbench.results.record import Record
    from primbench.spec.case import Case

OnProgress = Callable[[int, int, "Case | None"], None]
"""Is told how many cases are done, of how many, and which one begins; None once all are done."""
WIDTH = 78


def one_line(done: int, of: int, case: Case | None) -> None:
    """One line on stderr that is written over, in a terminal or a notebook; nothing where stderr is a file."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        said = f"[{done}/{of}] {name_of(case)}" if case else ""
        shown = "".join(each if each.isprintable() else "?" for each in said)
        sys.stderr.write(f"\r{shown[:WIDTH]:<{WIDTH}}" + ("" if case else "\r"))
        sys.stderr.flush()


def told(cases: Sequence[Case], progress: OnProgress | None) -> Iterator[Case]:
    """The cases, of each of which ``progress`` is told before it begins."""
    for done, case in enumerate(cases):
        if progress is not None:
            progress(done, len(cases), case)
        yield case
    if progress is not None and cases:
        progress(len(cases), len(cases), None)


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
    resume: bool = False,
    overwrite: bool = False,
    progress: OnProgress | None = one_line,
) -> list[Record]:
    """Run problems in worker processes and return their records; a failed case is a record, not an exception.

    backend: one, several, "all", or None for the best one on the device. device: "cpu", "cuda:N", "all", or None for
    the first GPU where there is one. output: a results file to make; where there is one, ``resume`` goes on with it,
    whose records are returned, too, and ``overwrite`` begins anew. progress: called as each case begins with how many
    are done, of how many, and the case, and at the end with None for it; by default a line in a terminal or a notebook.

    Raises InvalidRequest where the request cannot be met, or the file to go on with is of another machine; FileError
    where the file exists and neither is asked for, or is none of primbench's; OutputError where it cannot be written.
    """
    if resume and (overwrite or output is None):
        raise InvalidRequest("resume=True: goes on with the file of output=, which overwrite=True would begin anew")
    wanted = [backend] if isinstance(backend, str) else list(backend or ())
    cases = plan(
        [(problem, {}) for problem in _known_to_workers(problems)],
        backends=wanted,
        device=device,
        method=method or Method(),
        placement=placement or Placement(),
        processes=processes,
    )
    with _kept_in(output, resume=resume, overwrite=overwrite) as (writer, found):
        session = Session(
            timeout_s=timeout_s,
            trace=trace,
            skip_unavailable=ALL in wanted,
            first_worker=1 + max((worker.worker for worker in found.workers), default=-1),
        )
        ran = session.run(told(left_to_do(cases, found), progress))
        keep_all(session, on_its_machine(ran, found.workers, partial(_check_machine, output)), writer, found)
    return found.latest()


def _known_to_workers(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Raises InvalidRequest for one of a script's or a notebook's own, which no other process can import."""
    if isinstance(problems, Problem):
        raise InvalidRequest(f"{problems!r:.60}: one problem, and a list is asked for, such as [Gemm(256, 256, 256)]")
    for problem in problems:
        if type(checked_problem(problem)).__module__ == "__main__":
            raise InvalidRequest(
                f"{problem.primitive} is defined in this script or notebook, where workers do not find it: time it by "
                "primbench.measure(), or put it in a file of its own and run that by primbench --kernels FILE.py"
            )
        yield problem


@contextmanager
def _kept_in(
    path: str | os.PathLike[str] | None, *, resume: bool, overwrite: bool
) -> Iterator[tuple[Writer | None, Results]]:
    """What is to be added to, and what it holds by now."""
    if path is None:
        yield None, _nothing()
    elif resume and os.path.exists(path):
        with closing(Writer(path, None)) as writer:
            yield writer, _held(path)
    else:
        if os.path.lexists(path) and not overwrite:
            raise FileError(f"{path}: exists; add to it with resume=True, begin anew with overwrite=True")
        found = _nothing()
        with closing(Writer(path, found.header, overwrite=overwrite)) as writer:
            yield writer, found


def _nothing() -> Results:
    return Results(header=header(["primbench.run"], {}), workers=[], records=[])


def _held(path: str | os.PathLike[str]) -> Results:
    """Raises InvalidRequest for a file of a study, and one that was begun elsewhere."""
    held = results_file.read(path)
    if held.header.study is not None:
        raise InvalidRequest(f"{path}: of a study: go on with `primbench study --resume {path}`")
    _check_machine(path, held.header.environment, collect(gpus=False))
    return held


def _check_machine(path: str | os.PathLike[str] | None, begun: Environment, now: Environment) -> None:
    if changes := machine_changes(begun, now):
        raise InvalidRequest(
            f"{path}: begun on another machine or kernel, or with other settings: {changes[0].field} was "
            f"{changes[0].a}, is {changes[0].b}; measure into a file of its own"
        )


def on_its_machine(
    lines: Iterable[Worker | Record], begun: Iterable[Worker], check: Callable[[Environment, Environment], None]
) -> Iterator[Worker | Record]:
    """The lines, once ``check(begun, now)`` has let each new worker pass, which sees GPUs that no main process touches.

    begun: workers that a file holds, of which the first of the same backend and device is what it was begun with.
    """
    places = {(each.backend, each.device): each.environment for each in reversed([*begun])}
    for line in lines:
        if isinstance(line, Worker) and (line.backend, line.device) in places:
            check(places[line.backend, line.device], line.environment)
        yield line


def keep_all(session: Session, lines: Iterable[Worker | Record], writer: Writer | None, found: Results) -> None:
    """Add the lines that a session makes to ``found`` and to the results file, and end the session.

    Raises OutputError where the file cannot be written, or is not there any more as it was left.
    """
    with session:
        keep(lines, writer, found)
    check_kept(writer, found)
