"""Whose arms these are: a study's file says what is run when it is gone on with, and it may be somebody else's."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from primbench.cli.as_typed import kernels_options
from primbench.cli.echo import say
from primbench.errors import InvalidRequest
from primbench.registry import named_files
from primbench.runtimes.programs import chooses, in_full
from primbench.spec.study import with_itself, with_neighbour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.arm import Arm


def check_own(path: str, arms: Sequence[Arm], named: Sequence[Arm], again: Sequence[str] = ()) -> None:
    """Nothing for arms that the command line names again; else those that choose programs are shown, and asked about.

    again: a command that names them; () is the one that goes on with the file.
    Raises InvalidRequest where it names others than the file's, and where nobody says yes.
    """
    begun_with = _named_by_hand(arms)
    if named:
        if list(named) != begun_with:
            raise InvalidRequest("--arm and --resume: a study goes on with the arms and cases it was begun with")
        return
    choosing = [arm for arm in begun_with if chooses(arm)]
    if choosing:
        _ask(path, choosing, again or _going_on(path, begun_with))


def _named_by_hand(arms: Sequence[Arm]) -> list[Arm]:
    """Without those that --itself and --beside add, which are equal to others but for what was added."""
    alone = [arm for arm in arms if arm.neighbour is None]
    beside = [each for arm in arms if arm.neighbour for each in with_neighbour(alone, arm.neighbour) if each.neighbour]
    added = [*with_itself(alone)[len(alone) :], *beside]
    return [arm for arm in arms if arm not in added]


def _going_on(path: str, arms: Sequence[Arm]) -> list[str]:
    if click.get_current_context().info_name == "why":
        return ["why", "--resume", path, *map(in_full, arms)]
    return ["study", "--resume", path, *(word for arm in arms for word in ("--arm", in_full(arm)))]


def _ask(path: str, choosing: Sequence[Arm], again: Sequence[str]) -> None:
    """Raises InvalidRequest where nobody says yes."""
    for arm in choosing:
        say(f"{path} has this run: {in_full(arm)}", err=True)
    if sys.stdin.isatty() and sys.stderr.isatty():
        if not click.confirm("Run it?", err=True):
            raise InvalidRequest(f"{path}: its arms are not run")
        return
    command = shlex.join(["primbench", *kernels_options(named_files()), *again])
    raise InvalidRequest(
        f"{path}: machines, images, variables, filters and preloads of its arms can have any program run: where they "
        f"are yours, name them again: {command}"
    )
