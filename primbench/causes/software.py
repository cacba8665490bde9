"""The interpreter, the libraries loaded, and the caches they keep.

Libraries are those of the process that looked: `doctor` itself loads few. A results file tells what a worker loaded,
and `doctor --against results.jsonl` looks at these.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from primbench.causes import OF_FILES, ON_CPU, STACK, WORK
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.environment.libraries import is_at_work, is_c_library
from primbench.environment.software import LITTLE_OPTIMIZED, OPTIMIZATION_UNTOLD
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.place import Place
    from primbench.environment.software import Software

RANK = 7

LONG_SEARCH_PATH = 30  # a usual one has 4 to 6; 400 folders make a start 3 times as long
FULL_FOLDER = 5000  # names, which take a start 7 ms; 150000 made one 9 times as long, and site-packages have hundreds
TELLS_NO_LACK = {"PGO", OPTIMIZATION_UNTOLD}
FOR_DEBUGGERS = {"debug", *LITTLE_OPTIMIZED}


def library_copies(place: Place) -> Iterator[Finding]:
    """Whether one library is loaded twice: two pools of threads, or two versions, at work at once."""
    for name, files in (place.software.libraries or {}).items():
        if len(files) > 1 and is_at_work(name):
            yield Finding(
                summary=f"{len(files)} copies of {name} are loaded",
                values=[name, len(files)],
                evidence=[f"{file.path} ({file.build_id or 'build unknown'})" for file in files],
                distorts=["everything on the CPU"] if "cu" not in name else ["kernel"],
                advice="install the packages that bring it from one source, or leave out the one that is not needed",
            )


def preloads(place: Place) -> Iterator[Finding]:
    """Whether a library is put before all others, or brings another malloc than the C library's."""
    malloc = (place.software.providers or {}).get("malloc")
    first = _preloaded(place.software)
    for path, where in first.items():
        brings = ", and malloc comes from it" if malloc is not None and malloc.path == path else ""
        name = os.path.basename(path)  # alone: a container has a copy of it in a folder of its own
        summary = f"{name} is put before all other libraries by {where}{brings}"
        yield _other_functions(summary, [name, where, int(bool(brings))], f"{where}: {path}")
    if malloc is not None and malloc.path not in first and not is_c_library(malloc):
        summary = f"malloc comes from {malloc.path}, not from the C library"
        yield _other_functions(summary, [malloc.path], "dladdr() of malloc")


def _preloaded(software: Software) -> dict[str, str]:
    """Path -> what puts it first."""
    return {file.path: where for where, files in (software.preloads or {}).items() for file in files}


def _other_functions(summary: str, values: list[str | float], where: str) -> Finding:
    return Finding(
        summary=summary,
        values=values,
        evidence=[where],
        distorts=["start-up", "launch", "copy", "collective", "everything on the CPU"],
        at_least=0.0,
        advice="leave it out, or have it in all places that are compared",
    )


def driver_library(place: Place) -> Iterator[Finding]:
    """Whether libcuda comes from the image and not with the driver."""
    for file in (place.software.libraries or {}).get("libcuda", []):
        if "compat" in file.path.split("/"):
            yield Finding(
                summary="libcuda comes from a folder for compatibility and not with the driver",
                about=[FactId("software", "libraries", "libcuda")],
                evidence=[file.path],
                advice="take the folder out of LD_LIBRARY_PATH, or update the driver, and compare as another stack",
            )


def c_library(place: Place) -> Iterator[Finding]:
    """Whether the C library is musl, whose allocator and string functions are slower."""
    if "musl" in (place.software.libc or "") or "ld-musl" in (place.software.libraries or {}):
        yield Finding(
            summary="the C library is musl: allocation is slower than with glibc, and CUDA is not built for it",
            about=[FactId("software", "libc"), FactId("software", "libraries")],
            evidence=[f"libc: {place.software.libc or 'ld-musl'}"],
            advice="use an image with glibc (Debian, Ubuntu, Rocky Linux), and compare as another stack",
        )


def python_build(place: Place) -> Iterator[Finding]:
    """Whether the interpreter was built to be fast."""
    build = place.software.python_build
    lacks = build is not None and not TELLS_NO_LACK & {*build.split(", ")} and not _for_debuggers(place.software)
    if lacks and place.software.python_implementation == "cpython":
        yield Finding(
            summary="this Python was built without profile-guided optimization: 10 to 20 % slower, and so is launching",
            evidence=[_interpreter(place.software)],
            at_most=1.3,
            advice="use one build of Python in all places that are compared; Debian's and official images' have it",
        )


def python_debug(place: Place) -> Iterator[Finding]:
    """Whether the interpreter was compiled to be fast, and not to be debugged."""
    if found := _for_debuggers(place.software):
        yield Finding(
            summary=f"this Python was built for who debugs it ({', '.join(found)}): a loop takes 8 times as long, a "
            "call 6 times, a call of NumPy twice",
            values=[*found],
            evidence=[_interpreter(place.software)],
            at_most=10.0,
            advice="use the interpreter that is not built so: python3 for python3-dbg and python3d, a build without "
            "--with-pydebug and with -O2 or -O3",
        )


def _interpreter(software: Software) -> str:
    return f"{software.python_executable}: Python {software.python_version}, {software.python_build}"


def _for_debuggers(software: Software) -> list[str]:
    """What says so of an interpreter's build."""
    return [part for part in (software.python_build or "").split(", ") if part in FOR_DEBUGGERS]


def python_hooks(place: Place) -> Iterator[Finding]:
    """Whether a profiler, a debugger or a measure of coverage looks at what Python does."""
    if place.software.hooks:
        yield Finding(
            summary=f"a profiler or its like looks at each step of Python: {listed(place.software.hooks)}",
            values=[*place.software.hooks],
            evidence=["sys.gettrace(), sys.getprofile(), sys.monitoring, tracemalloc.is_tracing()"],
            advice="start it without the profiler: see PYTHONPATH, sitecustomize.py and *.pth files of site-packages",
        )


def search_path(place: Place) -> Iterator[Finding]:
    """Whether Python looks for modules in very many folders, or in one of very many files, whose names it reads."""
    if place.software.search_path is not None and place.software.search_path > LONG_SEARCH_PATH:
        yield Finding(
            severity="note",
            summary=f"Python looks for modules in {place.software.search_path} folders, one after the other",
            about=[FactId("software", "search_path")],
            values=[place.software.search_path],
            evidence=["sys.path: PYTHONPATH and *.pth files"],
            advice="install packages into one folder, and name the others last",
        )
    if place.software.search_folder_entries is not None and place.software.search_folder_entries > FULL_FOLDER:
        yield Finding(
            summary=f"a folder that Python looks for modules in has at least {place.software.search_folder_entries} "
            "entries, of which it reads all names at each start",
            about=[FactId("software", "search_folder_entries")],
            values=[place.software.search_folder_entries],
            evidence=["sys.path: PYTHONPATH and *.pth files"],
            advice="keep data out of folders with modules, and take it out of PYTHONPATH",
        )


def caches(place: Place) -> Iterator[Finding]:
    """Whether what is compiled once can be kept."""
    bad = {name: state for name, state in (place.software.caches or {}).items() if state != "writable"}
    if bad:
        yield Finding(
            summary=f"not kept from run to run: {listed(list(bad))}; every process compiles anew",
            values=[*bad],
            evidence=[f"{name}: {state}" for name, state in bad.items()],
            advice=place.advice(
                "let the folder be writable, or name another in CUDA_CACHE_PATH and its like",
                engine="-v $HOME/.nv:/root/.nv",
            ),
        )


CAUSES = (
    Cause("blas", title="another BLAS", slows=("everything on the CPU",), works={"": (), "numpy": ("kernel",)},
          upstream=11, severity="warning", effect=STACK),
    Cause("libraries", title="other libraries", slows=(*WORK, *OF_FILES), upstream=13, severity="warning",
          effect=STACK),
    Cause("library-copies", slows=WORK, reads=of("software", "libraries"), here=library_copies, is_of_loaded=True),
    Cause("preloads", title="other libraries before all others", slows=(*ON_CPU, "copy", *OF_FILES), upstream=11,
          explains_away=("preloads",), severity="warning", effect=STACK, reads=of("software", "preloads", "providers"),
          here=preloads),
    Cause("driver-library", slows=("launch", "start-up", "kernel"), here=driver_library, is_of_loaded=True),
    Cause("c-library", slows=("everything on the CPU",), here=c_library),
    Cause("python-build", slows=ON_CPU, reads=of("software", "python_build"), here=python_build),
    Cause("python-debug", slows=(*ON_CPU, *OF_FILES), times=10.0,
          source="timed: Debian's python3-dbg beside its python3, and the same source by -O0: a loop takes 8.0 and 8.2 "
          "times as long, a call 5.9 and 6.0 times, a copy of a dictionary 4.7 and 2.8 times", upstream=-1,
          reads=of("software", "python_build"), here=python_debug),
    Cause("python-settings", title="other settings of Python", slows=(*ON_CPU, *OF_FILES), times=500.0, a_call_s=100e-6,
          source="timed: a call of NumPy takes 0.08 us more with PYTHONDEVMODE, 8 us with PYTHONTRACEMALLOC=5, and 132 "
          "times as long with 25", upstream=11, severity="warning",
          effect="the interpreter checks, counts or optimizes otherwise"),
    Cause("python-hooks", under="python-settings", slows=(*ON_CPU, "data loading", "start-up"),
          reads=of("software", "hooks"), here=python_hooks),
    Cause("search-path", slows=("start-up",), reads=of("software", "search_path", "search_folder_entries"),
          here=search_path),
    Cause("caches", slows=("start-up",), reads=of("software", "caches"), here=caches),
    Cause("other-threads", title="other threads of Python", slows=(*ON_CPU, *OF_FILES), upstream=10, stops=True,
          severity="warning", effect="each takes the interpreter's lock for as long as it computes in Python"),
    Cause("start-code", title="other code at Python's start", slows=(*ON_CPU, "copy", "collective", *OF_FILES),
          upstream=14, severity="warning",
          effect="each Python runs it before anything else, and it can change whatever comes after"),
    Cause("packages", title="other packages", slows=(*WORK, *OF_FILES), upstream=15, severity="warning", effect=STACK),
    Cause("python", title="another Python", slows=(*ON_CPU, *OF_FILES), upstream=16, severity="warning", effect=STACK),
)  # fmt: skip
