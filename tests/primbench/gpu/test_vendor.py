from __future__ import annotations

import pytest

from primbench.devices import KINDS, Device
from primbench.gpu import VENDORS, GpuVendor, vendor_of
from primbench.gpu.nvidia import timing

NVIDIA: GpuVendor = timing  # whose types mypy compares


@pytest.mark.parametrize("kind", [kind for kind in KINDS if Device(kind).is_gpu])
def test_a_vendor_answers_all_that_timing_asks(kind: str) -> None:
    asked = {name for name in vars(GpuVendor) if not name.startswith("_")} | GpuVendor.__annotations__.keys()
    assert asked <= vars(vendor_of(Device(kind))).keys()
    assert kind in VENDORS
