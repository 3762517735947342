"""Computes an answer again, from the service's own program and weights: whoever has the question can."""

from __future__ import annotations

import threading
from collections.abc import Callable

from repops import backend
from repops.fields import BadField
from repops.graph import Graph
from zoo_compute.serving.execution import Ending, Execution
from zoo_compute.serving.files import BadService, StoredService
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import ServedProgram
from zoo_compute.spec.receipts import AnswerReceipt

MakeExecution = Callable[[StoredService, ServedProgram, Graph], Execution]


class Checker:
    """The programs of a service, fetched once; and what runs them, made when an answer is first computed again. Threads can share it."""

    def __init__(self, stored: StoredService, threads: int = 1) -> None:
        self._stored, self._threads = stored, threads
        self._graphs: dict[str, Graph] = {}
        self._executions: dict[str, Execution] = {}
        self._fetching, self._running = threading.Lock(), threading.Lock()

    def graph(self, question: Question) -> Graph:
        """Of the program that answers it. Raises BadService and the store's errors."""
        program = question.program
        with self._fetching:
            if program.root not in self._graphs:
                self._graphs[program.root] = self._stored.graph(program)
            return self._graphs[program.root]

    def answer(self, question: Question) -> Ending:
        """What the question leads to, to the bit. Raises BadService and the store's errors."""
        graph, root = self.graph(question), question.program.root
        with self._running:
            if root not in self._executions:
                self._executions[root] = self._prepared(graph)
            return self._executions[root].answer(question)

    def _prepared(self, graph: Graph) -> Execution:
        weights = self._stored.weights(graph)
        try:
            return Execution(self._stored.service, graph, weights, backend.prepare(graph), self._threads)
        except BadField as error:
            raise BadService(f"the service {self._stored.cid}: {error}") from error


def is_true(receipt: AnswerReceipt, ending: Ending) -> bool:
    """Whether a receipt says where its question leads."""
    return (receipt.segments, receipt.end) == (ending.segments, ending.end)
