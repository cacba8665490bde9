"""What primbench says of recorded places, with other words: python rewording.py FOLDER usual|other.

Every sentence that its code writes has its letters changed at random when a module is loaded, wherever it stands: two
places of the source that write the same words no longer do. Left are names that are declared as such (Literal), regular
expressions, which are to read the words of other programs, and what QUOTED lists.

FOLDER/asked.json names commands; FOLDER-other.json is what each gave: exit status, stdout, stderr, and by itself each
file that it wrote into FOLDER/out.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import functools
import importlib.abc
import importlib.util
import io
import json
import random
import re
import shutil
import string
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

# Linux: Documentation/userspace-api/spec_ctrl.rst, as /proc/PID/status has it.
_OF_LINUX = {"thread force mitigated", "thread mitigated", "conditional force disabled", "conditional disabled"}
_OF_NVML = {  # nvmlClocksEventReasonGpuIdle and so on, nvmlGpuFabricState_t
    *("gpu idle", "sw power cap", "applications clocks setting", "user defined clocks", "display clock setting"),
    *("not started", "in progress"),
}
# Values of facts: files have them so.
_OF_FACTS = {
    "optimization untold",  # of an interpreter's build
    "not found",
    "RoCE v2",
    "working folder",
    "shared memory",
    "temporary files",
    "files of ",
    " on ",
    " on /",
}
_OF_ARMS = {  # names that studies give them: files have them so
    *(" (again)", "namespaces and control group", "control group", "fewer capabilities", "ipc and small shm"),
    *("overlay root", "no new privileges", "CPU quota", "CPUs of another node"),
}
QUOTED = frozenset(_OF_LINUX | _OF_NVML | _OF_FACTS | _OF_ARMS)
_WORD = re.compile(r"%[-0-9.]*[a-z]|\{[^{}]*\}|\bE[A-Z]{2,}\b|[A-Za-z]+")


@functools.cache
def reworded(words: str, seed: str) -> str:
    """With other letters, as many; what a format fills in and names of errno stay."""
    dice = random.Random(seed)

    def other(found: re.Match[str]) -> str:
        is_kept = found[0][0] in "%{" or found[0] in errno.errorcode.values()
        return found[0] if is_kept else "".join(dice.choices(string.ascii_letters, k=len(found[0])))

    return _WORD.sub(other, words)


def retold(document: Any, seed: str) -> Any:
    """A recorded document with other reasons for what is missing: another process wrote them."""
    if isinstance(document, list):
        return [retold(each, seed) if isinstance(each, list | dict) else each for each in document]
    if not isinstance(document, dict):
        return document
    found = {key: retold(value, seed) for key, value in document.items()}
    if isinstance(missing := found.get("missing"), dict):
        found["missing"] = {
            field: reworded(why, f"{seed} {why}") if isinstance(why, str) else why for field, why in missing.items()
        }
    return found


def retell(file: Path, seed: str) -> None:
    lines = file.read_text().splitlines()
    told = (json.dumps(retold(json.loads(line), seed)) if '"missing":{"' in line else line for line in lines)
    file.write_text("".join(f"{line}\n" for line in told))


def is_prose(words: str) -> bool:
    return " " in words and re.search("[A-Za-z]{2}", words) is not None


class Rewording(ast.NodeTransformer):
    """names: that are declared as such. where: of the dice, the module."""

    def __init__(self, names: frozenset[str], where: str) -> None:
        self._names = names
        self._where = where

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and is_prose(node.value) and node.value not in self._names | QUOTED:
            seed = f"{self._where} {node.lineno} {node.col_offset} {node.end_col_offset} {node.value}"
            return ast.copy_location(ast.Constant(reworded(node.value, seed)), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Patterns are for the words of other programs."""
        return node if _first_name(node.func) == "re" else self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return node if _is_literal(node) else self.generic_visit(node)


def _first_name(node: ast.expr) -> str | None:
    """Of what is written with dots, calls and indexes behind a name."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"


class Reworded(SourceFileLoader):
    names: frozenset[str]
    seed: str

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        tree = Rewording(self.names, f"{self.seed} {fullname}").visit(ast.parse(source))
        code: CodeType = compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)
        return code


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "primbench":
            return None
        others = (each for each in sys.meta_path if each is not self)
        spec = next(filter(None, (each.find_spec(fullname, path, target) for each in others)), None)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Reworded(fullname, spec.loader.path)
        return spec


def declared(root: Path) -> frozenset[str]:
    """The names with a space that any Literal has."""
    found = set[str]()
    for source in (file.read_bytes() for file in root.rglob("*.py")):
        for node in ast.walk(ast.parse(source)) if b"Literal[" in source else ():
            if _is_literal(node):
                found |= {str(each.value) for each in ast.walk(node) if isinstance(each, ast.Constant)}
    return frozenset(found)


def of_command(words: Sequence[str]) -> tuple[int, str, str]:
    from primbench.cli import main

    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["primbench", *words]
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.main(args=list(words), prog_name="primbench", standalone_mode=False)
        except SystemExit as ended:
            code = ended.code or 0
    return code, out.getvalue(), err.getvalue()


def look_once_each() -> None:
    """A file is read, and its places are compared, once for all commands that tell of it."""
    from primbench.compare import pairs
    from primbench.results import file

    read, compare = file.read, pairs.compare
    held: dict[Any, Any] = {}
    found: dict[Any, Any] = {}

    def read_once(path: Any, is_whole: Any = None) -> Any:
        if is_whole is not None:
            return read(path, is_whole)
        return held[path] if path in held else held.setdefault(path, read(path))

    def compare_once(results: Any, baseline: str | None = None) -> Any:
        asked = id(results.header), len(results.records), baseline
        if asked not in found:
            found[asked] = results, compare(results, baseline)  # of results that live on, whose header nothing replaces
        return found[asked][1]

    file.read, pairs.compare = read_once, compare_once


def examine_in_other_words(seed: str) -> None:
    """Each thing that doctor finds has words of its own: where a number in them is another, they all are."""
    from msgspec.structs import replace

    from primbench.doctor import table

    def told(finding: Any) -> Any:
        return replace(finding, summary=reworded(finding.summary, f"{seed} {finding.summary}"))

    usual = table.examine
    table.examine = lambda place: [told(each) for each in usual(place)]


def of_place(file: Path) -> tuple[int, str, str]:
    """What doctor says of a recorded place, or of the tree of a machine."""
    from primbench.doctor import table
    from primbench.doctor.place import look, read
    from primbench.report import text
    from primbench.report.doctor import document
    from primbench.report.plain import json_of

    place = untimed(look(file)) if file.is_dir() else read(str(file))
    found = table.examine(place)
    if not file.is_dir():
        told = document(place, found, fix=True)
        return 0, text.write(told), json_of(told.value)
    return 0, "", json.dumps([[each.cause, each.severity, each.distorts] for each in found])


def untimed(place: Any) -> Any:
    """Without what was timed here while the files of another machine were read, which is another time each time."""
    from msgspec.structs import replace

    found = place.environment
    for group in ("machine", "confinement"):
        part = getattr(found, group)
        timed = dict.fromkeys(name for name in part.__struct_fields__ if name.endswith(("_s", "_hz")))
        found = replace(found, **{group: replace(part, **timed)})
    return replace(place, environment=found)


def outputs(folder: Path) -> Iterator[tuple[str, object]]:
    for place in sorted([*(folder / "places").iterdir(), *(folder / "trees").iterdir()]):
        yield f"doctor {place.name}", of_place(place)
    for words in json.loads((folder / "asked.json").read_text()):
        yield " ".join(words), of_command([word.replace("FOLDER", str(folder)) for word in words])
        for file in sorted((folder / "out").iterdir()):
            yield f"{' '.join(words)}: {file.name}", (0, file.read_text(), "")
            file.unlink()


def main() -> None:
    asked, seed = Path(sys.argv[1]), sys.argv[2]
    folder = asked.with_name(f"{asked.name}-{seed}")
    shutil.copytree(asked, folder)
    if seed != "usual":
        for file in folder.rglob("*.json*"):
            if not file.is_relative_to(folder / "trees") and file.name != "asked.json":
                retell(file, seed)
        spec = importlib.util.find_spec("primbench")
        assert spec is not None
        assert spec.origin is not None
        Reworded.names, Reworded.seed = declared(Path(spec.origin).parent), seed
        sys.meta_path.insert(0, Finder())
        examine_in_other_words(seed)
    look_once_each()
    folder.with_suffix(".json").write_text(json.dumps(dict(outputs(folder)), indent=1))


if __name__ == "__main__":
    main()
