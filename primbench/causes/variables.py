"""Variables of the environment that change how Python, CUDA and frameworks work."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from primbench.causes import OF_FILES, ON_CPU, WORK
from primbench.compare.differing import of_setting, set_variables
from primbench.compare.suspect import LATE, OF_UNKNOWN_EFFECT, Suspect
from primbench.doctor.cause import Cause, of
from primbench.doctor.finding import Activity, Finding, Severity
from primbench.environment.comparable import meaning_of
from primbench.environment.configuration import is_told_by_what_it_gives, of_variable
from primbench.spec.variables import INSTRUCTIONS, is_for_libraries
from primbench.system.meaning import FactId
from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.beside import Beside
    from primbench.doctor.place import Place
    from primbench.environment.difference import Difference

RANK = 7

ONEDNN_KEEPS = 1024  # kernels; oneDNN, "Primitive Cache"
LARGE_ENVIRONMENT_BYTES = 2**17  # 1.6 MB make a program start in 3 times as long; a usual one has some kB

VariableRule = tuple[Callable[[str], bool], Severity, list[Activity], str]

_EITHER_WAY = re.compile(
    r"CUDA_(DEVICE_MAX_CONNECTIONS|SCALE_LAUNCH_QUEUES)|CUBLAS_WORKSPACE_CONFIG|.*TF32.*|.*_AFFINITY|OMP_PROC_BIND"
    r"|OMP_WAIT_POLICY|GOMP_SPINCOUNT|KMP_BLOCKTIME"
    r"|OPENBLAS_CORETYPE|MKL_(DEBUG_CPU_TYPE|ENABLE_INSTRUCTIONS)|BLIS_(ARCH|MODEL)_TYPE|.*_CPU_ISA_HINTS"
    r"|ATEN_AVX512_256|NPY_ENABLE_CPU_FEATURES|NUMBA_CPU_(FEATURES|NAME)"
    r"|GLIBC_TUNABLES|THP_MEM_ALLOC_ENABLE|MALLOC_(ARENA_MAX|.*_THRESHOLD_|TOP_PAD_)"
)
"""What can make things faster, too."""

_ON = {"1", "true", "yes", "on", "y"}


def _on(value: str) -> bool:
    return value.strip().lower() in _ON


def _any(value: str) -> bool:
    return bool(value.strip())


def _pins(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false", "none", "disabled", "no")


def _is_detailed(value: str) -> bool:
    return value.strip().upper() in ("INFO", "DETAIL", "DEBUG", "TRACE")


_CPU: list[Activity] = ["launch", "everything on the CPU"]
_PINNED: VariableRule = (
    _pins,
    "warning",
    ["everything on the CPU", "data loading"],
    "threads stay on their CPUs, and those of other processes that have it, too, such as of data loaders, on the same",
)
_OTHER_WAIT: VariableRule = (
    _any,
    "note",
    ["everything on the CPU"],
    "threads that wait for work keep their CPUs from others for longer, or take longer to wake",
)
_TOOL: VariableRule = (_any, "warning", ["launch", "kernel"], "a tool is loaded into the process and sees every call")
_OTHER_KERNELS: VariableRule = (
    _any,
    "warning",
    ["everything on the CPU"],
    "a library takes the kernels of another processor than this one",
)
_FEW_KEPT: VariableRule = (
    lambda value: value.strip().isdecimal() and int(value) < ONEDNN_KEEPS,
    "warning",
    ["everything on the CPU"],
    "oneDNN generates kernels anew beyond so many that it keeps",
)
_LOG_OF_CALLS: VariableRule = (_pins, "warning", ["everything on the CPU"], "a library writes a line for each call")
_OTHER_MALLOC: VariableRule = (_any, "note", ["everything on the CPU"], "the C library works in another way")

VARIABLES: dict[str, VariableRule] = {
    "OMP_PROC_BIND": _PINNED,
    "GOMP_CPU_AFFINITY": _PINNED,
    "KMP_AFFINITY": _PINNED,
    "OMP_WAIT_POLICY": _OTHER_WAIT,
    "GOMP_SPINCOUNT": _OTHER_WAIT,
    "KMP_BLOCKTIME": _OTHER_WAIT,
    "OMP_DYNAMIC": (_on, "warning", ["everything on the CPU"], "OpenMP takes fewer threads where a machine is busy"),
    **dict.fromkeys(INSTRUCTIONS, _OTHER_KERNELS),
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": _FEW_KEPT,
    "DNNL_PRIMITIVE_CACHE_CAPACITY": _FEW_KEPT,
    "ONEDNN_VERBOSE": _LOG_OF_CALLS,
    "DNNL_VERBOSE": _LOG_OF_CALLS,
    "MKL_VERBOSE": _LOG_OF_CALLS,
    "CUDA_INJECTION64_PATH": _TOOL,
    "CUDA_INJECTION32_PATH": _TOOL,
    "LD_AUDIT": (_any, "warning", [*_CPU, "start-up"], "a library is asked at each symbol that is looked up"),
    "LD_BIND_NOT": (
        _any,
        "warning",
        [*_CPU, "start-up"],
        "a function is looked up at each call, not at the first alone",
    ),
    "LD_PROFILE": (_any, "warning", [*_CPU, "start-up"], "the loader counts the calls of a library"),
    "LD_BIND_NOW": (_any, "note", ["start-up"], "all functions of a library are looked up when it is loaded"),
    "LD_DEBUG": (_any, "warning", [*_CPU, "start-up"], "the loader writes down each library and symbol"),
    "GLIBC_TUNABLES": _OTHER_MALLOC,
    "THP_MEM_ALLOC_ENABLE": (
        _on,
        "note",
        ["everything on the CPU", "copy"],
        "torch asks for huge pages for large tensors on the CPU",
    ),
    "MALLOC_ARENA_MAX": _OTHER_MALLOC,
    "MALLOC_MMAP_THRESHOLD_": _OTHER_MALLOC,
    "MALLOC_TRIM_THRESHOLD_": _OTHER_MALLOC,
    "MALLOC_TOP_PAD_": _OTHER_MALLOC,
    "MALLOC_CHECK_": (_pins, "warning", _CPU, "malloc checks what it gives and takes"),
    "MALLOC_PERTURB_": (_pins, "warning", _CPU, "malloc fills what it gives and takes"),
    "PYTHONDEVMODE": (_any, "warning", [*_CPU, "start-up"], "Python checks what it is given and allocates slowly"),
    "PYTHONTRACEMALLOC": (_pins, "warning", [*_CPU, "start-up"], "Python notes where all memory comes from"),
    "PYTHONDUMPREFS": (_any, "warning", _CPU, "Python keeps a list of all objects"),
    "PYTHONMALLOCSTATS": (
        _any,
        "note",
        [*_CPU, "start-up"],
        "Python writes down what it has allocated, time and again",
    ),
    "PYTHONPROFILEIMPORTTIME": (_any, "note", ["start-up"], "Python writes a line for each module it imports"),
    "PYTHONVERBOSE": (_any, "note", ["start-up"], "Python writes lines for each module, where it looks for it, too"),
    "PYTHONDONTWRITEBYTECODE": (
        _any,
        "note",
        ["start-up"],
        "modules that came without .pyc files are compiled by every process",
    ),
    "TORCH_DISTRIBUTED_DEBUG": (_is_detailed, "warning", ["collective"], "torch checks or logs each collective"),
    "TORCH_CPP_LOG_LEVEL": (_is_detailed, "note", ["launch", "collective"], "torch logs"),
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


def environment_size(place: Place) -> Iterator[Finding]:
    """Whether the variables are so many or long that starting a program takes longer: each is given all of them."""
    software = place.environment.software
    if software.environment_bytes is not None and software.environment_bytes > LARGE_ENVIRONMENT_BYTES:
        yield Finding(
            severity="note",
            summary=f"the variables of the environment are {format_bytes(software.environment_bytes)}, copied to each "
            "program that is started",
            values=[format_bytes(software.environment_bytes)],
            evidence=["names and values of all"],
            advice="unset those that nothing reads, such as those of Kubernetes' services and functions of a shell",
        )


def variables(place: Place) -> Iterator[Finding]:
    """Whether variables change how CUDA and frameworks work. Apptainer and Charliecloud pass the host's on."""
    given = place.variables
    for name, (holds, severity, distorts, what) in VARIABLES.items():
        if name in given and holds(given[name]):
            yield Finding(
                severity=severity,
                summary=f"{name} is set: {what}",
                about=[FactId("software", "variables", name)],
                evidence=[f"{name}={given[name]}"],
                distorts=distorts,
                at_least=0.0 if _EITHER_WAY.fullmatch(name) else 1.0,
                advice="unset it, unless it is what is to be measured",
                fix=[f"unset {name}"],
            )


# For each library of each program that starts, and each module, whatever is found in the end.
_LOOKED_THROUGH = {"LD_LIBRARY_PATH", "PYTHONPATH"}


def set_otherwise(beside: Beside) -> Iterator[Suspect]:
    """What the arms set in unequal ways, and no other cause tells."""
    for name, words in set_variables(beside.baseline, beside.side):
        about = (of_setting("variables", name),)
        if name in _LOOKED_THROUGH and "start-up" in beside.parts:
            yield Suspect(words, upstream=LATE, about=about)
        elif not _is_told_elsewhere(name, beside.differing):
            unread = "" if of_variable(name).read_by else ", which nothing is known to read"
            yield Suspect(f"{words}{unread}", upstream=OF_UNKNOWN_EFFECT, is_bystander=True, about=about)


def _is_told_elsewhere(variable: str, differing: Difference | None) -> bool:
    """Whether what a variable gives is compared itself, a difference of the places tells of it, as of libraries', or
    no library reads it.
    """
    if is_told_by_what_it_gives(variable):
        return True
    fact = FactId("software", "variables", variable)
    changes = differing.stack.changes if differing else []
    varies = meaning_of(fact).varies and any((each.field, each.kind) == (fact, "varies") for each in changes)
    return is_for_libraries(variable) and not varies


CAUSES = (
    Cause("environment-size", slows=("start-up",), reads=of("software", "environment_bytes"), here=environment_size),
    Cause("allocator", title="other tuning of the C library", slows=(*ON_CPU, "copy", *OF_FILES), times=100.0,
          source="timed: a fresh page of the kernel takes 0.3 to 5 us, and is written in 0.05 us once it is there",
          upstream=11, severity="warning",
          effect="memory is taken and given back in another way, and the C library takes other code for the CPU"),
    Cause("variables", title="other variables", slows=(*WORK, *OF_FILES), upstream=18,
          slows_by_key={name: tuple(slows) for name, (_, _, slows, _) in VARIABLES.items()}, is_by_fact=True,
          severity="warning", effect="libraries read them", reads=of("software", "variables"), here=variables,
          between=set_otherwise),
)  # fmt: skip
