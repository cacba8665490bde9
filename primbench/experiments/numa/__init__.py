"""Which NUMA node is near which GPU, by measurement: the cases of the experiment, and what their records say.

The node of the thread and the node of the memory are two axes. Every CPU node has a fresh process in every round, so
that a round gives one number a cell, and rounds are what the intervals are computed over.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import msgspec

from primbench.errors import PlacementError
from primbench.numa import mempolicy
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.suites import numa as accesses
from primbench.system.files import attempt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.numa.topology import Topology
    from primbench.problem import Problem

CPU = "cpu"

MIN_TIME_S, MAX_TIME_S = 0.05, 0.3  # within a process; what counts is how processes differ
CONFIDENCE = 0.95
LOOKS_CONFIDENCE = 1 - (1 - CONFIDENCE) / 2  # Bonferroni: each GPU is compared by two metrics


class Axes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of the experiment."""

    cpu_nodes: list[int]
    memory_nodes: list[int]
    first_touch: str | None = None
    """Why memory cannot be bound to a node; None where it can. Memory that cannot be bound is on the node of the thread
    that touches it first, and of no other.
    """

    def refusal(self, cpu_node: int, memory_node: int | None) -> str | None:
        """Why there can be no such cell, if so."""
        if self.first_touch is None or memory_node in (None, cpu_node):
            return None
        return f"memory cannot be bound, so that it is where its thread is: {self.first_touch}"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A thread on one node, its memory on another (None: there is none to place)."""

    cpu_node: int
    memory_node: int | None
    times_s: dict[int, float]
    """Round -> seconds, the median of that round's process: of a call, or of one load of a chase."""
    median_s: float | None = None
    """Median of the rounds."""
    bytes_per_s: float | None = None
    """Rate at that median."""
    is_nearest: bool = False
    ratio: float | None = None
    """Ratio of the time to that of the nearest cell, round by round, with its 95 % interval; None for the nearest
    itself.
    """
    ratio_low: float | None = None
    ratio_high: float | None = None
    reason: str | None = None
    """Why there is no time, or none of some rounds."""
    disturbed: dict[int, list[str]] = {}
    """Round -> what disturbed it, in words, of those that have a time."""


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of access, of KINDS, from every CPU node to every memory node."""

    device: str
    """"cpu" or "cuda:N"."""
    kind: str
    cells: list[Cell]


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """How many times as long a node takes as the nearest one, with the interval of LOOKS_CONFIDENCE."""

    node: int
    ratio: float
    low: float | None
    high: float | None


class NumaLook(msgspec.Struct, frozen=True, kw_only=True):
    """What one way of measuring says: the nearest node where intervals separate it from all others, else a reason."""

    by: str
    contrasts: list[Contrast] = []
    node: int | None = None
    reason: str | None = None


class Nearness(msgspec.Struct, frozen=True, kw_only=True):
    """Which memory node is near to a GPU, or to the CPUs of a node."""

    subject: str
    """"cuda:N" or "CPU node N"."""
    said: dict[str, int | None]
    """Who -> the node that the system names, None where it names none."""
    looks: list[NumaLook]
    node: int | None = None
    """The near node as measured, None with a reason."""
    initiators: list[int] = []
    """Where memory is without CPUs, the nodes whose CPUs firmware names as nearest to it: no other node than these."""
    reason: str | None = None
    disagreement: str | None = None
    """Between measurement and system, in words; None where nothing contradicts."""


class Affinity(msgspec.Struct, frozen=True, kw_only=True):
    """The whole experiment."""

    axes: Axes
    rounds: int
    seed: int
    size_bytes: int
    caches_bytes: int
    """Bytes of the last-level caches together."""
    nearness: list[Nearness]
    matrices: list[Matrix]
    missing: dict[str, str] = {}
    """Kind -> why it was not measured."""


def axes_of(topology: Topology) -> Axes:
    """The nodes whose CPUs, and those whose memory this process may use, but for a GPU's own memory.

    Raises PlacementError where this machine does not tell its nodes.
    """
    if not topology.nodes:
        reason = topology.missing.get("nodes", "it names none")
        raise PlacementError(f"numa: this machine does not tell its nodes ({reason}): there is nothing to compare")
    allowed = set(os.sched_getaffinity(0) if topology.cpus_allowed is None else topology.cpus_allowed)
    denied: dict[str, str] = {}
    attempt(denied, "mbind", lambda: mempolicy.probe("mbind"))
    return Axes(
        cpu_nodes=[node.id for node in topology.nodes if allowed & set(node.cpus)],
        memory_nodes=[node.id for node in topology.nodes if node.is_usable and node.gpu is None],
        first_touch=f"mbind: {denied['mbind']}" if denied else None,
    )


def cases_of(
    axes: Axes, backends: Mapping[tuple[str, str], str], *, size_bytes: int, rounds: int, seed: int
) -> list[Case]:
    """Rounds of every device: the CPU nodes up and down in turn, the cells of each in an order drawn with the seed.

    backends: (device, primitive) -> the backend. Cases of one CPU node and backend stand together, in one worker.
    Raises InvalidRequest for a size that no problem has.
    """
    rng = random.Random(seed)
    method = Method(min_time_s=MIN_TIME_S, max_time_s=MAX_TIME_S, seed=seed)
    cases = []
    for number in range(rounds):
        for device in dict.fromkeys(device for device, _ in backends):
            for cpu_node in axes.cpu_nodes[:: -1 if number % 2 else 1]:
                cells = [
                    (problem, memory_node)
                    for problem, memory_node in _problems(axes, cpu_node, device, size_bytes)
                    if (device, problem.primitive) in backends
                ]
                rng.shuffle(cells)
                cells.sort(key=lambda cell: backends[device, cell[0].primitive])
                cases += [
                    Case(
                        primitive=problem.primitive,
                        parameters=problem.parameters(),
                        backend=backends[device, problem.primitive],
                        device=device,
                        method=method,
                        placement=Placement(cpu_node=cpu_node),
                        labels={"round": f"{number}"}
                        | ({} if memory_node is None else {"memory_node": f"{memory_node}"}),
                        process=number,
                    )
                    for problem, memory_node in cells
                ]
    return cases


def _problems(axes: Axes, cpu_node: int, device: str, size_bytes: int) -> Iterator[tuple[Problem, int | None]]:
    """What the threads of a node do on a device, each with the memory node it is to use."""
    for memory_node in axes.memory_nodes:
        if not axes.refusal(cpu_node, memory_node):
            node = memory_node if axes.first_touch is None else -1
            yield from ((problem, memory_node) for problem in accesses.of_memory(device, size_bytes, node))
    yield from ((problem, None) for problem in accesses.without_memory(device))
