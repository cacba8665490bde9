"""Results of nccl-tests, https://github.com/NVIDIA/nccl-tests: what it prints, and what it writes by -J."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from primbench.compare.sessions import began
from primbench.history.foreign import ForeignRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from primbench.history.series import Observed, RunSurroundings, RunValue

PLACES = ("out_of_place", "in_place")
_PRINTED = re.compile(rb"# nThread |size +count +type +redop")
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([a-z]\S*)\s+(\S+)\s+(?:(-?\d+)\s+)?(\d.*)$")
_RANK = re.compile(r"#\s+Rank\s+\d+ .*?\[[^\]]*\]\s+(.+?)\s*$")
_TIME = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")
_OUTER = re.compile(r"^(?:\[[^\]]*\]<stdout>:|\s*\d+:\s?)?")  # of mpirun --tag-output, and srun --label
_PROGRAM = (re.compile(r"# Collective test starting: (\w+)"), re.compile(r"\b(\w+_perf)\b"))
_LIBRARY = (re.compile(r"NCCL version (\S+)"), re.compile(r"nccl-library=(\d+)"))
_FIELDS_OF_PLACE = 4
_NAME = "nccl-tests"


def run_of(path: Path, found: Mapping[str, Any]) -> Observed | None:
    """None where the document is none of nccl-tests'."""
    if not {"nccl_version", "config", "results"} <= found.keys():
        return None
    machine = _machine([str(each.get("device_info")) for each in found["config"].get("devices") or []])
    variables = dict(each.split("=", 1) for each in found.get("env") or () if re.match("NCCL_.*=", each))
    run = ForeignRun.of(path, _NAME, machine, {"nccl_version": found["nccl_version"]} | variables)
    program = str((found.get("args") or [_NAME])[0]).rpartition("/")[2]
    made = [*itertools.chain(*(_of_entry(each, program, run) for each in found["results"]))]
    return run.observed(made, began(found["start_time"]))


def _of_entry(entry: Mapping[str, Any], program: str, run: ForeignRun) -> Iterator[RunValue]:
    name = _name(program, entry["size"], entry["type"], entry["redop"], entry.get("root"))
    for place in PLACES:
        if (time_us := (entry.get(place) or {}).get("time")) and time_us > 0:
            yield run.observation(name, place, 1e-6 * time_us, run.around())


def run_of_words(path: Path, text: bytes) -> Observed | None:
    """None where no table of nccl-tests is in it. It says nothing of when it ran: that is when the file was written
    last, and each file is a session.
    """
    if not _PRINTED.search(text):
        return None
    lines = [_OUTER.sub("", line) for line in text.decode(errors="replace").splitlines()]
    machine = _machine([each[1] for line in lines if (each := _RANK.match(line))])
    run = ForeignRun.of(path, _NAME, machine, {"nccl_version": _first(_LIBRARY, lines)})
    program, around = _first(_PROGRAM, lines) or _NAME, run.around()
    made = [*itertools.chain(*(_of_row(line, program, run, around) for line in lines))]
    return run.observed(made, datetime.fromtimestamp(path.stat().st_mtime, UTC), boot=str(path)) if made else None


def _first(forms: Iterable[re.Pattern[str]], lines: Sequence[str]) -> str | None:
    """What the first line says that has the first of these forms, else the next one."""
    return next((each[1] for form in forms for line in lines if (each := form.search(line))), None)


def _machine(models: Sequence[str]) -> str:
    """The GPUs of all ranks; "" where they are not named."""
    return f"{len(models)} x {', '.join(sorted({*models}))}" if models else ""


def _of_row(line: str, program: str, run: ForeignRun, around: RunSurroundings) -> Iterator[RunValue]:
    found = _ROW.match(line)
    if found is None:
        return
    size, _, dtype, redop, root, rest = found.groups()
    for place, time_us in zip(PLACES, rest.split()[::_FIELDS_OF_PLACE], strict=False):
        if _TIME.fullmatch(time_us) and float(time_us) > 0:
            yield run.observation(_name(program, size, dtype, redop, root), place, 1e-6 * float(time_us), around)


def _name(program: str, *what: object) -> str:
    size, dtype, redop, root = (str(each).strip() for each in what)
    said = [*([redop] if redop != "none" else []), *([f"root {root}"] if root not in ("-1", "None") else [])]
    return " ".join([program, f"{size} B", dtype, *said])
