"""Text for a layout."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


def say(text: str, *, err: bool = False, nl: bool = True, command: Sequence[str] = ()) -> None:
    """Print what may hold words of a file or of another program: they steer no terminal, whatever they are.

    command: the words of one, behind the text, as a shell is given them.
    """
    from primbench.report.plain import lines

    shown, pieces = lines(text), [*map(lines, _typed(command))]
    if err and sys.stderr.isatty():
        from primbench.report import layout

        shown = layout.wrapped(shown, layout.room(sys.stderr) or layout.WIDTH, pieces)
    else:
        shown = " ".join([shown, *pieces])
    click.echo(shown, err=err, nl=nl)


def _typed(command: Sequence[str]) -> Sequence[str]:
    if not command:
        return command
    from primbench.report.document import typed

    return typed(command)
