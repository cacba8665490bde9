"""The interpreter, the libraries loaded, the variables they read and the caches they keep.

Libraries are those of the process that looked: `doctor` itself loads few. A results file tells what a worker loaded,
and `doctor --against results.jsonl` looks at these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from primbench.doctor.finding import Finding, Part, Severity, listed, unseen
from primbench.environment.libraries import is_at_work, is_c_library

if TYPE_CHECKING:
    from primbench.doctor.place import Place
    from primbench.environment.software import Software

RANK = 7

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
        yield _other_functions(f"{path} is put before all other libraries by {where}{brings}", where)
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
        distorts=["launch", "copy", "everything on the CPU"],
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


def caches(place: Place) -> Iterator[Finding]:
    """Whether what is compiled once can be kept."""
    bad = {name: state for name, state in place.environment.software.caches.items() if state != "writable"}
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


VariableRule = tuple[Callable[[str], bool], Severity, list[Part], str]

_EITHER_WAY = re.compile(r"CUDA_(DEVICE_MAX_CONNECTIONS|SCALE_LAUNCH_QUEUES)|CUBLAS_WORKSPACE_CONFIG|.*TF32.*")
"""What can make things faster, too."""

_ON = {"1", "true", "yes", "on", "y"}


def _on(value: str) -> bool:
    return value.strip().lower() in _ON


def _any(value: str) -> bool:
    return bool(value.strip())


_VARIABLES: dict[str, VariableRule] = {
    "CUDA_LAUNCH_BLOCKING": (_on, "problem", ["launch"], "every launch waits for its kernel to end"),
    "CUDA_MODULE_LOADING": (
        lambda value: value.strip().upper() == "EAGER",
        "note",
        ["start-up"],
        "all kernels of a library are loaded when it is first used",
    ),
    "CUDA_CACHE_DISABLE": (_on, "warning", ["start-up"], "what is compiled for the GPU is not kept"),
    "CUDA_FORCE_PTX_JIT": (_on, "warning", ["start-up", "kernel"], "kernels are compiled anew, not taken as shipped"),
    "CUDA_DISABLE_PTX_JIT": (_on, "note", ["start-up"], "kernels not built for this GPU are refused"),
    "CUDA_DEVICE_MAX_CONNECTIONS": (_any, "note", ["launch", "kernel"], "the number of hardware queues is set"),
    "CUDA_SCALE_LAUNCH_QUEUES": (_any, "note", ["launch"], "the length of the launch queue is set"),
    "CUDA_LOG_FILE": (_any, "note", ["launch"], "the driver writes a log"),
    "CUBLAS_WORKSPACE_CONFIG": (_any, "note", ["kernel"], "cuBLAS may choose other kernels than by default"),
    "CUBLAS_LOGINFO_DBG": (_on, "warning", ["launch"], "cuBLAS writes a log of every call"),
    "CUBLASLT_LOG_LEVEL": (
        lambda value: value.strip() not in ("", "0"),
        "warning",
        ["launch"],
        "cuBLASLt writes a log",
    ),
    "CUDNN_LOGINFO_DBG": (_on, "warning", ["launch"], "cuDNN writes a log of every call"),
    "NVIDIA_TF32_OVERRIDE": (
        _any,
        "warning",
        ["kernel"],
        "libraries are told to use TF32, or not to, whatever is asked",
    ),
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": (_on, "warning", ["kernel"], "torch uses TF32 for float32"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": (_on, "problem", ["launch"], "torch asks the driver for memory at every call"),
    "CUPY_TF32": (_on, "warning", ["kernel"], "CuPy uses TF32 for float32"),
    "NUMBA_DISABLE_JIT": (
        _on,
        "problem",
        ["kernel", "everything on the CPU"],
        "Numba interprets what it should compile",
    ),
    "NUMBA_ENABLE_CUDASIM": (_on, "problem", ["kernel"], "Numba simulates the GPU in Python"),
    "NUMBA_CUDA_LOG_LEVEL": (
        lambda value: value.strip().upper() in ("DEBUG", "INFO"),
        "warning",
        ["launch"],
        "Numba logs",
    ),
    "PYTHONMALLOC": (
        lambda value: value.strip() in ("debug", "malloc_debug", "pymalloc_debug", "malloc"),
        "warning",
        ["launch", "everything on the CPU"],
        "Python allocates in a slower way",
    ),
}


def variables(place: Place) -> Iterator[Finding]:
    """Whether variables change how CUDA and frameworks work. Apptainer and Charliecloud pass the host's on."""
    given = place.environment.software.variables
    for name, (holds, severity, distorts, what) in _VARIABLES.items():
        if name in given and holds(given[name]):
            yield Finding(
                check="variables",
                severity=severity,
                summary=f"{name} is set: {what}",
                evidence=[f"{name}={given[name]}"],
                distorts=distorts,
                at_least=0.0 if _EITHER_WAY.fullmatch(name) else 1.0,
                advice="unset it, unless it is what is to be measured",
                fix=[f"unset {name}"],
            )
