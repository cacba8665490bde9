"""The cases that a call of an operator is, of a primitive or as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.decompose.described import foreign
from primbench.errors import InvalidRequest
from primbench.problem.operators import NotThere, again
from primbench.registry import build, operators

if TYPE_CHECKING:
    from primbench.problem.operators import Call, OperatorCase, Rule, Settings

ROUNDED_BY = {
    "mm": "tf32_gemm", "addmm": "tf32_gemm", "bmm": "tf32_gemm", "baddbmm": "tf32_gemm", "convolution": "tf32_conv",
    "convolution_backward": "tf32_conv", "_cudnn_rnn": "tf32_conv", "_cudnn_rnn_backward": "tf32_conv",
}  # fmt: skip
"""Operators of which torch may round float32 to tf32, and the setting by which it does."""

TRIED = ("convolution", "convolution_backward")
"""Operators for which cuDNN tries its algorithms, where it is to."""


def cases(call: Call, settings: Settings) -> list[OperatorCase]:
    """One or more, the first of which stands for the call itself. Raises NotThere where it cannot be called again."""
    rules = operators()  # which loads that for any other
    rule = None if call.host_only else rules.get(call.name)
    return (rule and _by(rule, call, settings)) or [_again(call, settings)]


def _by(rule: Rule, call: Call, settings: Settings) -> list[OperatorCase]:
    """[] where it is none of the primitive's."""
    try:
        found = rule(call, settings)
        for each in found:
            build(each.primitive, each.fields)
    except (NotThere, InvalidRequest, ValueError, TypeError, IndexError, KeyError):  # arguments of another torch
        return []
    return found


def _again(call: Call, settings: Settings) -> OperatorCase:
    if reason := foreign(call):
        raise NotThere(reason)
    part = again(call)
    if getattr(settings, ROUNDED_BY.get(call.name, ""), False):
        part.fields["math_mode"] = "tf32"
    if call.name in TRIED and settings.cudnn_benchmark:
        part.fields["cudnn_benchmark"] = True
    try:
        build(part.primitive, part.fields)
    except InvalidRequest as error:
        raise NotThere(str(error)) from None
    return part
