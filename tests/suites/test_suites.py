from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import primbench.suites as suites
from primbench.errors import FileError, InvalidRequest
from primbench.kernels.gemm import Gemm
from primbench.problem import fields_of
from primbench.registry import backends_of, primitives
from primbench.suites.parse import OF_ONES_OWN

if TYPE_CHECKING:
    from pathlib import Path

    from primbench.problem import Value

TWO = """
title = "two"
[defaults.gemm]
dtype = "float16"
[[gemm]]
m = 1
n = 2
k = 3
set = "a"
id = "first"
[[gemm]]
m = 4
n = 5
k = 6
dtype = "float32"
trans_b = true
set = "b"
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "own.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def error_of(folder: Path, text: str | bytes) -> str:
    with pytest.raises(FileError) as caught:
        suites.read(written(folder, text))
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{folder}/own.toml: ")


def refusal(name: str | Path) -> str:
    try:
        assert suites.read(name)
    except InvalidRequest as error:
        return str(error)
    return ""


def test_entries_take_defaults_and_keep_their_own_values_and_labels(tmp_path: Path) -> None:
    expected = [
        suites.Entry(Gemm(1, 2, 3, dtype="float16"), {"set": "a", "id": "first"}),
        suites.Entry(Gemm(4, 5, 6, dtype="float32", trans_b=True), {"set": "b"}),
    ]
    assert expected == suites.read(written(tmp_path, TWO))


def test_inline_tables_are_the_same_data(tmp_path: Path) -> None:
    inline = 'gemm = [{ m = 1, n = 2, k = 3, dtype = "float16", set = "a", id = "first" }]'
    assert suites.read(written(tmp_path, TWO))[:1] == suites.read(written(tmp_path, inline))


def test_load_gives_the_problems_alone(tmp_path: Path) -> None:
    assert [Gemm(4, 5, 6, trans_b=True)] == suites.load(written(tmp_path, TWO), set="b", only=["gemm"])


@pytest.mark.parametrize("name", ["small", "serving", "deepbench", "numa"])
def test_of_a_shipped_one_as_much_is_read_as_is_asked_for_and_no_other(name: str) -> None:
    whole = suites.read(name)
    for primitive in {each.problem.primitive for each in whole}:
        assert [each for each in whole if each.problem.primitive == primitive] == suites.read(name, only=[primitive])


def test_a_mistake_in_entries_that_are_not_asked_for_is_told_of_a_file_of_ones_own(tmp_path: Path) -> None:
    path = written(tmp_path, TWO + "[[conv]]\nx = 3\n")
    with pytest.raises(FileError, match="conv entry 1: has no field 'x'"):
        suites.read(path, only=["gemm"])


def test_exact_repeats_are_kept(tmp_path: Path) -> None:
    assert [Gemm(1, 1, 1)] * 2 == suites.load(written(tmp_path, "gemm = [{m=1,n=1,k=1},{m=1,n=1,k=1}]"))


def test_lists_stand_for_their_product_in_order_with_the_same_labels(tmp_path: Path) -> None:
    text = 'gemm = [{ m = [1, 2], n = 3, k = 4, dtype = ["float32", "float16"], id = "x" }]'
    expected = [Gemm(m, 3, 4, dtype=dtype) for m in (1, 2) for dtype in ("float32", "float16")]
    assert [suites.Entry(problem, {"id": "x"}) for problem in expected] == suites.read(written(tmp_path, text))


def test_values_may_be_written_as_for_their_options(tmp_path: Path) -> None:
    text = 'defaults.gemm.dtype = "bf16"\ngemm = [{m="2K,3",n=1,k=1}]\nmemcpy = [{bytes=["64KiB", "1K:2K"]}]'
    found = [problem.parameters() for problem in suites.load(written(tmp_path, text))]
    assert [(2048, "bfloat16"), (3, "bfloat16")] == [(each["m"], each["dtype"]) for each in found[:2]]
    assert [65536, 1024, 2048] == [each["bytes"] for each in found[2:]]
    with pytest.raises(FileError, match=r"memcpy entry 1: bytes: size '64KB': expected"):
        suites.load(written(tmp_path, 'memcpy = [{bytes="64KB"}]'))


def test_lists_may_be_defaults_and_an_entry_or_an_override_takes_their_place(tmp_path: Path) -> None:
    text = 'defaults.gemm.dtype = ["float32", "float64"]\ngemm = [{m=1,n=1,k=1},{m=2,n=1,k=1,dtype="int8"}]'
    path = written(tmp_path, text)
    expected = [(1, "float32"), (1, "float64"), (2, "int8")]
    assert expected == [(problem.m, problem.dtype) for problem in suites.load(path) if isinstance(problem, Gemm)]
    assert [Gemm(m, 1, 1, dtype="float16") for m in (1, 2)] == suites.load(path, overrides={"dtype": ["float16"]})


def test_lists_count_as_the_problems_they_make(tmp_path: Path) -> None:
    path = written(tmp_path, 'gemm = [{ m = [1, 2, 3], n = [1, 2], k = 1, set = "a" }]')
    assert {"gemm": {"a": 6}} == suites.describe(path).counts


def test_device_is_a_label(tmp_path: Path) -> None:
    path = written(tmp_path, 'gemm = [{ m = 1, n = 1, k = 1, device = "cuda" }]')
    assert [suites.Entry(Gemm(1, 1, 1), {"device": "cuda"})] == suites.read(path)


def test_overrides_replace_fields_and_expand_as_a_product(tmp_path: Path) -> None:
    overrides: dict[str, list[Value]] = {"dtype": ["float32", "bfloat16"], "n": [7, 8], "k": []}
    expected = [Gemm(1, n, 3, dtype=dtype) for dtype in ("float32", "bfloat16") for n in (7, 8)]
    assert expected == suites.load(written(tmp_path, TWO), set="a", overrides=overrides)


def test_override_of_the_dtype_chooses_the_accumulation_anew(tmp_path: Path) -> None:
    expected = [Gemm(1, 2, 3, dtype="int8"), Gemm(4, 5, 6, dtype="int8", trans_b=True)]
    assert expected == suites.load(written(tmp_path, TWO), overrides={"dtype": ["int8"]})


def test_override_the_problem_lacks_is_no_fault_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, TWO)
    with pytest.raises(InvalidRequest, match=r"gemm entry 1 with hidden=3: has no field 'hidden'") as caught:
        suites.read(path, overrides={"hidden": [3]})
    assert not isinstance(caught.value, FileError)


def test_override_that_does_not_fit_names_the_entry(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"gemm entry 2 with math_mode='tf32', dtype='float16': math_mode='tf32'"):
        suites.read(written(tmp_path, TWO), set="b", overrides={"math_mode": ["tf32"], "dtype": ["float16"]})


def test_empty_selection_names_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"no entry of gemm, set 'c': it holds gemm 'a', 'b'$"):
        suites.read(written(tmp_path, TWO), only=["gemm"], set="c")


def test_unknown_primitive_in_the_selection_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"^primitive 'gem': did you mean gemm\? there are .*gemm"):
        suites.read("small", only=["gem"])


def test_unknown_name_lists_the_suites_and_says_what_a_path_looks_like() -> None:
    with pytest.raises(InvalidRequest, match=r"^suite 'nosuch': there are small, medium, large, .*\.toml$"):
        suites.read("nosuch")


def test_name_with_a_null_character_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^suite 'a\\x00\.toml'"):
        suites.read("a\0.toml")


def test_description_counts_entries_by_primitive_and_set(tmp_path: Path) -> None:
    text = TWO + "[[gemm]]\nm = 1\nn = 1\nk = 1\n"
    expected = suites.Contents("two", {"gemm": {"a": 1, "b": 1, None: 1}})
    assert expected == suites.describe(written(tmp_path, text))


def test_file_without_a_title_is_called_by_its_path(tmp_path: Path) -> None:
    path = written(tmp_path, "gemm = [{m=1,n=1,k=1}]")
    assert str(path) == suites.describe(path).title


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("gemm entry 3: m=0: a whole number", "gemm=[{m=1,n=1,k=1},{m=1,n=1,k=1},{m=0,n=1,k=1}]"),
        ("gemm entry 1: m=-1: a whole number", "gemm = [{ m = -1, n = 1, k = 1 }]"),
        ("gemm entry 1: m=True: a whole number", "gemm = [{ m = true, n = 1, k = 1 }]"),
        ("gemm entry 1: m=1.5: a whole number", "gemm = [{ m = 1.5, n = 1, k = 1 }]"),
        ("gemm entry 1: needs n, k", "gemm = [{ m = 1 }]"),
        ("gemm entry 1: has no field 'hidden'", "gemm = [{ m = 1, n = 1, k = 1, hidden = 2 }]"),
        ("gemm entry 1: dtype='quarter': one of", "gemm = [{ m = 1, n = 1, k = 1, dtype = 'quarter' }]"),
        ("gemm entry 1: accumulate='int32' with", "gemm = [{ m = 1, n = 1, k = 1, accumulate = 'int32' }]"),
        ("gemm entry 1: set is not a string", "gemm = [{ m = 1, n = 1, k = 1, set = 3 }]"),
        ("gemm entry 1: 'm' is not a number", "gemm = [{ m = [[1]], n = 1, k = 1 }]"),
        ("gemm entry 1: 'm' is not a number", "gemm = [{ m = [1, {}], n = 1, k = 1 }]"),
        ("gemm entry 1: 'm' is an empty list", "gemm = [{ m = [], n = 1, k = 1 }]"),
        ("gemm entry 1: m: 'x': a whole number", "gemm = [{ m = [1, 'x'], n = 1, k = 1 }]"),
        ("gemm entry 1: its lists make more than 10000", f"gemm = [{{ m = {[1] * 101}, n = {[1] * 100}, k = 1 }}]"),
        ("gemm entry 1: set is not a string", "gemm = [{ m = 1, n = 1, k = 1, set = ['a', 'b'] }]"),
        ("gemm entry 1: device is neither cpu nor cuda", "gemm = [{ m = 1, n = 1, k = 1, device = 'cuda:0' }]"),
        ("gemm entry 1: 'm' is not a number", "gemm = [{ m = 1979-05-27, n = 1, k = 1 }]"),
        ("holds a number of more than 64 bits", f"gemm = [{{ m = 0x1{'0' * 9999}, n = 1, k = 1 }}]"),
        ("gemm entry 1: has no field 'hidden'", "defaults.gemm.hidden = 2\ngemm = [{ m = 1, n = 1, k = 1 }]"),
        ("gemm entry 1 is not a table", "gemm = [1]"),
        ("gemm is not a list of entries", "[gemm]\nm = 1"),
        ("defaults is not a table", "defaults = 1"),
        ("defaults.gemm is not a table", "defaults.gemm = 1\ngemm = [{ m = 1, n = 1, k = 1 }]"),
        (
            "unknown key 'gem': did you mean gemm? a primitive of your own: primbench --kernels FILE.py; there",
            "gem = [{ m = 1, n = 1, k = 1 }]",
        ),
        ("unknown key 'arms': did you mean arm? a primitive of your own: ", "arms = ['host']"),
        (
            f"unknown key 'until': {OF_ONES_OWN}there are title, source, licence, note, arm, beside, pairs, ",
            "until = 'x'",
        ),
        ("defaults: unknown key 'gem': did you mean gemm? a primitive of your own: ", "defaults.gem.m = 1"),
        (f"defaults: unknown key 'pairs': {OF_ONES_OWN}there are allreduce,", "defaults.pairs = 1"),
        ("title is not a string", "title = 1"),
        ("no entries", ""),
        ("no entries", "gemm = []"),
        ("not TOML: Expected '='", "gemm"),
        ("not TOML: ", f"gemm = {'1' * 5000}"),
        ("not TOML: ", b"\0\1\2"),
        ("not UTF-8 text (byte 1)", b"#\xff\xfe"),
        ("nested too deeply", "gemm = " + "[" * 100_000),
        ("nested too deeply", "gemm = " + "{ a = " * 100_000),
        ("too many dotted keys", "a." * 100_000 + "a = 1"),
        ("too many dotted keys", ("a." * 999 + "a = 1\n") * 100),
        ("larger than 16 MiB", b"#" * (16 * 1024**2 + 1)),
    ],
)
def test_error_names_file_entry_and_field(tmp_path: Path, expected: str, text: str | bytes) -> None:
    assert error_of(tmp_path, text).startswith(expected)


def test_message_stays_short_whatever_the_file_holds(tmp_path: Path) -> None:
    message = error_of(tmp_path, f"gemm = [{{ m = 1, n = 1, k = 1, dtype = '{'x' * 100_000}' }}]")
    assert len(message) <= 400
    assert len(error_of(tmp_path, f"{'x' * 100_000} = 1")) <= 400


def test_names_of_sets_cannot_break_the_line(tmp_path: Path) -> None:
    path = written(tmp_path, 'gemm = [{ m = 1, n = 1, k = 1, set = "a\\nb" }, { m = 1, n = 1, k = 1 }]')
    with pytest.raises(InvalidRequest, match=r"it holds gemm 'a\\nb', without a set$"):
        suites.read(path, set="a")


def test_directory_is_not_a_suite(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        suites.read(tmp_path)


def test_file_that_fails_while_it_is_read_is_named() -> None:
    with pytest.raises(FileError, match=r"^/proc/self/mem: cannot be read: Input/output error$"):
        suites.read("/proc/self/mem")


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user whom file modes bind: root may read everything")
def test_unreadable_file_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, TWO)
    path.chmod(0)
    with pytest.raises(FileError, match=r"own\.toml: cannot be read: Permission denied"):
        suites.read(path)


def tables() -> st.SearchStrategy[str]:
    keys = st.sampled_from(["m", "n", "k", "dtype", "alpha", "trans_a", "set", "id", "accumulate", "q", "'a b'"])
    values = st.sampled_from(
        [
            "1",
            "0",
            "-1",
            "7.5",
            "nan",
            "inf",
            "1e999",
            "true",
            "'float16'",
            "''",
            "[]",
            "{}",
            "9223372036854775808",
        ]
    )
    entries = st.lists(st.tuples(keys, values), unique_by=lambda pair: pair[0])
    return entries.map(lambda pairs: "{" + ", ".join(f"{key} = {value}" for key, value in pairs) + "}")


@given(
    st.binary()
    | st.text().map(str.encode)
    | st.binary().map(lambda noise: TWO.encode() + noise)
    | st.lists(tables()).map(lambda entries: f"gemm = [{', '.join(entries)}]".encode())
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_a_suite_or_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    assert "\n" not in refusal(written(tmp_path, content))


@given(st.text())
def test_any_name_is_a_suite_or_refused_in_one_line(name: str) -> None:
    assert "\n" not in refusal(name)


def test_every_shipped_suite_loads_and_has_a_title() -> None:
    steps = ["bert-base", "dit-xl-2", "llama3-70b", "llama3-8b", "mixtral-8x7b", "qwen3-8b", "resnet-50"]
    expected = [
        "small",
        "medium",
        "large",
        *sorted([*steps, "certify", "deepbench", "ladder", "links", "quick", "roof", "selftest", "serving", "sizes"]),
    ]
    assert expected == suites.names()
    for name in suites.names():
        assert suites.describe(name).title not in ("", name)


def test_sizes_are_the_three_sets_of_every_primitive() -> None:
    expected = ["small", "medium", "large"]
    for sets in suites.describe("sizes").counts.values():
        assert expected == list(sets)
    assert suites.read("sizes", set="large") == suites.read("large")
    assert suites.read("large", set="large") == suites.read("large")


def test_set_of_a_set_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^suite large with set 'small': large is itself a set, of sizes$"):
        suites.read("large", set="small")


# Models are as large as their originals, and only torch can count them.
SIZED = {name: suites.load(name) for name in suites.SIZES}
COUNTED = [
    name
    for name in suites.describe("sizes").counts
    if name not in ("model", "learning") and next(each for each in SIZED["small"] if each.primitive == name).flop()
]


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    assert suites.read(written(tmp_path, TWO)) == suites.read(written(tmp_path, f"\ufeff{TWO}"))


@pytest.mark.parametrize("primitive", COUNTED)
def test_sizes_grow_from_set_to_set_and_large_ends_on_a_cpu(primitive: str) -> None:
    flop = {
        name: [each.flop() or 0 for each in problems if each.primitive == primitive] for name, problems in SIZED.items()
    }
    assert max(flop["small"]) < min(flop["medium"])
    assert max(flop["medium"]) < min(flop["large"])
    assert len(flop["large"]) in (4, 5)
    # A minute at 100 GFLOP/s, what two CPU cores do.
    assert sum(flop["large"]) <= 6e12


def test_sizes_of_gemm_keep_their_promises() -> None:
    assert max(problem.flop() or 0 for problem in suites.load("small", only=["gemm"])) <= 0.1e9
    assert sum(problem.flop() or 0 for problem in suites.load("large", only=["gemm"])) <= 1.7e12
    cubes = {Gemm(4096, 4096, 4096), Gemm(8192, 8192, 8192)}
    assert cubes <= set(suites.load("large"))


def test_sizes_that_cite_deepbench_are_its_own() -> None:
    theirs = {(entry.labels["id"], entry.problem) for entry in suites.read("deepbench")}
    named = [(entry.labels.get("label", ""), entry.problem) for entry in suites.read("sizes")]
    cited = {(label.removeprefix("DeepBench "), problem) for label, problem in named if label.startswith("DeepBench ")}
    assert cited
    assert cited <= theirs


def test_reference_results_are_found_by_their_device() -> None:
    assert all(paths and all(path.is_file() for path in paths) for paths in suites.references().values())
    assert "h200" in suites.references()


def test_the_quick_suite_has_cases_of_every_primitive_on_either_kind_of_device() -> None:
    for device in ("cpu", "cuda"):
        entries = [entry for entry in suites.read("quick") if entry.labels.get("device") in (None, device)]
        kinds = {name: primitives()[name] for name in everywhere()}
        wanted = {name for name, kind in kinds.items() if device == "cpu" or kind.on_gpus or kind.sees_gpus}
        assert wanted == {entry.problem.primitive for entry in entries}


def everywhere() -> set[str]:
    """The primitives that need nothing but what is installed with primbench, nor a name of the user's own."""
    return {
        name
        for name, kind in primitives().items()
        if "numpy" in backends_of(name) and not any("names" in each.metadata for each in fields_of(kind))
    }
