"""Answers questions one after the other, in the one thread that owns the programs' states."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from keepers.serving.refusals import RequestRefused
from repops.commitments import Array
from zoo_compute.serving.execution import Ending, Execution, Said
from zoo_compute.serving.questions import Question
from zoo_compute.serving.receipts import SignedReceipt

log = logging.getLogger("zoo.serving")

Sign = Callable[[Question, Ending], SignedReceipt]
RETRY_S = 2  # what a client is asked to wait when all places are taken


@dataclass(frozen=True)
class Answer:
    """An answer that was signed."""

    question: Question
    ending: Ending
    signed: SignedReceipt


class _Abandoned(Exception):
    """Nobody waits for this answer any more."""


@dataclass
class Place:
    """One request's, from before it pays until it is answered."""

    engine: Engine
    question: Question | None = None
    said: Said = lambda step, outputs: None
    answer: Future[Answer] = field(default_factory=Future)
    is_abandoned: bool = False

    def ask(self, question: Question, said: Said = lambda step, outputs: None) -> Future[Answer]:
        """said: called in the engine's thread after each step."""
        self.question, self.said = question, said
        self.engine.enqueue(self)
        return self.answer

    def leave(self) -> None:
        """Nobody waits for the answer any more, or asks: whoever comes next has the place."""
        self.is_abandoned = True
        self.engine.release(self)


class Engine:
    """executions: by program root. sign: called once an answer is there. most: requests that wait or are answered."""

    def __init__(self, executions: Mapping[str, Execution], sign: Sign, most: int) -> None:
        self._executions, self._sign, self._most = executions, sign, most
        self._places: list[Place] = []
        self._queue: deque[Place] = deque()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Requests that have a place."""
        return len(self._places)

    def stop_taking(self) -> None:
        """Requests with a place are answered, and there are no new ones."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def stop(self, timeout_s: float | None = None) -> None:
        """Once what was paid for is answered."""
        self.stop_taking()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def reserve(self) -> Place:
        """A place, which is taken before the client pays. Raises RequestRefused."""
        with self._changed:
            if self._is_stopping:
                raise RequestRefused(503, "this server is stopping; ask another seat", "stopping")
            if len(self._places) >= self._most:
                raise RequestRefused(
                    429,
                    f"{self._most} requests wait already; try again, or ask another seat",
                    "queue_full",
                    retry_s=RETRY_S,
                )
            place = Place(self)
            self._places.append(place)
            return place

    def enqueue(self, place: Place) -> None:
        with self._changed:
            self._queue.append(place)
            self._changed.notify_all()

    def release(self, place: Place) -> None:
        with self._changed:
            if place in self._queue:
                self._queue.remove(place)
            elif place.question is not None and not place.answer.done():
                return  # it is being answered: the thread sees that nobody waits
            self._free(place)

    def _free(self, place: Place) -> None:
        if place in self._places:
            self._places.remove(place)
            self._changed.notify_all()

    def _next(self) -> Place | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or (self._is_stopping and not self._places))
            return self._queue.popleft() if self._queue else None

    def _run(self) -> None:
        while (place := self._next()) is not None:
            answer: Answer | Exception
            is_wanted = place.answer.set_running_or_notify_cancel()
            try:
                answer = self._answered(place) if is_wanted else _Abandoned()
            except _Abandoned as error:
                answer = error
            except Exception as error:
                log.exception("a question could not be answered")
                answer = error
            with self._changed:
                self._free(place)  # first: whoever has this answer may ask again at once
            if isinstance(answer, Answer):
                place.answer.set_result(answer)
            elif is_wanted:
                place.answer.set_exception(answer)

    def _answered(self, place: Place) -> Answer:
        question = place.question
        assert question is not None

        def said(step: int, outputs: Array) -> None:
            if place.is_abandoned:
                raise _Abandoned
            place.said(step, outputs)

        ending = self._executions[question.program.root].answer(question, said)
        return Answer(question, ending, self._sign(question, ending))
