"""Steps that no optimizer of torch ends: updates by hand, and loops that generate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from primbench.backends import missing
from tests.primbench.decompose.test_script import INFERENCE, TRAINING, outcome

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]
BY_HAND = """
import sys, torch
module, scale = torch.nn.Linear(4, 3), torch.nn.Linear(3, 1)
weights, others = list(module.parameters()), list(scale.parameters())
x = torch.ones(2, 4)
{before}
for number in range(int(sys.argv[1])):
    with torch.no_grad(): module(x); module(x)
    {step}
"""
PASS = "module(x).sum().backward()"
ZERO = "torch._foreach_zero_([p.grad for p in weights])"
FOLLOWS = "between the beginnings of two backward() that follow an update of what had gradients"
OWN = """
class Own:
    def step(self):
        for p in weights: p.data.add_(p.grad, alpha=-0.1)
optimizer = Own()
"""
NEW = "params = {name: each.detach() for name, each in module.named_parameters()}\n"
NEW += "def loss(params): return torch.func.functional_call(module, params, (x,)).sum()"
TWO = f"""scale(module(x).detach()).sum().backward(); [p.data.sub_(p.grad) for p in others]
    scale(module(x)).sum().backward(); torch.no_grad()(torch._foreach_sub_)(weights, [p.grad for p in weights])
    {ZERO}"""
GENERATING = """
import sys, torch
class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 24), torch.nn.Linear(8, 9)
    def forward(self, tokens, cache=()):
        q, *kv = self.qkv(self.embed(tokens)).chunk(3, -1)
        k, v = kv if not cache else (torch.cat(each, 1) for each in zip(cache, kv))
        return self.head(torch.nn.functional.scaled_dot_product_attention(q, k, v)[:, -1:]), (k, v)
decoder = Decoder()
for _ in range(int(sys.argv[1])):
    tokens, cache = torch.ones(1, 5, dtype=torch.int64), ()
    with torch.inference_mode():
        for _ in range(8):
            logits, cache = decoder(tokens, cache)
            tokens = logits.argmax(-1)
"""


@pytest.mark.parametrize(
    ("before", "step", "expected"),
    [
        (OWN, f"{PASS}; optimizer.step(); {ZERO}", {"addmm": 3, "mm": 1, "add_": 4}),
        ("", f"{PASS}; torch.no_grad()(torch._foreach_add_)(weights, [-p.grad for p in weights]); {ZERO}",
         {"addmm": 3, "mm": 1, "_foreach_add_": 1}),
        (OWN, f"{PASS}; number % 3 or (optimizer.step(), {ZERO})", {"addmm": 9, "mm": 3, "add_": 8}),
        (NEW, "g = torch.func.grad(loss)(params); params = {n: params[n] - g[n] for n in g}",
         {"addmm": 3, "mm": 1, "sub": 2}),
        ("", TWO, {"addmm": 6, "_foreach_sub_": 1, "sub_": 2}),
    ],
    ids=["own-optimizer", "foreach", "accumulated", "functional", "two-networks"],
)  # fmt: skip
def test_a_step_without_an_optimizer_of_torch_ends_after_what_had_gradients_is_updated(
    tmp_path: Path, before: str, step: str, expected: dict[str, int]
) -> None:
    """Not with a call of the evaluation that each iteration begins with."""
    found = outcome(tmp_path, BY_HAND.format(before=before, step=step), "90", number=4)
    assert f"step 4 of own.py 90, {FOLLOWS}" == found.of
    counts = Counter(call.name for call in found.calls)
    assert expected == {name: counts[name] for name in expected}
    assert {"forward", "backward", "optimizer"} == {call.phase for call in found.calls}
    assert (5, 0) == (len(found.laps), found.unlike)


def test_where_nothing_is_updated_each_backward_pass_is_a_step_and_it_is_said(tmp_path: Path) -> None:
    found = outcome(tmp_path, BY_HAND.format(before="", step=PASS), "90", number=4)
    assert found.of.endswith("between the beginnings of two backward(), none of which an update of parameters follows")
    said = str(outcome(tmp_path, BY_HAND.format(before="", step=PASS), "3", number=4))
    assert "ended after 3 calls of backward() and 0 updates after these, before step 4 was captured" in said


def test_an_evaluation_that_is_captured_before_the_first_backward_pass_is_told_to_be(tmp_path: Path) -> None:
    text = f"{INFERENCE.replace('100', '6')}for _ in range(9): module(torch.ones(2, 4)).sum().backward()\n"
    assert outcome(tmp_path, text, number=5).of.endswith("of its outermost module, before any backward()")
    said = str(outcome(tmp_path, text, number=20))
    assert "ended after 9 calls of backward() and 0 updates after these, before step 20" in said


def test_updates_by_hand_before_an_optimizer_makes_a_step_are_no_steps_of_it(tmp_path: Path) -> None:
    hand = "for _ in range(3):\n    module(torch.ones(2, 4)).sum().backward()\n    module.weight.data.sub_(1)\n"
    text = TRAINING.format(at_each="pass").replace("optimizer =", f"{hand}optimizer =")
    assert "step 5 of own.py 9, between the ends of two SGD.step()" == outcome(tmp_path, text, "9", number=5).of


def test_of_a_loop_that_generates_a_token_is_taken_and_the_prompt_where_it_is_asked_for(tmp_path: Path) -> None:
    token = outcome(tmp_path, GENERATING, "9", number=17)  # which is the prompt's
    between = "between the ends of two calls of its outermost module, Decoder [9, 8] given"
    assert f"step 18 of own.py 9, {between} [1, 1] like 15 of 18 calls" == token.of
    assert (10, 0) == (len(token.laps), token.unlike)
    prompt = outcome(tmp_path, GENERATING, "9", number=10, is_prefill=True)
    assert f"step 17 of own.py 9, {between} [1, 5] like 3 of 17 calls" == prompt.of
    assert (5, 0) == (len(prompt.laps), prompt.unlike)
    said = str(outcome(tmp_path, GENERATING, "1", number=4, is_prefill=True))
    assert "none from there on was given more than most are, as a prompt is: have the script generate again" in said
