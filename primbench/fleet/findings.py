"""What a fleet's files come to, as data. Times in seconds, ratios of times to the fleet's median."""

from __future__ import annotations

from typing import Any

import msgspec

from primbench.compare.outputs import Deviation
from primbench.fleet.outliers import FALSE_ALARMS
from primbench.spec.case import Case
from primbench.system.meaning import FactId

FALSE_ALARMS_OF_CHANGE = FALSE_ALARMS / 2
"""Of the fleet as a whole beside an earlier one, and as many of its nodes: both together keep to FALSE_ALARMS."""


class OfMetric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of a case over all nodes that have it, or over those of one kind."""

    metric: str
    primary: bool
    """Whether it is the metric that comes first."""
    nodes: int
    median_s: float
    scatter: float | None
    """Standard deviation of the logarithms over nodes, outliers apart."""
    margin: float
    """Ratio below which a difference does not matter."""
    limit: float | None
    """The ratio to the median above which a node stands out; both are None where there are too few nodes."""
    slowest: str
    """A node's name, and ``ratio`` its time over the median."""
    ratio: float
    kind: str | None = None
    """Name of the kind of nodes; None of all nodes."""


class OfCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case over the nodes of a fleet."""

    case: Case
    metrics: list[OfMetric]
    unmeasured: dict[str, str]
    """Node -> why it has no time, where others have one."""
    reason: str | None = None
    """Why no node has a time."""
    is_failed: bool = False


class Outlying(msgspec.Struct, frozen=True, kw_only=True):
    """A metric by which a node stands out."""

    case: int
    """Number of the case among those of the fleet, from 0."""
    metric: str
    time_s: float
    ratio: float
    kind: str | None = None
    """The kind among whose nodes it stands out; None: among all."""
    over_all: float | None = None
    """The median of the node's ratios in all cases, where it stands out by these; such a node may be below the limit of
    a single case that others have.
    """


class KindOfNode(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with the same models of CPU and GPUs, the same memory of these, and the same driver."""

    name: str
    """Its name, a letter."""
    cpu: str | None
    gpus: list[str]
    """Models with the size of their memory, each once."""
    driver: str | None = None
    """Version of the GPUs' driver."""
    nodes: list[str]
    is_enough: bool
    """Whether they are enough to be judged among themselves."""
    ratio: float | None = None
    """The median over cases of its median time to that of the first kind; None of that one, and of too few nodes."""


class Unlike(msgspec.Struct, frozen=True, kw_only=True):
    """A field of the place that is not as on most nodes, of which ``nodes`` have the usual value."""

    field: FactId
    value: Any
    usual: Any
    nodes: int
    rule: str | None
    """Id of the cause by which it moves results; None where it is not known to do any."""


class Varied(msgspec.Struct, frozen=True, kw_only=True):
    """A field that some nodes have otherwise: the value that the most have, ``nodes`` of them, and each other one with
    its nodes.
    """

    field: FactId
    usual: Any
    nodes: int
    others: list[tuple[Any, list[str]]]


class NodeFindings(msgspec.Struct, frozen=True, kw_only=True):
    """A node in which something is wrong."""

    node: str
    file: str
    outlying: list[Outlying]
    """Metrics in which it is slower, in what."""
    unmeasured: dict[int, str]
    """Case -> why it has no time."""
    unlike: list[Unlike]
    evidence: list[str] = []
    """Numbers that tell why, as a comparison with nodes like most has them."""
    causes: list[str] = []
    """What can cause it, the likeliest first."""
    likely: str | None = None
    """The likeliest cause in few words."""
    about: list[FactId] = []
    """Facts that the causes tell of."""
    damage: str | None = None
    """Where its file ends early; None where it is whole."""
    deviations: dict[int, list[Deviation]] = {}
    """Case -> outputs that are not what they should be."""


class MetricChange(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of a case, now over what it was in an earlier fleet."""

    case: int
    metric: str
    nodes: int
    before_s: float
    now_s: float
    ratio: float
    """Ratio of the medians."""
    interval: tuple[float, float] | None
    """95 % interval of the mean ratio of the nodes that both have, if these are two or more."""
    q: float | None
    """The least rate of false discoveries, among all metrics of all cases, at which that mean is above the margin."""
    margin: float
    limit: float | None
    """The ratio of a node's own change to the median change, above which it stands out."""
    changed: dict[str, float]
    """Node -> its own ratio, of those that stand out."""
    kind: str | None = None
    """Name of the kind of nodes; None of all nodes."""

    @property
    def is_slower(self) -> bool:
        """Whether the fleet as a whole is, for certain and by more than the margin."""
        return self.q is not None and self.q <= FALSE_ALARMS_OF_CHANGE


class Altered(msgspec.Struct, frozen=True, kw_only=True):
    """A field that nodes had otherwise in the earlier fleet, of those that are known to move results."""

    field: FactId
    before: Any
    now: Any
    nodes: list[str]


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet beside itself at an earlier time."""

    folder: str
    changes: list[MetricChange]
    altered: list[Altered]
    """Facts that changed, those of most nodes first."""
    methods: list[str]
    """How the same cases were measured otherwise, such as "max_time_s 0.2, now 0.3"; these are not compared."""
    come: list[str]
    """Nodes of this fleet alone."""
    gone: list[str]
    """Nodes of the earlier fleet alone."""

    @property
    def is_slower(self) -> bool:
        """Whether the whole fleet or one of its nodes is, in anything."""
        return any(each.changed or each.is_slower for each in self.changes)


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What many nodes of a cluster measured, who stands out among them, and why."""

    folder: str
    nodes: list[str]
    missing: list[str]
    """Nodes that were to measure and left no file."""
    unnamed: int
    """How many more are missing that nothing names."""
    unreadable: dict[str, str]
    """File -> why it cannot be read."""
    false_alarms: float
    """The share of fleets without a slow node in which some node is taken for one, at most."""
    cases: list[OfCase]
    unhealthy: list[NodeFindings]
    varied: list[Varied]
    """What some nodes have otherwise than most, of what is known to move results."""
    kinds: list[KindOfNode] = []
    """Kinds of nodes; [] where all nodes are of one."""
    notes: list[str] = []
    against: Against | None = None
    what: str = "node"
    """Of what it consists, "node", "GPU" or "link", and so what ``nodes`` and the like are names of."""
    ends: list[str] = []
    """Nodes of which every link is slow."""
    links: Fleet | None = None
    """What was measured between two nodes, as a fleet of its own."""

    @property
    def is_healthy(self) -> bool:
        """Whether all nodes are there, measured all, and none is slow, nor slower than it was, if that is asked."""
        changed = self.against is not None and (self.against.is_slower or not self.against.changes)
        failing = any(case.is_failed for case in self.cases)
        if self.links is not None and not self.links.is_healthy:
            return False
        return not any((self.missing, self.unnamed, self.unreadable, self.unhealthy, failing, changed))
