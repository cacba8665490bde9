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
    """One metric of a case over all nodes that have it, or over those of one kind.

    kind: by name; None of all nodes. primary: the one that comes first. scatter: standard deviation of the logarithms
    over nodes, outliers apart. margin: below it a difference does not matter. limit: the ratio to the median above
    which a node stands out; both are None where there are too few nodes. slowest: a node's name, and ``ratio`` its time
    over the median.
    """

    metric: str
    primary: bool
    nodes: int
    median_s: float
    scatter: float | None
    margin: float
    limit: float | None
    slowest: str
    ratio: float
    kind: str | None = None


class OfCase(msgspec.Struct, frozen=True, kw_only=True):
    """unmeasured: node -> why it has no time, where others have one. reason: why nobody has."""

    case: Case
    metrics: list[OfMetric]
    unmeasured: dict[str, str]
    reason: str | None = None
    is_failed: bool = False


class Outlying(msgspec.Struct, frozen=True, kw_only=True):
    """case: its number among those of the fleet, from 0. kind: among whose nodes it stands out; None: among all."""

    case: int
    metric: str
    time_s: float
    ratio: float
    kind: str | None = None


class KindOfNode(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with the same models of CPU and GPUs. name: a letter. is_enough: to be judged among themselves."""

    name: str
    cpu: str | None
    gpus: list[str]
    nodes: list[str]
    is_enough: bool


class Unlike(msgspec.Struct, frozen=True, kw_only=True):
    """A field of the place that is not as on most nodes, of which ``nodes`` have the usual value.

    rule: of what it is known to do to results, by name; None where it is not known to do any.
    """

    field: FactId
    value: Any
    usual: Any
    nodes: int
    rule: str | None


class Varied(msgspec.Struct, frozen=True, kw_only=True):
    """A field that some nodes have otherwise: the value that the most have, ``nodes`` of them, and each other one with
    its nodes.
    """

    field: FactId
    usual: Any
    nodes: int
    others: list[tuple[Any, list[str]]]


class NodeFindings(msgspec.Struct, frozen=True, kw_only=True):
    """A node in which something is wrong. outlying: by how much it is slower, in what. unmeasured: case -> reason.

    evidence, causes: as a comparison with nodes like most has them, the likeliest cause first; likely: in few words.
    about: the fields that the causes tell of. damage: of its file. deviations: case -> outputs that are not what they
    should be.
    """

    node: str
    file: str
    outlying: list[Outlying]
    unmeasured: dict[int, str]
    unlike: list[Unlike]
    evidence: list[str] = []
    causes: list[str] = []
    likely: str | None = None
    about: list[FactId] = []
    damage: str | None = None
    deviations: dict[int, list[Deviation]] = {}


class MetricChange(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of a case, now over what it was in an earlier fleet.

    ratio: of the medians. interval: 95 %, of the mean ratio of the nodes that both have, if these are two or more.
    q: the least rate of false discoveries, among all metrics of all cases, at which that mean is above the margin.
    limit: the ratio of a node's own change to the median change, above which it stands out. changed: node -> its own.
    """

    case: int
    metric: str
    nodes: int
    before_s: float
    now_s: float
    ratio: float
    interval: tuple[float, float] | None
    q: float | None
    margin: float
    limit: float | None
    changed: dict[str, float]

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
    """altered: that of most nodes first. come, gone: nodes of one of the fleets alone.

    methods: how the same cases were measured otherwise, such as "max_time_s 0.2, now 0.3"; these are not compared.
    """

    folder: str
    changes: list[MetricChange]
    altered: list[Altered]
    methods: list[str]
    come: list[str]
    gone: list[str]

    @property
    def is_slower(self) -> bool:
        """Whether the whole fleet or one of its nodes is, in anything."""
        return any(each.changed or each.is_slower for each in self.changes)


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """what: of which it consists, "node", "GPU" or "link", and so what ``nodes`` and the like are names of.

    false_alarms: the share of fleets without a slow node in which some node is taken for one, at most.

    missing: nodes that were to measure and left no file; unnamed: how many more, that nothing names. unreadable: file
    -> reason. varied: what some nodes have otherwise than most, of what is known to move results. ends: nodes of which
    every link is slow. links: what was measured between two nodes, as a fleet of its own. kinds: [] where all nodes are
    of one.
    """

    folder: str
    nodes: list[str]
    missing: list[str]
    unnamed: int
    unreadable: dict[str, str]
    false_alarms: float
    cases: list[OfCase]
    unhealthy: list[NodeFindings]
    varied: list[Varied]
    kinds: list[KindOfNode] = []
    notes: list[str] = []
    against: Against | None = None
    what: str = "node"
    ends: list[str] = []
    links: Fleet | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether all nodes are there, measured all, and none is slow, nor slower than it was, if that is asked."""
        changed = self.against is not None and (self.against.is_slower or not self.against.changes)
        failing = any(case.is_failed for case in self.cases)
        if self.links is not None and not self.links.is_healthy:
            return False
        return not any((self.missing, self.unnamed, self.unreadable, self.unhealthy, failing, changed))
