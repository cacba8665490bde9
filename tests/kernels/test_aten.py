"""Operators called again as they were: what is checked of them, and what cannot be."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from primbench.backends import missing
from primbench.errors import InvalidField, UnsupportedCase, VerificationError
from primbench.kernels.aten import Aten
from primbench.kernels.aten._call import Call, wide
from primbench.spec.method import Method

with_torch = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]


def test_what_is_divided_in_place_by_a_number_is_divided_by_1() -> None:
    """Of torch's own operators: what the number of another means nobody knows."""
    divided = Aten("aten.div_.Tensor", '["float32[8]"]', '{"other": 2}').called
    assert {"other": 1} == divided.named
    assert [2, 1e-5] == Aten("mine.div_.default", '["float32[8]", 2, 1e-5]').called.positional[1:]


def test_fields_that_make_no_call() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "its name in torch.ops"),
        ({"operator": "add"}, "its name in torch.ops"),
        ({"operator": "aten.add.Tensor", "arguments": "{}"}, "a list in JSON"),
        ({"operator": "aten.add.Tensor", "arguments": '["x"]'}, "written as float32"),
        ({"operator": "aten.add.Tensor", "arguments": "[NaN]"}, 'written as {"float": "nan"}'),
        ({"operator": "aten.add.Tensor", "keywords": '{"a": {"b": 1}}'}, "an object has one key"),
    )
    for fields, said in cases:
        with pytest.raises(InvalidField, match=said):
            Aten(**fields)


def verified(operator: str, arguments: str, keywords: str = "{}", **fields: Any) -> tuple[bool | None, str]:
    """Whether a call was checked, and why not."""
    from primbench.timing.case import measure

    problem = Aten(operator=operator, arguments=arguments, keywords=keywords, **fields)
    found = measure(problem, device="cpu", method=Method(dry_run=True))
    return found.verified, found.missing.get("verified", "")


@pytest.mark.parametrize(
    ("operator", "arguments", "keywords"),
    [
        ("aten.add_.Tensor", '["float32[64]", {"same": 0}]', "{}"),
        ("aten._foreach_addcdiv_.Scalar", '[["float32[8]"], ["float32[8]"], ["float32[8]+"], -0.1]', "{}"),
        ("aten.native_layer_norm.default", '["bfloat16[4,32]", [32], "bfloat16[32]", null, 1e-05]', "{}"),
        ("aten.embedding_dense_backward.default", '["float32[64,8]", "int64[64]:0..99~7", 100, -1, false]', "{}"),
        ("aten.nll_loss_forward.default", '["float32[64,12]", "int64[64]:-100..11~13", null, 1, -100]', "{}"),
        ("aten._to_copy.default", '["float32[8]@2"]', '{"dtype": {"dtype": "bfloat16"}, "device": {"device": "here"}}'),
        ("aten.mul.out", '["float32[9]", {"float": "inf"}]', '{"out": "float32[9]"}'),
        ("aten.sum.dim_IntList", '["float16[9,4]@0,1", [0], true]', "{}"),
        ("aten._embedding_bag.default", '["float32[9,4]", "int64[4]:0..8~4", "int64[2]=0,2"]', "{}"),
    ],
)  # fmt: skip
@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_outputs_and_changed_inputs_agree_with_float64(operator: str, arguments: str, keywords: str) -> None:
    assert (True, "") == verified(operator, arguments, keywords)


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_what_cannot_be_compared_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (None, "it draws random numbers") == verified("aten.bernoulli_.float", '["float32[8]", 0.5]')
    assert "a view or an allocation" in verified("aten.view.default", '["float32[8]", [2, 4]]', host_only=True)[1]
    assert "signs" in verified("aten._linalg_eigh.default", '["float32[8,8]"]')[1]
    assert "steps" in verified("aten.fmod.Scalar", '["float32[999]", 0.01]')[1]
    assert "elements" in verified("aten.neg.default", '["float32[3000,3000]"]')[1]
    packed = '["bfloat16[8,32]", "int8[16,32]:0..9~9", "bfloat16[16]"]'
    assert "float64" in verified("aten._weight_int8pack_mm.default", packed)[1]
    with pytest.raises(UnsupportedCase, match=r"has no operator aten\.of_another_torch"):
        verified("aten.of_another_torch.default", "[]")
    with pytest.raises(UnsupportedCase, match="library that is not imported"):
        verified("torchvision.of_another_version.default", "[]")
    with pytest.raises(UnsupportedCase, match="ProcessGroup, which belongs to its own process"):
        verified("aten.neg.default", '[{"object": "ProcessGroup"}]')
    with pytest.raises(UnsupportedCase, match="opens a file"):
        verified("aten.from_file.default", '[{"str": "/dev/null"}, true, 1]')
    monkeypatch.setattr("primbench.kernels.aten._call.wide", lambda operand, array: array)
    import torch

    monkeypatch.setattr("primbench.kernels.aten._reference.wide", lambda operand, array: 2 * torch.from_numpy(array))
    with pytest.raises(VerificationError, match="wrong result"):
        verified("aten.neg.default", '["float32[8]"]')


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_what_a_library_defines_once_it_is_imported() -> None:
    parts = '[["float32[64,64]", "float32[64]"], 0, 2]'
    assert verified("fsdp.chunk_cat.default", parts, '{"out": "float32[2,2080]"}')[0]


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_what_a_call_changes_is_brought_back_before_it_is_infinite_or_denormal() -> None:
    """Of which a CPU takes other times. Of several sets of inputs, which are cold, each is called seldom."""
    import numpy as np

    from primbench.registry import setup_of
    from primbench.timing.calls import CallLoop
    from primbench.timing.case import opened

    for operator, arguments, most in (
        ("aten.exp_.default", '["float32[64]+"]', 2),
        ("aten.mul_.Tensor", '["float32[64]", 1e-9]', 2),
        ("aten._foreach_add_.Scalar", '[["float32[64]", "int64[8]"], 1]', 8),
        ("aten.div_.Tensor", '["float32[64]+", 0]', 1),
        ("aten._foreach_div_.ScalarList", '[["float32[64]", "float32[8]"], [1e-9, 1e9]]', 8),  # divided by 1
        ("aten.sin_.default", '["float32[99999]"]', 1),
        ("aten.transpose_.default", '["float32[9,8]", 0, 1]', 8),  # whose shape is another after each
    ):
        problem = Aten(operator=operator, arguments=arguments)
        with opened(problem, "torch", "cpu") as backend:
            inputs = [backend.put(each) for each in problem.inputs(np.random.default_rng(0))]
            step = setup_of("aten", "torch")(backend, problem, *inputs)
            calls = CallLoop([step])
            assert most == calls.most_calls, operator
            first = step().get()
            calls.prepare()
            assert np.array_equal(first, step().get()), operator
            assert not CallLoop([step, step]).is_prepared


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_the_way_that_costs_least_ends_in_the_same_call() -> None:
    """torch.add takes a number, too, which ends in the operator for tensors; and linear is made of others."""
    import torch

    from primbench.kernels.aten._quick import quickest

    aten, x = torch.ops.aten, torch.ones(4, 4)
    assert torch.add is quickest(aten.add.Tensor, [x, x], {"alpha": 2})
    assert quickest(aten.add_.Tensor, [x, x], {}) is torch.Tensor.add_
    assert torch.sum is quickest(aten.sum.dim_IntList, [x, [0], True], {})
    for operator, arguments in ((aten.add.Scalar, [x, 2]), (aten.linear.default, [x, x]), (aten.mm.default, [x])):
        assert operator is quickest(operator, arguments, {})


FINDS = """
import sys, torch
from primbench.kernels.aten._quick import quickest
assert torch.abs is quickest(torch.ops.aten.abs.default, [torch.ones(2)], {})
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_no_worker_waits_for_torch_compile_to_find_it() -> None:
    subprocess.run([sys.executable, "-c", FINDS], check=True, timeout=120)


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_a_seed_is_told_from_other_numbers_on_the_host() -> None:
    pooled = np.ones(8, np.float32)

    def has_seed(operator: str, arguments: str) -> bool:
        called = Aten(operator=operator, arguments=arguments).called
        return Call(called, "cpu", [wide(each, pooled) for each in called.operands]).has_seed_on_host()

    backward = "aten._scaled_dot_product_efficient_attention_backward.default"
    given = ['"float32[1,1,2,4]"'] * 4 + ["null", '"float32[1,1,2,4]"', '"float32[1,1,32]+"']
    mask = "0.1, [true, true, true, false]"
    assert has_seed(backward, f'[{", ".join(given)}, "int64[]=42", "int64[]=7", {mask}]')
    assert not has_seed("aten.lerp.Tensor", '["float32[8]", "float32[8]", "float32[]"]')
