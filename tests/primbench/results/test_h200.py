"""What `topo`, `env`, `doctor` and `numa` wrote on a machine with two H200, made anonymous: no UUID, no paths of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from primbench.doctor import table
from primbench.doctor.cause import Finding
from primbench.doctor.place import Place
from primbench.environment import fingerprint
from primbench.environment.difference import difference
from primbench.environment.fingerprint import Environment
from primbench.numa.topology import Topology
from primbench.report import doctor, text
from primbench.report import environment as environment_report
from primbench.report import topology as topology_report
from primbench.report.figures.topology import picture

RECORDED = Path(__file__).parents[1] / "fixtures" / "h200-x2"


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.json").read_bytes()


def place() -> tuple[Place, list[Finding]]:
    found = json.loads(recorded("doctor"))
    return msgspec.convert(found["place"], Place, str_keys=True), msgspec.convert(found["findings"], list[Finding])


@pytest.mark.parametrize("name", ["topo", "env", "doctor", "numa"])
def test_it_names_nobody(name: str) -> None:
    text = recorded(name).decode()
    assert set(re.findall(r"GPU-[0-9a-f]{8}-([0-9a-f-]+)", text)) <= {"0000-0000-0000-000000000000"}
    assert not re.search(r"serial|hostname|/home/|/root/", text, re.IGNORECASE)


def test_topology_tells_links_and_each_field_that_nvml_refused() -> None:
    found = msgspec.json.decode(recorded("topo"), type=Topology)
    assert found.gpus is not None
    assert [[("NV", 18)], [("NV", 18)]] == [[(link.kind, link.lanes) for link in gpu.links or []] for gpu in found.gpus]
    for gpu in found.gpus:
        unknown = {field for field in gpu.__struct_fields__ if getattr(gpu, field) is None} - {
            "fabric"
        }  # not yet asked
        assert unknown == {"node_by_sysfs", "memory_node"} == set(gpu.missing)
        assert "nvmlDeviceGetNumaNodeId: NVMLError_NotSupported (3)" in gpu.missing["memory_node"]
    table = text.write(topology_report.document(found))
    assert "NV18" in table
    assert "node by sysfs of cuda:0: /sys/bus/pci/devices/0000:00:06.0/numa_node: -1" in table
    assert "cuda:1" in picture(found)


def test_fingerprint_knows_all_of_the_gpu() -> None:
    found = msgspec.json.decode(recorded("env"), type=Environment)
    gpus = found.devices.gpus or []
    assert [{}, {}] == [gpu.missing for gpu in gpus]
    assert [(700.0, 5, 16, "passthrough")] * 2 == [
        (gpu.power_limit_w, gpu.pcie_generation, gpu.pcie_width, gpu.virtualization_mode) for gpu in gpus
    ]
    assert found.confinement.runtime is not None
    assert "host" == found.confinement.runtime.name
    assert "NVIDIA H200" in text.write(environment_report.document(found, fingerprint.sources()))


def test_fingerprint_differs_from_this_machine_and_not_from_itself() -> None:
    found = msgspec.json.decode(recorded("env"), type=Environment)
    same, other = difference(found, found), difference(found, fingerprint.collect(gpus=False))
    assert (same.stack.same, same.limits.same, same.machine.same) == (True, True, True)
    assert other.stack.same is False


def test_doctor_finds_on_the_record_what_it_found_there() -> None:
    """That a check changes its words is meant to be seen here. Bounds, facts and values were not recorded."""
    there, found = place()
    said = [finding for finding in table.examine(there) if finding.severity not in ("ok", "unknown")]
    now = [replace(finding, at_least=1.0, at_most=None, about=[], values=()) for finding in said]
    assert [finding for finding in found if finding.severity not in ("ok", "unknown")] == now
    assert "2 x NVIDIA H200" in text.write(doctor.document(there, found, fix=True))
