"""`primbench config`: Show your own defaults, and the file that they are in."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import click

from primbench.cli.echo import say
from primbench.errors import FileError, near

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

RANK = 200
VARIABLE = "PRIMBENCH_CONFIG"
OF_ALL = "defaults"
"""The table of options for every command that has them; each other table is of the command of its name."""


def path() -> str:
    """The file that VARIABLE names, else config.toml below XDG_CONFIG_HOME (XDG Base Directory Specification 0.8)."""
    if named := os.environ.get(VARIABLE):
        return named
    return os.path.join(base("XDG_CONFIG_HOME", ".config"), "primbench/config.toml")


def base(variable: str, below_home: str) -> str:
    """XDG Base Directory Specification 0.8: a relative one does not count. Raises Homeless."""
    named, home = os.environ.get(variable, ""), os.path.expanduser("~")
    if os.path.isabs(named):
        return named
    if home == "~":
        raise Homeless(f"user {os.getuid()} has no home here: set HOME or {variable}")
    return os.path.join(home, below_home)


class Homeless(FileError):
    """The user has no home, as a number that a container was started with."""


def read() -> dict[str, dict[str, Any]]:
    """Its tables; none where there is no file. Raises FileError."""
    try:
        if not (os.environ.get(VARIABLE) or os.path.lexists(path())):
            return {}
        from primbench.system.inputs import opened  # next to nobody has such a file, and --help does without

        with opened(path()) as file:
            return _parsed(file.read().decode())
    except (Homeless, FileNotFoundError, NotADirectoryError) as error:  # HOME may be /dev/null
        if os.environ.get(VARIABLE):
            raise FileError(f"{path()}: no such file, and {VARIABLE} names it") from error
        return {}
    except OSError as error:
        if error.errno == errno.EACCES and not os.environ.get(VARIABLE):  # HOME may be another user's
            return {}
        raise FileError(f"{path()}: cannot be read: {error.strerror}: name another by {VARIABLE}") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path()}: not TOML: {str(error)[:300]}") from None


def _parsed(text: str) -> dict[str, dict[str, Any]]:
    import tomllib

    from primbench.system.document import TOO_LARGE, has_larger

    found = tomllib.loads(text)
    if has_larger(found):  # which Python may not even be able to print
        raise ValueError(TOO_LARGE)
    for name, table in found.items():
        if not isinstance(table, dict):
            raise FileError(f"{path()}: {name} is not a table: write [{OF_ALL}] above it, or the name of a command")
    return found


def defaults_of(name: str, command: click.Command) -> dict[str, Any]:
    """What the file has for the options of a command, by their parameters. Raises FileError for one that it has not."""
    held, options = read(), _options(command)
    _check_likely(held, name, options)
    own = held.get(name, {})
    for key, value in own.items():
        if key not in options:
            known = f"{near(key, options)}they are {', '.join(options)}"
            raise FileError(f"{path()}: [{name}] {key}: no option of primbench {name}: {known}")
        if misfit := _misfit(options[key], value):
            raise FileError(f"{path()}: [{name}] {key}: {misfit}")
    shared = {key: value for key, value in held.get(OF_ALL, {}).items() if key in options}
    of_all = {key: value for key, value in shared.items() if not _misfit(options[key], value)}
    return {str(options[key].name): _typed(value, options[key]) for key, value in (of_all | own).items()}


def _check_likely(held: Mapping[str, Mapping[str, Any]], name: str, options: Iterable[str]) -> None:
    """Refuse what is likely misspelt: which options all commands have takes too long to ask before each.

    Of a table that no command is called by, a line: a file of --kernels, not named now, may define one.
    """
    for key, value in held.get(OF_ALL, {}).items():
        if key not in options and near(key, options):
            _check_shared({key: value}, _commands().values())
    tables = held.keys() - {OF_ALL, name}
    names = _names() if tables else []
    for table in tables - {*names}:
        if meant := near(table, names).rstrip():
            say(f"{path()}: [{table}]: no command: {meant}", err=True)


def _options(command: click.Command) -> dict[str, click.Parameter]:
    """By their flags without dashes."""
    return {flag.lstrip("-"): each for each in command.params for flag in each.opts if flag.startswith("-")}


def _misfit(option: click.Parameter, value: Any) -> str:
    """Why an option cannot have this value, else "".

    [defaults] may have what fits some commands alone: `numa` has one backend, whatever others try.
    """
    if isinstance(value, list) and not getattr(option, "multiple", False):
        return "takes one value, and this is a list"
    if isinstance(value, bool) and not getattr(option, "is_flag", False):
        return f"takes a value, and this is {str(value).lower()}"
    return ""


def _typed(value: Any, option: click.Parameter) -> Any:
    """As it would be typed; true and false stay what they are."""
    if getattr(option, "multiple", False):
        return [str(each) for each in (value if isinstance(value, list) else [value])]
    return value if isinstance(value, bool) else str(value)


@click.command("config")
def command() -> None:
    """Show your own defaults, and the file that they are in.

    A TOML file: [defaults] is of every command that has such options, [gemm] of gemm. Whatever stands on the command
    line comes first.

    \b
    [defaults]
    max-time = "5s"
    backend = ["torch", "cupy"]
    [gemm]
    dtype = "bf16"
    """
    from primbench.report.plain import printable

    where, shown = path(), list(_lines(read()))
    for line in [where if os.path.exists(where) else f"{where}: not there", *shown]:
        say(printable(line))


def _lines(held: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Each value, once it is known that a command takes it."""
    commands = _commands()
    for name, table in held.items():
        if name in commands:
            defaults_of(name, commands[name])
        elif name != OF_ALL:
            raise FileError(f"{path()}: [{name}]: no command: {near(name, commands)}there are {', '.join(commands)}")
        else:
            _check_shared(table, commands.values())
        yield from (f"[{name}] {key} = {value}" for key, value in table.items())


def _check_shared(table: Mapping[str, Any], commands: Iterable[click.Command]) -> None:
    """Raises FileError for what no command takes."""
    options = [*map(_options, commands)]
    for key, value in table.items():
        misfits = [_misfit(each[key], value) for each in options if key in each]
        if all(misfits):
            meant = near(key, dict.fromkeys(name for each in options for name in each)).rstrip()
            reason = next(iter(misfits), f"no command has such an option{meant and f': {meant}'}")
            raise FileError(f"{path()}: [{OF_ALL}] {key}: {reason}")


def _names() -> list[str]:
    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group)
    return root.command.list_commands(root)


def _commands() -> dict[str, click.Command]:
    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group)
    found = {name: root.command.get_command(root, name) for name in _names()}
    return {name: command for name, command in found.items() if command}
