from __future__ import annotations

from pathlib import Path

import pytest

from primbench.system.memory import available_memory_bytes

V2 = {
    "proc/meminfo": "MemTotal: 24684096 kB\nMemAvailable: 1024 kB\n",
    "proc/self/cgroup": "0::/job/step\n",
    "proc/self/mountinfo": "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/job/memory.max": "1000000\n",
    "sys/fs/cgroup/job/memory.current": "900000\n",
    "sys/fs/cgroup/job/step/memory.max": "max\n",
    "sys/fs/cgroup/job/step/memory.current": "7\n",
}
V1 = {
    "proc/meminfo": "MemTotal: 24684096 kB\nMemAvailable: 1024 kB\n",
    "proc/self/cgroup": "3:memory:/job/step\n",
    "proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1000000\n",
    "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "900000\n",
    "sys/fs/cgroup/memory/job/step/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/job/step/memory.usage_in_bytes": "7\n",
}


@pytest.mark.parametrize(
    ("files", "stat", "left_bytes"),
    [
        (V2, {"sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 500000\n"}, 600_000),
        (V2, {}, 100_000),
        (V2, {"proc/meminfo": "MemTotal: 24684096 kB\nMemAvailable: 50 kB\n"}, 51_200),
        (V1, {"sys/fs/cgroup/memory/job/memory.stat": "inactive_file 0\ntotal_inactive_file 500000\n"}, 600_000),
    ],
)
def test_a_group_above_leaves_its_limit_less_what_it_uses_and_cannot_give_back(
    files: dict[str, str], stat: dict[str, str], left_bytes: int, tmp_path: Path
) -> None:
    for name, text in (files | stat).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert left_bytes == available_memory_bytes(tmp_path)
