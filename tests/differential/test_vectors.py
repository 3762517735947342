"""The portable vectors (tests/vectors) against the specification and the contracts.

A story's calls are made on both, one after the other; where a case stands, both must do what its file says. Stories of
more than `SHORT` calls are replayed by the long campaign only (ZOO_CAMPAIGN=long).
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.support.lockstep.contract_mirror import Disagreement, fresh_mirror
from tests.support.lockstep.coverage import CONTRACTS, Coverage
from tests.support.lockstep.stage import Stage
from tests.support.lockstep.state_access import keys_changed, keys_read
from tests.support.lockstep.vector_files import BARE, FOLDER, Recorder, Step, read_call, read_world, show
from tests.support.lockstep.vector_values import Json, Names, encode, names_of
from zoo_compute.spec.params import PRESETS
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Config, World
from zoo_compute.spec.world import EXTERNAL, apply

pytestmark = pytest.mark.long

SHORT = 100
OUTCOME = ("refusal", "returns", "post")
IS_LONG = os.environ.get("ZOO_CAMPAIGN") == "long"


def _read(path: Path) -> Json:
    return json.loads(path.read_text())


FILES = {path.stem: _read(path) for path in sorted(FOLDER.glob("*.*.json"))}
STORIES = {path.stem: _read(path) for path in sorted((FOLDER / "stories").glob("*.json"))}
CASES = [case for file in FILES.values() for case in file["cases"]]
BY_STORY: dict[str, dict[int, Json]] = defaultdict(dict)
for _case in CASES:
    BY_STORY[_case["story"]][int(_case["step"])] = _case


class Differs(AssertionError):
    """What was done is not what a case says."""


def check_case(case: Json, step: Step, names: Names) -> None:
    """What the specification did, as JSON, is what the file says, and so is what it read."""
    json_call: dict[str, Any] = {"pre": show(step.before, keys_read(step.before, step.call), names, absent=False)}
    if step.after is None:
        json_call["refusal"] = step.reason
    else:
        json_call["returns"] = encode(step.result, names)
        json_call["post"] = show(step.after, keys_changed(step.before, step.after), names, absent=True)
    wanted = {name: part for name, part in case.items() if name in ("pre", *OUTCOME)}
    if json_call != wanted:
        raise Differs(f"{case['story']}, step {case['step']}: {json_call} instead of {wanted}")


def replay(story: Json, cases: dict[int, Json]) -> None:
    """All calls of a story on the contracts and the specification, and its cases where they stand."""
    with fresh_mirror(story["preset"]) as contracts:
        names = names_of(contracts.config, contracts.accounts, contracts.tokens)
        recorder = Recorder(contracts.config, contracts.accounts, contracts.tokens, contracts=contracts)
        stage = Stage(Coverage(), recorder, preset=PRESETS[story["preset"]])
        for index, json_call in enumerate(story["calls"]):
            if index >= len(recorder.steps):  # the stage made the first ones itself
                call = read_call(json_call, names)
                stage.now, stage.block, stage.base_fee = call.now, call.block, call.base_fee
                coin = {"value": call.value} if call.value else {}
                stage.attempt(call.contract, call.function, call.sender, *call.args, **coin)
            step = recorder.steps[index]
            assert (step.call, step.reason) == (read_call(json_call, names), json_call.get("refusal"))
            if index in cases:
                check_case(cases[index], step, names)


@pytest.mark.parametrize("name", STORIES)
def test_contracts_do_what_the_vectors_say_in(name: str) -> None:
    story = STORIES[name]
    if len(story["calls"]) > SHORT and not IS_LONG:
        pytest.skip(f"{len(story['calls'])} calls: replayed by ZOO_CAMPAIGN=long")
    replay(story, BY_STORY[name])


@pytest.mark.parametrize("name", FILES)
def test_a_case_holds_all_that_its_call_reads(name: str) -> None:
    """On a world of nothing but `pre`, the specification does what the file says."""
    for case in FILES[name]["cases"]:
        world = read_world(case["pre"], Config(preset=PRESETS[case["preset"]]), BARE)
        call_of_story = STORIES[case["story"]]["calls"][int(case["step"])]
        assert {name: part for name, part in call_of_story.items() if name != "refusal"} == case["call"]
        assert outcome_of(world, case["call"]) == {name: case[name] for name in OUTCOME if name in case}


def outcome_of(world: World, json_call: Json) -> Json:
    try:
        after, result = apply(world, read_call(json_call, BARE))
    except Refused as refusal:
        return {"refusal": refusal.reason}
    return {"returns": encode(result, BARE), "post": show(after, keys_changed(world, after), BARE, absent=True)}


def test_every_transition_has_a_file_with_an_accepted_case() -> None:
    accepted = {name for name, file in FILES.items() if any("post" in case for case in file["cases"])}
    assert {f"{contract}.{name}" for contract in CONTRACTS for name in EXTERNAL[contract]} <= accepted


def test_a_case_that_says_otherwise_is_noticed() -> None:
    """Of each kind of case, one is changed: what it says must not be found."""
    refused = next(case for case in CASES if case.get("refusal") == "registry: not the owner")
    accepted = next(case for case in CASES if "operators" in case.get("post", {}))
    for case, change in ((refused, _another_reason), (accepted, _another_stake)):
        wrong = deepcopy(case)
        change(wrong)
        with pytest.raises((Differs, Disagreement)):
            replay(STORIES[case["story"]], {int(case["step"]): wrong})


def _another_reason(case: Json) -> None:
    case["refusal"] = "registry: zero hot key"


def _another_stake(case: Json) -> None:
    case["post"]["operators"][0]["value"]["stake"] = "1"
