"""Which cases of collectives and scaled products a step's operators are."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from primbench.decompose.as_cases import cases
from primbench.problem.operands import operand
from primbench.problem.operators import Call, NotThere, Settings
from primbench.registry import build

BF16 = {"dtype": "bfloat16"}
SCALED = ("float8_e4m3fn[32,512]", "float8_e4m3fn[512,128]@1,512")


@pytest.mark.parametrize(
    ("operator", "tensors", "fields"),
    [
        ("c10d._allgather_base_.default", ["float32[1024]", "float32[256]"], {"operation": "all_gather"}),
        ("c10d._reduce_scatter_base_.default", ["float32[256]", "float32[1024]"], {"operation": "reduce_scatter"}),
        ("c10d.alltoall_base_.default", ["float32[1024]", "float32[1024]"], {"operation": "all_to_all"}),
    ],
)
def test_a_collective_has_the_size_of_the_larger_tensor(operator: str, tensors: list[str], fields: Any) -> None:
    (found,) = cases(Call(operator, [operand(each) for each in tensors], {}), Settings(ranks=4))
    size = {"bytes": 4096, "ranks": 4, "dtype": "float32", "in_place": False}
    assert ("collective", size | fields) == (found.primitive, found.fields)
    assert 4096 == build(found.primitive, found.fields).parameters()["bytes"]


@pytest.mark.parametrize(
    ("name", "arguments", "fields"),
    [
        ("all_reduce", ["float32[64]", {"str": "sum"}, {"str": "0"}], {"bytes": 256}),
        ("all_gather_into_tensor", ["float32[64]", 2, {"str": "0"}], {"bytes": 512, "operation": "all_gather"}),
        ("reduce_scatter_tensor", ["float32[64]", {"str": "avg"}, 2, {"str": "0"}], {"operation": "reduce_scatter"}),
        ("reduce_scatter_tensor", ["float32[64]", {"str": "sum"}, 4, {"str": "7"}], None),
    ],
)
def test_functional_collectives_name_their_group(name: str, arguments: list[Any], fields: Any) -> None:
    """What is of some processes alone is no case, and cannot be called again."""
    given = [operand(each) if isinstance(each, str) else each for each in arguments]
    call = Call(f"_c10d_functional.{name}.default", given, {})
    if fields is None:
        with pytest.raises(NotThere, match="group"):
            cases(call, Settings(ranks=2))
    else:
        (found,) = cases(call, Settings(ranks=2))
        assert found.fields | fields == found.fields
        assert 2 == build(found.primitive, found.fields).parameters()["ranks"]


@pytest.mark.parametrize("name", ["allreduce_", "broadcast_", "_allgather_base_"])
def test_a_collective_of_some_processes_alone_is_no_case(name: str) -> None:
    tensors = [operand("float32[64]"), operand("float32[32]")]
    given: list[Any] = tensors if name == "_allgather_base_" else [tensors]
    for group, is_one in ((4, True), (None, True), (2, False), (1, False)):
        call = Call(f"c10d.{name}.default", given, {}, group=group)
        with contextlib.nullcontext() if is_one else pytest.raises(NotThere, match=f"own group of {group} rank"):
            assert 1 == len(cases(call, Settings(ranks=4)))
    assert call.key() != call._replace(group=2).key()


def test_a_broadcast_is_of_all_tensors_together() -> None:
    call = Call("c10d.broadcast_.default", [[operand("bfloat16[100]"), operand("bfloat16[3,4]")]], {})
    (found,) = cases(call, Settings(ranks=2))
    assert ("collective", 224, "broadcast") == (found.primitive, found.fields["bytes"], found.fields["operation"])


@pytest.mark.parametrize(
    ("scales", "scaling"),
    [
        (["float32[]", "float32[]"], "tensor"),
        (["float32[32,1]", "float32[1,128]"], "row"),
        (["float32[32,4]@1,32", "float32[4,1]@1,4"], "block"),
    ],
)
def test_a_product_of_float8_is_scaled_as_its_scales_are_shaped(scales: list[str], scaling: str) -> None:
    tensors = [operand(each) for each in (*SCALED, *scales)]
    (found,) = cases(Call("aten._scaled_mm.default", tensors, {"out_dtype": BF16}), Settings())
    assert ("scaled_gemm", {"m": 32, "n": 128, "k": 512, "scaling": scaling}) == (found.primitive, found.fields)


def test_what_is_another_product_is_called_again_as_it_was() -> None:
    tensors = [operand(each) for each in (*SCALED, "float32[]", "float32[]")]
    for call in (
        Call("aten._scaled_mm.default", [*tensors, operand("bfloat16[128]")], {"out_dtype": BF16}),
        Call("aten._scaled_mm.default", tensors, {}),
    ):
        assert ["aten"] == [each.primitive for each in cases(call, Settings())]
