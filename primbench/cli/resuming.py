"""Going on with a results file: what it holds, whether it is still of this place, and by which command."""

from __future__ import annotations

import shlex
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec.structs import asdict, replace

from primbench.cli.as_typed import kernels_options
from primbench.cli.echo import say
from primbench.cli.options import Resumable
from primbench.environment.difference import machine_changes
from primbench.environment.fingerprint import collect
from primbench.errors import InvalidRequest
from primbench.registry import named_files
from primbench.report.environment import shown
from primbench.results import file as results_file
from primbench.results.writer import Writer
from primbench.spec.method import Method
from primbench.system.files import utf8

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.cli.options import Exports, Recorded
    from primbench.environment.fingerprint import Environment
    from primbench.results.file import Results
    from primbench.spec.case import Case

MOST_CHANGES = 4
OF_NEW_FILES = ("-o", "--output", "--label", "--resume")
"""Options that a command which goes on with a file does without, but for the last."""


def check_resume(record: Resumable) -> None:
    """Raises InvalidRequest where something else is asked for that --resume has."""
    if record.resume is None:
        return
    if record.output is not None:
        raise InvalidRequest("--output and --resume: one file, --resume goes on writing to it")
    if record.labels:
        raise InvalidRequest(f"--label and --resume: {record.resume} keeps the labels it was begun with")


class Begun(NamedTuple):
    """A results file to go on with, which no other process can write to meanwhile, and what it held."""

    writer: Writer
    held: Results


@contextmanager
def resuming(path: str | None) -> Iterator[Begun | None]:
    """The file of --resume, locked before it is read.

    Raises FileError, also where another process writes to it; InvalidRequest where it was begun on another machine, or
    with a file of --kernels that has changed since.
    """
    if path is None:
        yield None
        return
    with closing(Writer(path, None)) as writer:
        held = results_file.read(path)
        check_machine(path, held.header.environment, collect(gpus=False))
        _check_kernels(path, held.header.kernels)
        yield Begun(writer, held)


def check_machine(path: str, begun: Environment, now: Environment) -> None:
    """Raises InvalidRequest. Settings and the kernel count, too: records of one file are of one place."""
    changes = machine_changes(begun, now)
    if changes:
        words = ", ".join(f"{each.field} was {shown(each.field, each.a)}, is {shown(each.field, each.b)}"
                          for each in changes[:MOST_CHANGES])  # fmt: skip
        more = f", and {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
        raise InvalidRequest(
            f"--resume {path}: begun on another machine or kernel, or with other settings: {words}{more}; measure into "
            "a file of its own with -o, and set the two side by side by `primbench compare`"
        )


def check_all_kernels(words: Sequence[str], begun: Mapping[str, str]) -> None:
    """Raises InvalidRequest where a file of --kernels that it was begun with is not named: its cases may need it.

    words: that name the results file on the command line.
    """
    there = named_files()
    if not_named := [name for name, sha256 in begun.items() if sha256 not in there.values()]:
        name = str(click.get_current_context().info_name)
        again = shlex.join(["primbench", *kernels_options([*there, *not_named]), name, *words])
        raise InvalidRequest(
            f"{' '.join(words)}: begun with --kernels {not_named[0]}: where it is yours, name it again: {again}"
        )


def _check_kernels(path: str, begun: Mapping[str, str]) -> None:
    changed = [name for name, sha256 in named_files().items() if begun.get(utf8(name), sha256) != sha256]
    if changed:
        raise InvalidRequest(f"--resume {path}: --kernels {changed[0]} has changed since it was begun: use -o anew")


def say_what_changed(path: str, left: Sequence[Case], held: Results) -> None:
    """On stderr, by what cases are measured anew that a results file holds."""
    there = {_but_for_method(record.case): record.case.method for record in held.records if record.status != "failed"}
    anew = [(case.method, there[key]) for case in left if (key := _but_for_method(case)) in there]
    if anew and anew[0][0] != anew[0][1]:
        now, then = map(asdict, anew[0])
        changes = [f"{name} {value}, there {then[name]}" for name, value in now.items() if value != then[name]]
        say(f"--resume {path}: {len(anew)} of its cases measured anew: {'; '.join(changes)}", err=True)


def _but_for_method(case: Case) -> bytes:
    return replace(case, method=Method()).key()


def going_on(found: Results, record: Recorded, exports: Exports) -> list[str]:
    """The words of the command that goes on with the results file that is written to; none where there is none."""
    path = record.output or record.resume if isinstance(record, Resumable) else None
    if path is None:
        return []
    if found.header.study is None:
        words = [*_resuming(sys.argv[1:]), *_replacing(exports), "--resume", path]
    else:
        name = "why" if found.header.study.why else "study"
        words = [*kernels_options(named_files()), name, "--resume", path]
    return ["primbench", *words]


def _replacing(exports: Exports) -> list[str]:
    """The exports that are there by then are written anew."""
    is_there = any(path != "-" for path in exports.files.values())
    return ["--overwrite"] if is_there and not exports.overwrite else []


def _resuming(words: Sequence[str]) -> list[str]:
    """A command's words without what began the file, which keeps its labels."""
    kept, rest = [], iter(words)
    for word in rest:
        if word in OF_NEW_FILES:
            next(rest, None)
        elif not word.startswith(("-o", *(f"{each}=" for each in OF_NEW_FILES))):
            kept.append(word)
    return kept
