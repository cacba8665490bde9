"""`primbench config`: a user's own defaults, in a TOML file where the XDG standard has such."""

from __future__ import annotations

import errno
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from primbench.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VARIABLE = "PRIMBENCH_CONFIG"
OF_ALL = "defaults"
"""The table of options for every command that has them; each other table is of the command of its name."""


def path() -> Path:
    """The file that VARIABLE names, else config.toml below XDG_CONFIG_HOME (XDG Base Directory Specification 0.8)."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return base("XDG_CONFIG_HOME", ".config") / "primbench/config.toml"


def base(variable: str, below_home: str) -> Path:
    """XDG Base Directory Specification 0.8: a relative one does not count. Raises Homeless."""
    named = Path(os.environ.get(variable, ""))
    try:
        return named if named.is_absolute() else Path.home() / below_home
    except RuntimeError:
        raise Homeless(f"user {os.getuid()} has no home here: set HOME or {variable}") from None


class Homeless(FileError):
    """The user has no home, as a number that a container was started with."""


def read() -> dict[str, dict[str, Any]]:
    """Its tables; none where there is no file. Raises FileError."""
    try:
        found = tomllib.loads(path().read_text(encoding="utf-8"))
    except (Homeless, FileNotFoundError, NotADirectoryError):  # HOME may be /dev/null
        return {}
    except OSError as error:
        if error.errno == errno.EACCES and not os.environ.get(VARIABLE):  # HOME may be another user's
            return {}
        raise FileError(f"{path()}: cannot be read: {error.strerror}: name another by {VARIABLE}") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path()}: not TOML: {str(error)[:300]}") from None
    for name, table in found.items():
        if not isinstance(table, dict):
            raise FileError(f"{path()}: {name} is not a table: write [{OF_ALL}] above it, or the name of a command")
    return found


def defaults_of(name: str, command: click.Command) -> dict[str, Any]:
    """What the file has for the options of a command, by their parameters. Raises FileError for one that it has not."""
    held, options = read(), _options(command)
    own = held.get(name, {})
    unknown = next((key for key in own if key not in options), None)
    if unknown is not None:
        known = ", ".join(options)
        raise FileError(f"{path()}: [{name}] {unknown}: no option of primbench {name}, whose are {known}")
    of_all = {key: value for key, value in held.get(OF_ALL, {}).items() if _takes(options.get(key), value)}
    several = next((key for key, value in own.items() if not _takes(options[key], value)), None)
    if several is not None:
        raise FileError(f"{path()}: [{name}] {several}: takes one value, and this is a list")
    return {str(options[key].name): _typed(value, options[key]) for key, value in (of_all | own).items()}


def _options(command: click.Command) -> dict[str, click.Parameter]:
    """By their flags without dashes."""
    return {flag.lstrip("-"): each for each in command.params for flag in each.opts if flag.startswith("-")}


def _takes(option: click.Parameter | None, value: Any) -> bool:
    """A list is for options that may be given several times: `numa` has one backend, whatever others try."""
    return option is not None and (getattr(option, "multiple", False) or not isinstance(value, list))


def _typed(value: Any, option: click.Parameter) -> Any:
    """As it would be typed; true and false are of flags."""
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
    where, shown = path(), list(_lines(read()))
    click.echo("\n".join([str(where) if os.path.exists(where) else f"{where}: not there", *shown]))


def _lines(held: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Each value, once it is known that a command takes it."""
    commands = _commands()
    taken = {flag for each in commands.values() for flag in _options(each)}
    for name, table in held.items():
        if name in commands:
            defaults_of(name, commands[name])
        elif name != OF_ALL:
            raise FileError(f"{path()}: [{name}]: no command; there are {', '.join(commands)}")
        elif unknown := next((key for key in table if key not in taken), None):
            raise FileError(f"{path()}: [{name}] {unknown}: no command has such an option")
        yield from (f"[{name}] {key} = {value}" for key, value in table.items())


def _commands() -> dict[str, click.Command]:
    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group)
    found = {name: root.command.get_command(root, name) for name in root.command.list_commands(root)}
    return {name: command for name, command in found.items() if command}
