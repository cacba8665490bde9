"""The harms that a step is dosed with: a row each, and the processes that show it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from primbench.devices import CPU, Device
from primbench.kernels.replay.problem import (
    CALL,
    COPY_TO_GPU,
    MEMORY_COPY,
    MEMORY_PROBE,
    PRODUCT,
    PRODUCT_ON_GPU,
    SMALL_SUM,
    SYSTEM_CALL,
    OtherWork,
)
from primbench.registry import build
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.neighbour import Neighbour
from primbench.spec.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.environment.limits import Limits

FactorId = Literal["calls", "collectives", "quota", "cpus", "busy", "memory", "copies", "kernels"]
TrialId = Literal["calls", "quota", "cpus", "beside"]

SHARES = (0.75, 0.5, 0.25)
"""What a dosed step is left of the CPU time, or of the CPUs, that its threads can use."""
USUAL = Method(min_time_s=0.3, max_time_s=0.5, check=False, tails=False)
OF_A_QUOTA = Method(min_time_s=1.0, max_time_s=1.0, max_noise=1e-9, check=False, tails=False)
"""Ten periods of a quota, which are 0.1 s: what stops every tenth call is in no median, and in the mean of all."""
UNDOSED = "undosed"
TORCH = "torch"
"""The backend of captured steps."""


class DosingPlace(NamedTuple):
    """What a step has where it is dosed."""

    device: str
    cpus: tuple[int, ...]
    """Numbers of the CPUs that may be used."""
    threads: int
    """Of CPU libraries, of each rank."""
    used_cpus: float
    """CPUs that the undosed step keeps busy, on average; as many as it can while that is not known."""
    ranks: int = 1
    """Processes that make the step together."""

    @property
    def is_gpu(self) -> bool:
        return Device.parse(self.device).is_gpu

    @property
    def usable_cpus(self) -> int:
        """CPUs that the step can keep busy: its threads' on a CPU, and that of the thread which launches on a GPU."""
        return 1 if self.is_gpu else min(self.threads * self.ranks, len(self.cpus))


@dataclass(frozen=True)
class Probe:
    """A primitive whose time tells how much of a harm there is in a place."""

    work: OtherWork
    is_mean: bool = False
    """Whether the mean of its samples counts, and not their median."""

    def case(self, here: DosingPlace) -> Case:
        """How it is measured. Raises InvalidRequest where there is no such problem."""
        device = CPU if self.work.on_cpu else here.device
        parameters = build(self.work.primitive, self.work.fields).on(Device.parse(device)).parameters()
        if "ranks" in parameters:
            parameters |= {"ranks": here.ranks}
        return Case(
            primitive=self.work.primitive,
            parameters=parameters,
            backend=self.work.backend or TORCH,
            device=device,
            method=USUAL,
        )


@dataclass(frozen=True)
class Factor:
    """A harm, in the unit that its doses have."""

    id: FactorId
    words: str
    """What does the harm, as in "nothing by ..."."""
    per: str
    """What one dose is, as in "loses 0.8 % ..."."""
    trial: TrialId
    """The processes by which its slope is found out."""
    probe: Probe | None = None
    """By whose time it is told how large a dose a place is."""
    arm: str = ""
    """Of a neighbour: the arm that has it; a dose is what that does."""
    baseline: str = UNDOSED
    """The arm that it is set beside."""
    dose_ns: int = 0
    """How much longer each call is for one dose, where a dose is that."""
    of_limits: Callable[[Limits, DosingPlace], float] | None = None
    """How large a dose a place is, by what its worker has read."""
    asked_by: tuple[str, ...] = ("neighbour",)
    """Fields of an arm by which it has this harm for certain."""
    on_gpus: bool | None = None
    """Whether it is of steps on a GPU, or of others; None of both."""
    of_ranks: bool = False
    """Whether it is of steps that several ranks make together."""


def _too_little(granted: float | None, here: DosingPlace) -> float:
    """How many times as long a step takes that has to do with less than it uses, less 1."""
    return 0.0 if granted is None else max(0.0, here.used_cpus / granted - 1)


BUSY_ARM, MEMORY_ARM = "beside a busy neighbour", "beside one that moves memory"
COPIES_ARM, KERNELS_ARM = "beside copies", "beside kernels"
FACTORS = (
    Factor("calls", "longer calls", "a us of each call", "calls", Probe(CALL), dose_ns=1000, asked_by=()),
    Factor(
        "collectives", "slower collectives", "per 100 us of each collective", "calls", Probe(SMALL_SUM),
        dose_ns=100_000, asked_by=(), of_ranks=True,
    ),
    Factor(
        "quota", "a CPU quota", "at half its CPU time", "quota",
        of_limits=lambda limits, here: _too_little(limits.cpu_quota, here), asked_by=("cpus",),
    ),
    Factor(
        "cpus", "fewer CPUs", "on half its CPUs", "cpus",
        of_limits=lambda limits, here: _too_little(len(limits.cpus_allowed), here), asked_by=("affinity", "cpuset"),
    ),
    Factor("busy", "a busy neighbour", BUSY_ARM, "beside", Probe(PRODUCT, is_mean=True), BUSY_ARM, on_gpus=False),
    Factor(
        "memory", "memory bandwidth", MEMORY_ARM, "beside", Probe(MEMORY_PROBE), MEMORY_ARM, BUSY_ARM,
        on_gpus=False,
    ),
    Factor("copies", "a neighbour on copies", COPIES_ARM, "beside", Probe(COPY_TO_GPU), COPIES_ARM, on_gpus=True),
    Factor(
        "kernels", "a neighbour on the multiprocessors", KERNELS_ARM, "beside", Probe(PRODUCT_ON_GPU), KERNELS_ARM,
        on_gpus=True,
    ),
)  # fmt: skip
"""Those on a GPU have not been tried on one yet."""
BESIDE: dict[bool, dict[str, OtherWork]] = {
    False: {BUSY_ARM: SYSTEM_CALL, MEMORY_ARM: MEMORY_COPY},
    True: {COPIES_ARM: COPY_TO_GPU, KERNELS_ARM: PRODUCT_ON_GPU},
}
"""By whether the step is on a GPU: arms with a neighbour, and what that does."""


class Trial(NamedTuple):
    """Processes that are set beside each other, over and over."""

    id: TrialId
    arms: list[Arm]
    """The first is the step undosed."""
    cases: list[Case]
    """What each arm runs."""
    why_not: str = ""
    """Why it is not made; "" where it is."""


def undosed(here: DosingPlace) -> Arm:
    """The place where the step is as it was captured."""
    return Arm(name=UNDOSED, placement=Placement(threads=here.threads))


def asked_first(here: DosingPlace, places: Sequence[Arm]) -> set[TrialId]:
    """The trials of harms that places have for certain, or may have, without which nothing is foretold of them."""
    has_it = {name for arm in places for each in factors(here) for name in each.asked_by if getattr(arm, name)}
    may_have: set[TrialId] = {"calls"} if any(arm.neighbour is None for arm in places) else set()
    return may_have | {each.trial for each in factors(here) if has_it & {*each.asked_by}}


def trials(step: Case, here: DosingPlace, *, are_probed: bool = False) -> list[Trial]:
    """Those of a step. step: its case, which is dosed in the first one alone. are_probed: whether neighbours are."""
    base = undosed(here)
    dosed = replace(step, parameters=step.parameters | {"dosed": True}, method=USUAL)
    usual, slow = replace(step, method=USUAL), replace(step, method=OF_A_QUOTA)
    few = _on_fewer(here)
    return [
        Trial("calls", [base], [dosed]),
        Trial("quota", [base, *(_granted(base, here, share) for share in SHARES)], [slow]),
        Trial("cpus", [base, *few], [usual], "" if few else _all_needed(here)),
        Trial("beside", [base, *_neighbours(base, here)], [usual, *(_probes(here) if are_probed else ())]),
    ]


def _probes(here: DosingPlace) -> list[Case]:
    """By which the harm of neighbours is told."""
    return [each.probe.case(here) for each in factors(here) if each.trial == "beside" and each.probe]


def _is_of(factor: Factor, here: DosingPlace) -> bool:
    return factor.on_gpus in (None, here.is_gpu) and (here.ranks > 1 or not factor.of_ranks)


def factors(here: DosingPlace) -> list[Factor]:
    """Those of steps on the device."""
    return [each for each in FACTORS if _is_of(each, here)]


def _all_needed(here: DosingPlace) -> str:
    return "with one thread it uses no more than one CPU" if here.ranks == 1 else "each rank needs a CPU"


def _granted(base: Arm, here: DosingPlace, share: float) -> Arm:
    cpus = round(here.usable_cpus * share, 2)
    return Arm(name=f"quota {cpus:g}", cpus=cpus, placement=base.placement)


def _on_fewer(here: DosingPlace) -> list[Arm]:
    """With as many threads as CPUs, of which each rank needs one."""
    counts = {max(here.ranks, math.floor(here.usable_cpus * share)) for share in SHARES}
    return [
        Arm(name=f"on {count}", affinity=here.cpus[:count], placement=Placement(threads=count // here.ranks))
        for count in sorted(counts, reverse=True)
        if count < here.usable_cpus
    ]


def _neighbours(base: Arm, here: DosingPlace) -> list[Arm]:
    return [
        Arm(name=name, placement=base.placement, neighbour=_neighbour(work, here))
        for name, work in BESIDE[here.is_gpu].items()
    ]


def _neighbour(work: OtherWork, here: DosingPlace) -> Neighbour:
    return Neighbour(
        words=" ".join([work.primitive, *(f"--{name} {value}" for name, value in work.fields.items())]),
        primitive=work.primitive,
        parameters=build(work.primitive, work.fields).parameters(),
        backend=work.backend or TORCH,
        device=CPU if work.on_cpu else here.device,
    )
