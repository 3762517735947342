"""An ask that cannot be computed keeps no other ask of its claim, and no other place where it is false, waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node.disputes import player
from node.disputes.answerer import Answerer
from node.errors import BadInputs, Withheld
from tests.keepers.test_disputing import NOW, opened
from zoo_compute.disputes.exploration import Call, Exploration
from zoo_compute.disputes.roles import ASKER, AUTHOR
from zoo_compute.json_codec import decode, encode
from zoo_compute.spec import state
from zoo_compute.spec.admissions import claim_of
from zoo_compute.spec.clocks import DEVNET
from zoo_compute.spec.exploration import Tree, TreePosition
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.trials import Workload
from zoo_compute.store.errors import ContentMissing

CLAIM = claim_of(7, Workload(b"p" * 32, b"s" * 32, 4, 1), b"seed" * 8, b"r" * 32)
ERRORS = [ContentMissing("nobody serves it"), BadInputs("another shape"), Withheld("not served", {})]


class HalfAnswerer(Answerer):
    """Computes asks about slots, but for some."""

    def __init__(self, broken: dict[int, Exception], is_author: bool = True) -> None:
        super().__init__(CLAIM, lambda kind, slot: None, DEVNET, is_author=is_author)  # type: ignore[arg-type, return-value]
        self.broken, self.tried = broken, list[int]()

    def answer(self, node: Any) -> Call | None:
        self.tried.append(node.frame.slot)
        if node.frame.slot in self.broken:
            raise self.broken[node.frame.slot]
        return Call("answer", (node.frame.slot,), id=node.id)


def picture(*slots: int) -> Exploration:
    nodes = [opened(slot, slot=slot) for slot in slots]
    return Exploration({node.id: node for node in nodes})


@pytest.mark.parametrize("error", ERRORS)
def test_an_ask_that_cannot_be_computed__keeps_no_other_waiting(error: Exception):
    answerer = HalfAnswerer({1: error})
    made = [call.args[0] for call in answerer.calls(picture(1, 2, 3), NOW)]
    assert made == [2, 3]
    assert answerer.unanswered == {bytes([1]) * 32: f"{type(error).__name__}: {error}"}
    assert answerer.failed


def test_what_could_not_be_computed__is_tried_where_nothing_else_is_to_be_answered():
    broken = {1: ContentMissing("after two minutes")}
    failing = [bytes([1]) * 32]
    answerer = HalfAnswerer(broken)
    assert [call.args[0] for call in answerer.calls(picture(1, 2), NOW, failing=failing)] == [2]
    assert answerer.tried == [2]
    assert list(answerer.calls(picture(1), NOW, failing=failing)) == []
    broken.clear()
    assert [call.args[0] for call in answerer.calls(picture(1), NOW, failing=failing)] == [1]
    assert answerer.tried == [2, 1, 1]


def test_an_error_of_ours__is_not_taken_for_a_missing_file():
    with pytest.raises(ZeroDivisionError):
        list(HalfAnswerer({1: ZeroDivisionError()}).calls(picture(1, 2), NOW))


def request(role: str, shown: Exploration, folder: Path, **options: Any) -> dict[str, Any]:
    return {"role": role, "claim": encode(astuple_of(CLAIM)), "picture": shown.plain, "now": NOW,
            "clocks": encode(DEVNET), "folder": str(folder), "places": [], "start_root": CLAIM.start_root.hex(), **options}  # fmt: skip


def astuple_of(claim: state.Claim) -> tuple[Any, ...]:
    return tuple(getattr(claim, name) for name in claim.__dataclass_fields__)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A player's picture and trees; `broken`: slots whose computation lacks something."""
    given: dict[str, Any] = {"picture": Exploration(), "broken": set(), "false": set()}

    def trees(self: Any, kind: int, slot: int) -> Any:
        if slot in given["broken"]:
            raise ContentMissing(f"slot {slot}")
        return SimpleNamespace(slot=slot)

    class Asker:
        def __init__(self, trees: Any, disputed: Any) -> None:
            self.slot = trees.slot

        def next(self, shown: Any, now: int) -> Call | None:
            return Call("ask", (self.slot,)) if self.slot in given["false"] else None

    monkeypatch.setattr(player._Player, "_trees", trees)
    monkeypatch.setattr(player, "Asker", Asker)
    monkeypatch.setattr(Exploration, "from_plain", lambda plain: given["picture"])
    monkeypatch.setattr(
        player._Player, "_disputed", lambda self, kind, slot, known: SimpleNamespace(kind=Kind(kind), slot=slot)
    )
    yield given
    player._trees.clear()


def test_a_place_that_cannot_be_computed__does_not_hide_another_where_the_claim_is_false(
    asked: dict[str, Any], tmp_path: Path
):
    asked |= {"broken": {1}, "false": {2}}
    places = [[int(Kind.TRAINING), slot, None] for slot in (1, 2)]
    played = player.run_dispute(request(ASKER, Exploration(), tmp_path, places=places), None)  # type: ignore[arg-type]
    assert [Call(*decode(each)).args for each in played["calls"]] == [(2,)]
    asked["false"] = set()
    with pytest.raises(ContentMissing, match="slot 1"):
        player.run_dispute(request(ASKER, Exploration(), tmp_path, places=places), None)  # type: ignore[arg-type]


def test_a_bundle_that_is_not_here__keeps_no_ask_for_a_leaf_waiting(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The result's ask needs the bundle; that it is missing is no lie of the author's."""

    def missing(*_: Any) -> Any:
        raise ContentMissing("the bundle")

    monkeypatch.setattr(player, "fetch_results", missing)
    monkeypatch.setattr(Answerer, "_tree_below", lambda self, frame, at: (bytes(32),) * 4)
    monkeypatch.setattr("node.disputes.answerer.require_children", lambda *_: None)
    result = opened(1, slot=1, position=TreePosition(Tree.RESULT))
    leaf = opened(2, slot=2, position=TreePosition(Tree.SEGMENTS, 2, 0, 4, 4, 1))
    asked["picture"] = Exploration({node.id: node for node in (result, leaf)})
    played = player.run_dispute(request(AUTHOR, Exploration(), tmp_path), None)  # type: ignore[arg-type]
    assert [Call(*decode(each)).name for each in played["calls"]] == ["answer"]
    assert played["unanswered"] == {result.id.hex(): "ContentMissing: the bundle"}
