"""Every strategy of a hostile side in a small exploration against an honest one, on the specification: the honest side wins."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import pytest

from tests.referee.exploration_driver import CourtOnPaper
from tests.referee.toy_computation import PROGRAM, WORK, HonestToy, Lie, ToyComputation, judge, places, tree_of
from tests.support.explorations.exploration_moves import Explorer, children_of
from tests.support.explorations.hashed_computation import Tree, noise
from zoo_compute.spec import referee, verdicts
from zoo_compute.spec.clocks import PRODUCTION, End, aged_at, bound
from zoo_compute.spec.descents import Ask, ElementAsk
from zoo_compute.spec.disputed_claims import Explorations, Terms, claim_key
from zoo_compute.spec.exploration import Node, Status
from zoo_compute.spec.exploration import Tree as In
from zoo_compute.spec.frames import Frame, Phase
from zoo_compute.spec.params import COIN
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim, Message

JOB, BOB, REEXECUTE_S, START = 1, 7, 100, 1_000_000
DEADLINE = START + 10
MUCH = 10**18
# Trees of height 2 at most: an answer and an ask each, an answer that leads into the next one between them.
MOST_CALLS = 12
VERDICTS = ("judge", "expire", "close")


class ToyCourt(CourtOnPaper):
    def judge(self, kind: int, frame: Frame, position: Any, data: bytes) -> None:
        judge(kind, frame, position, data)


class Table:
    """One claim of one slot, by bob. A branch of a play is a copy."""

    job, work, base_fee = JOB, WORK, 0

    def __init__(self, *lies: Lie) -> None:
        start = noise("start")
        author = ToyComputation("bob", 0, start, lies=frozenset(lies))
        self.claim = Claim(3, 2, 0, BOB, 1, 100, start, author.leaf())
        self.claims, self.sides = {"bob": self.claim}, {("bob", 0): author}
        court = ToyCourt(hot={BOB: "0xb0b"}, owners={BOB: "0xb0b"}, parts=1)
        court.terms[JOB, self.claim] = Terms(WORK.root, REEXECUTE_S, 1, DEADLINE)
        court.reexecution_price = lambda job, is_aggregation: (COIN, 0)  # type: ignore[method-assign]
        self.explorations = Explorations(court, PRODUCTION)
        self.now, self.calls, self.explorer = START, 0, Explorer(self)
        self.honest = HonestToy("honest", 0, start)

    def fork(self) -> Table:
        new = copy(self)
        new.explorations, new.sides, new.explorer = self.explorations.fork(), dict(self.sides), Explorer(new)
        new.explorer.known = dict(self.explorer.known)
        return new

    def call(self, function: str, sender: str, *args: Any, value: int = 0) -> Any:
        side = verdicts if function in VERDICTS else referee
        self.calls += not function.startswith("answer")
        return getattr(side, function)(self.explorations, Message(self.account(sender), self.now, value), *args)

    def account(self, name: str) -> str:
        return "0xb0b" if name == "bob" else "0xda7e"

    def hot_of(self, name: str) -> str:
        return name

    def is_refused(self, function: str, sender: str, *args: Any) -> bool:
        try:
            self.fork().call(function, sender, *args, value=MUCH)
        except Refused:
            return True
        return False

    @property
    def end(self) -> End | None:
        return self.explorations.claims[claim_key(JOB, self.claim)].end

    def check_end(self, *ends: End) -> None:
        """Who should have won has, in time."""
        assert self.end in ends
        assert self.calls <= MOST_CALLS
        assert self.now <= bound(DEADLINE, REEXECUTE_S, PRODUCTION) + 1


# --- a hostile committer


def variants(node: Node, author: ToyComputation) -> Iterator[ToyComputation]:
    """What a committer can go on with: what it committed, and other trees where it commits to a new one."""
    yield author
    at = node.position
    if at.height or at.index == 0:
        return
    if at.tree == In.SEGMENTS and at.index == 1:
        yield author.pinned().with_trees(("beyond", Phase.STEPS, 0))
        other = author.pinned()
        other.memory["state", 1] = tree_of(tuple(noise("other", entry) for entry in range(PROGRAM.states)), False)
        yield other
    if at.tree == In.STEPS or (at.tree == In.SEGMENTS and at.index == 2):
        step = at.index - 1 if at.tree == In.STEPS else 2
        yield author.pinned().with_trees(("beyond", Phase.NODES, step))
        for number in range(len(PROGRAM.shapes)):
            yield author.pinned().with_trees(("data", step, number, 0))


def against_the_honest_asker(table: Table, id: bytes, waits: bool) -> int:
    """Every way to go on from here; how many ends there are."""
    _, node, status, _ = table.explorer.known[id]
    if status == Status.ANSWERED:
        return asked_on(table, id, waits)
    silent = table.fork()
    silent.now = node.clocks.since + node.clocks.committer_left_s + 1
    silent.call("expire", "dave", JOB, silent.claim, id, node)
    silent.check_end(End.SILENT)
    ends = 1
    if node.position.is_beyond:  # there is nothing behind a hash where padding belongs
        return ends
    for other in variants(node, table.sides["bob", 0]):
        after = table.fork()
        after.sides["bob", 0] = other
        if waits:
            after.now = node.clocks.since + node.clocks.committer_left_s
        try:
            after.explorer.answer(id, "bob")
        except Refused:
            continue
        ends += against_the_honest_asker(after, id, waits)
    return ends


def asked_on(table: Table, id: bytes, waits: bool) -> int:
    """The first difference to what the asker computed is asked about, or judged."""
    explorer, honest = table.explorer, table.honest
    _, node, _, frame = explorer.known[id]
    at = node.position
    if at.tree == In.SEGMENTS and node.root == honest.segments.root:
        last = honest.segments.path(-(-WORK.inner_steps // WORK.segment_steps))
        data = honest.state(WORK.inner_steps).root + b"".join(last)
        table.call("judge", "dave", JOB, table.claim, frame, explorer.place(id), 1, data)
        table.check_end(End.JUDGED)
        return 1
    theirs, ours = children_of(explorer.side(id), node, frame), children_of(honest, node, frame)
    differing = [place for place, (one, other) in enumerate(zip(theirs, ours, strict=True)) if one != other]
    if not differing:
        assert at.tree == In.NODES, "nothing differs"
        below = explorer.ask_state(id)
    elif at.shows_words or (at.tree == In.STATE and differing[0] < at.count):
        kind = 8 if at.shows_words else 2 if frame.is_begin else 3
        table.call("judge", "dave", JOB, table.claim, frame, explorer.place(id, differing[0]), kind, b"")
        table.check_end(End.JUDGED)
        return 1
    else:
        below = explorer.ask(id, differing[0])
    return against_the_honest_asker(table, below, waits)


@pytest.mark.parametrize("waits", [False, True])
def test_every_lie_and_every_way_to_defend_it__loses_to_the_honest_asker(waits):
    ends = 0
    for lie in places():
        table = Table(lie)
        assert table.sides["bob", 0].leaf() != ToyComputation("bob", 0, table.claim.start_root).leaf(), lie
        ends += against_the_honest_asker(table, table.explorer.first("bob", slot=0), waits)
    assert ends > 200


def test_two_lies__the_first_of_them_convicts():
    lies = list(places())
    for first, second in zip(lies, lies[7:], strict=False):
        table = Table(first, second)
        assert against_the_honest_asker(table, table.explorer.first("bob", slot=0), False)


# --- a hostile asker


def attempts(table: Table, id: bytes) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """All that an asker can try at an answered node."""
    _, node, _, frame = table.explorer.known[id]
    children = children_of(table.explorer.side(id), node, frame)
    for place in range(len(children) + 1):
        path = Tree(children).path(place % len(children))
        for child in (children[place % len(children)], noise("child")):
            yield "ask", (id, node, place, child, path)
    yield "ask_stage", (id, node, int(Ask.STATE), frame, PROGRAM.opened)
    for element in (0, 1, 299):
        leaf = min(element // 128, len(children) - 1)
        opening = ElementAsk(PROGRAM.descriptor(frame.node), element, children[leaf], Tree(children).path(leaf))
        yield "ask_stage", (id, node, int(Ask.PARTS), frame, opening)


def check_no_evidence(table: Table, id: bytes) -> None:
    """At the node, and at each child that it shows."""
    _, node, status, frame = table.explorer.known[id]
    author = table.sides["bob", 0]
    last, end = author.segments.path(2), author.state(WORK.inner_steps).root
    children = children_of(author, node, frame) if status == Status.ANSWERED else ()
    for child in (None, *range(len(children))):
        place = table.explorer.place(id, child)
        for kind in range(10):
            for data in (b"", end + b"".join(last), noise("end") + b"".join(last), end + b"".join(last[:1])):
                assert table.is_refused("judge", "dave", JOB, table.claim, frame, place, kind, data)


def against_the_honest_committer(table: Table, id: bytes, waits: bool) -> int:
    """Every ask below here, each alone; how many there are."""
    explorer = table.explorer
    _, node, status, _ = explorer.known[id]
    if status == Status.ASKED:
        assert table.is_refused("expire", "dave", JOB, table.claim, id, node)
        check_no_evidence(table, id)
        explorer.answer(id, "bob")
    _, node, _, frame = explorer.known[id]
    check_no_evidence(table, id)
    asks = 0
    for function, args in attempts(table, id):
        after = table.fork()
        if waits:
            after.now = max(after.now, DEADLINE) + node.clocks.asker_left_s // 2
        try:
            below, asked, *rest = after.call(function, "dave", *args, value=MUCH)
        except Refused:
            continue
        new_frame = rest[0] if rest else frame
        after.explorer.known[below] = "bob", asked, after.explorations.nodes[below][1], new_frame
        asks += 1 + against_the_honest_committer(after, below, waits)
    table.now = aged_at(DEADLINE, REEXECUTE_S, PRODUCTION)
    table.call("close", "dave", JOB, table.claim)
    assert table.end == End.FINAL
    return asks


@pytest.mark.parametrize("waits", [False, True])
def test_no_asker__wins_against_an_honest_committer(waits):
    table = Table()
    # Three segments, two steps of one of them, three nodes and the state after of each of three steps.
    assert against_the_honest_committer(table, table.explorer.first("bob", slot=0), waits) == 3 + 2 + 3 * 4
