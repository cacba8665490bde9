"""For how long each metric of a case is sampled: longest what it is judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.timing.sampling import main_rule, secondary_rule, tail_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.problem import Problem
    from primbench.spec.method import Method
    from primbench.timing.sampling import StoppingRule


def rules_of(problem: Problem, method: Method) -> Callable[[str], StoppingRule]:
    """Of each metric beside the main one, by its name in Measurement.

    They have a few percent of its time, unless their rare slow calls are asked for.

    One by which a problem is compared before all others has as long as the main one.
    """
    has_tails = problem.has_tails and method.tails
    besides = tail_rule(method) if has_tails else secondary_rule(method)
    judging = () if has_tails else problem.preferred[:1]
    return lambda metric: main_rule(method) if metric in judging else besides
