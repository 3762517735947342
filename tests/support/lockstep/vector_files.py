"""Portable vectors: single calls on the specification, each with what it reads, what it changes, or why it is refused.

They are cut out of the directed sequences, which become stories: every case stands at a step of one.
tests/vectors/README.md has the format; scripts/generate/vectors.py writes the files.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import ACCOUNTS, WEALTH, Mirror, Stage
from tests.support.lockstep.state_access import GHOSTS, MAPS, NUMBERS, Keys, keys_changed, keys_read
from tests.support.lockstep.vector_values import Json, Names, decode, encode, hints_of, names_of
from tests.support.scenarios.catalogue import EXPLORING, SCENARIOS
from zoo_compute.spec.params import PRESETS
from zoo_compute.spec.state import Config, JobLedger, World
from zoo_compute.spec.world import EXTERNAL, Call

FOLDER = Path(__file__).parents[2] / "vectors"
TOKENS = ("zen", "usd", "bad")
MOST_WRITTEN = 5  # cases of one function that are there for what they write; of refusals, every reason has one
STORY_COST = 12  # calls' worth of what is alike in every story
MOCKED = "token"  # what only tests' tokens do has no vectors
BARE = names_of(Config(), {name: name for name in ACCOUNTS}, {name: name for name in TOKENS})


# --- parts of a world


def show(world: World, keys: Keys, names: Names, *, absent: bool) -> Json:
    """These parts of a world as JSON; what is not there as null, where `absent` counts."""
    json_call: dict[str, Json] = {}
    for name in sorted(keys):
        content = getattr(world, name)
        if name in NUMBERS:
            json_call[name] = encode(content, names)
            continue
        entries = [{"key": encode(key, names), "value": encode(content.get(key), names)} for key in keys[name]]
        entries = [entry for entry in entries if absent or entry["value"] is not None]
        if entries:
            json_call[name] = sorted(entries, key=json.dumps)
    return json_call


def read_world(pre: Json, config: Config, names: Names) -> World:
    """A world of nothing but what a case says of it."""
    world, hints = World(config=config), hints_of(World)
    for name, content in pre.items():
        if name in NUMBERS:
            setattr(world, name, int(content))
            continue
        key_hint, value_hint = hints[name].__args__
        entries = ((decode(key_hint, each["key"], names), decode(value_hint, each["value"], names)) for each in content)
        setattr(world, name, dict(entries))
    world.job_ledgers = {job: JobLedger() for job in world.jobs}
    return world


# --- calls


def show_call(call: Call, names: Names) -> Json:
    parameters = _parameters(call.contract, call.function)
    assert len(call.args) in (0, len(parameters)), f"{call.contract}.{call.function} takes {list(parameters)}"
    json_call = {
        "contract": call.contract,
        "function": call.function,
        "sender": names.name(call.sender),
        "now": str(call.now),
        "args": {name: encode(arg, names) for name, arg in zip(parameters, call.args, strict=False)},
    }
    chain = {name: str(getattr(call, name)) for name in ("value", "base_fee", "block") if getattr(call, name)}
    return json_call | chain


def read_call(json_call: Json, names: Names) -> Call:
    parameters = _parameters(json_call["contract"], json_call["function"])
    args = tuple(decode(parameters[name], arg, names) for name, arg in json_call["args"].items())
    chain = {name: int(json_call[name]) for name in ("value", "base_fee", "block") if name in json_call}
    sender, now = names.address(json_call["sender"]), int(json_call["now"])
    return Call(json_call["contract"], json_call["function"], sender, now, args, **chain)


def _parameters(contract: str, function: str) -> dict[str, Any]:
    """Names and types of a transition's arguments; none where an account is refused whatever it passes."""
    if function not in EXTERNAL[contract]:
        return {}
    transition = EXTERNAL[contract][function]
    hints = hints_of(transition)
    return {name: hints[name] for name in list(inspect.signature(transition).parameters)[2:]}


# --- stories and cases


@dataclass
class Step:
    """One call of a story; `reason` where it was refused, else what came of it."""

    call: Call
    before: World
    after: World | None = None
    reason: str | None = None
    result: Any = None

    @property
    def name(self) -> str:
        return f"{self.call.contract}.{self.call.function}"


@dataclass
class Recorder:
    """Stands where the contracts stand in a stage, or before them, and writes down what it is told."""

    config: Config
    accounts: dict[str, str] = field(default_factory=lambda: {name: name for name in ACCOUNTS})
    tokens: dict[str, str] = field(default_factory=lambda: {name: name for name in (*TOKENS, "credits")})
    steps: list[Step] = field(default_factory=list)
    contracts: Mirror | None = None

    def accept(self, call: Call, before: World, after: World, result: Any) -> None:
        self.steps.append(Step(call, before, after, None, result))
        if self.contracts:
            self.contracts.accept(call, before, after, result)

    def refuse(self, call: Call, reason: str, world: World) -> None:
        self.steps.append(Step(call, world, None, reason))
        if self.contracts:
            self.contracts.refuse(call, reason, world)

    def compare(self, world: World) -> None:
        if self.contracts:
            self.contracts.compare(world)


def preset_of(story: str) -> str:
    return "production" if "production" in story else "devnet"


def record(story: str) -> list[Step]:
    preset = PRESETS[preset_of(story)]
    recorder = Recorder(Config(preset=preset))
    SCENARIOS[story](Stage(Coverage(), recorder, preset=preset))
    return recorder.steps


def outcomes_of(steps: list[Step]) -> list[set[Any]]:
    """What each step shows of its function: the reason of a refusal, or which fields of which maps are written.

    Where the very same call is refused and later accepted, both steps also show that.
    """
    outcomes: list[set[Any]] = []
    refused: dict[Any, int] = {}
    for index, step in enumerate(steps):
        same = (step.name, step.call.sender, step.call.args)
        if step.after is None:
            outcomes.append({(step.name, step.reason)})
            refused[same] = index
            continue
        changed = keys_changed(step.before, step.after)
        written = frozenset((name, kind) for name, keys in changed.items() for kind in _kinds(step, name, keys))
        outcomes.append({(step.name, written)})
        if same in refused:
            earlier = refused.pop(same)
            outcomes[earlier].add((step.name, "later accepted", steps[earlier].reason))
            outcomes[index].add((step.name, "earlier refused", steps[earlier].reason))
    return outcomes


def _kinds(step: Step, name: str, keys: set[Any]) -> Iterator[str]:
    for key in keys - {None}:
        old, new = getattr(step.before, name).get(key), getattr(step.after, name).get(key)
        if old is None or new is None:
            yield "new" if old is None else "gone"
        elif hasattr(old, "__dataclass_fields__"):
            yield from (item.name for item in fields(old) if getattr(old, item.name) != getattr(new, item.name))


def show_case(story: str, index: int, step: Step, names: Names) -> Json:
    case = {
        "story": story,
        "step": str(index),
        "preset": preset_of(story),
        "pre": show(step.before, keys_read(step.before, step.call), names, absent=False),
        "call": show_call(step.call, names),
    }
    if step.after is None:
        return case | {"refusal": step.reason}
    post = show(step.after, keys_changed(step.before, step.after), names, absent=True)
    return case | {"returns": encode(step.result, names), "post": post}


def choose(recorded: dict[str, list[Step]]) -> dict[str, list[int]]:
    """By story, the steps that become cases. Next comes the story that shows most new outcomes for the calls it costs."""
    left = {story: outcomes_of(steps) for story, steps in recorded.items()}
    seen: set[Any] = set()
    chosen: dict[str, list[int]] = {}
    while left:
        gains = {story: _gain(recorded[story], outcomes, seen) for story, outcomes in left.items()}
        left = {story: outcomes for story, outcomes in left.items() if gains[story][1]}
        if left:
            best = max(left, key=lambda story: (gains[story][0], story))
            chosen[best] = gains[best][1]
            outcomes = left.pop(best)
            seen = seen.union(*(outcomes[index] for index in chosen[best]))
    return chosen


def _gain(steps: list[Step], outcomes: list[set[Any]], seen: set[Any]) -> tuple[float, list[int]]:
    """New outcomes a call, and the steps that show them, of a story cut where that is best."""
    known = set(seen)
    written = Counter(outcome[0] for outcome in seen if isinstance(outcome[1], frozenset))
    indices: list[int] = []
    best: tuple[float, list[int]] = (0, [])
    cost = STORY_COST
    for index, step in enumerate(steps):
        cost += step.after is not None
        new = outcomes[index] - known
        if written[step.name] == MOST_WRITTEN:
            new = {outcome for outcome in new if not isinstance(outcome[1], frozenset)}
        if step.call.contract == MOCKED or not new:
            continue
        known |= outcomes[index]
        indices.append(index)
        written[step.name] += any(isinstance(outcome[1], frozenset) for outcome in new)
        cost += step.after is None
        best = max(best, ((len(known) - len(seen)) / cost, list(indices)))
    return best


def build() -> dict[str, str]:
    """All files by their paths under tests/vectors."""
    recorded = {story: record(story) for story in SCENARIOS if story not in EXPLORING}
    cases: dict[str, list[Json]] = defaultdict(list)
    files = {"genesis.json": _text(genesis(next(iter(recorded.values()))[0].before), depth=2)}
    for story, chosen in choose(recorded).items():
        # What was refused changed nothing: only cases of it stay.
        kept = [index for index, step in enumerate(recorded[story]) if step.after or index in chosen]
        steps = [recorded[story][index] for index in kept if index <= chosen[-1]]
        files[f"stories/{story}.json"] = _text(show_story(story, steps), depth=2)
        for index in chosen:
            step = recorded[story][index]
            cases[step.name].append(show_case(story, kept.index(index), step, BARE))
    return files | {
        f"{name}.json": _text({"transition": name, "cases": cases[name]}, depth=5) for name in sorted(cases)
    }


def show_story(story: str, steps: list[Step]) -> Json:
    calls = [show_call(step.call, BARE) | ({"refusal": step.reason} if step.reason else {}) for step in steps]
    return {"story": story, "preset": preset_of(story), "calls": calls}


def genesis(first: World) -> Json:
    """What every story starts from; balances, which are all alike, in one line."""
    bare = Config()
    keys = {name: set(getattr(first, name)) for name in MAPS if name not in GHOSTS | {"balances", "block_hashes"}}
    return {
        "presets": {name: encode(preset, BARE) for name, preset in PRESETS.items()},
        "roles": {
            item.name: getattr(bare, item.name) for item in fields(Config) if isinstance(getattr(bare, item.name), str)
        },
        "accounts": list(ACCOUNTS),
        "tokens": list(TOKENS),
        "balance": {"holders": "every account but sink and referee, of every token", "amount": str(WEALTH)},
        "world": show(first, keys, BARE, absent=False),
    }


def _text(value: Json, depth: int) -> str:
    """JSON whose upper levels have a line for each item, and all below them one."""
    return _lines(value, depth, "") + "\n"


def _lines(value: Json, depth: int, margin: str) -> str:
    if not depth or not value or not isinstance(value, dict | list):
        return json.dumps(value)
    inner = margin + " "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_lines(item, depth - 1, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner + item for item in items) + f"\n{margin}}}"
    items = [_lines(item, depth - 1, inner) for item in value]
    return "[\n" + ",\n".join(inner + item for item in items) + f"\n{margin}]"
