"""Text for a terminal."""

from __future__ import annotations

import sys

import click


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print what may hold words of a file or of another program: they steer no terminal, whatever they are."""
    from primbench.report.plain import lines

    shown = lines(text)
    if err and sys.stderr.isatty():
        from primbench.report import fitting, terminal

        shown = fitting.wrapped(shown, terminal.room(sys.stderr) or terminal.WIDTH)
    click.echo(shown, err=err, nl=nl)


def say_in_colour(text: str, *, nl: bool = True) -> None:
    """say(), a comparison's verdicts in colour where stdout is a terminal and NO_COLOR and TERM allow it."""
    if not sys.stdout.isatty():
        say(text, nl=nl)
        return
    from rich.console import Console

    from primbench.report.plain import lines
    from primbench.report.signs import painted

    Console().print(painted(lines(text)), soft_wrap=True, end="\n" if nl else "")
