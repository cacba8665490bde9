"""What a comparison says of a case that a place was made to slow down."""

from __future__ import annotations

import pytest

from primbench.compare.comparison import CaseComparison


def first_cause(case: CaseComparison) -> str:
    """The case must be slower, and have a cause. Skips where the machine is too busy for any verdict."""
    if case.is_untellable:
        pytest.skip("something else takes the CPUs: nothing is told, and so nothing explained")
    assert "slower" == case.verdict, case
    assert case.explanation is not None, case
    return case.explanation.causes[0]
