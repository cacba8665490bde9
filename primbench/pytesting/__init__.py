"""A fixture of pytest that times functions: `def test_it(primbench): primbench(lambda: f(x))`.

pytest loads this file wherever primbench is installed, so that it imports what it needs when a test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.measurement import Measurement
    from primbench.pytesting.measured import Measured as Measured

SAVE, AGAINST, FAIL_ABOVE = "--primbench-save", "--primbench-against", "--primbench-fail-above"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("primbench", "times of functions, by the fixture primbench")
    group.addoption(SAVE, metavar="NAME", help="add this run to the baseline NAME in .primbench/baselines")
    group.addoption(
        AGAINST,
        metavar="NAME|FILE|FOLDER",
        help="set this run against a baseline, a results file, or a folder of several",
    )
    group.addoption(
        FAIL_ABOVE, metavar="PERCENT", help=f"with {AGAINST}: fail where a time is longer for certain by more than this"
    )


_KEY = pytest.StashKey["Measured"]()


def pytest_configure(config: pytest.Config) -> None:
    """Raises UsageError before a test runs for what would fail once all have."""
    asked = {option: config.getoption(option) for option in (SAVE, AGAINST, FAIL_ABOVE)}
    if not any(asked.values()):
        return
    from primbench.errors import PrimbenchError
    from primbench.pytesting.measured import check

    if asked[FAIL_ABOVE] and not asked[AGAINST]:
        raise pytest.UsageError(f"{FAIL_ABOVE}: of what, is said by {AGAINST}")
    if getattr(config.option, "numprocesses", None):
        raise pytest.UsageError(f"{SAVE} and {AGAINST}: functions that are timed run one at a time: leave out -n")
    try:
        check(asked[SAVE], asked[AGAINST], asked[FAIL_ABOVE])
    except PrimbenchError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def primbench(request: pytest.FixtureRequest) -> Callable[..., Measurement]:
    """Times a function as primbench.time() does, whose arguments it takes, and returns its Measurement.

    A table at the end has each test's times. Nothing is asserted but what the options ask for.
    """
    from primbench.pytesting.measured import Measured

    stash = request.config.stash
    measured = stash.setdefault(_KEY, Measured())

    def timed(function: Callable[..., Any], **options: Any) -> Measurement:
        return measured.add(request.node.nodeid, function, **options)

    return timed


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Save, compare, and fail where that is asked for."""
    config = session.config
    if (measured := config.stash.get(_KEY, None)) is None:
        return
    fails = measured.end(*(config.getoption(option) for option in (SAVE, AGAINST, FAIL_ABOVE)))
    if fails and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if (measured := config.stash.get(_KEY, None)) is not None:
        terminalreporter.section("primbench")
        terminalreporter.write_line(measured.in_words())
