"""What is printed of an inquiry, whose times are made: no process runs."""

from __future__ import annotations

import math
import re
import shlex

from msgspec.structs import replace

from primbench.experiments.why.frame import framed
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.inquiry import Inquiry
from primbench.experiments.why.investigation import Investigation
from primbench.experiments.why.mending import Mend
from primbench.experiments.why.rounds import Observation
from primbench.report.formats import report as html
from primbench.report.why import document
from primbench.runtimes.table import known
from primbench.spec.arm import parse_arm
from primbench.spec.case import Case

from .exports import text_of
from .pages import check

text = text_of(document)


def inquiry(fast: str, slow: str, *, lasting_pairs: float = math.inf, slow_s: float = 1.5) -> Inquiry:
    """Of two places in one frame, of which the first thing that differs makes the one slow, in so many pairs."""
    asked = parse_arm(fast, known()), parse_arm(slow, known())
    frame = framed(*asked, lambda _: None)
    ingredients = [each.words for each in Mixtures(frame.base, frame.whole).ingredients]
    investigation = Investigation(len(ingredients))
    while (asking := investigation.next()) is not None:
        seen = [
            Observation(pair=pair, design=design, value_s=slow_s if 0 in design and pair < lasting_pairs else 1.0)
            for pair in asking.pairs
            for design in asking.designs
        ]
        investigation.tell(asking, seen)
    return Inquiry(
        asked=asked,
        fast=frame.base,
        slow=frame.whole,
        case=Case(primitive="gemm", parameters={"m": 4, "n": 4, "k": 4}, backend="numpy", device="cpu"),
        metric="batch_s",
        ingredients=ingredients,
        conclusion=investigation.conclude(),
        took_s=1.0,
    )


def test_places_in_control_groups_of_their_own_can_be_typed_again() -> None:
    lines = text(inquiry("host", "host:cpus=0.5,umask=0077")).splitlines()
    (proof,) = (line for line in lines if line.startswith("proof: "))
    words = shlex.split(proof)
    arms = [words[number + 1] for number, each in enumerate(words) if each == "--arm"]
    assert all(parse_arm(each, known()).cgroup == "private" for each in arms)
    assert len(arms) == 4


def test_names_that_share_a_word_are_in_one_row_but_for_those_that_are_proven() -> None:
    lines = text(inquiry("docker", "docker:cap-drop=ALL,network=none")).splitlines()
    rows = [re.split(" {2,}", line.strip()) for line in lines]
    named = [(row[0], row[1]) for row in rows if row[0].isdigit()]
    assert [("1", "cap-drop=AUDIT_WRITE"), ("2", "cap-drop=CHOWN and 12 more"), ("15", "network=none")] == named
    assert lines[-1].startswith("again: primbench why docker docker:cap-drop=ALL,network=none --primitive")


def test_a_difference_that_goes_while_it_is_searched_for_is_said_to() -> None:
    found = inquiry("host", "host:umask=0077,nofile=4096,env.A=1", lasting_pairs=6)
    assert "not found" == found.conclusion.outcome
    assert "most likely none of them (" in text(found).splitlines()[0]


def test_what_makes_a_place_faster_is_not_said_to_harm() -> None:
    answer = text(inquiry("host", "host:umask=0077,nofile=4096", slow_s=0.5)).splitlines()[0]
    assert " it speeds it up, " in answer
    assert " it slows it down." in answer
    assert "harm" not in answer


def test_what_to_do_stands_below_the_answer() -> None:
    mend = Mend(difference=0, advice="whole CPUs in place of a quota", fix=["docker update --cpus 2 NAME"])
    found = replace(inquiry("host", "host:cpus=0.5,umask=0077"), mends=[mend])
    answer, *said = text(found).splitlines()[:3]
    assert "because of cpus=0.5" in answer
    assert said == ["mend: cpus=0.5: whole CPUs in place of a quota", "fix: docker update --cpus 2 NAME"]


def test_a_page_goes_from_the_fast_place_to_the_slow_one_and_back() -> None:
    found = inquiry("host", "host:cpus=0.5,umask=0077")
    made = document(found)
    assert made.page is not None
    read = check(html.write(made.page()))
    (answer,) = read.all("h1")
    assert answer.text == made.value["headline"]  # type: ignore[index]
    rows = [[cell.text for cell in row.all("td")] for row in read.all("figure")[0].all("tr")]
    names = [row[0] for row in rows if row]
    there, back = names[: len(names) // 2], names[len(names) // 2 :]
    assert (there[0], there[1], there[-1]) == (back[-1], "+ cpus=0.5", back[0])
    assert [each[2] for each in rows if each and each[0][:1] in "+-"] == ["1.500", "0.667"]
