"""Variables of the environment that change how Python, CUDA and frameworks work."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from primbench.causes import OF_FILES, ON_CPU, WORK
from primbench.compare.differing import of_setting, set_variables
from primbench.doctor.cause import LATE, OF_UNKNOWN_EFFECT, Cause, Finding, Severity, Suspect, of
from primbench.environment.comparable import meaning_of
from primbench.environment.configuration import of_variable
from primbench.spec.variables import INSTRUCTIONS, is_for_libraries
from primbench.system.meaning import FactId
from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.compare.beside import Beside
    from primbench.doctor.place import Place
    from primbench.environment.difference import Difference
    from primbench.spec.setting import Activity

RANK = 7

ONEDNN_KEEPS = 1024  # kernels; oneDNN, "Primitive Cache"
LARGE_ENVIRONMENT_BYTES = 2**17  # 1.6 MB make a program start in 3 times as long; a usual one has some kB


class Knob(NamedTuple):
    """Variables that slow things down where they are set: what they do, and where their value is one that does so."""

    names: tuple[str, ...]
    does: str
    holds: Callable[[str], bool]
    severity: Severity
    slows: tuple[Activity, ...]
    either_way: bool = False
    """Whether they can make things faster, too."""


_ON = {"1", "true", "yes", "on", "y"}


def _on(value: str) -> bool:
    return value.strip().lower() in _ON


def _any(value: str) -> bool:
    return bool(value.strip())


def _pins(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false", "none", "disabled", "no")


def _is_detailed(value: str) -> bool:
    return value.strip().upper() in ("INFO", "DETAIL", "DEBUG", "TRACE")


# Of INSTRUCTIONS, those that can only take instructions away.
_LESS = ("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES")
OTHER_KERNELS = "a library takes the kernels of another processor than this one"
_KNOBS = (
    Knob(("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"), "threads stay on their CPUs, and those of other "
         "processes that have it, too, such as of data loaders, on the same", _pins, "warning",
         ("everything on the CPU", "data loading"), either_way=True),
    Knob(("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"),
         "threads that wait for work keep their CPUs from others for longer, or take longer to wake", _any, "note",
         ("everything on the CPU",), either_way=True),
    Knob(("OMP_DYNAMIC",), "OpenMP takes fewer threads where a machine is busy", _on, "warning",
         ("everything on the CPU",)),
    Knob(_LESS, OTHER_KERNELS, _any, "warning", ("everything on the CPU",)),
    Knob(tuple(name for name in INSTRUCTIONS if name not in _LESS), OTHER_KERNELS, _any, "warning",
         ("everything on the CPU",), either_way=True),
    Knob(("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY"),
         "oneDNN generates kernels anew beyond so many that it keeps",
         lambda value: value.strip().isdecimal() and int(value) < ONEDNN_KEEPS, "warning", ("everything on the CPU",)),
    Knob(("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKL_VERBOSE"), "a library writes a line for each call", _pins, "warning",
         ("everything on the CPU",)),
    Knob(("CUDA_INJECTION64_PATH", "CUDA_INJECTION32_PATH"), "a tool is loaded into the process and sees every call",
         _any, "warning", ("launch", "kernel")),
    Knob(("LD_AUDIT",), "a library is asked at each symbol that is looked up", _any, "warning", (*ON_CPU, "start-up")),
    Knob(("LD_BIND_NOT",), "a function is looked up at each call, not at the first alone", _any, "warning",
         (*ON_CPU, "start-up")),
    Knob(("LD_PROFILE",), "the loader counts the calls of a library", _any, "warning", (*ON_CPU, "start-up")),
    Knob(("LD_BIND_NOW",), "all functions of a library are looked up when it is loaded", _any, "note", ("start-up",)),
    Knob(("LD_DEBUG",), "the loader writes down each library and symbol", _any, "warning", (*ON_CPU, "start-up")),
    Knob(("GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"),
         "the C library works in another way", _any, "note", ("everything on the CPU",), either_way=True),
    Knob(("THP_MEM_ALLOC_ENABLE",), "torch asks for huge pages for large tensors on the CPU", _on, "note",
         ("everything on the CPU", "copy"), either_way=True),
    Knob(("MALLOC_CHECK_",), "malloc checks what it gives and takes", _pins, "warning", ON_CPU),
    Knob(("MALLOC_PERTURB_",), "malloc fills what it gives and takes", _pins, "warning", ON_CPU),
    Knob(("PYTHONDEVMODE",), "Python checks what it is given and allocates slowly", _any, "warning",
         (*ON_CPU, "start-up")),
    Knob(("PYTHONTRACEMALLOC",), "Python notes where all memory comes from", _pins, "warning", (*ON_CPU, "start-up")),
    Knob(("PYTHONDUMPREFS",), "Python keeps a list of all objects", _any, "warning", ON_CPU),
    Knob(("PYTHONMALLOCSTATS",), "Python writes down what it has allocated, time and again", _any, "note",
         (*ON_CPU, "start-up")),
    Knob(("PYTHONPROFILEIMPORTTIME",), "Python writes a line for each module it imports", _any, "note", ("start-up",)),
    Knob(("PYTHONVERBOSE",), "Python writes lines for each module, where it looks for it, too", _any, "note",
         ("start-up",)),
    Knob(("PYTHONDONTWRITEBYTECODE",), "modules that came without .pyc files are compiled by every process", _any,
         "note", ("start-up",)),
    Knob(("TORCH_DISTRIBUTED_DEBUG",), "torch checks or logs each collective", _is_detailed, "warning",
         ("collective",)),
    Knob(("TORCH_CPP_LOG_LEVEL",), "torch logs", _is_detailed, "note", ("launch", "collective")),
    Knob(("CUDA_LAUNCH_BLOCKING",), "every launch waits for its kernel to end", _on, "problem", ("launch",)),
    Knob(("CUDA_MODULE_LOADING",), "all kernels of a library are loaded when it is first used",
         lambda value: value.strip().upper() == "EAGER", "note", ("start-up",)),
    Knob(("CUDA_CACHE_DISABLE",), "what is compiled for the GPU is not kept", _on, "warning", ("start-up",)),
    Knob(("CUDA_FORCE_PTX_JIT",), "kernels are compiled anew, not taken as shipped", _on, "warning",
         ("start-up", "kernel")),
    Knob(("CUDA_DISABLE_PTX_JIT",), "kernels not built for this GPU are refused", _on, "note", ("start-up",)),
    Knob(("CUDA_DEVICE_MAX_CONNECTIONS",), "the number of hardware queues is set", _any, "note", ("launch", "kernel"),
         either_way=True),
    Knob(("CUDA_SCALE_LAUNCH_QUEUES",), "the length of the launch queue is set", _any, "note", ("launch",),
         either_way=True),
    Knob(("CUDA_LOG_FILE",), "the driver writes a log", _any, "note", ("launch",)),
    Knob(("CUBLAS_WORKSPACE_CONFIG",), "cuBLAS may choose other kernels than by default", _any, "note", ("kernel",),
         either_way=True),
    Knob(("CUBLAS_LOGINFO_DBG",), "cuBLAS writes a log of every call", _on, "warning", ("launch",)),
    Knob(("CUBLASLT_LOG_LEVEL",), "cuBLASLt writes a log", lambda value: value.strip() not in ("", "0"), "warning",
         ("launch",)),
    Knob(("CUDNN_LOGINFO_DBG",), "cuDNN writes a log of every call", _on, "warning", ("launch",)),
    Knob(("NVIDIA_TF32_OVERRIDE",), "libraries are told to use TF32, or not to, whatever is asked", _any, "warning",
         ("kernel",), either_way=True),
    Knob(("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",), "torch uses TF32 for float32", _on, "warning", ("kernel",),
         either_way=True),
    Knob(("PYTORCH_NO_CUDA_MEMORY_CACHING",), "torch asks the driver for memory at every call", _on, "problem",
         ("launch",)),
    Knob(("CUPY_TF32",), "CuPy uses TF32 for float32", _on, "warning", ("kernel",), either_way=True),
    Knob(("NUMBA_DISABLE_JIT",), "Numba interprets what it should compile", _on, "problem",
         ("kernel", "everything on the CPU")),
    Knob(("NUMBA_ENABLE_CUDASIM",), "Numba simulates the GPU in Python", _on, "problem", ("kernel",)),
    Knob(("NUMBA_CUDA_LOG_LEVEL",), "Numba logs", lambda value: value.strip().upper() in ("DEBUG", "INFO"), "warning",
         ("launch",)),
    Knob(("PYTHONMALLOC",), "Python allocates in a slower way",
         lambda value: value.strip() in ("debug", "malloc_debug", "pymalloc_debug", "malloc"), "warning", ON_CPU),
)  # fmt: skip
VARIABLES = {name: each for each in _KNOBS for name in each.names}


def environment_size(place: Place) -> Iterator[Finding]:
    """Whether the variables are so many or long that starting a program takes longer: each is given all of them."""
    if place.software.environment_bytes is not None and place.software.environment_bytes > LARGE_ENVIRONMENT_BYTES:
        yield Finding(
            severity="note",
            summary=f"the variables of the environment are {format_bytes(place.software.environment_bytes)}, copied to "
            "each program that is started",
            values=[format_bytes(place.software.environment_bytes)],
            evidence=["names and values of all"],
            advice="unset those that nothing reads, such as those of Kubernetes' services and functions of a shell",
        )


def variables(place: Place) -> Iterator[Finding]:
    """Whether variables change how CUDA and frameworks work. Apptainer and Charliecloud pass the host's on."""
    given = place.variables
    for name, each in VARIABLES.items():
        if name in given and each.holds(given[name]):
            yield Finding(
                severity=each.severity,
                summary=f"{name} is set: {each.does}",
                about=[FactId("software", "variables", name)],
                evidence=[f"{name}={given[name]}"],
                distorts=[*each.slows],
                at_least=0.0 if each.either_way else 1.0,
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
    if of_variable(variable).is_told_by_effect:
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
          slows_by_key={name: each.slows for name, each in VARIABLES.items()}, is_by_fact=True,
          severity="warning", effect="libraries read them", reads=of("software", "variables"), here=variables,
          between=set_otherwise),
)  # fmt: skip
