"""When a chain is taken to be out of reach, and where training continues. The rest is tested on two networks (tests/integration/test_partition.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zoo_compute.chain.views import JobState
from zoo_compute.client import partition
from zoo_compute.client.partition import Partition, Rule, Seen
from zoo_compute.errors import Unreachable, UserError

AFTER_S = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, _: float) -> None:
        self.now += 10.0


class Chain:
    """heads: the newest block at each look; None: out of reach; the last one stays."""

    def __init__(self, heads: Sequence[int | None], states: Sequence[JobState] = (JobState.RUNNING,)) -> None:
        self.heads, self.states = list(heads), list(states)
        self.chain: Any = SimpleNamespace(head=self._head)
        self.said: list[str] = []
        self.say = self.said.append
        self.store: object = None

    def _head(self) -> Any:
        head = self.heads.pop(0) if len(self.heads) > 1 else self.heads[0]
        if head is None:
            raise Unreachable("no RPC answers")
        return SimpleNamespace(number=head)

    def job(self, _: int) -> Any:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        view = SimpleNamespace(over=state == JobState.ENDED, completed_rounds=0, checkpoint_roots={0: b""})
        return SimpleNamespace(view=lambda: view)


def follows(home: Chain, far: Chain, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, float]:
    """Whether the chain was found out of reach, and after how many seconds."""
    clock = Clock()
    monkeypatch.setattr(partition.time, "sleep", clock.sleep)
    monkeypatch.setattr(partition, "Seen", lambda: Seen(clock))
    clients: tuple[Any, Any] = home, far
    return Partition(*clients, 1, Rule(folder / "job.json", AFTER_S), folder)._follow(), clock.now


BLOCKS = range(1, 100)


@pytest.mark.parametrize("heads", [[1, 2, None], [1, 2]], ids=["no answer", "no new block"])
def test_a_chain_that_is_silent_while_the_other_goes_on__is_out_of_reach(
    heads: list[int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert follows(Chain(heads), Chain(BLOCKS), tmp_path, monkeypatch) == (True, 10 + AFTER_S + 10)


def test_a_chain_that_was_never_reached__is_waited_for_as_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert follows(Chain([None]), Chain(BLOCKS), tmp_path, monkeypatch) == (True, AFTER_S + 10)


def test_where_neither_chain_is_reached__nothing_is_posted_until_the_other_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [None] * 30
    assert follows(Chain([None]), Chain([1, *away, *BLOCKS]), tmp_path, monkeypatch) == (True, 32 * 10)


def test_a_chain_that_is_back_in_time__is_followed_until_the_job_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Chain([1, *[None] * 4, *BLOCKS], [JobState.RUNNING] * 20 + [JobState.ENDED])
    assert follows(home, Chain(BLOCKS), tmp_path, monkeypatch)[0] is False


def test_what_is_waited_for__is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise Unreachable("no RPC answers")

    monkeypatch.setattr(Partition, "_keep", fails)
    home = Chain(BLOCKS, [JobState.RUNNING] * 9 + [JobState.ENDED])
    follows(home, Chain(BLOCKS), tmp_path, monkeypatch)
    assert home.said == ["no RPC answers; will try again"]


class Sides:
    """Losses by the number that a state consists of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, losses: dict[int, float] | None) -> None:
        self.home = Chain([1])
        monkeypatch.setattr(partition, "merge_branches", lambda branches: ("a merge", 3))

        def heldout(*_: object) -> Any:
            if losses is None:
                raise UserError("no kernels")
            return SimpleNamespace(loss=losses.__getitem__)

        monkeypatch.setattr(partition, "Heldout", heldout)

    def start(self, folder: Path, *ends: int) -> tuple[object, object]:
        branch = SimpleNamespace(examples=10)
        trained: Any = [SimpleNamespace(end=end, branch=branch) for end in ends]
        clients: tuple[Any, Any] = self.home, self.home
        return Partition(*clients, 1, Rule(folder / "job.json"), folder)._start(SimpleNamespace(), trained)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("losses", "start"),
    [
        ({1: 2.0, 2: 2.5, 3: 1.9}, ("a merge", 3)),
        ({1: 2.0, 2: 2.5, 3: 2.0}, ("a merge", 3)),
        ({1: 2.0, 2: 2.5, 3: 2.1}, (None, 1)),
        ({1: 2.6, 2: 2.5, 3: 2.6}, (None, 2)),
        (None, ("a merge", 3)),
    ],
)
def test_training_continues_from_the_merge__unless_a_side_has_less_loss(
    losses: dict[int, float] | None, start: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Sides(monkeypatch, losses).start(tmp_path, 1, 2) == start


def test_where_one_side_trained_nothing__training_continues_from_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Sides(monkeypatch, None).start(tmp_path, 2) == (None, 2)
