"""A user's script, run as it is until one of its steps has been captured."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from typing import TYPE_CHECKING

from primbench.decompose.laps import following_loaders
from primbench.decompose.leaving import Done
from primbench.decompose.recording import outlasting_inference
from primbench.decompose.steps import StepWatch
from primbench.decompose.updates import following_passes
from primbench.errors import InvalidRequest, PrimbenchError
from primbench.spec.confidential import hidden_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.decompose.written import CapturedStep

_FAILED = "see whether it runs by python alone"


def run(
    script: str,
    arguments: Sequence[str],
    number: int,
    answer: Callable[[CapturedStep | PrimbenchError], None],
    *,
    is_module: bool = False,
    is_prefill: bool = False,
) -> None:
    """Call ``answer`` with the step, once more with what steps after it told, or with why there is none.

    is_module: whether the script is named as ``python -m`` has it. is_prefill: whether of a loop that generates the
    call that is given the prompt is asked for.
    """
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.getcwd() if is_module else os.path.dirname(os.path.abspath(script)))
    words = " ".join([os.path.basename(script), *hidden_arguments(arguments)])
    watch = StepWatch(number, words, answer, is_prefill=is_prefill)
    ended: PrimbenchError | None = None
    with watch.following():
        try:
            with (
                following_loaders(watch.laps),
                watch.endings.following(),
                following_passes(watch.begin_pass, watch.end_pass),
                outlasting_inference(),
            ):
                _start(script, is_module=is_module)
            ended = InvalidRequest(watch.too_few(f"{script} ended"))
        except Done:
            pass
        except BaseException as error:  # whatever the script raises is what is to be told
            if watch.is_forked:
                raise
            ended = _why(script, error, watch)
        finally:
            watch.leave_off()
    watch.tell_at_end(ended)


def _start(script: str, *, is_module: bool) -> None:
    if is_module:
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(script, run_name="__main__")


def _why(script: str, error: BaseException, watch: StepWatch) -> PrimbenchError:
    if isinstance(error, SystemExit):
        return PrimbenchError(watch.too_few(f"{script} exited with status {error.code}", _FAILED))
    frames = traceback.walk_tb(error.__traceback__)
    where = [line for frame, line in frames if frame.f_globals.get("__name__") == "__main__"]
    line = f", line {where[-1]}" if where else ""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return PrimbenchError(watch.too_few(f"{script}{line} raised {words}", _FAILED, has_raised=True))
