"""Memory that this process may still take, and the cache that a cold run must flush."""

from __future__ import annotations

from pathlib import Path


def last_level_cache_bytes(root: Path = Path("/")) -> int:
    """Sum of the last-level caches of CPU 0's packages: the largest cache sysfs names; 32 MiB where it names none."""
    sizes = []
    for path in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        if text.endswith("K") and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * 1024)
    return max(sizes, default=32 * 1024 * 1024)


def available_memory_bytes() -> int:
    """What the kernel says can be allocated without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)
