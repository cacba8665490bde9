"""Text for a terminal."""

from __future__ import annotations

import sys

import click


def say(text: str, *, err: bool = False, nl: bool = True, is_command: bool = False) -> None:
    """Print what may hold words of a file or of another program: they steer no terminal, whatever they are.

    is_command: what is to be typed goes on in the next line after a backslash.
    """
    from primbench.report.plain import lines

    shown = lines(text)
    if err and sys.stderr.isatty():
        from primbench.report import fitting, terminal

        shown = fitting.wrapped(shown, terminal.room(sys.stderr) or terminal.WIDTH, is_command=is_command)
    click.echo(shown, err=err, nl=nl)
