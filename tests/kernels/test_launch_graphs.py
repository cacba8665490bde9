"""Graphs that are changed, branch or loop, against a stand-in of the driver in C that runs them on the host: no GPU is
here.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from primbench.cuda import kernels
from primbench.errors import InvalidRequest, UnsupportedCase
from primbench.gpu.nvidia import driver
from primbench.kernels.launch._graphs import ConditionalNode, KernelNode, UpdateResult, graph_step
from primbench.kernels.launch.problem import GRAPHS, Launch
from primbench.problem import description_of

CHANGING = [each for each in GRAPHS if each != "replay"]

DRIVER = """
#include <stdlib.h>
#include <string.h>
enum { LAST_WORD = 1, EACH_PASS = 2, WORDS = 6 };
struct kernel { void *f; unsigned grid[3], block[3], shared; void **parameters, **extra; void *kernel, *context; };
struct conditional
{ int type, zero[3]; unsigned long long id; int kind; unsigned count; struct graph **bodies; void *c; };
struct node { long f; int words[WORDS]; int kind; struct graph *body; struct node *behind; };
struct graph { int count; struct node *nodes[8]; };
static int changes, passes, more, alive;
int changed(void) { return changes; }
int left(void) { return alive; }
int cuGetErrorName(int status, const char **name) { *name = "CUDA_ERROR"; return 0; }
int cuCtxGetCurrent(void **context) { *context = &changes; return 0; }
int cuModuleLoadData(void **module, const void *code) { *module = &passes; return 0; }
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(void **f, void *module, const char *name) { *f = (void *)LAST_WORD; return 0; }
int cuGraphCreate(struct graph **graph, unsigned flags) { alive++; *graph = calloc(1, sizeof **graph); return 0; }
int cuGraphDestroy(struct graph *graph) { alive--; return 0; }
int cuGraphUpload(void *instance, void *stream) { return 0; }
static void fill(struct node *node, struct kernel *given)
{ node->f = (long)given->f; memcpy(node->words, given->parameters[0], sizeof node->words); }
static struct node *add(struct graph *graph, struct node **before, size_t count)
{
    struct node *node = calloc(1, sizeof *node);
    node->behind = count ? before[0] : 0;
    graph->nodes[graph->count++] = node;
    return node;
}
int cuGraphAddKernelNode_v2(struct node **n, struct graph *g, struct node **before, size_t count, struct kernel *given)
{
    if (given->grid[0] != 1 || given->block[2] != 1 || given->shared || given->extra) return 1;
    fill(*n = add(g, before, count), given);
    return 0;
}
int cuGraphConditionalHandleCreate(unsigned long long *id, struct graph *g, void *context, unsigned first, unsigned f)
{ *id = 0x123456789; return context != &changes || first != 1 || f != 1; }
int cuGraphAddNode_v2(
    struct node **n, struct graph *g, struct node **before, void *data, size_t count, struct conditional *given)
{
    if (given->type != 13 || given->id != 0x123456789 || given->count != 1 || given->c != &changes || data) return 1;
    *n = add(g, before, count);
    (*n)->kind = given->kind;
    given->bodies = &(*n)->body;
    (*n)->body = calloc(1, sizeof(struct graph));
    return 0;
}
int cuGraphInstantiateWithFlags(struct graph **instance, struct graph *graph, unsigned long long flags)
{
    alive++;
    *instance = calloc(1, sizeof **instance);
    for (int i = 0; i < graph->count; i++) {
        if (graph->nodes[i]->behind != (i ? graph->nodes[i - 1] : 0)) return 1;
        (*instance)->nodes[i] = memcpy(malloc(sizeof(struct node)), graph->nodes[i], sizeof(struct node));
        (*instance)->nodes[i]->behind = graph->nodes[i];
    }
    (*instance)->count = graph->count;
    return 0;
}
int cuGraphExecDestroy(struct graph *instance) { alive--; return 0; }
static void change(struct node *node, const int *words)
{ changes += 0 != memcmp(node->words, words, sizeof node->words); memcpy(node->words, words, sizeof node->words); }
int cuGraphExecKernelNodeSetParams_v2(struct graph *instance, struct node *node, struct kernel *given)
{
    for (int i = 0; i < instance->count; i++)
        if (instance->nodes[i]->behind == node) return change(instance->nodes[i], given->parameters[0]), 0;
    return 1;
}
int cuGraphExecUpdate_v2(struct graph *instance, struct graph *graph, void *result)
{
    for (int i = 0; i < graph->count; i++) change(instance->nodes[i], graph->nodes[i]->words);
    return 0;
}
static void run(struct node *node)
{
    int *output;
    memcpy(&output, node->words, sizeof output);
    if (node->body) {
        do { more = 1; run(node->body->nodes[0]); } while (node->kind == 1 && more);
    } else if (node->f == LAST_WORD) {
        *output = node->words[WORDS - 1];
    } else {
        unsigned long long id;
        memcpy(&id, node->words + 2, sizeof id);
        output[passes] = passes + 1;
        more = id == 0x123456789 && ++passes < node->words[WORDS - 1];
        if (!more) passes = 0;
    }
}
int cuGraphLaunch(struct graph *instance, void *stream)
{ for (int i = 0; i < instance->count; i++) run(instance->nodes[i]); return stream != (void *)0x51; }
"""


class HostArray(np.ndarray[Any, Any]):
    @property
    def __cuda_array_interface__(self) -> Any:
        return self.__array_interface__


BACKEND = SimpleNamespace(stream_handle=0x51, empty=lambda shape, dtype: np.full(shape, -7, dtype).view(HostArray))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "driver.so", folder / "driver.c"], check=True)
    return ctypes.CDLL(str(folder / "driver.so"))


@pytest.fixture
def stand_in(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(driver, "_library", lambda: library)
    monkeypatch.setattr(kernels, "module", lambda source, options: SimpleNamespace(function=lambda name: 2))
    return library


@pytest.mark.parametrize("graph", CHANGING)
def test_a_graph_does_what_its_nodes_are_told_at_each_launch(graph: str, stand_in: Any) -> None:
    problem, before, left = (
        Launch("ctypes", graph=graph, nodes=3, parameter_bytes=24),
        stand_in.changed(),
        stand_in.left(),
    )
    step: Any = graph_step(BACKEND, problem)
    expected = problem.reference(np.random.default_rng(0)).expected
    for _ in range(4):
        output = step()
        assert [*expected] == [*output]
        output.fill(-7)
    # Of graphs that are changed every node is, at every launch.
    assert (12 if graph in ("set_parameters", "update") else 0) == stand_in.changed() - before
    assert description_of(step).stream_only
    del step, output
    assert left == stand_in.left()


def test_a_driver_that_refuses_a_launch_is_told_of(stand_in: Any) -> None:
    elsewhere = SimpleNamespace(**{**vars(BACKEND), "stream_handle": 0x52})
    with pytest.raises(driver.CudaError, match="cuGraphLaunch: CUDA_ERROR"):
        graph_step(elsewhere, Launch("ctypes", graph="while", nodes=2, parameter_bytes=24))()


def test_an_old_driver_has_no_conditional_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_library", lambda: SimpleNamespace())
    with pytest.raises(UnsupportedCase, match=r"needs a driver of CUDA 12.4.*ask for graph=replay"):
        graph_step(BACKEND, Launch("ctypes", graph="if", nodes=1, parameter_bytes=16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": "if"}, "graph='if' with call='dispatch': ask for call='ctypes'"),
        ({"graph": "if", "call": "ctypes"}, "with nodes=0: at least one kernel"),
        ({"graph": "update", "call": "ctypes", "nodes": 1}, "with parameter_bytes=0: at least 16"),
        ({"graph": "while", "call": "ctypes", "nodes": 1, "parameter_bytes": 16}, "parameter_bytes=16: at least 24"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Launch(**options)


def test_structures_lie_as_in_the_header(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    header = Path("/usr/local/cuda/include/cuda.h")
    if compiler is None or not header.exists():
        pytest.skip("needs a C compiler and CUDA's cuda.h")
    asked = {
        "sizeof(CUDA_KERNEL_NODE_PARAMS_v2)": ctypes.sizeof(KernelNode),
        "offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kernelParams)": KernelNode.parameters.offset,
        "sizeof(CUgraphNodeParams)": ctypes.sizeof(ConditionalNode),
        "offsetof(CUgraphNodeParams, conditional.handle)": ConditionalNode.condition.offset,
        "offsetof(CUgraphNodeParams, conditional.size)": ConditionalNode.count.offset,
        "offsetof(CUgraphNodeParams, conditional.phGraph_out)": ConditionalNode.bodies.offset,
        "offsetof(CUgraphNodeParams, conditional.ctx)": ConditionalNode.context.offset,
        "sizeof(CUgraphExecUpdateResultInfo)": ctypes.sizeof(UpdateResult),
    }
    held = "\n".join(f'_Static_assert({what} == {value}, "{what}");' for what, value in asked.items())
    source = tmp_path / "layout.c"
    source.write_text(f"#include <stddef.h>\n#include <cuda.h>\n{held}\n")
    subprocess.run([compiler, "-fsyntax-only", f"-I{header.parent}", source], check=True)
