"""Measuring one node of a fleet, or one GPU, with ``--fleet``: each has a results file, and the first one prints."""

from __future__ import annotations

import os
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.backends import devices_of
from primbench.cli import links
from primbench.cli.echo import say
from primbench.cli.measuring import measured
from primbench.cli.outputs import report
from primbench.devices import CUDA
from primbench.errors import FileError, InvalidRequest, PrimbenchError
from primbench.fleet.member import NO_GPUS, Gpus, member, narrowed, visible_gpus
from primbench.fleet.shared_turns import turn
from primbench.fleet.signs import signs_of_life
from primbench.results.writer import header
from primbench.spec.defaults import ALL
from primbench.workers.process import START_TIMEOUT_S

if TYPE_CHECKING:
    from primbench.cli.measuring import Entries
    from primbench.cli.options import Here, How
    from primbench.results.file import Results
    from primbench.spec.fleet import Member

TURNS = "turns"
NETWORK_S = 60.0  # for which a network's file system may show a file as it was
LONGEST_NAME = 200


def measure_for_fleet(
    entries: Entries, here: Here, folder: str, *, rounds: int | None = None, one_at_a_time: bool = False
) -> None:
    """Measure, unless another process does that on this node; rank 0 prints its table. rounds: of links to others.

    Where each process has a GPU, it and its workers see that one alone: a case is the same one on every GPU.

    Cases that fail are for `primbench fleet` to tell: mpirun and torchrun end all processes where one exits with 1.
    """
    _check(here, folder)
    links.check(here, rounds)
    gpus = _gpus(entries, here)
    found = member(gpus=gpus)
    if found is None:
        return
    os.environ.update(narrowed(found, gpus))
    path = Path(folder) / _file_name(found)
    record = replace(here.record, output=str(path), quiet=here.record.quiet or found.rank > 0)
    own = replace(here, record=record)
    try:
        _make(path.parent, path, overwrite=here.exports.overwrite)
        with signs_of_life(path):
            meeting = links.come(found, path, rounds)
            with _turn(found, path, _patience_s(here.how)) if one_at_a_time else nullcontext():
                first = header(sys.argv, dict(here.record.labels), found)
                results, ended = measured(entries, own, None, None, first)
            if ended is None and meeting is not None and rounds is not None:
                links.measure_between(meeting, found, own, rounds, _patience_s(here.how))
        if ended is not None:
            raise ended
    except PrimbenchError as error:
        raise type(error)(f"{found.name}: {error}") from None
    _tell(found, results, own, folder)


def _gpus(entries: Entries, here: Here) -> Gpus:
    """Those that processes of a node share out; none where a device is named, or no case is measured on one GPU."""
    named = here.how.backends
    backends = [name for name in named if name == ALL or CUDA in devices_of(name)]
    if here.where.device is not None or (named and not backends):
        return NO_GPUS
    is_for_one = any(problem.on_gpus and problem.parameters().get("ranks", 1) == 1 for problem, _ in entries)
    return visible_gpus() if is_for_one else NO_GPUS


def _file_name(found: Member) -> str:
    node = re.sub(r"[^A-Za-z0-9._-]", "_", found.node)[:LONGEST_NAME]
    return f"{node}-{found.rank if found.task is None else f'gpu{found.task}'}.jsonl"


def _check(here: Here, folder: str) -> None:
    """Raises InvalidRequest where one file is to hold what each node finds."""
    named = {"--output": here.record.output, "--resume": here.record.resume, "--save-as": here.save_as}
    asked = [option for option, value in named.items() if value is not None]
    for option in [*asked, *(f"--{name}" for name in here.exports.files)]:
        raise InvalidRequest(
            f"{option} and --fleet: each node writes a file of its own into {folder}; `primbench fleet` makes one "
            "table of them, and exports it"
        )


def _make(folder: Path, path: Path, *, overwrite: bool) -> None:
    """Raises FileError where the folder cannot be had, or this node was measured into it before."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: {error.strerror}") from None
    if overwrite:
        path.unlink(missing_ok=True)  # at once: others take it for what this node has measured
    elif path.exists():
        raise FileError(f"{path}: exists; name another folder, or measure this node again with --overwrite")


def _turn(found: Member, path: Path, patience_s: float) -> AbstractContextManager[None]:
    """Each case adds to the file, and a worker that has to be started before it; else the node is gone."""
    return turn(path.parent / TURNS, path, of=found.of, patience_s=patience_s)


def _patience_s(how: How) -> float:
    return how.timeout_s + START_TIMEOUT_S + NETWORK_S


def _tell(found: Member, results: Results, here: Here, folder: str) -> None:
    failed = sum(record.status == "failed" for record in results.records)
    if found.rank == 0:
        report(results, here.shown, here.exports)
        alone = "" if found.launcher else ", which no launcher started with others"
        say(
            f"This is {found.name}, 1 of {found.of}{alone}; once all have ended: primbench fleet {folder}",
            err=True,
        )
    elif failed:
        say(f"{found.name}: {failed} of {len(results.records)} cases failed", err=True)
