"""What timing asks of NVIDIA's GPUs: a ``primbench.gpu.GpuVendor``."""

from __future__ import annotations

from primbench.gpu.nvidia.blocker import HELD_S as HELD_S
from primbench.gpu.nvidia.blocker import Blocker as Blocker
from primbench.gpu.nvidia.clock import Event as Event
from primbench.gpu.nvidia.clock import clock_fault as clock_fault
from primbench.gpu.nvidia.counters import energy_j as energy_j
from primbench.gpu.nvidia.counters import read_load as read_load
from primbench.gpu.nvidia.counters import since as since
from primbench.gpu.nvidia.counters import start as start
from primbench.gpu.nvidia.digest import sums as sums
from primbench.gpu.nvidia.driver import finish as finish
from primbench.gpu.nvidia.driver import free_memory_bytes as free_memory_bytes
from primbench.gpu.nvidia.driver import l2_cache_bytes as l2_cache_bytes
from primbench.gpu.nvidia.driver import l2_set_aside_bytes as l2_set_aside_bytes
from primbench.gpu.nvidia.driver import synchronize as synchronize
from primbench.gpu.nvidia.usage import usage as usage
