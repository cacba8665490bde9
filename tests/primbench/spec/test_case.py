"""A case that an arm has otherwise than its study."""

from typing import Any

import pytest

from primbench.compare.sides import identity
from primbench.errors import InvalidRequest
from primbench.spec.case import Case
from primbench.spec.naming import name_of

GEMM = Case(
    primitive="gemm",
    parameters={
        "m": 64, "n": 64, "k": 64, "dtype": "float32", "trans_a": False, "trans_b": False, "math_mode": "ieee",
        "accumulate": "float32", "alpha": 1.0, "beta": 0.0, "bias": False,
    },
    backend="numpy",
    device="cpu",
)  # fmt: skip


def test_what_an_arm_changes_is_in_the_case_and_what_it_was_beside_it() -> None:
    changed = GEMM.changed({"backend": "torch", "m": "4K", "trans_a": "yes", "alpha": "2"})
    assert "torch" == changed.backend
    assert (4096, True, 2.0) == tuple(changed.parameters[name] for name in ("m", "trans_a", "alpha"))
    assert {"backend": "numpy", "m": 64, "trans_a": False, "alpha": 1.0} == changed.instead
    assert GEMM == changed.as_asked()
    assert identity(GEMM) == identity(changed)
    assert GEMM == GEMM.changed({})


def test_a_kernel_may_be_changed_and_the_usual_one_has_a_word() -> None:
    parameters: dict[str, Any] = {
        "rows": 8,
        "classes": 8,
        "kind": "softmax",
        "direction": "forward",
        "dtype": "float32",
    }
    usual = Case(primitive="softmax", parameters=parameters, backend="torch", device="cpu")
    changed = usual.changed({"kernel": "compiled"})
    assert ("torch:compiled", {"kernel": ""}, "usual") == (
        changed.implementation,
        changed.instead,
        usual.word_of("kernel"),
    )
    assert "compiled" in name_of(changed)
    assert usual == changed.as_asked()
    assert "" == changed.changed({"kernel": "usual"}).kernel


def test_what_a_problem_fills_in_follows_from_what_is_changed() -> None:
    changed = GEMM.changed({"dtype": "float64"})
    assert "float64" == changed.parameters["accumulate"]
    assert {"dtype": "float32", "accumulate": "float32"} == changed.instead
    assert identity(GEMM) == identity(changed)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"dtyp": "float64"},
            r"case\.dtyp=float64: gemm has no such field: did you mean dtype\? there are backend, kernel, m,",
        ),
        ({"backend": "nosuch"}, "gemm has no kernel for backend 'nosuch': it has cupy, numba, numpy, torch"),
        ({"kernel": "nosuch"}, "gemm has no kernel 'nosuch' for backend 'numpy': it has none but the usual one"),
        ({"dtype": "float128"}, "float128': one of float64"),
        ({"m": "0"}, "a whole number of at least 1"),
        ({"m": "1:3:1"}, "a whole number of at least 1"),
        ({"trans_a": "maybe"}, "True or False"),
        ({"alpha": "x"}, "a finite number"),
    ],
)
def test_what_makes_no_case_is_refused(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        GEMM.changed(changes)
