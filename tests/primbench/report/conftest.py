from __future__ import annotations

import pytest

from primbench.report.layout import WIDTH


@pytest.fixture(autouse=True)
def usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever terminal runs the tests, or says how wide it is to processes that have none."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
