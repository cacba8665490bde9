"""`primbench completion`: Complete commands, options and their values in a shell."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import BashComplete, get_completion_class

from primbench.cli import CommandGroup
from primbench.cli.config import base
from primbench.errors import InvalidRequest, OutputError
from primbench.system import outputs

RANK = 190
VARIABLE = "_PRIMBENCH_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' rest=$COMP_LINE words=() word trimmed breaks= prefix= completion type value
    # bash parts words at characters that a value may have, such as docker:image=; what has no space between is one word
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        trimmed=${rest#"${rest%%%%[![:space:]]*}"}
        if [[ ${#words[@]} -eq 0 || $trimmed != "$rest" ]]; then words+=("$word"); else words[-1]+=$word; fi
        rest=${trimmed#"$word"}
    done
    # and of a completion it asks for what comes after the last such character
    word=${words[-1]}
    [[ $word == --*=* ]] && word=${word#*=}
    for value in : =; do [[ $COMP_WORDBREAKS == *"$value"* ]] && breaks+=$value; done
    [[ $breaks ]] && prefix=${word%%"${word##*[$breaks]}"}
    local asked=(COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete)
    for completion in $(env "${asked[@]}" "$1"); do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain)
                COMPREPLY+=("${value#"$prefix"}")
                [[ $value == *[:=] ]] && compopt -o nospace ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """click's own takes each word that bash makes for one of the command's."""

    source_template = BASH


def script(shell: str) -> str:
    found = Bash if shell == "bash" else get_completion_class(shell)
    assert found is not None
    return found(click.get_current_context().find_root().command, {}, "primbench", VARIABLE).source()


def place(shell: str) -> Path:
    """Where the shell, or for bash the package bash-completion, looks for what completes a command of that name."""
    data = Path(base("XDG_DATA_HOME", ".local/share"))
    if shell == "bash":
        own = os.environ.get("BASH_COMPLETION_USER_DIR")
        return (Path(own) if own else data / "bash-completion") / "completions/primbench"
    if shell == "zsh":
        return data / "zsh/site-functions/_primbench"
    return Path(base("XDG_CONFIG_HOME", ".config")) / "fish/completions/primbench.fish"


def _own(shell: str | None) -> str:
    found = shell or Path(os.environ.get("SHELL", "")).name
    if found not in SHELLS:
        raise InvalidRequest(f"the shell {found!r}: name one of {', '.join(SHELLS)}")
    return found


@click.group("completion", cls=CommandGroup, no_args_is_help=False)
def command() -> None:
    """Complete commands, options and their values in a shell."""


SHELL = click.argument("shell", required=False, type=click.Choice(SHELLS))


@command.command("show")
@SHELL
def show(shell: str | None) -> None:
    """Print what a shell has to read; that of $SHELL unless one is named."""
    click.echo(script(_own(shell)))


@command.command("install")
@SHELL
def install(shell: str | None) -> None:
    """Write it to where the shell looks for it; that of $SHELL unless one is named."""
    name = _own(shell)
    file = place(name)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{file}: {error.strerror}") from None
    outputs.write(file, f"{script(name)}\n".encode())
    click.echo(f"Written: {file}")
    click.echo(_WORDS[name].format(folder=file.parent))


_WORDS = {
    "bash": "New shells complete primbench where the package bash-completion is installed.",
    "zsh": "Have this before compinit in ~/.zshrc, if it is not there: fpath+=({folder})",
    "fish": "New shells complete primbench.",
}
