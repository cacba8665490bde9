from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from primbench.system.page_cache import held_share

NOBODY = 65_534


@pytest.fixture
def user() -> Iterator[None]:
    """Not root, whose file /etc/passwd is."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(before)


@pytest.mark.usefixtures("user")
def test_of_files_of_others_the_kernel_tells_nothing_and_says_that_all_is_there() -> None:
    with pytest.raises(PermissionError, match="only who owns a file"):
        held_share(["/etc/passwd"])
