"""What torch does in a block, or in a step of a model, and that its parts compute what they did there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import primbench
import primbench.suites as suites
from primbench import Method
from primbench.backends import missing
from primbench.decompose.as_cases import cases
from primbench.decompose.written import left_out
from primbench.kernels.aten import Aten
from primbench.kernels.model import Model
from primbench.problem.operands import Operand
from primbench.registry import build

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]

REASONS = (
    "a view or an allocation computes nothing", "it draws random numbers", "it gives no numbers that could be compared",
)  # fmt: skip


def test_every_part_of_a_models_step_is_right_by_itself(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    import torch

    from primbench.decompose.model import captured

    threads = torch.get_num_threads()
    request.addfinalizer(lambda: torch.set_num_threads(threads))
    torch.set_num_threads(1)  # parts are so small that threads would wait for each other
    step, path = captured(build("model", {"network": "fathom_memnet", "batch_size": 2}), "cpu"), tmp_path / "step.toml"
    step.write(path)
    (whole,) = suites.read(path, set="whole")
    assert Model("fathom_memnet", batch_size=2) == whole.problem
    parts = suites.read(path, set="parts")
    assert {"forward", "backward", "optimizer"} == {part.labels["phase"] for part in parts}
    assert {"gemm", "embedding", "softmax", "elementwise", "aten"} <= {part.problem.primitive for part in parts}
    unchecked = Counter[str]()
    for part in parts[::6]:
        found = primbench.measure(part.problem, "torch", "cpu", method=Method(dry_run=True))
        unchecked[found.missing.get("verified", "checked")] += 1
        assert found.verified or isinstance(part.problem, Aten)
    assert {"checked", *REASONS} >= set(unchecked)
    assert unchecked["checked"] > len(parts) / 12


def test_what_another_backend_has_compiled_is_seen_as_its_operators_and_cuda_graphs_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    replayed = list[None]()
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", replayed.append)
    compiled = torch.compile(lambda x: torch.relu(x @ x) + 1, backend="eager", fullgraph=True)
    x = torch.ones(8, 8)
    compiled(x)
    with primbench.capture() as step:
        compiled(x)
        with torch.inference_mode():
            torch.nn.functional.linear(x.t(), x)
        torch.cuda.CUDAGraph.replay(None)
    torch.cuda.CUDAGraph.replay(None)
    assert ["mm", "relu", "add", "t", "t", "mm"] == [call.name for call in step.calls]
    step.write(tmp_path / "step.toml")
    said = suites.study(tmp_path / "step.toml").captured
    assert said is not None
    assert step.compiled == said.compiled == 0  # these are what ran
    assert (1, 2) == (said.cuda_graphs, len(replayed))
    with pytest.raises(primbench.OutputError, match="File exists"):
        step.write(tmp_path / "step.toml")


def test_where_groups_begin_views_in_place_and_masks_are_called_again_alike() -> None:
    """Offsets begin at 0 and go up; a view in place would find a tensor without the axis at its second call; a mask
    selects as many rows as there are new ones.
    """
    import torch

    table, rows, offsets = torch.rand(9, 4), torch.arange(600) % 9, torch.arange(200) * 3
    with primbench.capture() as step:
        torch.nn.functional.embedding_bag(rows, table, offsets)
        table[:1].squeeze_(0)
        table[:].transpose_(0, 1)
        table[torch.arange(9) % 3 == 0] = table[:3].clone()
    calls = {call.name: call for call in step.calls}
    assert ":0..597~200<" == calls["_embedding_bag_forward_only"].tensor(2).values
    for name in ("_embedding_bag_forward_only", "squeeze", "transpose", "index_put_"):
        (case,) = cases(calls[name], step.settings)
        found = primbench.measure(build(case.primitive, case.fields), "torch", "cpu", method=Method(dry_run=True))
        assert found.verified or case.fields.get("host_only"), found.missing


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_whole_numbers_strides_and_repeated_tensors_are_kept() -> None:
    import torch

    table, few, many = torch.rand(1000, 4), torch.tensor([3, 1, 3]), torch.arange(256) % 7
    nested = torch.nested.as_nested_tensor([table[:2], table[:3]])
    with primbench.capture() as step:
        torch.embedding(table, few)
        torch.embedding(table, many)
        torch.mul(table.t(), table.t())
        torch.sparse.mm(table[:3, :3].to_sparse(), table[:3])
        torch.nn.functional.linear(nested, table)
        torch.randperm(9, generator=torch.Generator())
    calls = [call for call in step.calls if not call.host_only]
    assert "=3,1,3" == calls[0].tensor(1).values
    assert ":0..6~7" == calls[1].tensor(1).values
    assert Operand("float32", (4, 1000), (1, 4), "+") == calls[2].tensor(0)
    assert any("object" in str(call.positional) for call in calls[3:])  # no sparse matrix can be made alike
    assert any("nested" in str(call.positional) for call in calls[3:])
    assert "object" not in str(calls[-1])
    assert step.counted()


def test_an_operator_with_a_kernel_of_its_own_stays_whole() -> None:
    """Torch could make it of others, too, as it does where a device has none."""
    import torch

    x, images = torch.randn(4, 8, requires_grad=True), torch.randn(1, 3, 8, 8)
    with primbench.capture() as step:
        torch.nn.functional.silu(x).sum().backward()
        with torch.inference_mode():
            torch.nn.functional.linear(x, x)  # has none, and is a product
            torch.nn.functional.interpolate(images, scale_factor=2.0, mode="bilinear")  # that Python could make of 36
        x.sgn().sum().backward()  # whose gradient has no memory
        torch.empty(0).resize_(8)
        torch.empty(0).set_(images)
    names = [call.name for call in step.calls if not call.host_only]
    assert not {"resize", "resize_", "set", "set_"} & {*names}  # which compute nothing
    assert {"silu_backward", "upsample_bilinear2d"} <= {*names}
    assert not {"sigmoid", "_unsafe_index", "gather"} & {*names}
    assert ["mm"] == [name for name in names if name in ("linear", "matmul", "mm")]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_what_no_other_process_can_call_is_kept_with_what_it_took(tmp_path: Path) -> None:
    """A matrix of few numbers, and an operator that is given functions, whose own operators are a part of it."""
    import torch

    matrix, x = torch.eye(64).to_sparse_csr(), torch.rand(64, 64)
    with torch.no_grad(), primbench.capture() as step:
        torch.mm(matrix, x)
        torch.cond(x.sum() > 0, lambda one: one @ one @ one, lambda one: one, (x,))
    gone = {each.name: each for each in left_out(step)}
    assert {"mm", "cond"} == set(gone)
    assert ("an argument is a torch.sparse_csr tensor of float32 on cpu", 1) == (gone["mm"].reason, gone["mm"].calls)
    assert all(each.seconds and each.seconds > 0 for each in gone.values())
    step.write(tmp_path / "step.toml")
    assert "mm" not in {each.labels["label"] for each in suites.read(tmp_path / "step.toml")}
    said = suites.study(tmp_path / "step.toml").captured
    assert said is not None
    assert said.left_out == [*gone.values()]
