"""What is known to slow deep learning down, and how to see it: a row a cause, a file a topic.

A file has a RANK, by which files follow one another, and CAUSES, its rows (``primbench/doctor/cause.py``). Whoever
walks the table finds them there; no other file names one. A file that begins with an underscore has no rows: what
several files have in common, as what is seen in a job that is watched (``_job_cpus.py`` and so on).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.doctor.place import Place
    from primbench.problem import Work
    from primbench.spec.setting import Activity

ON_CPU: tuple[Activity, ...] = ("launch", "everything on the CPU")
OF_FILES: tuple[Activity, ...] = ("start-up", "data loading")
SLOWED: tuple[Activity, ...] = (*ON_CPU, *OF_FILES)
"""What a CPU that is slow, or had in part, makes slow."""
WORK: tuple[Activity, ...] = ("kernel", *ON_CPU, "copy", "collective")
STACK = "results of the two compare stacks, not places"
HARDWARE = "results of the two compare machines, not places"
OF_CODE: Mapping[str, tuple[Work, ...]] = {"": ("kernel",), "numba": ("kernel", "copy", "launch")}
OF_THREADS: Mapping[str, tuple[Work, ...]] = {"": ("kernel", "copy", "collective"), "numpy": ("kernel",)}


def has_gpus(place: Place) -> bool:
    return bool(place.gpus)


def has_adapters(place: Place) -> bool:
    return bool(place.machine.infiniband)
