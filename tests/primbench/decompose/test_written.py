"""A captured step becomes a suite, and that the same problems again, whatever the operators and their arguments."""

from __future__ import annotations

import json
import math
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import primbench.suites as suites
from primbench.decompose.as_cases import cases
from primbench.decompose.laps import Lap
from primbench.decompose.reuse import distances
from primbench.decompose.written import CapturedStep, parts
from primbench.errors import FileError, InvalidField, OutputError
from primbench.kernels.aten import Aten
from primbench.problem.operands import DTYPES, FLOATS, WHOLE, Operand, contiguous, operand, read, written
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, Touched
from primbench.registry import build, operators

sizes = st.lists(st.integers(0, 9), max_size=4).map(tuple)


@st.composite
def tensors(draw: st.DrawFn) -> Operand:
    shape = draw(sizes)
    strides = contiguous(shape) if draw(st.booleans()) else tuple(draw(st.integers(0, 99)) for _ in shape)
    dtype = draw(st.sampled_from(DTYPES))
    values = ""
    if dtype in WHOLE:
        low, span, kinds = draw(st.tuples(*[st.integers(0, 50)] * 2, st.integers(1, max(1, math.prod(shape)))))
        said = f":{low}..{low + span}~{kinds}"
        values = draw(st.sampled_from(["", said, f"{said}<"]))
    elif dtype in FLOATS:
        values = draw(st.sampled_from(["", "+"]))
    return Operand(dtype, shape, strides, values, draw(st.booleans()))


tagged = st.one_of(
    st.text(max_size=5).map(lambda text: {"str": text}),
    st.sampled_from([{"dtype": "float32"}, {"device": "here"}, {"float": "inf"}, {"object": "ProcessGroup"}]),
)
scalars = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
arguments = st.lists(
    st.recursive(tensors() | tagged | scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=5), max_size=11
)
storages = st.dictionaries(st.integers(1, 9), st.integers(1, 2**40), max_size=3)
NAMES = [*sorted(operators()), "of_another_torch", "add"]
calls = st.builds(
    Call,
    st.sampled_from([f"aten.{name}.default" for name in NAMES]),
    arguments,
    st.dictionaries(st.sampled_from(["alpha", "out", "dtype"]), tensors() | tagged | scalars, max_size=2),
    st.sampled_from(["forward", "backward", "optimizer"]),
    st.booleans(),
    st.none() | st.builds(Touched, storages, storages),
    st.none() | st.floats(0, 1e3),
)


def _numbers(label: str) -> list[int]:
    found = json.loads(label)
    return found if isinstance(found, list) else [found]


def of(call: Call, given_settings: Settings) -> list[OperatorCase]:
    """[] where the call cannot be made again."""
    try:
        return cases(call, given_settings)
    except NotThere:
        return []


@settings(max_examples=60)
@given(st.lists(calls, min_size=1, max_size=6), st.builds(Settings, *[st.booleans()] * 3, st.integers(1, 4)))
def test_a_step_is_the_same_problems_once_written(
    tmp_path_factory: pytest.TempPathFactory, found: list[Call], given_settings: Settings
) -> None:
    step, path = (
        CapturedStep("a 'step' \"of\" mine\n\\", found, given_settings),
        tmp_path_factory.mktemp("step") / "step.toml",
    )
    step.write(path)
    cases = [(of(call, given_settings), count) for call, count in step.counted()]
    total = sum(len(several) * count for several, count in cases)
    if not total:
        return
    entries = suites.read(path)
    assert total == sum(int(each.labels["count"]) for each in entries)
    assert {each.labels["phase"] for each in entries} <= {call.phase for call in found}
    apart = {each.labels.get("reuse_bytes") for each in entries}
    known = [reuse for each in distances(found) for reuse in each.values()]
    assert {number for each in apart if each for number in _numbers(each)} <= {0, *(each.distance for each in known)}
    assert apart == {None} or known
    again = [(each.problem.called, each.labels["label"]) for each in entries if isinstance(each.problem, Aten)]
    called = [(call.operator, call.positional, call.named) for call in found]
    assert all(each[:3] in called for each, name in again if name in ("of_another_torch", "add"))
    said = suites.study(path).captured
    assert said is not None
    gone = sum(count for several, count in cases if not several)
    assert (len(found), total) == (said.calls, said.parts)
    assert gone == (sum(each.calls for each in said.left_out) if isinstance(said.left_out, list) else said.left_out)
    assert total == parts(step)


@settings(max_examples=60)
@given(arguments)
def test_arguments_are_what_their_text_says(tree: list[Any]) -> None:
    assert tree == read(written(tree), list)


@settings(max_examples=30)
@given(tensors())
def test_what_lies_in_memory_of_a_tensor_is_alike(tensor: Operand) -> None:
    import numpy as np

    array = tensor.array(np.random.default_rng(0))
    assert (tensor.extent,) == array.shape  # of small ones
    assert array.dtype.itemsize * tensor.extent == tensor.extent_bytes
    if tensor.values == "+":
        assert (array >= 0).all()
    elif tensor.values and array.size:
        low, high, kinds = (int(each) for each in tensor.values[1:].rstrip("<").replace("..", "~").split("~"))
        assert low <= array.min() <= array.max() <= high
        assert len(np.unique(array)) <= kinds
    if tensor.values.endswith("<"):
        assert (np.sort(array) == array).all()


@pytest.mark.parametrize(
    "text",
    ["", "float32", "float99[2]", "float32[2]@1,2", "float32[2]@", "int64[2]=1", "float32[2]=1,2", "bool[2]:x",
     "int64[9]:5..1~3", "float32[99999999,99999999]", "float32[2]@999999999999999", "Float32[2]",
     pytest.param(f"float32[{'9' * 5000}]", id="long"), pytest.param(f"int8[2]:0..{'9' * 5000}~3", id="far"),
     "int8[2]=1,128", "uint8[2]:-1..9~3", "int64[9]:0..99999999999~99999999999"],
)  # fmt: skip
def test_a_text_that_is_no_tensor(text: str) -> None:
    with pytest.raises(InvalidField, match="tensor "):
        operand(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("float32[2]@1,2", "2 strides, and its shape has 1 axes"),
        ("float32[2]@999999999999999", "takes the memory of 1000000000000000 elements, 1099511627776 are the most"),
        ("int64[2]=1", "1 values, and its shape has 2 elements"),
        ("int8[2]=1,128", "int8 holds -128 to 127"),
        ("int64[9]:5..1~3", "5 is more than 1"),
        ("int64[9]:0..9~12", "12 different values, and its shape has 9 elements"),
        ("float32[2]=1,2", "of float32 nothing is said but +: that none is below zero"),
        ("bool[2]+", "of truth values only their share is said, as :0.25"),
    ],
)
def test_what_does_not_suit_a_tensor_is_said(text: str, why: str) -> None:
    with pytest.raises(InvalidField) as caught:
        operand(text)
    assert f"tensor {text!r}: {why}" == str(caught.value)


def test_a_wait_for_a_cpu_that_is_not_known_of_every_lap_is_of_none() -> None:
    """The kernel has counted nothing of a thread yet when that looks for the first time."""
    first, later = (Lap(1e-3, 0.0, queued_s, 0, Counter()) for queued_s in (None, 1e-5))
    assert [] == CapturedStep(laps=[first, later]).queues_s
    assert [1e-5] == CapturedStep(laps=[later]).queues_s


def test_which_primitive_an_operator_is() -> None:
    x, w, column = (operand(text) for text in ("float32[8,3,9,9]", "float32[4,3,3,3]", "float32[4]"))
    forward = Call("aten.convolution.default", [x, w, column, [1, 1], [1, 1], [1, 1], False, [0, 0], 1], {})
    found = cases(forward, Settings(on_gpu=True, tf32_conv=True))
    expected = {"n": 8, "c": 3, "h": 9, "w": 9, "k": 4, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1, "dtype": "float32"}
    assert ["conv", "aten"] == [each.primitive for each in found]
    assert ["conv"] == [each.primitive for each in cases(forward, Settings())]  # oneDNN adds the bias as it writes
    assert expected | {"math_mode": "tf32", "direction": "forward", "algo": "heuristic"} == found[0].fields
    tried = Settings(on_gpu=True, cudnn_benchmark=True)
    assert expected | {"direction": "forward"} == cases(forward, tried)[0].fields
    volume = Call("aten.convolution.default", [operand("float32[2,3,4,5,6]"), operand("float32[4,3,1,1,1]"), None], {})
    assert [None, True] == [cases(volume, each)[0].fields.get("cudnn_benchmark") for each in (Settings(), tried)]
    assert ["float32[8,4,9,9]", "float32[1,4,1,1]"] == json.loads(found[1].fields["arguments"])
    turned = Call("aten.mm.default", [operand("bfloat16[8,4]@1,8"), operand("bfloat16[4,16]")], {})
    assert {"m": 8, "n": 16, "k": 4, "dtype": "bfloat16", "trans_a": True} == cases(turned, Settings())[0].fields
    moved = Call("aten.copy_.default", [operand("float32[64]"), operand("cpu:float32[64]"), True], {})
    copied = OperatorCase("memcpy", {"bytes": 256, "direction": "h2d", "memory": "pinned"})
    assert [copied] == cases(moved, Settings(on_gpu=True))
    image = operand("float32[2,3,4,5]")
    for order, primitive in (("preserve_format", "memcpy"), ("channels_last", "aten")):
        clone = Call("aten.clone.default", [image], {"memory_format": {"memory_format": order}})
        assert [primitive] == [each.primitive for each in cases(clone, Settings())]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gemm = [{ m = 1, n = 1, k = 1, count = 0 }]", "count is not a whole number of at least 1"),
        ("gemm = [{ m = 1, n = 1, k = 1, count = '2' }]", "count is not a whole number of at least 1"),
        ("gemm = [{ m = 1, n = 1, k = 1, reuse_bytes = -1 }]", "reuse_bytes is not a whole number of at least 0, or a"),
        ("gemm = [{ m = 1, n = 1, k = 1, reuse_bytes = [1, -1] }]", "reuse_bytes is not a whole number of at least 0"),
        ("gemm = [{ m = 1, n = 1, k = 1, reuse_bytes = [] }]", "reuse_bytes is not a whole number of at least 0"),
        ("gemm = [{ m = 1, n = 1, k = 1, count = [1] }]", "count is not a whole number of at least 1$"),
        ("captured = { step = 'x', times_s = [0.0] }\ngemm = [{ m = 1, n = 1, k = 1 }]", "finite numbers above 0"),
        ("captured = { step = 'x', between_s = [1.0] }\ngemm = [{ m = 1, n = 1, k = 1 }]", "one for each of inside_s"),
        ("captured = { steps = 'x' }\ngemm = [{ m = 1, n = 1, k = 1 }]", "unknown field `steps`"),
    ],
)
def test_what_no_suite_can_say_of_a_step(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(FileError, match=said):
        suites.read(tmp_path / "own.toml")


RULES = [
    ("_log_softmax", ["float32[4,8]", 1, False], "softmax", {"rows": 4, "classes": 8, "kind": "log_softmax"}),
    ("_softmax_backward_data", ["float32[2,4,8]", "float32[2,4,8]+", -1, {"dtype": "float32"}],
     "softmax", {"rows": 8, "kind": "softmax", "direction": "backward"}),
    ("embedding", ["float32[1000,64]", "int64[8,64]:0..999~400"], "embedding", {"tokens": 512}),
    ("embedding", ["float32[1000,64]", "int64[512]:0..999~400<"], "aten", {}),
    ("embedding_dense_backward", ["float32[8,64,64]", "int64[8,64]:0..9~9", 1000, -1, False], "aten", {}),
    ("max_pool2d_with_indices", ["float32[4,8,6,6]", [3, 3], [2, 2], [1, 1]], "pool", {"r": 3, "pad_h": 1}),
    ("avg_pool2d_backward", ["float32[4,8,3,3]", "float32[4,8,6,6]", [2, 2], [2, 2], [0, 0], False, True, None],
     "pool", {"kind": "average", "direction": "backward", "h": 6}),
    ("_scaled_dot_product_flash_attention",
     ["bfloat16[2,8,64,32]@16384,32,256,1", *["bfloat16[2,2,64,32]"] * 2, 0.0, True],
     "attention", {"heads": 8, "kv_heads": 2, "causal": True, "algo": "flash"}),
    ("_reduce_scatter_base_", ["float32[64]", "float32[256]"],
     "collective", {"bytes": 1024, "operation": "reduce_scatter"}),
    ("bmm", ["float32[12,8,4]", "float32[12,4,9]@36,1,4"], "batched_gemm", {"batch": 12, "m": 8, "trans_b": True}),
    ("relu", ["bfloat16[4,8,2,2]@32,1,16,8"], "elementwise", {"elements": 128, "op": "relu", "dtype": "bfloat16"}),
    ("relu", ["float32[4,8]@16,1"], "aten", {"operator": "aten.relu.default"}),
    ("addmm", ["float16[9]", "float16[8,4]", "float16[4,9]@1,4"], "gemm", {"n": 9, "trans_b": True, "bias": True}),
    ("mm", ["float16[8,4]", "float16[4,9]"], "gemm", {"k": 4, "bias": None}),
    ("addmm", ["float16[1]", "float16[8,4]", "float16[4,9]"], "aten", {"operator": "aten.addmm.default"}),
    ("addmm", ["float16[8,9]", "float16[8,4]", "float16[4,9]"], "aten", {}),
    ("addmm", ["float16[9]", "float16[8,4]", "float16[4,9]", 2], "aten", {}),
    # On the host of a step on a GPU: no case of the GPU.
    ("mm", ["cpu:float32[8,4]", "cpu:float32[4,16]"], "aten", {"operator": "aten.mm.default"}),
    ("embedding", ["cpu:float32[1000,64]", "cpu:int64[8,64]:0..999~400"], "aten", {}),
    ("threshold_backward", ["float32[8]", "float32[8]+", 0], "elementwise", {"op": "relu", "direction": "backward"}),
    ("gelu_backward", ["float32[8]", "float32[8]"], "elementwise", {"op": "gelu", "direction": "backward"}),
    ("add", ["float32[8]", "float32[8]"], "elementwise", {"op": "add", "elements": 8}),
    ("add", ["float32[8,8]", "float32[8]"], "aten", {}),
    ("native_layer_norm", ["float32[2,3,8]", [8], "float32[8]", "float32[8]", 1e-5], "norm", {"rows": 6}),
    ("_fused_rms_norm_backward",
     ["bfloat16[6,8]", "bfloat16[6,8]", [8], "float32[6,1]+", "bfloat16[8]", [True, True]],
     "norm", {"kind": "rms", "direction": "backward", "dtype": "bfloat16"}),
    ("cudnn_batch_norm", ["bfloat16[4,8,5,6]@240,1,48,8", *["float32[8]"] * 4, True, 0.1, 1e-5],
     "norm", {"rows": 4, "features": 8, "h": 5, "w": 6, "kind": "batch", "layout": "nhwc"}),
    ("native_batch_norm_backward", [*["float32[4,8,5,6]"] * 2, *["float32[8]"] * 5, True, 1e-5, [True] * 3],
     "norm", {"kind": "batch", "direction": "backward"}),
    ("_cudnn_rnn",
     ["float16[35,20,64]", [], 4, None, "float16[2,20,64]", "float16[2,20,64]", 2, 64, 0, 2, False, 0.0, True, False,
      [], None],
     "rnn", {"seq_len": 35, "batch_size": 20, "layers": 2, "cell": "lstm", "direction": "forward_training"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given_arguments", "primitive", "fields"), RULES)
def test_rules(name: str, given_arguments: list[Any], primitive: str, fields: dict[str, Any]) -> None:
    call = Call(f"aten.{name}.default", read(json.dumps(given_arguments), list), {})
    (part,) = cases(call, Settings(on_gpu=True, ranks=4))
    assert (primitive, fields) == (part.primitive, {key: part.fields.get(key) for key in fields})
    own = [] if primitive == "aten" else build(primitive, part.fields).inputs(np.random.default_rng(0))
    if own and part.inputs:
        assert [each.size for each in own] == [each.elements for each in part.inputs]


def test_a_suite_that_does_not_fit_on_the_disk_leaves_no_file(tmp_path: Path) -> None:
    step, path = CapturedStep("a step", []), tmp_path / "step.toml"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OutputError, match="File too large"):
            step.write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not path.exists()
