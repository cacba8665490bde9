"""`primbench capture`: Take a step of a script or model apart, into its operators."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, Literal

import click

from primbench.cli.as_typed import kernels_options
from primbench.cli.echo import say
from primbench.cli.option_types import FILE
from primbench.cli.options import overwrite_option
from primbench.cli.request import RequestCommand, argument, dataclass, option, part, typed
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from primbench.decompose.child import Answer, CaptureRequest

RANK = 20
MODEL = "model:"
DEFAULT_STEP = 20


@dataclass(frozen=True, kw_only=True)
class OfModel:
    """How a model of the list is called, as its primitive's fields have it; None is the model's own."""

    batch_size: int | None = option(
        "--batch-size", group="Model", type=click.IntRange(1), metavar="N", marks=("of model",),
        help="Default: the original's.")  # fmt: skip
    mode: Literal["train", "inference"] | None = option(
        "--mode", group="Model", type=click.Choice(["train", "inference"]), marks=("of model",), help="Default: train."
    )
    dtype: str | None = option(
        "--dtype", group="Model", type=click.Choice(["float32", "bfloat16", "float16"]), marks=("of model",),
        help="Default: float32.")  # fmt: skip
    cudnn_benchmark: bool = option(
        "--cudnn-benchmark", group="Model", is_flag=True, marks=("of model",),
        help="Have cuDNN try its algorithms, and take the fastest.")  # fmt: skip
    device: str | None = option(
        "--device",
        group="Model",
        metavar="cpu|cuda:N",
        marks=("of model",),
        help="Default: the first GPU, else the CPU.",
    )


@dataclass(frozen=True, kw_only=True)
class CaptureStep:
    """To take a step of a script or of a model apart."""

    what: str = argument(metavar="SCRIPT.py|MODULE|model:NAME")
    arguments: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENT]...")
    output: str = option(
        "-o", "--output", group="Output", type=FILE, required=True, metavar="STEP.toml",
        help="Write the suite to this file.")  # fmt: skip
    overwrite: bool = overwrite_option()
    is_module: bool = option(
        "-m", "--module", group="Script", is_flag=True, marks=("script",),
        help="Run a module by its name, as python -m does.")  # fmt: skip
    number: int | None = option(
        "--step", group="Script", type=click.IntRange(2), metavar="N", marks=("script",),
        help=f"The step of the script that is captured. Default: {DEFAULT_STEP}.")  # fmt: skip
    is_prefill: bool = option(
        "--prefill", group="Script", is_flag=True, marks=("script",),
        help="Of a loop that generates, the call that is given the prompt.")  # fmt: skip
    model: OfModel = part(OfModel)


def _capture(asked: CaptureStep) -> None:
    from primbench.cli.measuring import signals_unwind
    from primbench.cli.outputs import check_files
    from primbench.decompose.ask import ask
    from primbench.decompose.written import beside
    from primbench.distributed.world import world

    started = world()
    is_written = started is None or not started.rank  # the others of a job have the same step
    request = _of_model(asked) if asked.what.startswith(MODEL) else _of_script(asked)
    if is_written:
        check_files([asked.output, beside(asked.output)], [asked.what], overwrite=asked.overwrite)
    with signals_unwind():
        answer = ask(request)
    if answer.died:
        what = f"{answer.step}: once it was captured, its process {answer.died}"
        say(f"{what}: not all that later steps tell is known", err=True)
    if is_written:
        _write(asked.output, answer)


def _write(output: str, answer: Answer) -> None:
    from primbench.decompose.written import beside
    from primbench.registry import named_files
    from primbench.system import outputs

    named = [*named_files()]
    if answer.generated:
        outputs.write(beside(output), answer.generated.encode(errors="backslashreplace"))
        named.append(beside(output))
    outputs.write(output, answer.suite.encode(errors="backslashreplace"))
    again = shlex.join(["primbench", *kernels_options(named), "explain", output])
    say(f"{answer.step}: {_counts(answer)}; {again}")


def _counts(answer: Answer) -> str:
    missing = f", {answer.left_out} that cannot be made again, as the file says" if answer.left_out else ""
    compiled = ", of what torch had compiled the operators that went into it" if answer.compiled else ""
    graphs = f"{answer.cuda_graphs} CUDA graph{'s' * (answer.cuda_graphs != 1)}"
    replayed = f", none of what is in {graphs} that it replays" if answer.cuda_graphs else ""
    made = answer.calls - answer.left_out
    others = f", the other {made}" if answer.left_out else ","
    several = f"{others} made by {_calls(answer.parts)} of primitives" if answer.parts != made else ""
    return f"{_calls(answer.calls)}, {answer.distinct} of them distinct{missing}{several}{compiled}{replayed}"


def _calls(count: int) -> str:
    return f"{count} call{'s' * (count != 1)}"


def _of_model(asked: CaptureStep) -> CaptureRequest:
    from primbench.decompose.child import CaptureRequest
    from primbench.registry import build, named_files

    if asked.arguments or typed("script"):
        raise InvalidRequest(f"{asked.what}: arguments, --step, --prefill and -m are for scripts")
    own = asked.model
    given: dict[str, Any] = {"batch_size": own.batch_size, "mode": own.mode, "dtype": own.dtype}
    given |= {"cudnn_benchmark": True} if own.cudnn_benchmark else {}
    named = {name: value for name, value in given.items() if value is not None}
    problem = build(MODEL.removesuffix(":"), {"network": asked.what.removeprefix(MODEL), **named})
    return CaptureRequest(
        primitive=problem.primitive, model=dict(problem.parameters()), device=own.device, kernels=list(named_files())
    )


def _of_script(asked: CaptureStep) -> CaptureRequest:
    from primbench.decompose.child import CaptureRequest
    from primbench.registry import named_files

    what = asked.what
    for word in typed("of model"):
        raise InvalidRequest(f"{word}: of model:NAME; {what} is run as it is")
    if not asked.is_module and not os.path.isfile(what):
        hint = f"a module is named with -m, a model of `primbench list models` {MODEL}NAME"
        raise InvalidRequest(f"{what}: no such script; {hint}")
    return CaptureRequest(
        script=what,
        arguments=list(asked.arguments),
        number=asked.number or DEFAULT_STEP,
        is_module=asked.is_module,
        is_prefill=asked.is_prefill,
        kernels=list(named_files()),
    )


class CaptureCommand(RequestCommand[CaptureStep]):
    """Takes no option of a script for one of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            hint = f"No such option {name!r}: one of the script's own goes after --, as in -- {name}"
            raise click.NoSuchOption(name, hint, error.possibilities, error.ctx) from None


command = CaptureCommand(
    "capture",
    CaptureStep,
    _capture,
    help="Take one step apart: a suite of the operators of torch that it called, each as a case of a primitive or as "
         "it was, and how often. Nothing is timed while it is recorded. Kernels that torch.compile has generated are "
         "parts, too: their code is written to STEP.kernels.py, and runs where --kernels names it.\n\n"
         "A script runs as it is, and ends once its step is captured. A step ends with an optimizer's step(), of the "
         "first optimizer where there are several, and has all batches whose gradients that takes; without one, with "
         "the backward() that follows an update by hand; without that, too, with a call of the outermost module that "
         "keeps no gradients, such as of a token that is made. Under torchrun every rank runs "
         "this, and rank 0 writes the file.\n\n"
         "\b\n"
         "primbench capture train.py -o step.toml --step 20 -- --epochs 1\n"
         "primbench capture -m package.train -o step.toml\n"
         "primbench capture model:resnet50 -o step.toml --batch-size 64\n"
         "torchrun --nproc-per-node 2 -m primbench capture train.py -o step.toml\n"
         "primbench run step.toml",
)  # fmt: skip
