"""Text for a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from primbench.report.document import Tone


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print what may hold words of a file or of another program: they steer no terminal, whatever they are."""
    from primbench.report.plain import lines

    shown = lines(text)
    if err and sys.stderr.isatty():
        from primbench.report import fitting, terminal

        shown = fitting.wrapped(shown, terminal.room(sys.stderr) or terminal.WIDTH)
    click.echo(shown, err=err, nl=nl)


def say_in_colour(text: str, *, tone: Tone | None = None, nl: bool = True) -> None:
    """say(), a comparison's verdicts in colour where stdout is a terminal and NO_COLOR and TERM allow it.

    tone: of the answer, with which the text begins.
    """
    if not sys.stdout.isatty():
        say(text, nl=nl)
        return
    from rich.console import Console

    from primbench.report.plain import lines
    from primbench.report.signs import painted

    Console().print(painted(lines(text), tone), soft_wrap=True, end="\n" if nl else "")
