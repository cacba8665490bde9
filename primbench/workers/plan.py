"""From problems to cases: which backends and devices each is for."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench import backends as backend_files
from primbench.devices import CPU, CUDA, Device, is_device, nth_gpu
from primbench.environment.devices import has_gpu_node
from primbench.errors import BackendUnavailable, InvalidField, InvalidRequest
from primbench.registry import backends_of, kernels_of, problem_class
from primbench.spec.captured import PARTS, WHOLE
from primbench.spec.case import Case
from primbench.spec.confidential import hidden_labels
from primbench.spec.defaults import ALL
from primbench.workers.asking import FIRST_GPU, ask_a_worker, asking_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from primbench.problem import Problem
    from primbench.spec.arm import Arm
    from primbench.spec.method import Method
    from primbench.spec.placement import Placement
    from primbench.workers.asking import Ask

PlannedPlace = tuple[str, str]
"""Backend and device."""


class NoneInstalled(BackendUnavailable):
    """None of the backends that have a kernel for a primitive, none of which was named."""


def plan(
    entries: Iterable[tuple[Problem, Mapping[str, str]]],
    *,
    backends: Sequence[str],
    device: str | None,
    method: Method,
    placement: Placement,
    processes: int,
    elsewhere: bool = False,
    afar: Arm | None = None,
    kernels: Sequence[str] = (),
) -> list[Case]:
    """Every problem on every backend and device asked for, all of it once a process.

    kernels: by their names among those that a backend has for a primitive, or "all"; none is the usual one.

    Cases of one backend and device stand together, so that one worker serves them. An entry labelled with a device
    ("cpu" or "cuda") is for such devices only, or for machines without or with a GPU
    where it starts processes that see one; an entry on a backend without a kernel for it is skipped when it is run, and
    so are those of a primitive of which no backend is installed, where another primitive has one.
    elsewhere: nothing runs on what is installed here, and so a backend need not be that is named. afar: the arm whose
    worker, on another machine, tells what it has, in place of one here.
    Raises InvalidRequest where none is left, or a backend has a kernel for none.
    """
    listed = list(entries)
    primitives = _primitives(listed, device)
    _check_backends(primitives, backends, elsewhere=elsewhere)
    places_of = _places_by(afar)
    places = _places_of_each(primitives, lambda primitive: places_of(primitive, backends, device), elsewhere=elsewhere)
    own = _with_own(places, listed, backends)
    order = _in_order(own)
    seen = _seen(device, order)
    method_of = _methods(method, listed)
    once = [
        _case((problem, labels), place, kernel, method_of(labels), placement)
        for place, (problem, labels) in itertools.product(order, listed)
        if _is_at(problem, labels, place, places, own) and _is_for(labels, _device_of(problem, place, seen))
        for kernel in _kernels(kernels, problem.primitive, place[0])
    ]
    if listed and not once:
        raise InvalidField(_no_kernel(kernels, order)) if kernels else InvalidRequest(_why_none(listed, order))
    return [replace(case, process=process) for process in range(processes) for case in once]


def _places_of_each(
    primitives: Iterable[str], places_of: Callable[[str], list[PlannedPlace]], *, elsewhere: bool
) -> dict[str, list[PlannedPlace]]:
    """Those without a backend here are given one that has no kernel for them.

    Raises NoneInstalled where all are, and elsewhere for the first one: what is missing here may be there.
    """
    places, absent = dict[str, list[PlannedPlace]](), dict[str, NoneInstalled]()
    for primitive in primitives:
        try:
            places[primitive] = places_of(primitive)
        except NoneInstalled as reason:
            absent[primitive] = reason
    if absent and (elsewhere or not places):
        raise next(iter(absent.values()))
    others = sorted(_in_order(places), key=lambda place: not Device.parse(place[1]).is_gpu)
    return places | {each: others[:1] if problem_class(each).on_gpus else [("numpy", CPU)] for each in absent}


def _with_own(
    places: dict[str, list[PlannedPlace]],
    entries: Iterable[tuple[Problem, Mapping[str, str]]],
    backends: Sequence[str],
) -> dict[str, list[PlannedPlace]]:
    """With the backends that entries name, unless others were asked for, on the devices that there are."""
    found = {primitive: [*each] for primitive, each in places.items()}
    for problem, labels in entries:
        name, there = labels.get("backend"), found.get(problem.primitive, [])
        if name is not None and (not backends or ALL in backends):
            there += [(name, device) for device in dict.fromkeys(device for _, device in there)]
    return {primitive: [*dict.fromkeys(each)] for primitive, each in found.items()}


def _methods(
    method: Method, entries: Iterable[tuple[Problem, Mapping[str, str]]]
) -> Callable[[Mapping[str, str]], Method]:
    """Of the case of these labels. A step is sampled for as long as an eighth of its parts, at most ten times as long.

    What they add up to is better known than each of them, and so is what it is held against.
    """
    parts = sum(labels.get("set") == PARTS for _, labels in entries)
    times = min(max(1.0, parts / 8), 10.0)
    of_whole = replace(method, min_time_s=times * method.min_time_s, max_time_s=times * method.max_time_s)
    return lambda labels: of_whole if labels.get("set") == WHOLE else method


def _seen(device: str | None, order: Sequence[PlannedPlace]) -> str:
    """The kind of device that processes see which cases start."""
    has_gpu = has_gpu_node() or any(Device.parse(place).is_gpu for _, place in order)
    return CUDA if has_gpu and device != CPU else CPU


def _device_of(problem: Problem, place: PlannedPlace, seen: str) -> str:
    """The one that it is about. seen: by processes which cases start."""
    return seen if problem.sees_gpus else place[1]


def _primitives(entries: Sequence[tuple[Problem, Mapping[str, str]]], device: str | None) -> list[str]:
    """Those of which an entry may be for the device; all of them where none is, so that it is said why."""
    asked = [problem for problem, labels in entries if device in (None, ALL) or _is_for(labels, str(device))]
    return list(dict.fromkeys(problem.primitive for problem in asked or [problem for problem, _ in entries]))


def _in_order(places: Mapping[str, Iterable[PlannedPlace]]) -> list[PlannedPlace]:
    """Each once. places: of each primitive."""
    return list(dict.fromkeys(itertools.chain.from_iterable(places.values())))


def _kernels(asked: Sequence[str], primitive: str, backend: str) -> list[str]:
    """Those of a backend that are asked for."""
    known = kernels_of(primitive, backend) if asked else [""]
    return [name for name in known if not asked or ALL in asked or name in asked]


def _no_kernel(asked: Sequence[str], order: Sequence[PlannedPlace]) -> str:
    served = dict.fromkeys(backend for backend, _ in order)
    return (
        f"kernel={', '.join(asked)}: {', '.join(served)} has none of that name; `primbench list` shows which there are"
    )


def _case(
    entry: tuple[Problem, Mapping[str, str]], place: PlannedPlace, kernel: str, method: Method, placement: Placement
) -> Case:
    (problem, labels), (backend, device) = entry, place
    return Case(
        primitive=problem.primitive,
        parameters=problem.on(Device.parse(device)).parameters(),
        backend=backend,
        kernel=kernel,
        device=device,
        method=method,
        placement=placement,
        labels=hidden_labels(labels),
    )


def _why_none(entries: Iterable[tuple[Problem, Mapping[str, str]]], order: Sequence[PlannedPlace]) -> str:
    asked = sorted({labels.get("device", "") for _, labels in entries})
    return f"every entry is for {', '.join(asked)}, this run is on {', '.join(place[1] for place in order)}"


def _is_at(
    problem: Problem,
    labels: Mapping[str, str],
    place: PlannedPlace,
    places: Mapping[str, Sequence[PlannedPlace]],
    own: Mapping[str, Sequence[PlannedPlace]],
) -> bool:
    """places: of each primitive. own: with those that entries name, for these alone."""
    if "backend" in labels:
        return place in own.get(problem.primitive, ()) and labels["backend"] == place[0]
    return place in places.get(problem.primitive, ())


def _is_for(labels: Mapping[str, str], device: str) -> bool:
    return labels.get("device") in (None, Device.parse(device).kind)


def choose(primitive: str, backends: Sequence[str], device: str | None, ask: Ask = ask_a_worker) -> list[PlannedPlace]:
    """The backends and devices that a request means. What only a framework can tell, a worker is asked.

    Raises BackendUnavailable or InvalidRequest for a backend or device that is named and cannot be had.
    """
    _check_backends([primitive], backends)
    return _places(primitive, backends, device, ask)


def _places(primitive: str, backends: Sequence[str], device: str | None, ask: Ask) -> list[PlannedPlace]:
    named = [name for name in backends if name != ALL]
    _check_device(device)
    if device == CPU or (device is None and not (problem_class(primitive).on_gpus and has_gpu_node())):
        return [(name, CPU) for name in _on_cpu(primitive, backends, named, device)]
    if any(map(backend_files.missing, named)):
        return _elsewhere(named, device)
    _check_one_is_installed(primitive, named)
    try:
        return _asked(primitive, backends, named, device, ask)
    except BackendUnavailable as error:
        raise _seen_or_not(device, error) from None


def _seen_or_not(device: str | None, error: BackendUnavailable) -> InvalidRequest:
    """Why no backend reaches a GPU, which is of no use to know before there is one."""
    if has_gpu_node():
        return error
    if device == ALL:
        return InvalidField("device=all: no GPU is seen here (no /dev/nvidia*): leave it out, for the CPU")
    return BackendUnavailable(f"device={device}: no GPU is seen here (no /dev/nvidia*): {error}")


def _places_by(afar: Arm | None) -> Callable[[str, Sequence[str], str | None], list[PlannedPlace]]:
    if afar is None:
        return partial(_places, ask=asking_once(ask_a_worker))
    return partial(_places_afar, ask=asking_once(partial(ask_a_worker, arm=afar), is_here=False))


def _places_afar(primitive: str, backends: Sequence[str], device: str | None, ask: Ask) -> list[PlannedPlace]:
    """By what a worker on another machine says that it has."""
    _check_device(device)
    kind = problem_class(primitive)
    place = device if kind.on_gpus else CPU
    named = [name for name in backends if name != ALL]
    found = _asked(primitive, backends, named, place, ask)
    if found[0][1] == CPU and kind.cpu_backend and not backends:
        return [(kind.cpu_backend, CPU)]
    return found


def _is_out_of_reach(primitive: str, named: Sequence[str]) -> bool:
    """Whether it is a CPU's alone, and the backends that are named are GPUs' alone."""
    reached = {kind for name in named for kind in backend_files.devices_of(name)}
    return not problem_class(primitive).on_gpus and reached == {CUDA}


def _on_cpu(primitive: str, backends: Sequence[str], named: list[str], device: str | None) -> list[str]:
    """None for a CPU's primitive where GPUs' backends are named. Raises BackendUnavailable where there is none."""
    if device is None and _is_out_of_reach(primitive, named):
        return []
    chosen = named or backend_files.candidates(backends_of(primitive), CPU)
    if not backends:
        preferred = problem_class(primitive).cpu_backend
        chosen = [preferred] if preferred else chosen[:1]
    if not chosen:
        raise _none_installed(primitive, " on a CPU")
    return chosen


def _check_one_is_installed(primitive: str, named: Sequence[str]) -> None:
    if not named and all(map(backend_files.missing, backends_of(primitive))):
        raise _none_installed(primitive)


def _none_installed(primitive: str, where: str = "") -> NoneInstalled:
    reasons = (f"{name}: {backend_files.missing(name) or 'is for GPUs'}" for name in backends_of(primitive))
    return NoneInstalled(f"{primitive} has no backend{where} here: {'; '.join(reasons)}")


def _elsewhere(named: list[str], device: str | None) -> list[PlannedPlace]:
    """Backends that are not installed here: no worker here can tell of their devices."""
    if device == ALL:
        raise InvalidField(f"device=all: {named[0]} would tell which, and is not installed here: name one, as cuda:0")
    return [(name, device or FIRST_GPU) for name in named]


def _asked(
    primitive: str, backends: Sequence[str], named: list[str], device: str | None, ask: Ask
) -> list[PlannedPlace]:
    """The (backend, device) pairs that a worker is asked for: this process touches no GPU."""
    ready = ask(tuple(named[:1] or backends_of(primitive)), FIRST_GPU if device == ALL else device)
    devices = [ready.device]
    if device == ALL:
        devices = [str(nth_gpu(number)) for number in range(len(ready.environment.devices.gpus or [ready.device]))]
    names = named or [ready.backend]
    if ALL in backends:
        names = backend_files.candidates(backends_of(primitive), Device.parse(ready.device).kind)
    return [(name, place) for place in devices for name in names]


def _check_backends(primitives: Sequence[str], backends: Sequence[str], *, elsewhere: bool = False) -> None:
    for name in backends:
        if name == ALL:
            continue
        reason = backend_files.missing(name)
        if reason is not None and not elsewhere:
            raise BackendUnavailable(f"backend={name}: {reason}")
        if primitives and not any(name in backends_of(primitive) for primitive in primitives):
            raise InvalidRequest(f"backend {name} has no kernel for {', '.join(primitives)}: {_who_has(primitives)}")


def _who_has(primitives: Sequence[str]) -> str:
    having = sorted({other for primitive in primitives for other in backends_of(primitive)})
    return f"ask for {', '.join(having)}" if having else "no other has one, either"


def _check_device(device: str | None) -> None:
    if device not in (None, ALL) and not is_device(device):
        raise InvalidField(f"device={device}: cpu, cuda:N (N from 0) or all")
