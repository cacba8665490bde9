"""Where a user's own file raised what a case failed by."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from primbench.errors import UnsupportedCase
from primbench.timing import raised

OWN = """
class Own:
    def loss(self, error):
        return self.forward(error)
    def forward(self, error):
        if isinstance(error, str):
            return int(error)
        raise error
"""


def test_the_function_of_the_users_own_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "own.py")
    Path(path).write_text(OWN)
    own = runpy.run_path(path)["Own"]()

    def said(error: object) -> str:
        with pytest.raises(Exception, match=r".") as found:
            own.loss(error)
        assert isinstance(found.value, Exception)
        return raised.one_line(found.value)

    assert said(KeyError("x")) == "KeyError: 'x'"  # of a file that nobody has named
    monkeypatch.setattr(raised, "named_files", lambda: {path: ""})
    assert said("x").endswith(": 'x' (own.py, line 7, Own.forward)")
    assert said(KeyError("x")) == "KeyError: 'x' (own.py, line 8, Own.forward)"
    assert said(UnsupportedCase("no GPU")) == "UnsupportedCase: no GPU"
