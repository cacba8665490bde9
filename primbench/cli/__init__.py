"""The command line: options and printing, no measuring and no arithmetic.

A command's file is imported when the command is used, so that --help costs little more than click itself.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import click

from primbench import __version__
from primbench.cli import commands
from primbench.cli.echo import say
from primbench.errors import INTERRUPTED, FileError, InvalidRequest, PrimbenchError, near

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.shell_completion import CompletionItem

MOVED = {
    "ablate": "primbench why host docker --primitive launch",
    "bandwidth": "primbench memcpy",
    "schema": "primbench show --schema",
}
"""Commands that went, each with the one that answers the same question; for one release."""
QUESTIONS = {
    "Is my container slower, and by what?": "primbench study containers",
    "Is my kernel faster?": "primbench time mine.py::old --setup mine.py::inputs --versus mine.py::new",
    "Is this node sound?": "primbench certify certificate/",
    "Where does my step go?": "primbench capture train.py -o step.toml && primbench explain step.toml",
    "Did it get slower over time?": "primbench history results/",
}
"""What is answered by which command."""
FURTHER = {
    "primbench gemm": "time one primitive; primbench list has all",
    "primbench doctor": "what slows this place down, in a second",
    "primbench help": "pages to read, such as `primbench help slower-container`",
    "primbench --help": "all commands",
}
"""What else the first screen offers."""


class CommandGroup(click.Group):
    """Of a command that is none of its own it says which are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            there = self.list_commands(ctx)
            if args[0] in MOVED:
                raise click.UsageError(f"{args[0]} is another command now: {MOVED[args[0]]}", ctx) from None
            hint = near(args[0], there).rstrip() or f"there are {', '.join(there)}"
            raise click.UsageError(f"No such command {args[0]!r}: {hint}", ctx) from None


class LazyGroup(CommandGroup):
    """Knows its commands by name; primitives are those in kernels/, of installed packages, and of --kernels."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from primbench.registry import summaries

        return [*summaries(), *commands.known()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if (command := commands.command(name)) is not None:
            return command
        from primbench.registry import problem_class

        try:
            problem = problem_class(name)  # imports this primitive's folder of kernels/ alone
        except InvalidRequest:
            return None
        from primbench.cli.primitive import command_of

        return command_of(problem)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """click's own makes every command for the sake of its summary."""
        from click.shell_completion import CompletionItem

        from primbench.registry import summaries

        said = {**summaries(), **commands.known()}
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=said.get(name)) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None and not ctx.resilient_parsing:
            ctx.default_map = {name: _own_defaults(name, command)}
        return name, command, rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Questions first, then commands, and options after these."""
        _write_questions(formatter)
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Primitives by their names alone: there are many."""
        from primbench.registry import summaries

        with formatter.section("Commands"):
            formatter.write_dl([*commands.known().items()])
        with formatter.section("Primitives, of which `primbench list` tells what each is"), formatter.indentation():
            formatter.write_text(", ".join(summaries()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            formatter = ctx.make_formatter()
            self.format_help_text(ctx, formatter)
            _write_questions(formatter)
            with formatter.section("Further"):
                formatter.write_dl([*FURTHER.items()])
            click.echo(formatter.getvalue().strip("\n"))
            ctx.exit()
        try:
            return super().parse_args(ctx, _kernels_first(args))
        except (click.NoSuchOption, click.BadOptionUsage) as error:
            _refuse(ctx, error)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """With the width of help, for which click itself would import shutil, and with it all that packs files."""
        return super().make_context(info_name, args, parent, **({"terminal_width": _width_of_help()} | extra))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with ctrl_c_raises():
                _sweep()
                return super().invoke(ctx)
        except click.UsageError as error:
            _refuse(ctx, error)
        except PrimbenchError as error:
            say(f"Error: {' '.join(str(error).splitlines())}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            raise  # click ends it quietly
        except OSError as error:  # what the system has no room for, or has taken away
            where = f"{error.filename}: " if error.filename else ""
            say(f"Error: {where}{error.strerror or error}", err=True)
            ctx.exit(1)
        except MemoryError:
            say("Error: no memory left for this process: see the limits of `ulimit -a`", err=True)
            ctx.exit(1)
        except (KeyboardInterrupt, click.Abort):  # Abort: Ctrl-C at a prompt
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)


def _write_questions(formatter: click.HelpFormatter) -> None:
    with formatter.section("Questions"):
        for question, answered_by in QUESTIONS.items():
            formatter.write(f"  {question}\n    {answered_by}\n")


def _width_of_help() -> int:
    """As click has it: what COLUMNS says, else the terminal, less two and within 50 and 78."""
    named = os.environ.get("COLUMNS", "")
    try:
        columns = int(named) if named.isdecimal() else 0
        columns = columns or os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # no stdout, or no terminal
        columns = 0
    return max(min(columns or 80, 80) - 2, 50)


def _sweep() -> None:
    """Clear away what was left in TMPDIR by those that were killed, whatever the command; where nothing was, look only.

    A folder that is locked belongs to one that runs.
    """
    with suppress(OSError), os.scandir(os.environ.get("TMPDIR") or "/tmp") as entries:
        if any(_may_be_left(entry) for entry in entries):
            from primbench.runtimes.leftovers import sweep

            sweep()


def _may_be_left(entry: os.DirEntry[str]) -> bool:
    if not entry.name.startswith("primbench-") or not entry.is_dir(follow_symlinks=False):
        return False
    from primbench.system.locks import is_held

    try:
        return not is_held(f"{entry.path}/to-clear.json")
    except FileNotFoundError:
        return True
    except OSError:  # somebody else's
        return False


def _kernels_first(args: list[str]) -> list[str]:
    """The files of --kernels in front, where they are typed behind the command that one of them may define."""
    first, rest, left = list[str](), list[str](), iter(args)
    for word in left:
        if word == "--":
            return [*first, *rest, word, *left]
        value = next(left, None) if word == "--kernels" else None
        if value is not None:
            first += [word, value]
        else:
            (first if word.startswith("--kernels=") else rest).append(word)
    return [*first, *rest]


def _refuse(ctx: click.Context, error: click.UsageError) -> NoReturn:
    """In one line, which says where to read on."""
    command = error.ctx.command_path if error.ctx else f"primbench {ctx.invoked_subcommand or ''}".rstrip()
    message = " ".join(line.strip() for line in error.format_message().splitlines())  # click lists choices by tabs
    say(f"Error: {_file_of(error)}{message} (see {command} --help)", err=True)
    ctx.exit(error.exit_code)


def _own_defaults(name: str, command: click.Command) -> dict[str, Any]:
    """What the user's configuration file has for the command; it is not looked at by those that show it or help."""
    if name in ("config", "completion", "help"):
        return {}
    from primbench.cli.config import defaults_of

    return defaults_of(name, command)


def _file_of(error: click.UsageError) -> str:
    """The user's configuration file, where what is wrong was not typed but stands there."""
    source = click.core.ParameterSource.DEFAULT_MAP
    option = error.param if isinstance(error, click.BadParameter) else None
    if not (error.ctx and option and error.ctx.get_parameter_source(str(option.name)) is source):
        return ""
    from primbench.cli.config import path

    return f"{path()}: "


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """KeyboardInterrupt, where it would do something else; ignored it stays."""
    before = signal.getsignal(signal.SIGINT)
    if before in (signal.default_int_handler, signal.SIG_IGN):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _add_files(paths: tuple[str, ...]) -> None:
    if paths:
        from primbench.registry import add_file, summaries

        for path in paths:
            add_file(path)
        if taken := summaries().keys() & commands.known():
            raise FileError(f"--kernels: a primitive cannot be called {taken.pop()}, which is a command of primbench")
        _refuse_unknown_backends()


def _refuse_unknown_backends() -> None:
    from primbench.backends import files
    from primbench.problem import KERNELS

    for primitive, backend, _ in KERNELS:
        if backend not in files():
            known = f"{near(backend, files())}backends are {', '.join(files())}"
            raise FileError(f"--kernels: a kernel of {primitive} for {backend!r}: {known}")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--kernels",
    type=click.Path(),
    multiple=True,
    metavar="FILE.py",
    is_eager=True,
    expose_value=False,
    callback=lambda context, option, paths: _add_files(paths),
    help="Use the primitives and kernels that a file of your own defines, too, also behind a command; repeatable.",
)
@click.version_option(__version__, prog_name="primbench")
@click.help_option("-h", "--help", is_eager=False)  # after --kernels, wherever that stands: it names those, too
def main() -> None:
    """Time deep-learning primitives, and see what a place costs them: launch, device and transfer time apart."""
