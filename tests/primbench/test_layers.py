"""Each module imports only from its own layer and those before it, and heavy modules only inside functions.

Read from the source, imports inside functions and for type checking included.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"primbench": ROOT / "primbench", "primbench.kernels": ROOT / "kernels", "primbench.suites": ROOT / "suites"}

LAYERS = [
    "errors units dtypes pins confidential",
    "streams sysfiles jsonlines locks quantities",
    "cgroups cores cpusets pci refusedcalls",
    "problem measurement mempolicy stats random hostmemory launcher runtime seal",
    "nvml nvml_state cpuspeed",
    "topology gpulinks",
    "placement placenodes arms conditions environment hostbuffer hostpages",
    "cuda backends verify sampling channel group",
    "affordable timedpages inputsets timing collective",
    "disturbances record summary protocol",
    "children runtimes",
    "meeting ranks followers worker workerprocess rank session",
    "running",
    "affinity doctor study compare images wheel ablation",
    "report",
    "cli",
    "__main__",
]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names.split()}
# kernels/ and suites/ stand beside the layers.
ALLOWED = {
    "kernels": {
        "errors", "units", "dtypes", "problem", "measurement", "random", "hostbuffer", "group", "cuda", "backends",
        "seal", "verify", "kernels",
    },
    "suites": {"errors", "units", "problem", "suites"},
}  # fmt: skip
FACADE = "__init__"  # the package itself: the public names, imported when used, and __version__
HEAVY = {
    "cupti", "cupy", "llvmlite", "ml_dtypes", "numba", "numpy", "pandas", "pynvml", "rich", "scipy",
    "tabulate", "torch",
}  # fmt: skip


def modules() -> dict[str, Path]:
    """Dotted name -> file, without ``primbench.`` in front; the package itself is ``__init__``."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [*package.split("."), *path.relative_to(folder).with_suffix("").parts][1:]
            found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


MODULES = {name: ast.parse(path.read_bytes()) for name, path in modules().items()}


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every imported name in full, and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def part_of(imported: str) -> str | None:
    """The first part below ``primbench`` that an import reaches; None for other packages."""
    package, _, rest = imported.partition(".")
    if package != "primbench":
        return None
    first = rest.split(".")[0]
    return first if first in {name.split(".")[0] for name in MODULES} else FACADE


def may_import(importer: str, imported: str) -> bool:
    if FACADE in (importer, imported):
        return True
    if importer in ALLOWED:
        return imported in ALLOWED[importer]
    if imported == "suites":
        return importer in ("report", "cli")
    return imported in LAYER and LAYER[imported] <= LAYER[importer]


def test_rules_allow_and_forbid() -> None:
    assert may_import("timing", "problem")
    assert may_import("record", "summary")
    assert not may_import("problem", "timing")
    assert not may_import("kernels", "timing")
    assert not may_import("running", "suites")


def test_every_module_has_a_layer() -> None:
    assert set() == {name.split(".")[0] for name in MODULES} - {*LAYER, *ALLOWED, FACADE}


def test_imports_point_to_earlier_layers() -> None:
    wrong = [
        f"{name}, line {line}: {imported}"
        for name, tree in MODULES.items()
        for imported, line in imports(tree)
        if (part := part_of(imported)) and not may_import(name.split(".")[0], part)
    ]
    assert [] == wrong


def at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported; those for type checking do not."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            waiting += statement.orelse
            continue
        yield statement
        waiting += [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)]


# Files that belong to one kernel are imported where it is set up, by then with its framework.
PRIVATE_KERNELS = {name for name in MODULES if name.startswith("kernels._")}


def test_heavy_modules_are_imported_inside_functions() -> None:
    wrong = [
        f"{name}, line {line}: {imported}"
        for name in sorted(set(MODULES) - PRIVATE_KERNELS)
        for statement in at_import(MODULES[name])
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for imported, line in imports(statement)
        if imported.split(".")[0] in HEAVY
    ]
    assert [] == wrong


SCALES = {10**power for power in (3, 6, 9, 12, 15)} | {1024**power for power in (1, 2, 3, 4)}
HOST_CLOCK_TICKS_PER_S = 10**9
# These exchange numbers with a kernel, a driver or a library in units of its own.
EXCHANGERS = {
    "backends",
    "cgroups",
    "conditions",
    "cores",
    "cuda",
    "environment",
    "hostmemory",
    "nvml",
    "nvml_state",
    "ranks",
    "sysfiles jsonlines",
    "topology",
}


def scalings(tree: ast.AST) -> Iterator[str]:
    """Operations that make a value a multiple of a unit: ``x / 1e6``, ``x * 1024``, ``x // 2**20``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv):
            factors = {literal(node.left), literal(node.right)}
            if factors & SCALES - {HOST_CLOCK_TICKS_PER_S} and None in factors:
                yield f"line {node.lineno}: {ast.unparse(node)}"


def literal(node: ast.expr) -> float | None:
    """The value of a number as people write it: ``1e6``, ``2**20``, ``64 * 2**20``, ``1 << 20``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Pow | ast.LShift):
        left, right = literal(node.left), literal(node.right)
        if left is not None and right is not None:
            return {ast.Mult: left * right, ast.Pow: float(left**right), ast.LShift: left * 2**right}[type(node.op)]
    return None


def test_scalings_are_found() -> None:
    for text in ("t / 1e6", "n // 2**20", "(1 << 10) * n", "1024 * n"):
        assert 1 == len(list(scalings(ast.parse(text)))), text
    assert [] == list(scalings(ast.parse("[64 * 2**20, ns / 1e9, 2 * n, 1000]")))


def test_only_units_scales_values_for_people() -> None:
    people = [name for name in MODULES if name.split(".")[0] not in EXCHANGERS | {"units"}]
    assert [] == [f"{name}, {found}" for name in people for found in scalings(MODULES[name])]
