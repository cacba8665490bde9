"""The interpreter, the libraries loaded, and the caches they keep.

Libraries are those of the process that looked: `doctor` itself loads few. A results file tells what a worker loaded,
and `doctor --against results.jsonl` looks at these.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from primbench.doctor.finding import Finding, listed, unseen
from primbench.environment.libraries import is_at_work, is_c_library

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.place import Place
    from primbench.environment.software import Software

RANK = 7

LONG_SEARCH_PATH = 30  # a usual one has 4 to 6; 400 folders make a start 3 times as long
FULL_FOLDER = 5000  # names, which take a start 7 ms; 150000 made one 9 times as long, and site-packages have hundreds
TELLS_NO_LACK = re.compile("PGO|optimization untold")


def library_copies(place: Place) -> Iterator[Finding]:
    """Whether one library is loaded twice: two pools of threads, or two versions, at work at once."""
    software = place.environment.software
    yield from unseen("library-copies", software, "libraries")
    for name, files in (software.libraries or {}).items():
        if len(files) > 1 and is_at_work(name):
            yield Finding(
                check="library-copies",
                severity="warning",
                summary=f"{len(files)} copies of {name} are loaded",
                evidence=[f"{file.path} ({file.build_id or 'build unknown'})" for file in files],
                distorts=["everything on the CPU"] if "cu" not in name else ["kernel"],
                advice="install the packages that bring it from one source, or leave out the one that is not needed",
            )


def preloads(place: Place) -> Iterator[Finding]:
    """Whether a library is put before all others, or brings another malloc than the C library's."""
    software = place.environment.software
    yield from unseen("preloads", software, "preloads", "providers")
    malloc = (software.providers or {}).get("malloc")
    first = _preloaded(software)
    for path, where in first.items():
        brings = ", and malloc comes from it" if malloc is not None and malloc.path == path else ""
        name = os.path.basename(path)  # alone: a container has a copy of it in a folder of its own
        yield _other_functions(f"{name} is put before all other libraries by {where}{brings}", f"{where}: {path}")
    if malloc is not None and malloc.path not in first and not is_c_library(malloc):
        yield _other_functions(f"malloc comes from {malloc.path}, not from the C library", "dladdr() of malloc")


def _preloaded(software: Software) -> dict[str, str]:
    """Path -> what puts it first."""
    return {file.path: where for where, files in (software.preloads or {}).items() for file in files}


def _other_functions(summary: str, where: str) -> Finding:
    return Finding(
        check="preloads",
        severity="warning",
        summary=summary,
        evidence=[where],
        distorts=["start-up", "launch", "copy", "collective", "everything on the CPU"],
        at_least=0.0,
        advice="leave it out, or have it in all places that are compared",
    )


def driver_library(place: Place) -> Iterator[Finding]:
    """Whether libcuda comes from the image and not with the driver."""
    for file in (place.environment.software.libraries or {}).get("libcuda", []):
        if "compat" in file.path.split("/"):
            yield Finding(
                check="driver-library",
                severity="warning",
                summary="libcuda comes from a folder for compatibility and not with the driver",
                evidence=[file.path],
                distorts=["launch", "start-up", "kernel"],
                advice="take the folder out of LD_LIBRARY_PATH, or update the driver, and compare as another stack",
            )


def c_library(place: Place) -> Iterator[Finding]:
    """Whether the C library is musl, whose allocator and string functions are slower."""
    software = place.environment.software
    if "musl" in (software.libc or "") or "ld-musl" in (software.libraries or {}):
        yield Finding(
            check="c-library",
            severity="warning",
            summary="the C library is musl: allocation is slower than with glibc, and CUDA is not built for it",
            evidence=[f"libc: {software.libc or 'ld-musl'}"],
            distorts=["everything on the CPU"],
            advice="use an image with glibc (Debian, Ubuntu, Rocky Linux), and compare as another stack",
        )


def python_build(place: Place) -> Iterator[Finding]:
    """Whether the interpreter was built to be fast."""
    software = place.environment.software
    yield from unseen("python-build", software, "python_build")
    build = software.python_build
    if build is not None and software.python_implementation == "cpython" and not TELLS_NO_LACK.search(build):
        yield Finding(
            check="python-build",
            severity="warning",
            summary="this Python was built without profile-guided optimization: 10 to 20 % slower, and so is launching",
            evidence=[f"{software.python_executable}: Python {software.python_version}, {build}"],
            distorts=["launch", "everything on the CPU"],
            at_most=1.3,
            advice="use one build of Python in all places that are compared; Debian's and official images' have it",
        )


def python_hooks(place: Place) -> Iterator[Finding]:
    """Whether a profiler, a debugger or a measure of coverage looks at what Python does."""
    software = place.environment.software
    yield from unseen("python-hooks", software, "hooks")
    if software.hooks:
        yield Finding(
            check="python-hooks",
            severity="warning",
            summary=f"a profiler or its like looks at each step of Python: {listed(software.hooks)}",
            evidence=["sys.gettrace(), sys.getprofile(), sys.monitoring, tracemalloc.is_tracing()"],
            distorts=["launch", "everything on the CPU", "data loading", "start-up"],
            advice="start it without the profiler: see PYTHONPATH, sitecustomize.py and *.pth files of site-packages",
        )


def search_path(place: Place) -> Iterator[Finding]:
    """Whether Python looks for modules in very many folders, or in one of very many files, whose names it reads."""
    software = place.environment.software
    yield from unseen("search-path", software, "search_path", "search_folder_entries")
    if software.search_path is not None and software.search_path > LONG_SEARCH_PATH:
        yield Finding(
            check="search-path",
            severity="note",
            summary=f"Python looks for modules in {software.search_path} folders, one after the other",
            evidence=["sys.path: PYTHONPATH and *.pth files"],
            distorts=["start-up"],
            advice="install packages into one folder, and name the others last",
        )
    if software.search_folder_entries is not None and software.search_folder_entries > FULL_FOLDER:
        yield Finding(
            check="search-path",
            severity="warning",
            summary=f"a folder that Python looks for modules in has at least {software.search_folder_entries} entries, "
            "of which it reads all names at each start",
            evidence=["sys.path: PYTHONPATH and *.pth files"],
            distorts=["start-up"],
            advice="keep data out of folders with modules, and take it out of PYTHONPATH",
        )


def caches(place: Place) -> Iterator[Finding]:
    """Whether what is compiled once can be kept."""
    yield from unseen("caches", place.environment.software, "caches")
    bad = {name: state for name, state in (place.environment.software.caches or {}).items() if state != "writable"}
    if bad:
        yield Finding(
            check="caches",
            severity="warning",
            summary=f"not kept from run to run: {listed(list(bad))}; every process compiles anew",
            evidence=[f"{name}: {state}" for name, state in bad.items()],
            distorts=["start-up"],
            advice=place.advice(
                "let the folder be writable, or name another in CUDA_CACHE_PATH and its like",
                engine="-v $HOME/.nv:/root/.nv",
            ),
        )
