"""A user's own defaults, and what a shell is given to complete."""

from __future__ import annotations

import errno
import json
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.cli import config, numa
from primbench.cli.completion import SHELLS
from primbench.errors import FileError
from primbench.system import inputs

if TYPE_CHECKING:
    from click.testing import Result

OWN = """
[defaults]
backend = "numpy"
dry-run = true
label = ["who=me"]
[gemm]
dtype = "fp64"
m = "2,3"
n = 4
k = 4
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PRIMBENCH_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "primbench/config.toml"
    path.parent.mkdir()
    return path


def test_own_defaults_are_taken_shown_and_overridden(own: Path, invoke: Callable[..., Result]) -> None:
    own.write_text(OWN)
    cases = [each["case"] for each in json.loads(invoke("gemm", "--json", "-").stdout)["records"]]
    assert [(2, "float64"), (3, "float64")] == [
        (each["parameters"]["m"], each["parameters"]["dtype"]) for each in cases
    ]
    assert {("numpy", True)} == {(each["backend"], each["method"]["dry_run"]) for each in cases}
    (case,) = json.loads(invoke("gemm", "-m", 5, "--dtype", "fp32", "--json", "-").stdout)["records"]
    assert (5, "float32") == (case["case"]["parameters"]["m"], case["case"]["parameters"]["dtype"])
    shown = invoke("config").stdout.splitlines()
    assert [str(own), "[defaults] backend = numpy"] == shown[:2]
    assert "[gemm] m = 2,3" in shown


@pytest.mark.parametrize(
    ("text", "command", "said"),
    [
        ("gemm = 1", "gemm", "gemm is not a table: write [defaults] above it, or the name of a command"),
        ("[gemm", "gemm", "not TOML: "),
        (
            "[gemm]\nsize = 1",
            "gemm",
            "[gemm] size: no option of primbench gemm: did you mean sizes? they are sizes, m, n, k, dtype, ",
        ),
        ("[gemm]\nmax-time = 5", "gemm", "Invalid value for '--max-time': duration '5': expected "),
        ('[numa]\nbackend = ["numpy"]', "numa", "[numa] backend: takes one value, and this is a list"),
        ("[gemm]\nmax-time = true", "gemm", "[gemm] max-time: takes a value, and this is true"),
        ("[defaults]\nmax-time = false", "config", "[defaults] max-time: takes a value, and this is false"),
        ("[gem]\nm = 1", "config", "[gem]: no command: did you mean gemm? there are "),
        (
            "[defaults]\nmax-tme = 1",
            "gemm",
            "[defaults] max-tme: no command has such an option: did you mean max-time?",
        ),
        ("[defaults]\nnosuch = 1", "config", "[defaults] nosuch: no command has such an option"),
    ],
)
def test_what_no_command_takes_is_one_line(
    own: Path, text: str, command: str, said: str, refusal: Callable[..., str]
) -> None:
    own.write_text(text)
    assert refusal(command).startswith(f"{own}: {said}")


def test_what_is_of_all_is_no_word_of_one(own: Path, refusal: Callable[..., str]) -> None:
    """Several backends to try are none for what has one, and a device to measure on is not one of a script."""
    own.write_text('[defaults]\nbackend = ["numpy"]\ndevice = "cpu"\n')
    assert {"device": "cpu"} == config.defaults_of("numa", numa.command)
    assert "nosuch.py: no such script; " in refusal("capture", "nosuch.py", "-o", "step.toml")
    found = refusal("capture", "nosuch.py", "-o", "step.toml", "--epochs", "1")
    assert "No such option '--epochs': one of the script's own goes after --, as in -- --epochs" in found


def test_without_a_file_there_are_none(
    own: Path, invoke: Callable[..., Result], refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"{own}: not there\n" == invoke("config").stdout
    monkeypatch.setenv("PRIMBENCH_CONFIG", str(own))
    assert f"{own}: no such file, and PRIMBENCH_CONFIG names it" == refusal("list")


def test_a_table_of_no_command_is_told_in_a_line(own: Path, invoke: Callable[..., Result]) -> None:
    own.write_text("[gem]\nm = 1\n[own]\nn = 1\n[memcpy]\nbytes = '4KiB'\n")
    found = invoke("list", "backends")
    assert (0, f"{own}: [gem]: no command: did you mean gemm?\n") == (found.exit_code, found.stderr)


def test_a_home_that_is_no_folder_holds_none(monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Result]) -> None:
    for variable in ("PRIMBENCH_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    assert "/dev/null/.config/primbench/config.toml: not there\n" == invoke("config").stdout


def test_the_home_of_another_user_holds_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of who became another user and kept HOME; root, who may read all, is refused by hand."""

    def refused(path: str, **_: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(inputs, "opened", refused)
    with pytest.raises(FileError, match="cannot be read: Permission denied"):
        config.read()
    monkeypatch.delenv("PRIMBENCH_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "primbench").mkdir()
    (tmp_path / "primbench/config.toml").touch()
    assert {} == config.read()


def test_a_user_without_a_home_has_no_defaults(
    monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Result], refusal: Callable[..., str]
) -> None:
    """As a container's, started with a number that its /etc/passwd has not."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    for variable in ("PRIMBENCH_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "BASH_COMPLETION_USER_DIR", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    invoke("list", "suites")
    assert f"user {os.getuid()} has no home here: set HOME or XDG_CONFIG_HOME" == refusal("config")
    assert f"user {os.getuid()} has no home here: set HOME or XDG_DATA_HOME" == refusal("completion", "install", "bash")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_installed_where_the_shell_looks(
    shell: str, tmp_path: Path, invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    monkeypatch.delenv("BASH_COMPLETION_USER_DIR", raising=False)
    first, _ = invoke("completion", "install").stdout.splitlines()
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert f"Written: {file}" == first
    assert invoke("completion", "show", shell).stdout == file.read_text()
    if shell == "bash":
        asked = f"source {file} && complete -p primbench"
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
        assert "_primbench_completion primbench" in done.stdout


def test_another_shell_is_told_which_there_are(refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert "the shell 'tcsh': name one of bash, zsh, fish" == refusal("completion", "install")


def test_values_that_python_cannot_print_are_no_toml(own: Path, refusal: Callable[..., str]) -> None:
    for number in ("9" * 5000, "0x" + "f" * 5000, "18446744073709551616"):
        own.write_text(f"[gemm]\nm = [{number}]\n")
        for command in (("config",), ("gemm", "--dry-run")):
            assert refusal(*command).startswith(f"{own}: not TOML: ")


def test_no_value_steers_the_terminal_that_shows_it(own: Path, invoke: Callable[..., Result]) -> None:
    own.write_text('[gemm]\ndtype = "\\u001b]0;owned\\u0007\\u202e\\n[defaults] x = 1"\n')
    shown = invoke("config").stdout
    assert shown.replace("\n", "").isprintable()
    assert [str(own), r"[gemm] dtype = \x1b]0;owned\x07\u202e\x0a[defaults] x = 1"] == shown.splitlines()


def test_a_pipe_in_its_place_is_not_waited_for(own: Path, refusal: Callable[..., str]) -> None:
    os.mkfifo(own)
    for command in (("config",), ("gemm", "--dry-run")):
        assert f"{own}: a pipe that nobody writes to: " in refusal(*command)
