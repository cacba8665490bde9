"""What differs between two places is named first where it slows a case or lets it fail, and else is not named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import CaseComparison
from primbench.compare.pairs import compare
from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case

HERE = fingerprint.collect(gpus=False)
INTERPRETER = ("startup", {"what": "interpreter"}, "numpy")
MARKED = ("host", "host:env.MARK=1,name=other")
MARK = "the variable MARK is set in other, which nothing is known to read"


def place(**groups: dict[str, Any]) -> Environment:
    return replace(HERE, **{name: replace(getattr(HERE, name), **fields) for name, fields in groups.items()})


@pytest.fixture
def compared(made_study: Callable[..., Results]) -> Callable[..., CaseComparison]:
    """``compared(what, one, other, ratio)``: a case that takes 1 ms in the first place, and ratio times that in the
    other one; there it fails with what ``ratio`` says where that is a text.
    """

    def of(
        what: tuple[str, dict[str, Any], str],
        one: Environment,
        other: Environment,
        ratio: float | str,
        algorithms: tuple[str, str] = ("", ""),
    ) -> CaseComparison:
        def measured(name: str, case: Case, pair: int) -> Measurement | str:
            if name == "other" and isinstance(ratio, str):
                return ratio
            time_s = 1e-3 * (1 + pair / 1e4) * (float(ratio) if name == "other" else 1)
            samples = Samples(samples_s=[time_s] * 9, calls_per_sample=1, taken_by="", stopped="noise")
            return Measurement(batch_s=samples, algorithm=algorithms[name == "other"] or None)

        primitive, parameters, backend = what
        case = Case(
            primitive=primitive, parameters=build(primitive, parameters).parameters(), backend=backend, device="cpu"
        )
        study = made_study(MARKED, [case], measured, environments={"host": one, "other": other})
        (found,) = compare(study).cases
        return found

    return of


Compared = Callable[..., CaseComparison]


def causes(case: CaseComparison) -> list[str]:
    return [*(case.explanation.causes if case.explanation else [])]


def test_a_python_for_debuggers_is_named_before_its_file(compared: Compared) -> None:
    builds = ("GCC 12.2.0, optimization untold", "GCC 12.2.0, optimization untold, debug, -Og")
    one, other = (place(software={"python_build": build, "python_implementation": "cpython"}) for build in builds)
    programs = ("Python 3.11.2 of /usr/bin/python3.11", "Python 3.11.2 of /usr/bin/python3.11d")
    debug, file, mark = causes(compared(INTERPRETER, one, other, 2.0, programs))
    assert debug.startswith("in other alone: this Python was built for who debugs it (debug, -Og): ")
    assert (file.startswith("other files: "), MARK) == (True, mark)
    assert causes(compared(INTERPRETER, one, other, 30.0, programs))[-1].endswith("makes a ratio of 10, no more")
    assert [MARK] == causes(compared(INTERPRETER, other, other, 2.0))
