"""What scrapers read."""

from __future__ import annotations

from primbench.doctor.job import Stretch
from primbench.watching.prometheus import to_openmetrics


def test_openmetrics_names_the_family_of_a_counter_without_total_and_says_where_it_ends() -> None:
    """As OpenMetrics 1.0 has it, "Counter" and "ABNF"."""
    stretch = Stretch(
        time_s=1.0, duration_s=1.0, process_count=2, thread_count=2, cpu_time_s=0.5, minor_faults=0, major_faults=0,
        threads=[],
    )  # fmt: skip
    lines = to_openmetrics(7, stretch, []).splitlines()
    assert "# TYPE primbench_watch_cpu_seconds counter" in lines
    assert 'primbench_watch_cpu_seconds_total{pid="7"} 0.5' in lines
    assert "# TYPE primbench_watch_processes gauge" in lines
    assert ("# EOF", 1) == (lines[-1], lines.count("# EOF"))
