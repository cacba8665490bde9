"""Every field of the fingerprint says what it means, so that no difference between two places goes untold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from primbench.doctor.table import causes
from primbench.environment.comparable import meaning_of
from primbench.environment.confinement import Confinement
from primbench.environment.devices import Devices
from primbench.environment.fingerprint import Environment
from primbench.environment.limits import Limits
from primbench.environment.machine import Machine
from primbench.environment.software import Software
from primbench.report.plain import json_of
from primbench.system.meaning import Fact, FactId

if TYPE_CHECKING:
    import msgspec

GROUPS: dict[str, type[msgspec.Struct]] = {
    "machine": Machine, "limits": Limits, "confinement": Confinement, "software": Software, "devices": Devices,
}  # fmt: skip
FIELDS = [
    *(FactId(name) for name in Environment.__struct_fields__ if name not in GROUPS and name != "missing"),
    *(FactId(group, name) for group, kind in GROUPS.items() for name in kind.__struct_fields__ if name != "missing"),
]


def test_no_field_is_forgotten() -> None:
    assert 60 < len(FIELDS)
    assert [] == [field for field in FIELDS if not isinstance(meaning_of(field), Fact)]


def test_every_rule_that_a_field_names_is_one_of_the_doctor() -> None:
    variables = (
        "NCCL_DEBUG",
        "OMP_NUM_THREADS",
        "OMP_PLACES",
        "KMP_BLOCKTIME",
        "MALLOC_ARENA_MAX",
        "PYTHONMALLOC",
        "PYTHONPYCACHEPREFIX",
    )
    keys = (*variables, "LD_PRELOAD", "malloc", "NumPy's gemm", "/etc/nccl.conf", "libc")
    more = (FactId("devices", "gpu_count"), FactId("devices", "gpus", 0, "name"), FactId("software", "kernels"))
    meanings = [meaning_of(field) for field in (*FIELDS, *more)]
    of_entries = [
        each.entry(key) if callable(each.entry) else each.entry for each in meanings for key in keys if each.entry
    ]
    named = {each.rule for each in (*meanings, *of_entries) if each and each.rule}
    assert {cause.id for cause in causes().values() if cause.effect and not cause.in_outputs} == named


@pytest.mark.parametrize(
    ("field", "layer", "rule"),
    [
        (FactId("devices", "gpus", 1), "limits", None),  # one that is handed in or not
        (FactId("devices", "gpus", 1, "power_limit_w"), "machine", "gpu"),
        (FactId("nodes", 0, "cpus"), "machine", "machine"),
        (FactId("nodes", 0, "distances", "1"), None, None),
        (FactId("software", "libraries", "numpy/_core/a.b", 0), "stack", "libraries"),
        (FactId("confinement", "runtime", "in_container"), "confinement", None),
        (FactId("software", "packages", "limits.cpu_quota"), "stack", "packages"),
    ],
)
def test_what_lies_within_a_field_has_its_meaning_or_one_of_its_own(
    field: FactId, layer: str | None, rule: str | None
) -> None:
    assert (layer, rule) == (meaning_of(field).layer, meaning_of(field).rule)


def test_a_field_without_a_meaning_is_named() -> None:
    with pytest.raises(LookupError, match="missing: its struct declares no Fact"):
        meaning_of(FactId("limits", "missing"))


def test_an_id_is_its_parts_and_a_text_only_to_be_shown() -> None:
    (field,) = {FactId("devices", "gpus", 0, "uuid"), FactId("devices", "gpus", 0, "uuid")}
    assert field == ("devices", "gpus", 0, "uuid")
    assert field[:2] == ("devices", "gpus")
    assert ("devices.gpus[0].uuid", "gpus[0].uuid") == (str(field), field.within)
    one, other = FactId("software", "files", "a.b"), FactId("software", "files", "a", "b")
    assert str(one) == str(other)
    assert one != other
    assert '{\n "field": "nodes[0].cpus"\n}\n' == json_of({"field": FactId("nodes", 0, "cpus")})
    with pytest.raises(TypeError, match="has no form"):
        json_of(object())
