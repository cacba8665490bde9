"""The group: its help, unknown commands, streams, and completion."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from primbench import __version__
from primbench.cli import MOVED as GROUP_MOVED
from primbench.cli import QUESTIONS, commands, main
from primbench.registry import primitives

if TYPE_CHECKING:
    from click.testing import Result

PROGRAM = f"{sys.executable} -P -m primbench"
SCREEN_LINES = 40
NAMES = [*primitives(), *commands.known()]


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **variables}
    )


def options(name: str) -> Iterator[click.Option]:
    with click.Context(main, **main.context_settings) as context:
        command = main.get_command(context, name)
    assert command is not None
    yield from (each for each in command.params if isinstance(each, click.Option))


def test_help_lists_primitives_and_commands(invoke: Callable[..., Result]) -> None:
    result = invoke("--help")
    assert 0 == result.exit_code
    assert set(commands.known()) <= set(re.findall(r"^  (\w+)  ", result.stdout, re.MULTILINE))
    assert set(primitives()) <= set(re.findall(r"\w+", result.stdout.partition("Primitives")[2]))


def test_alone_it_offers_what_answers_each_question(invoke: Callable[..., Result]) -> None:
    result = invoke()
    assert 0 == result.exit_code
    assert SCREEN_LINES >= len(result.stdout.splitlines())
    shown = re.findall(r"^  .+\?\n    primbench (\w+) ", result.stdout, re.MULTILINE)
    assert len(QUESTIONS) == len(shown)
    assert set(shown) <= {*NAMES}
    assert all(f"  {question}\n" in invoke("--help").stdout for question in QUESTIONS)


@pytest.mark.parametrize("name", ["", *NAMES])
def test_h_is_help_everywhere(name: str, invoke: Callable[..., Result]) -> None:
    arguments = [name] if name else []
    long = invoke(*arguments, "--help")
    assert 0 == long.exit_code
    if " -h, --h N " not in long.stdout:  # a convolution's height
        assert long.stdout == invoke(*arguments, "-h").stdout
    assert long.stdout.startswith(f"Usage: primbench{' ' if name else ''}{name}")


def full_help(name: str, invoke: Callable[..., Result]) -> str:
    """With all options, where --help leaves some out."""
    short = invoke(name, "--help").stdout
    return invoke(name, "--help-all").stdout if re.search("^  --help-all  ", short, re.MULTILINE) else short


@pytest.mark.parametrize("name", NAMES)
def test_the_first_screen_has_examples_and_the_options_of_the_problem(name: str, invoke: Callable[..., Result]) -> None:
    shown = invoke(name, "--help").stdout
    assert SCREEN_LINES >= len(shown.splitlines())
    of_problem = {each.opts[-1]: each.opts[0] for each in options(name) if getattr(each, "group", "") == "Problem"}
    assert all(re.search(rf"(?<![\w-])({flag}|{first})(?![\w-])", shown) for flag, first in of_problem.items())
    if "  --help-all  " in shown:
        assert f"\n\n  primbench {name}" in shown


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_in_the_help_with_a_text(name: str, invoke: Callable[..., Result]) -> None:
    shown = full_help(name, invoke)
    for option in options(name):
        assert option.help, option.name
        assert all(re.search(rf"(^|\s|/){flag}\b", shown) for flag in option.opts), option.opts


@pytest.mark.parametrize("name", NAMES)
def test_a_default_is_shown_as_it_is_typed(name: str, invoke: Callable[..., Result]) -> None:
    assert "[default: (" not in " ".join(full_help(name, invoke).split())


@pytest.mark.parametrize("name", NAMES)
def test_help_names_no_option_that_is_not_there(name: str, invoke: Callable[..., Result]) -> None:
    of_all = {flag for option in main.params for flag in option.opts}  # which go before the command, as --kernels
    there = (
        {flag for option in options(name) for flag in [*option.opts, *option.secondary_opts]}
        | of_all
        | {
            "-h",
            "--help",
            "--help-all",
        }
    )
    own = re.sub(r" -- .*|torchrun .*", "", full_help(name, invoke))  # those of other programs left out
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", own))
    assert named <= there


def test_no_option_has_a_letter_alone_but_dimensions_and_the_common_ones() -> None:
    letters = {(n, o) for n in commands.known() for option in options(n) if len(option.opts) == 1 for o in option.opts}
    assert not {o for _, o in letters if not o.startswith("--")}


def test_version(invoke: Callable[..., Result]) -> None:
    assert f"primbench, version {__version__}\n" == invoke("--version").stdout


def test_misspelt_primitive_is_answered_with_the_nearest(refusal: Callable[..., str]) -> None:
    assert "No such command 'gemn': did you mean gemm? (see primbench --help)" == refusal("gemn")


def test_unknown_command_is_answered_with_all(refusal: Callable[..., str]) -> None:
    assert f"No such command 'xyzzy': there are {', '.join(NAMES)} (see primbench --help)" == refusal("xyzzy")


def test_unknown_option_is_refused(refusal: Callable[..., str]) -> None:
    assert refusal("gemm", "--bogus").endswith("(see primbench gemm --help)")
    assert "No such option '--bogus'. (see primbench --help)" == refusal("--bogus")


def test_closed_pipe_is_no_traceback() -> None:
    found = shell(f"{PROGRAM} show --schema | head -n 1; exit ${{PIPESTATUS[1]}}")
    assert ("{\n", "", 0) == (found.stdout, found.stderr, found.returncode)


def test_what_the_last_version_had_is_there_or_says_what_took_its_place() -> None:
    """A line has a command and its options, the first one those of all primitives; it is made anew for each version."""
    for line in Path(__file__).with_name("promised.txt").read_text().splitlines():
        name, *flags = line.split()
        for each in primitives() if name == "*" else [name]:
            if each in GROUP_MOVED:
                continue
            there = {flag for option in options(each) for flag in [*option.opts, *option.secondary_opts]}
            with click.Context(main, **main.context_settings) as context:
                moved = getattr(main.get_command(context, each), "moved", {})
            assert {*flags} <= there | moved.keys(), each


UNWRITABLE = {"> /dev/full": "No space left on device", ">&-": "Bad file descriptor"}


def test_a_page_goes_to_a_pager_that_is_told_of_its_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESS", "")
    monkeypatch.delenv("LESS")
    monkeypatch.setenv("TERM", "xterm")
    shown: list[tuple[str, str]] = []
    monkeypatch.setattr("pydoc.pager", lambda text: shown.append((os.environ["LESS"], text)))
    controller, terminal = pty.openpty()
    with open(terminal, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        main(["help", "which-node"], standalone_mode=False)
    os.close(controller)
    ((options, text),) = shown
    assert "-R" == options
    assert "\x1b[" in text


@pytest.mark.parametrize(
    ("command", "redirection"),
    [("list", "> /dev/full"), ("list", ">&-"), ("--help", "> /dev/full"), ("gemm --help", ">&-")],
)
def test_standard_output_that_cannot_be_written_is_one_line(command: str, redirection: str) -> None:
    found = shell(f"{PROGRAM} {command} {redirection}")
    assert (1, f"Error: stdout: {UNWRITABLE[redirection]}\n") == (found.returncode, found.stderr)


def test_output_to_a_terminal_that_is_gone_is_one_line() -> None:
    ours, theirs = pty.openpty()
    os.close(ours)
    found = subprocess.run([*PROGRAM.split(), "list"], stdout=theirs, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(theirs)
    assert (1, b"Error: stdout: Input/output error\n") == (found.returncode, found.stderr)


def test_a_pipe_that_does_not_wait_gets_all() -> None:
    """As one that node or ssh has made so."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    with subprocess.Popen([*PROGRAM.split(), "show", "--schema"], stdout=writer, stderr=subprocess.PIPE) as program:
        os.close(writer)
        with open(reader, "rb") as read:
            json.load(read)
    assert 0 == program.returncode


@pytest.mark.parametrize("redirection", ["2> /dev/full", "<&- 2>&-"])
def test_the_rest_goes_on_without_standard_error(redirection: str) -> None:
    found = shell(f"{PROGRAM} gemm -m 8 -n 8 -k 8 --backend numpy --device cpu --dry-run {redirection}")
    assert (0, "gemm") == (found.returncode, found.stdout[:4])
    assert 2 == shell(f"{PROGRAM} gemm --bogus {redirection}").returncode


def test_an_export_is_written_where_standard_output_cannot_be(tmp_path: Path) -> None:
    dry = "gemm -m 8 -n 8 -k 8 --backend numpy --device cpu --dry-run"
    found = shell(f"{PROGRAM} {dry} --csv {tmp_path}/x.csv --json {tmp_path}/x.json > /dev/full")
    assert (1, "Error: stdout: No space left on device\n") == (found.returncode, found.stderr)
    assert {"x.csv", "x.json"} == {path.name for path in tmp_path.iterdir()}


def test_of_an_export_that_does_not_fit_nothing_is_left(tmp_path: Path) -> None:
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("x")
    for path in (new, old):
        found = shell(f"export PYTHONDONTWRITEBYTECODE=1; ulimit -f 1; {PROGRAM} env --json {path} --overwrite")
        assert (1, f"Error: {path}: File too large\n") == (found.returncode, found.stderr)
    assert [old] == list(tmp_path.iterdir())
    assert "x" == old.read_text()


def test_ctrl_c_while_starting_is_one_line(tmp_path: Path) -> None:
    """A module that click imports sends the signal, at each of the places where it is imported."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING)
    for module in ("primbench.system.streams", "primbench.cli", "click", "primbench.cli.show", "msgspec"):
        found = subprocess.run(
            [*PROGRAM.split(), "show", "--schema"], capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "INTERRUPT_AT": module},
        )  # fmt: skip
        assert (130, "", "Interrupted.\n") == (found.returncode, found.stdout, found.stderr), module


INTERRUPTING = """
import importlib.abc, os, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""


def test_an_error_of_several_lines_is_told_in_one(refusal: Callable[..., str]) -> None:
    assert "--device a b: cpu, cuda:N (N from 0) or all" == refusal("gemm", "--device", "a\nb")


COMPLETIONS = {
    "ge": ["gemm"],
    "run d": ["deepbench", "dit-xl-2"],
    "gemm --sizes sm": ["small"],
    "gemm --backend nump": ["numpy"],
    "gemm --backend al": ["all"],
    "gemm --dtype bf": ["bfloat16"],
    "run deepbench --primitive ge": ["gemm"],
    "run deepbench --dtype int": ["int32", "int8"],
    "run deepbench --set inference_d": ["inference_device"],
    "study tiny": ["tiny_imagenet"],
    "study --arm apptainer:cpu": [
        f"apptainer:{key}=" for key in ("cpus", "cpuset", "cpu-weight", "cpu-node", "cpu-kind")
    ],
    "study --arm host:re": ["host:read-rate="],
    "study --arm ssh:gpu7,re": ["ssh:gpu7,read-rate="],
    "study --arm ssh:gpu7,ro": ["ssh:gpu7,root="],
    "study --arm ssh:gpu7,ru": ["ssh:gpu7,runtime="],
    "help whi": ["which-node"],
    "list ": ["primitives", "models", "backends", "suites"],
    "model fathom_s": ["fathom_seq2seq", "fathom_speech"],
    "show --time-unit u": ["us"],
    "gemm --max-no": ["--max-noise"],
}


def asked(line: str) -> dict[str, str]:
    """What a shell sets to have it completed."""
    words = f"primbench {line}"
    return {"_PRIMBENCH_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}


@pytest.fixture
def completed(invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    def complete(line: str) -> list[str]:
        for name, value in asked(line).items():
            monkeypatch.setenv(name, value)
        return invoke().stdout.splitlines()

    return complete


@pytest.mark.parametrize("line", COMPLETIONS)
def test_shell_completion(line: str, completed: Callable[[str], list[str]]) -> None:
    assert [f"plain,{word}" for word in COMPLETIONS[line]] == completed(line)


@pytest.mark.parametrize("line", ["gemm --sizes ./own", "run ./own", "gemm -o ./own", "show ./own", "gemm --csv ./own"])
def test_shell_completion_of_files(line: str, completed: Callable[[str], list[str]]) -> None:
    assert ["file,./own"] == completed(line)


def test_shell_completion_by_the_program() -> None:
    assert "plain,gemm\n" == shell(PROGRAM, **asked("ge")).stdout


def test_module_and_script_are_the_same_program() -> None:
    script = Path(sys.executable).with_name("primbench")
    if not script.exists():
        pytest.skip("the console script primbench is not installed beside this Python")
    assert shell(f"{script} --help").stdout == shell(f"{PROGRAM} --help").stdout != ""


MOVED = {
    ("bandwidth",): "bandwidth is another command now: primbench memcpy",
    ("schema",): "schema is another command now: primbench show --schema",
    ("image", "build", "--runtime", "podman"): "image build is now: primbench image",
    ("doctor", "--pid", "7"): "--pid is now: primbench doctor PID",
    ("doctor", "--container=job"): "--container is now: primbench doctor CONTAINER",
    ("watch", "7", "--json", "-"): "--json is now: primbench watch JOB -o FILE",
    ("study", "--sizes", "large"): "--sizes is now: primbench study NAME|FILE.toml",
}


@pytest.mark.parametrize("words", MOVED)
def test_an_old_name_is_answered_with_the_new_one(words: tuple[str, ...], refusal: Callable[..., str]) -> None:
    assert refusal(*words).startswith(MOVED[words])


def test_no_memory_left_is_told_in_a_line(invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(click.Group, "invoke", full)
    result = invoke("list")
    message = "Error: no memory left for this process: see the limits of `ulimit -a`\n"
    assert (1, message) == (result.exit_code, result.stderr)
