"""Do the primitives of a serving step come to what a step of transformers' `generate` takes?

A script generates with a Llama of Llama 3 8B's widths and a few of its layers. Its step is captured, and each part
measured; and the entries of the suite llama3-8b's decode are measured with as many layers, sequences and tokens before.
Shown are the step as it ran, the sum of the captured parts, and the sum of the suite's primitives, over the step. Takes
torch, transformers, and by default 2 GB of memory and a minute or two on two CPUs; --device cuda:0 a GPU, where the
step is how long the GPU was busy with it, by torch's profiler: what the host takes is no matter of the primitives. The
suite has none of the copies by which `generate` makes its cache longer.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from primbench.problem import Value
from primbench.results import file as results_file
from primbench.results.step_explained import Explained
from primbench.results.step_sums import explained
from primbench.suites import Entry, read, study

LAYERS = 32  # of Llama 3 8B
SCRIPT = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
torch.set_num_threads({threads})
config = LlamaConfig(
    hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
    num_hidden_layers={layers}, vocab_size={words}, tie_word_embeddings=True, attn_implementation="sdpa",
)
with torch.device("{device}"):
    torch.set_default_dtype(torch.{dtype})
    model = LlamaForCausalLM(config).eval()
    prompt = torch.randint(1, {words}, ({batch}, {before}))
with torch.inference_mode():
    model.generate(prompt, max_new_tokens={tokens}, min_new_tokens={tokens}, do_sample=False, pad_token_id=0)
"""
STEP, TOKENS = 20, 60
MOST_OTHERS = 6  # operators that are no primitives, which are named
SHORT = ("--min-time", "50ms", "--max-time", "500ms", "--no-check", "-q")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4, help="sequences")
    parser.add_argument(
        "--before", type=int, default=236, help="tokens of the prompt; the step that is captured is the 20th"
    )
    parser.add_argument("--words", type=int, default=32_000, help="of the vocabulary; Llama 3's are 128256")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--threads", type=int, default=1, help="of a CPU: several wait for each other on a busy one")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _compare(options, Path(folder))


def _compare(options: argparse.Namespace, folder: Path) -> None:
    script, captured, written = (folder / name for name in ("generates.py", "step.toml", "suite.toml"))
    script.write_text(SCRIPT.format(tokens=TOKENS, **vars(options)))
    _primbench("capture", script, "-o", captured, "--step", STEP)
    written.write_text(_suite(options))
    on_gpu = options.device != "cpu"
    where = ("--device", options.device, *(() if on_gpu else ("--threads", options.threads)))
    parts = _measured(captured, folder / "parts.jsonl", where)
    primitives = _measured(written, folder / "primitives.jsonl", where)
    told = study(captured).captured
    steps = explained(parts, captured=told)
    sums = explained(primitives, parts="decode")
    assert steps is not None
    assert sums is not None
    assert told is not None
    step_s = statistics.median(told.times_s)
    print(f"a step of generate: {1e3 * step_s:.2f} ms, {options.batch / step_s:.1f} tokens/s")
    if on_gpu:
        step_s = statistics.median(told.on_gpu_s)
        print(f"the GPU was busy for {1e3 * step_s:.2f} ms of it")
    for name, found in (("the captured step's parts", steps), ("the suite's primitives", sums)):
        sum_s = _sum_s(found)
        print(f"{name}: {1e3 * sum_s:.2f} ms, {sum_s / step_s:.3f} of it, {found.calls} calls")
        kinds = [(row.name, row.seconds) for row in found.rows if row.calls and row.seconds]
        largest = [f"{kind} {1e3 * seconds:.2f}" for kind, seconds in (*kinds, *[*found.others.items()][:MOST_OTHERS])]
        print(f"    in ms: {', '.join(largest)}")


def _sum_s(found: Explained) -> float:
    """Of the time of calls on the device."""
    sum_s = found.numbers[0].parts_s
    assert sum_s is not None
    return sum_s


def _suite(options: argparse.Namespace) -> str:
    """llama3-8b's decode, with other numbers of layers, sequences, tokens before, and words."""
    lines = ['title = "decode"']
    for entry in read("llama3-8b", set="decode"):
        fields = [f"{name} = {_toml(value)}" for name, value in _fields(entry, options).items()]
        lines += [f"[[{entry.problem.primitive}]]", *fields]
    return "\n".join(lines)


def _fields(entry: Entry, options: argparse.Namespace) -> dict[str, Value]:
    """Its fields and labels, in which 64 sequences, 4096 tokens before and 128256 words stand for those asked for."""
    given = entry.problem.parameters()
    batch, words = options.batch, options.words
    scaled: dict[str, Value] = {}
    for name, value in given.items():
        if name in ("m", "rows", "tokens", "batch_size") and value == 64:
            value = batch
        elif name == "elements" and isinstance(value, int):
            value = value * batch // 64
        elif name == "kv_len":
            value = options.before + STEP
        elif value == 128_256:
            value = words
        elif name == "dtype":
            value = options.dtype
        scaled[name] = value
    count = int(entry.labels["count"])
    of_layers, once = divmod(count, LAYERS) if count > 1 else (0, 1)
    return scaled | {"set": "decode", "label": entry.labels["label"], "count": of_layers * options.layers + once}


def _toml(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def _measured(suite: Path, output: Path, where: tuple[object, ...]) -> list[Any]:
    _primbench("run", suite, *where, "--backend", "torch", "-o", output, *SHORT)
    return results_file.read(output).records


def _primbench(*words: object) -> None:
    command = [sys.executable, "-P", "-m", "primbench", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
