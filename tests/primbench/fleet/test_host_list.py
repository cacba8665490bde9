from __future__ import annotations

import pytest

from primbench.fleet.folder import MOST, node_names


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (["n1", "n2", "n3", "n07"], "n[1-3,07]"),
        (["gpu098", "gpu099", "gpu100", "other"], "gpu[098-100],other"),
        (["r1n3", "r1n4", "r2n3", "r2n4"], "r[1-2]n[3-4]"),
        (["login-1.cluster"], "login-1.cluster"),
        (["nx"], "n[x]"),
        ([], ""),
    ],
)
def test_names_are_those_that_slurm_means(expected: list[str], text: str) -> None:
    assert expected == node_names(text)


def test_a_list_of_very_many_is_cut() -> None:
    assert MOST == len(node_names("n[0-999999999]"))
