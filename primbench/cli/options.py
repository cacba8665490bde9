"""Parts that requests share: where to measure, how, what is compared, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from primbench import backends, units
from primbench.cli.completing import complete, complete_against, complete_device
from primbench.cli.option_types import (
    CPUS,
    DEVICE,
    DURATION,
    FILE,
    LABEL,
    NODE,
    NODES,
    NOISE,
    PERCENT,
    RESULTS_FILE,
    TIMEOUT,
    WholeNumber,
    parsed,
)
from primbench.cli.request import RequestOption, dataclass, option, part, several
from primbench.registry import primitives
from primbench.report import formats
from primbench.spec.defaults import ALL, DEFAULT_MAX_NOISE, DEFAULT_MAX_TIME_S, DEFAULT_MIN_TIME_S, DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.baselines.yardstick import Yardstick
    from primbench.cli.request import Mark
    from primbench.spec.arm import Arm

MOST_PROCESSES = 1000  # every case of every process is listed before the first one runs


def primitives_option(*, and_options: bool = False, marks: Sequence[Mark] = ()) -> Any:
    """and_options: those of a primitive may stand behind its name, in place of a suite's sizes."""
    behind = ", or one with its options behind it, in quotes" if and_options else ""
    return option("--primitive", group="Problem", multiple=True, metavar="NAME", shell_complete=complete(primitives),
                  help=f"This primitive only{behind}; repeatable.", marks=marks)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """The device of cases."""

    device: str | None = option(
        "--device", group="Where", type=DEVICE, metavar="cpu|cuda:N|all", shell_complete=complete_device,
        marks=("begun", "case"), help="Default: the first GPU, else the CPU.")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Where(OnDevice):
    """The device, CPUs and memory of cases, as spec.placement.Placement has them."""

    numa_node: int | Literal["auto"] | None = option(
        "--numa-node", group="Where", type=NODE, metavar="N|auto|none",
        help="Bind CPUs and memory to a node. auto is the device's. Default: none.")  # fmt: skip
    cpu_node: int | None = option(
        "--cpu-node",
        group="Where",
        is_rare=True,
        type=WholeNumber(0),
        metavar="N",
        help="Run on the CPUs of this node only.",
    )
    cpu_kind: str | None = option(
        "--cpu-kind", group="Where", is_rare=True, metavar="NAME",
        help="Run on CPUs of this kind only: performance, efficiency, ...")  # fmt: skip
    mem_nodes: tuple[int, ...] | None = option(
        "--mem-node",
        group="Where",
        is_rare=True,
        type=NODES,
        metavar="LIST",
        help="Take memory from these nodes, as in 0 or 0,1.",
    )
    mem_policy: Literal["bind", "preferred", "interleave", "local"] | None = option(
        "--mem-policy", group="Where", is_rare=True, type=click.Choice(["bind", "preferred", "interleave", "local"]),
        help="How memory is taken from the nodes; local is by first touch. Default: bind.")  # fmt: skip
    cpus: tuple[int, ...] | None = option(
        "--cpus", group="Where", is_rare=True, type=CPUS, metavar="LIST", help="Run on these CPUs only, as in 0-3,8."
    )
    threads: int | None = option(
        "--threads", group="Where", is_rare=True, type=WholeNumber(1), metavar="N",
        help="Threads of CPU libraries. Default: theirs.")  # fmt: skip


def min_time(default: str) -> Any:
    """default: how long it is without the option, in words."""
    return option("--min-time", group="Measure", is_rare=True, type=DURATION, marks=("begun", "case"),
                  help=f"Sample the main metric at least so long. Default: {default}.")  # fmt: skip


def max_time(default: str) -> Any:
    """default: as of min_time()."""
    return option("--max-time", group="Measure", is_rare=True, type=DURATION, marks=("begun", "case"),
                  help=f"Stop sampling the main metric after so long. Default: {default}.")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class How:
    """How cases are measured. What is None, and what a field is named for, is as spec.method.Method has it."""

    backends: tuple[str, ...] = option(
        "--backend", group="Measure", multiple=True, metavar="NAME|all", marks=("begun", "case"),
        shell_complete=complete(lambda: [*backends.names(), ALL]),
        help=f"{', '.join(backends.files())}. Repeatable. Default: the best one on the device.")  # fmt: skip
    kernels: tuple[str, ...] = option(
        "--kernel", group="Measure", is_rare=True, multiple=True, metavar="NAME|all", marks=("begun", "case"),
        help="Of those that a backend has beside its usual one, as `primbench list` shows them; repeatable.",
    )  # fmt: skip
    cache: Literal["hot", "cold"] | None = option(
        "--cache", group="Measure", is_rare=True, type=click.Choice(["hot", "cold"]), marks=("begun", "case"),
        help="cold rotates among inputs that exceed twice the last-level cache. Default: hot, but cold for parts of a "
             "step where the step leaves their data in no cache.")  # fmt: skip
    max_noise: float | None = option(
        "--max-noise", group="Measure", is_rare=True, type=NOISE, metavar="PERCENT", marks=("begun", "case"),
        help="Stop when the median is known this well (95 % interval, half-width). Default: "
             f"{units.format_percent(DEFAULT_MAX_NOISE)}.")  # fmt: skip
    min_time_s: float | None = min_time(f"{DEFAULT_MIN_TIME_S:g}s")
    max_time_s: float | None = max_time(f"{DEFAULT_MAX_TIME_S:g}s")
    seed: int | None = option(
        "--seed", group="Measure", is_rare=True, type=WholeNumber(0), metavar="N", marks=("begun",),
        help="Seed of the random inputs. Default: 0.")  # fmt: skip
    check: bool = option(
        "--check/--no-check", group="Measure", is_rare=True, default=True, show_default=True, marks=("begun",),
        help="Compare with a float64 reference before timing.")  # fmt: skip
    trace: bool = option(
        "--trace", group="Measure", is_rare=True, is_flag=True,
        help="Also log the GPU's own kernel times, in a separate process.")  # fmt: skip
    timeout_s: float = option(
        "--timeout", group="Measure", is_rare=True, type=TIMEOUT, default=DEFAULT_TIMEOUT_S,
        help=f"Give up a case after so long. Default: {DEFAULT_TIMEOUT_S:g}s.")  # fmt: skip
    time_budget_s: float | None = option(
        "--time-budget", group="Measure", type=TIMEOUT, metavar="DURATION",
        help="Begin no case that would end later. Nor a pair of processes; first comes one case of each primitive. "
             "What was not measured is said.")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HowHere(How):
    """How cases are measured in one place."""

    roof: bool = option(
        "--roof", group="Measure", is_rare=True, is_flag=True, marks=("alone",),
        help="Measure first what bounds these cases on the device, and show their share of it.")  # fmt: skip
    over_time: bool = option(
        "--over-time", group="Measure", is_rare=True, is_flag=True, marks=("alone",),
        help="Also sample memory and the GPU's use while a case runs; 'primbench show' draws it.")  # fmt: skip
    dry_run: bool = option(
        "--dry-run",
        group="Measure",
        is_rare=True,
        is_flag=True,
        marks=("alone",),
        help="Set up and check every case, time none.",
    )
    processes: int = option(
        "--processes", group="Measure", is_rare=True, type=WholeNumber(1, MOST_PROCESSES),
        metavar="N", default=1, show_default=True,
        marks=("alone",), help="Repeat everything in so many fresh processes.")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Where records go as they come, and what is shown meanwhile."""

    output: str | None = option(
        "-o", "--output", group="Output", type=RESULTS_FILE, metavar="FILE.jsonl", marks=("begun",),
        help="Write a results file, a record as it comes.")  # fmt: skip
    labels: tuple[tuple[str, str], ...] = option(
        "--label", group="Output", is_rare=True, type=LABEL, multiple=True, marks=("begun",),
        help="Stored in the results file; repeatable.")  # fmt: skip
    quiet: bool = option("-q", "--quiet", group="Output", is_rare=True, is_flag=True, help="Show no progress.")
    verbose: bool = option(
        "-v", "--verbose", group="Output", is_rare=True, is_flag=True, help="Show what workers print."
    )


@dataclass(frozen=True, kw_only=True)
class Resumable(Recorded):
    """The same of a command that goes on with a results file."""

    resume: str | None = option(
        "--resume", group="Output", is_rare=True, type=FILE, metavar="FILE.jsonl",
        help="Go on with a results file, skipping what it holds.")  # fmt: skip


def overwrite_option() -> Any:
    """Of each request of files whose names are given."""
    return option("--overwrite", group="Output", is_rare=True, is_flag=True, help="Replace files that exist already.")


def json_option(what: str) -> Any:
    """what: is written, in words."""
    return option("--json", group="Output", type=FILE, metavar="FILE", help=f"Write {what}; - is stdout.")


def _export_options() -> list[click.Parameter]:
    """One for each format, such as --csv FILE."""
    return [
        RequestOption([f"--{name}", name], group="Output", type=FILE,
        metavar="FILE", is_rare=each.is_rare, help=f"Write {each.writes}; - is stdout.")
        for name, each in formats.known().items()
    ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Exports:
    """What is written besides what is shown."""

    files: Mapping[str, str] = several(_export_options)
    """Name of a format -> the file."""
    overwrite: bool = overwrite_option()


def _against(text: str) -> Yardstick:
    from primbench.baselines.against import parse

    return parse(text)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table of records is shown."""

    against: Yardstick | None = option(
        "--against", group="Output", type=parsed("baseline", _against), metavar="BASELINE",
        shell_complete=complete_against, marks=("alone",),
        help="Show other times beside these. Of a baseline in .primbench/baselines by its name, of a results file or a "
             'folder of several, of reference:h200, or of published:"NVIDIA V100".')  # fmt: skip
    time_unit: Literal["ns", "us", "ms", "s"] | None = option(
        "--time-unit", group="Output", is_rare=True, type=click.Choice(["ns", "us", "ms", "s"]), marks=("alone",),
        help="One unit for the table's times.")  # fmt: skip


def _baseline_name(text: str) -> str:
    from primbench.baselines.named import name_of

    return name_of(text)


@dataclass(frozen=True, kw_only=True)
class Here:
    """To measure in this place: where in it, how, and what becomes of that."""

    where: Where = part(Where)
    how: HowHere = part(HowHere)
    record: Resumable = part(Resumable)
    save_as: str | None = option(
        "--save-as", group="Output", is_rare=True, type=parsed("name", _baseline_name),
        metavar="NAME", marks=("alone",),
        help="Once it is done, add this run to the baseline NAME in .primbench/baselines, for --against.")  # fmt: skip
    shown: TableOptions = part(TableOptions)
    exports: Exports = part(Exports)


def arm_in_words(text: str) -> Arm:
    """Read an arm such as "podman:cpus=2". Raises InvalidRequest, also for an unknown runtime."""
    from primbench.runtimes.table import known
    from primbench.spec.arm import parse_arm

    return parse_arm(text, known())


def fail_above(group: str) -> Any:
    return option(
        "--fail-above", group=group, is_rare=True, type=PERCENT, metavar="PERCENT",
        help="Exit with 1, instead of where a case is slower, where a metric is longer for certain by more than this: "
             "the whole 95 % interval of its ratio lies above.")  # fmt: skip
