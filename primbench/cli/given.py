"""What a command's options were given, and what they say together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.spec.method import Method
    from primbench.spec.placement import Placement


def method_of(values: Mapping[str, Any]) -> Method:
    """Raises InvalidRequest where the options contradict."""
    from primbench.spec.method import Method  # which takes longer to import than --help has

    max_time_s = values["max_time"]
    min_time_s = min(values["min_time"], max_time_s) if is_default("min_time") else values["min_time"]
    if max_time_s == 0:
        raise InvalidRequest("--max-time 0s: more than 0")
    if min_time_s > max_time_s:
        raise InvalidRequest(f"--min-time {min_time_s:g}s, --max-time {max_time_s:g}s: the least is above the most")
    return Method(
        cache=values["cache"],
        max_noise=values["max_noise"],
        min_time_s=min_time_s,
        max_time_s=max_time_s,
        seed=values["seed"],
        check=values["check"],
        dry_run=values.get("dry_run", False),
        over_time=values.get("over_time", False),
    )


def is_default(name: str) -> bool:
    """Whether this command's option is as it is without the user's word, in the configuration file or typed."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.DEFAULT


def is_typed(name: str) -> bool:
    """Whether this command's option stands on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)


def placement_of(values: Mapping[str, Any]) -> Placement:
    """Raises PlacementError where the options contradict each other."""
    from primbench.spec.placement import Placement

    names = ("cpus", "numa_node", "cpu_node", "cpu_kind", "mem_nodes", "mem_policy", "threads")
    return Placement(**{name: values[name] for name in names})
