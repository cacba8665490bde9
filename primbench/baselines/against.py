"""Times from elsewhere beside ours: of earlier runs, of one that is shipped, or those that DeepBench published."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import primbench.suites as suites
from primbench.baselines.earlier import Earlier, times_in
from primbench.baselines.named import place_of, runs_of, saved
from primbench.baselines.published import PublishedTimes
from primbench.errors import InvalidRequest, near
from primbench.suites import deepbench

if TYPE_CHECKING:
    from primbench.baselines.yardstick import Yardstick

FORMS = 'published:"NVIDIA V100", reference:NAME, a results file, a folder of several, or a name given to --save-as'


def parse(text: str) -> Yardstick:
    """What ``--against`` names. Raises InvalidRequest naming what there is, FileError for an unfit file."""
    kind, _, name = text.partition(":")
    if kind == "published":
        return PublishedTimes(deepbench.read(name))
    if kind == "reference":
        paths = suites.references().get(name)
        if paths is None:
            raise InvalidRequest(
                f"reference:{name}: {near(name, suites.references())}there are {', '.join(suites.references())}"
            )
        return Earlier(text, times_in(paths), [str(path) for path in paths])
    place = place_of(text)
    if not os.path.exists(place):  # Path's raises OSError for a name that is too long
        names = f"; saved by name: {', '.join(found)}" if (found := saved()) else ""
        raise InvalidRequest(f"{text!r}: no such file; --against takes {FORMS}{names}")
    runs = runs_of(place)
    return Earlier(text, times_in(runs), [str(path) for path in runs])
