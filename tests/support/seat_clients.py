"""A client of the service of seat_servers, and what its model says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.support.seat_servers import PRICE, FakeMarket, FakeSeat, execution
from zoo_compute.inference.answers import Completions
from zoo_compute.inference.client import Inference, Terms
from zoo_compute.serving.execution import tokens_of
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.questions import Question
from zoo_compute.store.addresses import Scope

Market = tuple[FakeMarket, list[FakeSeat]]
PROMPTS, NEW = ["ab", "cde"], 4
COST = (2 + 3 + 2 * NEW) * PRICE // 1_000
DEPOSIT = 100 * COST


def never() -> float:
    """A draw that has no answer computed again."""
    return 1.0 - 2**-53


@contextmanager
def client(
    market: FakeMarket, stored: StoredService, home: Path, draw: Callable[[], float] = never, **terms: Any
) -> Iterator[Inference]:
    chosen = {"max_price": PRICE, "deposit": DEPOSIT, "timeout_s": 5.0, "scope": Scope.LOOPBACK, **terms}
    with closing(Inference(market, stored, home, Terms(**chosen), draw=draw, say=lambda _: None)) as made:
        yield made


def right(stored: StoredService, prompts: list[str] = PROMPTS, new: int = NEW) -> tuple[str, ...]:
    """What the model says, by its own execution."""
    question = Question(stored.service, tuple(tuple(each.encode()) for each in prompts), new, b"r" * 32)
    tokens = tokens_of(question, execution().answer(question).outputs)
    return tuple(bytes(each).decode(errors="replace") for each in tokens)


def only(market: FakeMarket, *chosen: FakeSeat) -> None:
    market.listed = [each.seat() for each in chosen]


def streamed(inference: Inference) -> tuple[list[Any], Completions]:
    pieces, stream = [], inference.stream(PROMPTS, NEW)
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return pieces, end.value


def joined(pieces: list[Any]) -> tuple[str, ...]:
    return tuple("".join(each.text for each in pieces if each.index == index) for index in range(len(PROMPTS)))
