"""`primbench ablate`: a container put together one ingredient after the other, and what each costs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from primbench.cli.compare import pass_or_exit
from primbench.cli.design import design_of, study_of
from primbench.cli.echo import say
from primbench.cli.options import GroupedCommand, grouped
from primbench.cli.outputs import check_outputs, publish
from primbench.cli.resuming import resuming
from primbench.cli.study import (
    ADD,
    DEFAULT_SIZES,
    carry_out,
    entries_of_study,
    refuse_beside_resume,
    resumed,
    study_options,
)
from primbench.experiments import ablation
from primbench.registry import primitives
from primbench.spec.values import OneOf
from primbench.system.files import attempt
from primbench.workers.protocol import Start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.compare.comparison import Comparison
    from primbench.compare.gate import Gate
    from primbench.results.file import Results
    from primbench.spec.arm import Arm
    from primbench.spec.study import Study

LEAST_CPUS = 0.01  # the least quota, in CPUs' time


def _run(**values: Any) -> None:
    if values["resume"] is not None:
        refuse_beside_resume()
    with resuming(values["resume"]) as begun:
        study = _gone_on_with(begun.held, values) if begun else _asked(values)
        carry_out(study, begun, values, _show)


def _gone_on_with(held: Results, values: Mapping[str, Any]) -> Study:
    """Raises InvalidRequest where the file holds no study, or another one."""
    study = resumed(held, values)
    ablation.check(study)
    return study


def _show(found: Results, comparison: Comparison, values: Mapping[str, Any], gate: Gate) -> None:
    """Raises OutputError as put_out() does. Exits as pass_or_exit() does, for which each arm is against the host."""
    from primbench.report import ablation as words
    from primbench.report import page

    waterfall = ablation.waterfall(found, comparison)
    document = words.document(waterfall, gate, lambda: page.of_waterfall(waterfall, found))
    publish(document, lambda: words.text(waterfall), values)
    pass_or_exit(comparison, gate)


def _asked(values: Mapping[str, Any]) -> Study:
    """Raises InvalidRequest, FileError, and BackendUnavailable where not even the first step can be started."""
    runner = ablation.runner_of(values["runtime"], values["runner"])
    only = values["primitives"] or (None if values["sizes"] else _of_launches())
    entries = entries_of_study(values["sizes"] or DEFAULT_SIZES, only or ())
    check_outputs(values)
    base = ablation.bare(runner)
    title = f"{values['runtime']} by {runner}, one ingredient after the other"
    study = study_of([ablation.HOST, base], entries, design_of(values), title=title)
    start = Start(backend=study.cases[0].backend, device=study.cases[0].device)
    left_out: dict[str, str] = {}
    far = attempt(left_out, ablation.FAR_CPUS, lambda: ablation.far_cpus(study.cases[0].device))
    beyond = {row.field: values.get(f"{ADD}{row.field}") for row in ablation.BEYOND.values()}
    added = ablation.ingredients(values["runtime"], **{**beyond, ablation.BEYOND[ablation.FAR_CPUS].field: far})
    arms, refused = ablation.build_up(base, added, lambda arm: _refusal(arm, start, quiet=values["quiet"]))
    notes = [f"left out: {name}: {reason}" for name, reason in (refused | left_out).items()]
    for note in notes[: len(refused)]:
        say(note, err=True)
    return replace(study, arms=arms, notes=notes)


def _of_launches() -> list[str]:
    """The primitives of which a container can make most."""
    return [name for name, cls in primitives().items() if cls.work == "launch"]


def _refusal(arm: Arm, start: Start, *, quiet: bool) -> str | None:
    if not quiet and sys.stderr.isatty():
        say(f"trying {arm.name}", err=True)
    return ablation.refusal_of(arm, start)


def _beyond() -> Iterator[click.Option]:
    """One for each ingredient that a container has only when it is asked to."""
    for row in ablation.BEYOND.values():
        how: dict[str, Any] = {"type": click.FloatRange(LEAST_CPUS), "metavar": "N"}
        if isinstance(row.parse, OneOf):
            how = {"is_flag": True, "flag_value": "yes", "default": None}
        if row.ingredient and row.ingredient.asked:
            yield grouped("Container", f"--{row.key}", f"{ADD}{row.field}", help=row.ingredient.asked, **how)


command = GroupedCommand(
    "ablate",
    callback=_run,
    params=[
        grouped("Container", "--runtime", type=click.Choice([*ablation.engines()]), default="docker",
                show_default=True, help="Whose defaults the container gets; it need not be installed."),
        grouped("Container", "--runner", type=click.Choice(ablation.runners()),
                help="What starts it. Default: what the runtime itself uses, where it works here, else the other."),
        *_beyond(),
        *study_options(),
    ],
    help="Add one ingredient of a container after the other, and say what each costs.\n\n"
         "On the host's own files: first on the host, then in mount, pid and uts namespaces, then also in a control "
         "group of its own, under the runtime's seccomp filter, with its capabilities, with ipc and shm of its own, "
         "cut off from the network, with an overlay for a root; and on CPUs of another memory node than the GPU's, "
         "where there are such. All in one study, interleaved; needs root. Without --primitive and --sizes: launches."
         "\n\n"
         "\b\n"
         "primbench ablate --runtime docker --primitive launch --pairs 8 -o ablation.jsonl\n"
         "primbench ablate --runtime podman --cpus 2 --sizes medium --primitive gemm\n"
         "primbench ablate --primitive files --primitive startup --sizes small --device cpu\n"
         "primbench ablate --resume ablation.jsonl --pairs 20",
)  # fmt: skip
