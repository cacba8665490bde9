"""A neighbour in words, as `primbench study --beside` and a study's file have it: a primitive and its options."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from primbench.cli.options import OnDevice
from primbench.cli.problem import OfProblem, entries_of, in_words
from primbench.cli.request import dataclass, option, part
from primbench.devices import is_device
from primbench.errors import InvalidRequest
from primbench.registry import backends_of
from primbench.spec.neighbour import Neighbour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.problem import Problem


@dataclass(frozen=True, kw_only=True)
class NeighbourWords(OfProblem):
    """What is called over and over, and where."""

    where: OnDevice = part(OnDevice)
    backends: tuple[str, ...] = option("--backend", multiple=True)


def neighbour_in_words(text: str) -> Neighbour:
    """The neighbour of words such as "gemm -m 4096 -n 4096 -k 4096", read as the command line reads them.

    Raises InvalidRequest, also for words that mean several problems.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidRequest(f"{text!r}: {error}") from None
    if not words:
        raise InvalidRequest('a neighbour is a primitive and its options, as in "gemm -m 4096 -n 4096 -k 4096"')
    try:
        return _neighbour(shlex.join(words), *in_words(words, NeighbourWords))
    except (click.UsageError, InvalidRequest) as error:
        said = error.format_message() if isinstance(error, click.UsageError) else str(error)
        raise InvalidRequest(f"{text!r}: {said}") from None


def _neighbour(words: str, problem: type[Problem], asked: NeighbourWords) -> Neighbour:
    entries = list(entries_of(problem, asked.problem))
    if len(entries) != 1:
        raise InvalidRequest(f"these are {len(entries)} problems, and a neighbour does one: name its dimensions")
    parameters = entries[0][0].parameters()
    if parameters.get("ranks", 1) != 1:
        raise InvalidRequest(f"ranks={parameters['ranks']}: a neighbour is one process")
    return Neighbour(
        words=words,
        primitive=problem.primitive,
        parameters=parameters,
        backend=_backend(problem, asked.backends),
        device=_device(asked.where.device),
    )


def _backend(problem: type[Problem], named: Sequence[str]) -> str | None:
    having = backends_of(problem.primitive)
    if len(named) > 1 or any(name not in having for name in named):
        raise InvalidRequest(f"--backend {' '.join(named)}: one of {', '.join(having)}")
    return named[0] if named else None


def _device(device: str | None) -> str | None:
    if device is not None and not is_device(device):
        raise InvalidRequest(f"--device {device}: cpu or cuda:N (N from 0)")
    return device
