"""Times from elsewhere beside ours: an earlier results file, one that is shipped, or DeepBench's published times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import primbench.suites as suites
from primbench.baselines.earlier import Earlier, times_in
from primbench.baselines.published import PublishedTimes
from primbench.errors import InvalidRequest
from primbench.suites import deepbench

if TYPE_CHECKING:
    from primbench.baselines.yardstick import Yardstick

FORMS = 'published:"NVIDIA V100", reference:NAME, or a results file'


def parse(text: str) -> Yardstick:
    """What ``--against`` names. Raises InvalidRequest naming what there is, FileError for an unfit file."""
    kind, _, name = text.partition(":")
    if kind == "published":
        return PublishedTimes(deepbench.read(name))
    if kind == "reference":
        paths = suites.references().get(name)
        if paths is None:
            raise InvalidRequest(f"reference:{name}: there is {' and '.join(suites.references())}")
        return Earlier(text, times_in(paths))
    if not os.path.exists(text):  # Path's raises OSError for a name that is too long
        raise InvalidRequest(f"{text!r}: no such file; --against takes {FORMS}")
    return Earlier(text, times_in([Path(text)]))
