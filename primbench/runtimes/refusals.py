"""Why no worker comes up in an arm, in one line: what its runtime, Linux or the worker said, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

from primbench.runtimes.afar import arm_there
from primbench.runtimes.table import runtime_of
from primbench.spec.arm import HOST_IMAGE, Arm, settings_of
from primbench.spec.settings import SETTINGS
from primbench.system import cpusets
from primbench.system.files import attempt, format_cpu_list
from primbench.units import format_bytes

_BUILD = "build one with `primbench image`"

# In the last words of Python, of runtimes, and of Linux: what an image lacks.
_LACKS = {
    r"No module named '?(primbench)\b": r"\1",
    r"No module named '?(\w+)'?$": r"\1",
    r"\bpython3[`\"']?:? (executable file not found|not found|No such file)": "python3",
}
_NO_FRAMEWORK = r"module '\w+' is not installed|is built without CUDA"
_NO_GPU = (
    r"no GPU is visible|finds no usable GPU|torch sees 0|shows 0 GPU|NO_DEVICE|no CUDA-capable device|driver init"
    r"|nvidia\.com/gpu|could not select device driver|nvidia-container-cli.* not found"
)
_NO_ROOM = r"SIGKILL|memory limit(?!.*(permission denied|not permitted))"
_NO_SUCH_CPU = r"cpuset\.(cpus|mems)"
_CHOOSES_GPUS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")

_LOGGED = re.compile(r'time="[^"]*" level=\w+ msg="(.*)"$')  # by runc and crun
_IDENTIFIER = re.compile(r" [0-9a-f]{64}\b")


def refusal(arm: Arm, said: str) -> str:
    """said: by who was to start the worker, or by the worker before its first case, or what it died of."""
    said = _plain(said)
    mend = _of_runtime(arm, said)
    if mend and arm.is_far:  # no worker has died, none was reached
        said = re.sub(r"^worker died of exit status \d+: ", "", said).rstrip(".")
    for sign, absent in _LACKS.items() if arm.image not in (None, HOST_IMAGE) and not mend else ():
        if found := re.search(sign, said):
            return f"image {arm.image} has no {found.expand(absent)}: {_BUILD}"
    mend = mend or _mend(arm, said)
    return f"{said}{f': {mend}' if mend else ''}"


def _of_runtime(arm: Arm, said: str) -> str | None:
    """What the file of the runtime has to say to its words, be it one on another machine."""
    runtime = runtime_of(arm)
    found = [each.advice(arm) for each in runtime.refusals if re.search(each.said, said)]
    if runtime.reached_by is not None and arm.runtime_there is not None:
        found.append(_of_runtime(arm_there(arm, runtime.reached_by), said))
    return next(filter(None, found), None)


def _plain(said: str) -> str:
    """A message without what a log puts around it and without names of containers, which are gone by now."""
    said = re.sub(_IDENTIFIER, "", " ".join(said.split()))
    return re.sub(_LOGGED, lambda logged: logged[1].replace('\\"', '"'), said)


def _mend(arm: Arm, said: str) -> str | None:
    """What to do about a refusal; None where the words say it themselves, or nothing is known."""
    if re.search(_NO_GPU, said):
        return _gpus(arm, said)
    if re.search(_NO_FRAMEWORK, said) and arm.image not in (None, HOST_IMAGE):
        return f"that is in image {arm.image}: {_BUILD} --extra NAME"
    if re.search(_NO_ROOM, said) and (room := _room(arm)) is not None:
        return f"{format_bytes(room)} of memory may be too little for Python and its libraries: give more"
    if re.search(_NO_SUCH_CPU, said) and not arm.is_far:
        return _cpus_and_nodes(Path("/"))
    return "--verbose shows all that it said" if re.search(r"worker died of exit status \d+: ", said) else None


def _room(arm: Arm) -> int | None:
    """How much memory an arm is held to."""
    limit = ("limits", "memory_limit_bytes")
    return next((getattr(arm, field) for field in settings_of(arm) if limit in SETTINGS[field].shows), None)


def _cpus_and_nodes(root: Path) -> str | None:
    cpus = attempt({}, "cpus", lambda: format_cpu_list(cpusets.cpus_allowed(root)[0]))
    nodes = attempt({}, "nodes", lambda: format_cpu_list(cpusets.memory_nodes_allowed(root)))
    return f"there are CPUs {cpus} and memory nodes {nodes} here" if cpus and nodes else None


def _gpus(arm: Arm, said: str) -> str:
    seen = "" if "no GPU is visible" in said else "no GPU is visible inside: "
    chosen = [f"env.{name}={arm.variables[name]}" for name in _CHOOSES_GPUS if name in arm.variables]
    if chosen:
        return f"{seen}leave out {' and '.join(chosen)}, or name one that nvidia-smi shows"
    how = runtime_of(arm).gpus
    if how is None or arm.image == HOST_IMAGE:
        return (
            f"{seen}it has the files of this machine: see whether /dev/nvidia*, nvidia-uvm among them, and "
            "libcuda.so.1 are there, and nvidia-smi works"
        )
    return seen + how
