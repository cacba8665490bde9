"""Packages stand in an order, and import only from those before them; heavy modules are imported inside functions only.

Read from the source, imports inside functions and for type checking included.
"""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"primbench": ROOT / "primbench", "primbench.kernels": ROOT / "kernels", "primbench.suites": ROOT / "suites"}

# A module imports from its own package, from packages on lines above, and from the modules that stand in none.
ORDER = """
measurement
problem
registry
system
gpu
spec
numa
cuda distributed
backends runtimes
environment
timing results datasets
kernels suites workers
doctor
compare
causes
experiments baselines
report
watching fleet decompose doses traces history
cli pytesting
"""
LINE = {package: number for number, line in enumerate(ORDER.splitlines()) for package in line.split()}
HEAVY = {
    "cupti", "cupy", "llvmlite", "ml_dtypes", "numba", "numpy", "pandas", "PIL", "pynvml", "rich", "scipy",
    "tabulate", "torch",
}  # fmt: skip


def modules() -> dict[str, Path]:
    """Dotted name -> file."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [*package.split("."), *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
OUTER = {"primbench", "primbench.__main__"}  # what users import, each name from its module, and what a shell starts


@functools.cache
def parsed(name: str) -> ast.Module:
    """Only once a test asks for it: every process that collects tests imports this file."""
    return ast.parse(MODULES[name].read_bytes())


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every imported name in full, and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@functools.cache
def imported_modules(name: str) -> set[str]:
    """The modules that a module imports, or imports something from."""
    found = {each if each in MODULES else each.rpartition(".")[0] for each, _ in imports(parsed(name))}
    return found & set(MODULES) - OUTER


def package_of(name: str) -> str:
    second = f"{name}.".split(".")[1]
    return second if second in LINE else ""


def may_import(importer: str, imported: str) -> bool:
    importer, imported = package_of(importer), package_of(imported)
    return importer == imported or LINE.get(imported, -1) < LINE.get(importer, -1)


def test_rules_allow_and_forbid() -> None:
    assert may_import("primbench.timing.case", "primbench.problem")
    assert may_import("primbench.kernels.gemm", "primbench.timing.verify")
    assert not may_import("primbench.problem.definition", "primbench.timing.case")
    assert not may_import("primbench.doctor.against", "primbench.compare.sides")
    assert not may_import("primbench.results.file", "primbench.timing.case")


def test_packages_are_few_and_all_in_the_order() -> None:
    inside = {name.split(".")[1] for name in MODULES if name.count(".") > 1}
    assert set(LINE) == inside
    assert 9 >= len([name for name in MODULES if name.count(".") <= 1 and not package_of(name)])


def test_imports_point_to_packages_before() -> None:
    wrong = {
        name: found
        for name in sorted(set(MODULES) - OUTER)
        if (found := sorted(each for each in imported_modules(name) if not may_import(name, each)))
    }
    assert {} == wrong


def test_no_modules_import_each_other() -> None:
    graphlib.TopologicalSorter({name: imported_modules(name) - {name} for name in MODULES}).prepare()


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
PRIVATE_KERNELS = {name for name in MODULES if package_of(name) == "kernels" and "._" in name}
# Nothing of a model's file is needed before it is measured: what there is, primbench.registry.networks reads as text.
MODELS = {name for name in MODULES if name.startswith("primbench.suites.models.")}


def test_heavy_modules_are_imported_inside_functions() -> None:
    wrong = [
        f"{name}, line {line}: {imported}"
        for name in sorted(set(MODULES) - PRIVATE_KERNELS - MODELS)
        for statement in at_import(parsed(name))
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for imported, line in imports(statement)
        if imported.split(".")[0] in HEAVY
    ]
    assert [] == wrong


SCALES = {10**power for power in (3, 6, 9, 12, 15)} | {1024**power for power in (1, 2, 3, 4)}
HOST_CLOCK_TICKS_PER_S = 10**9
# These exchange numbers with a kernel, a driver or a library in units of its own.
EXCHANGERS = {"backends", "cuda", "environment", "distributed", "gpu", "numa", "system", "timing", "watching"}


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
            if isinstance(node.op, ast.Mult):
                return left * right
            return float(left**right) if isinstance(node.op, ast.Pow) else left * 2**right
    return None


def test_scalings_are_found() -> None:
    for text in ("t / 1e6", "n // 2**20", "(1 << 10) * n", "1024 * n"):
        assert 1 == len(list(scalings(ast.parse(text)))), text
    assert [] == list(scalings(ast.parse("[64 * 2**20, ns / 1e9, 2 * n, 1000]")))


def test_only_units_scales_values_for_people() -> None:
    people = [name for name in MODULES if package_of(name) not in EXCHANGERS and name != "primbench.units"]
    assert [] == [f"{name}, {found}" for name in people for found in scalings(parsed(name))]


# Who writes files of its own, and not such as a user names: a folder that it alone may enter, or what belongs to Linux.
WRITES = {
    "primbench.system.outputs": "the writer of all that a user names",
    "primbench.results.writer": "beside a results file that was taken away, by a name of tempfile's",
    "primbench.fleet.shared_turns": "a new file alone",
    "primbench.decompose.child": "in a launch's folder",
    "primbench.datasets": "in a folder that it is given",
    "primbench.timing.files": "a folder that it makes",
    "primbench.kernels.files": "in such a folder",
    "primbench.kernels.weights": "in such a folder",
    "primbench.runtimes": "in a launch's folder, and control groups",
    "primbench.spec.settings": "a file of /proc",
    "primbench.timing.peaks": "a file of /proc",
    "primbench.system.streams": "/dev/null",
    "primbench.workers.supervisor": "/dev/null",
    "primbench.cli.measuring": "/dev/null",
}
WRITERS = {"write_text", "write_bytes"}
MOVERS = {"os.replace", "os.rename", "shutil.move", "shutil.copy", "shutil.copyfile"}


def writes(call: ast.Call) -> bool:
    words = ast.unparse(call.func)
    modes = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if words == "open" or words.endswith(".open"):
        return any(set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)
    if words == "formatter.write_text":  # click's, of help
        return False
    return words in MOVERS or words.rpartition(".")[2] in WRITERS


def test_what_a_user_names_is_written_by_one_writer() -> None:
    found = {
        f"{name}:{node.lineno}"
        for name in MODULES
        if not any(name == each or name.startswith(f"{each}.") for each in WRITES)
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Call) and writes(node)
    }
    assert set() == found
