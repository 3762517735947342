"""A program of the operator's own that says the price of each job: price_script in operator.json.

It reads one JSON object and prints one number, whole tokens a unit. It runs in a child process with limits, in a thread beside the looks at
the chain: the keeper bids when there is an answer. An answer holds until the job's reserve, what was measured here, or the hour changes.
"""

from __future__ import annotations

import json
import logging
import os
import queue
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from node.errors import Interrupted, MeasurementFailed
from node.measurement.limited_process import Limits, output_of
from zoo_compute.amounts import Token
from zoo_compute.atomic import write_atomically
from zoo_compute.errors import UserError

log = logging.getLogger("zoo.keeper")

PATIENCE_S = 5.0
LIMITS = Limits(
    wall_s=PATIENCE_S, cpu_s=PATIENCE_S, memory_bytes=2**29, disk_bytes=2**24, caps_addresses=False
)  # node and java reserve far more addresses than they use
MOST_PROCESSES = 32
MOST_BYTES = 256  # of what it prints
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")  # of this process's environment: no secret is in these
ANSWERS = "prices.json"  # in the operator's folder
KEPT = 1_000  # answers
IDLE_S = 1.0  # between two reports of progress


@dataclass(frozen=True)
class Answer:
    """key: what it holds for. price: in the smallest unit of the job's token; 0 where there is none, and why says why."""

    key: list[Any]
    price: int
    why: str


class PriceScript:
    """Answers by job and kind, kept on disk: a bid that was sealed before a restart is opened at its price. answered: called after each answer."""

    def __init__(self, program: Path, folder: Path, answered: Callable[[], None] = lambda: None) -> None:
        self._program = program
        self._path = folder / ANSWERS
        self._answered = answered
        self._answers = self._read()
        self._asked: dict[str, list[Any]] = {}  # what is under way
        self._waiting: queue.Queue[tuple[str, list[Any], dict[str, Any], Token]] = queue.Queue()

    def answer(self, job: int, kind: int, key: list[Any] | None = None) -> Answer | None:
        """The newest one, where it holds for this key; for any, if there is no key."""
        answer = self._answers.get(f"{job}:{kind}")
        return answer if answer is not None and key in (None, answer.key) else None

    def is_asked(self, job: int, kind: int, key: list[Any]) -> bool:
        return self._asked.get(f"{job}:{kind}") == key

    def ask(self, job: int, kind: int, key: list[Any], question: dict[str, Any], token: Token) -> None:
        """Run it, as soon as what was asked before is answered."""
        self._asked[f"{job}:{kind}"] = key
        self._waiting.put((f"{job}:{kind}", key, question, token))

    def run(self, progressed: Callable[[], None]) -> None:
        """Answer until the process ends."""
        while True:
            self.answer_next(IDLE_S)
            progressed()

    def answer_all(self) -> int:
        """How many answers that were."""
        count = 0
        while self.answer_next():
            count += 1
        return count

    def answer_next(self, patience_s: float = 0.0) -> bool:
        """Whether something waited."""
        try:
            name, key, question, token = (
                self._waiting.get(timeout=patience_s) if patience_s else self._waiting.get_nowait()
            )
        except queue.Empty:
            return False
        try:
            price, why = self._ask(question, token)
        except Interrupted:
            return False
        self._answers.pop(name, None)
        self._answers = {**dict(list(self._answers.items())[1 - KEPT :]), name: Answer(key, price, why)}
        if self._asked.get(name) == key:  # else another question waits
            del self._asked[name]
        self._write()
        self._answered()
        return True

    def _ask(self, question: dict[str, Any], token: Token) -> tuple[int, str]:
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        try:
            said = output_of(
                [str(self._program)],
                LIMITS,
                json.dumps(question).encode() + b"\n",
                environment=environment,
                most_bytes=MOST_BYTES,
                most_processes=MOST_PROCESSES,
            )
        except MeasurementFailed as error:
            return 0, str(error)
        except OSError as error:
            return 0, f"cannot be run: {error}"
        text = said.decode(errors="replace").strip()
        if not text:
            return 0, "printed no price"
        try:
            price = token.parse(text, what="price")
        except UserError:
            price = 0
        if price <= 0:
            return 0, f"printed {text[:40]!r}, and a positive number of {token} was expected"
        return price, ""

    def _read(self) -> dict[str, Answer]:
        try:
            raw = json.loads(self._path.read_text())
            return {name: Answer(**{**answer, "price": int(answer["price"])}) for name, answer in raw.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("%s cannot be read, and price_script is asked again: %s", self._path, error)
            return {}

    def _write(self) -> None:
        raw = {name: {**asdict(answer), "price": str(answer.price)} for name, answer in self._answers.items()}
        try:
            write_atomically(self._path, json.dumps(raw, indent=1).encode() + b"\n", mode=0o600)
        except OSError as error:  # a restart asks again
            log.warning("%s cannot be written: %s", self._path, error)
