"""`primbench capture`: one step of a script or of a model, as a suite of the operators that it is made of."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

import click

from primbench.cli.echo import say
from primbench.cli.given import is_typed
from primbench.cli.option_types import FILE
from primbench.cli.options import GroupedCommand, grouped, kernels_options, overwrite_option
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from primbench.decompose.child import Answer, CaptureRequest

MODEL = "model:"
OF_MODELS = ("batch_size", "mode", "dtype", "cudnn_benchmark", "device")


def _capture(what: str, arguments: tuple[str, ...], output: str, **values: Any) -> None:
    from primbench.cli.measuring import signals_unwind
    from primbench.cli.outputs import check_files
    from primbench.decompose.ask import ask
    from primbench.distributed.world import world

    started = world()
    is_written = started is None or not started.rank  # the others of a job have the same step
    request = _of_model(what, arguments, values) if what.startswith(MODEL) else _of_script(what, arguments, values)
    if is_written:
        check_files([output], [what], overwrite=values["overwrite"])
    with signals_unwind():
        answer = ask(request)
    if is_written:
        _write(output, answer)


def _write(output: str, answer: Answer) -> None:
    from primbench.registry import named_files
    from primbench.system import outputs

    outputs.write(output, answer.suite.encode(errors="backslashreplace"))
    again = shlex.join(["primbench", *kernels_options(named_files()), "explain", output])
    say(f"{answer.step}: {_counts(answer)}; {again}")


def _counts(answer: Answer) -> str:
    missing = f", {answer.left_out} that cannot be made again, as the file says" if answer.left_out else ""
    compiled = ", of what torch had compiled the operators that went into it" if answer.compiled else ""
    replayed = f", none of what is in the {answer.cuda_graphs} CUDA graphs replayed" if answer.cuda_graphs else ""
    made = answer.calls - answer.left_out
    others = f", the other {made}" if answer.left_out else ","
    several = f"{others} made by {_calls(answer.parts)} of primitives" if answer.parts != made else ""
    return f"{_calls(answer.calls)}, {answer.distinct} of them distinct{missing}{several}{compiled}{replayed}"


def _calls(count: int) -> str:
    return f"{count} call{'s' * (count != 1)}"


def _of_model(what: str, arguments: tuple[str, ...], values: dict[str, Any]) -> CaptureRequest:
    from primbench.decompose.child import CaptureRequest
    from primbench.kernels.model import Model
    from primbench.registry import named_files

    if arguments or is_typed("number") or values["is_module"]:
        raise InvalidRequest(f"{what}: arguments, --step and -m are for scripts")
    given = {name: values[name] for name in OF_MODELS if name != "device" and values[name] is not None}
    problem = Model(network=what.removeprefix(MODEL), **given)
    return CaptureRequest(model=dict(problem.parameters()), device=values["device"], kernels=list(named_files()))


def _of_script(what: str, arguments: tuple[str, ...], values: dict[str, Any]) -> CaptureRequest:
    from primbench.decompose.child import CaptureRequest
    from primbench.registry import named_files

    for name in OF_MODELS:
        if is_typed(name):
            raise InvalidRequest(f"--{name.replace('_', '-')}: of model:NAME; {what} is run as it is")
    if not values["is_module"] and not os.path.isfile(what):
        hint = f"a module is named with -m, a model of `primbench list models` {MODEL}NAME"
        raise InvalidRequest(f"{what}: no such script; {hint}")
    return CaptureRequest(
        script=what,
        arguments=list(arguments),
        number=values["number"] or DEFAULT_STEP,
        is_module=values["is_module"],
        kernels=list(named_files()),
    )


class CaptureCommand(GroupedCommand):
    """Takes no option of a script for one of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            hint = f"No such option {name!r}: one of the script's own goes after --, as in -- {name}"
            raise click.NoSuchOption(name, hint, error.possibilities, error.ctx) from None


DEFAULT_STEP = 20
command = CaptureCommand(
    "capture",
    callback=_capture,
    params=[
        click.Argument(["what"], metavar="SCRIPT.py|MODULE|model:NAME"),
        click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENT]..."),
        grouped("Output", "-o", "--output", "output", type=FILE, required=True, metavar="STEP.toml",
                help="Write the suite to this file."),
        overwrite_option(),
        grouped("Script", "-m", "--module", "is_module", is_flag=True,
                help="Run a module by its name, as python -m does."),
        grouped("Script", "--step", "number", type=click.IntRange(2), metavar="N",
                help=f"The step of the script that is captured. Default: {DEFAULT_STEP}."),
        grouped("Model", "--batch-size", type=click.IntRange(1), metavar="N", help="Default: the original's."),
        grouped("Model", "--mode", type=click.Choice(["train", "inference"]), help="Default: train."),
        grouped("Model", "--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="Default: float32."),
        grouped("Model", "--cudnn-benchmark", is_flag=True, default=None,
                help="Have cuDNN try its algorithms, and take the fastest."),
        grouped("Model", "--device", metavar="cpu|cuda:N", help="Default: the first GPU, else the CPU."),
    ],
    help="Take one step apart: a suite of the operators of torch that it called, each as a case of a primitive or as "
         "it was, and how often. Nothing is timed while it is recorded.\n\n"
         "A script runs as it is, and ends once its step is captured. A step ends with an optimizer's step(), of the "
         "first optimizer where there are several, and has all batches whose gradients that takes; where there is no "
         "optimizer, it ends with a call of the outermost module without gradients. Under torchrun every rank runs "
         "this, and rank 0 writes the file.\n\n"
         "\b\n"
         "primbench capture train.py -o step.toml --step 20 -- --epochs 1\n"
         "primbench capture -m package.train -o step.toml\n"
         "primbench capture model:resnet50 -o step.toml --batch-size 64\n"
         "torchrun --nproc-per-node 2 -m primbench capture train.py -o step.toml\n"
         "primbench run step.toml",
)  # fmt: skip
