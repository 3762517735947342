"""Answers with one false token, and who gives them: for the demo, the benchmarks and the tests. Nothing else starts it.

    python -m tests.support.liars.lying_answers --chance P [options of `zoo serving start`]

The question says whether it is lied about and where, so that whoever answers for the lie in a dispute tells the same one.
"""

from __future__ import annotations

import argparse
import sys
from hashlib import sha256
from typing import Any

from node.disputes.alone import Answer
from repops.commitments import Array
from tests.support.liars.faults import LyingTraining
from zoo_compute.cli import main as cli
from zoo_compute.serving.execution import Ending, Execution, Said
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import OUTPUTS

BIT = 22  # of a float32: makes another small letter's number of a letter's


def is_lied(question: Question, chance: float) -> bool:
    """By the nonce alone: nobody else knows it before."""
    return int.from_bytes(sha256(b"lie" + question.nonce).digest()[:8], "big") / 2**64 < chance


def step_of(question: Question) -> int:
    """Of the false token, which is in the middle of the first text's new ones."""
    return len(question.prompts[0]) - 1 + question.new_tokens // 2


class LyingExecution(Execution):
    """Of an operator that lies with this chance."""

    chance = 0.0

    def answer(self, question: Question, said: Said = lambda step, outputs: None) -> Ending:
        if not is_lied(question, self.chance):
            return super().answer(question, said)

        def falsely(step: int, outputs: Array) -> None:
            if step == step_of(question):
                outputs[:1].view("u4")[...] ^= 1 << BIT
            said(step, outputs)

        return super().answer(question, falsely)


class LyingAnswer(LyingTraining, Answer):
    """The same answer, in a dispute: from somebody who answers for it as if it were right."""

    def __init__(self, programs: Any, weights: Any, question: Question, **options: Any) -> None:
        super().__init__(programs, weights, question, **options)
        token = next(entry.after for entry in self.graph.state if entry.name == OUTPUTS)
        step = step_of(question)
        self.elements[step, token], self.bit = step * question.program.rows, BIT


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.support.liars.lying_answers", allow_abbrev=False)
    parser.add_argument("--chance", type=float, required=True, help="with which a question is answered falsely")
    arguments, others = parser.parse_known_args()
    from keepers.serving import process

    honest = process.load_executions

    def lying(stored: StoredService, *options: Any) -> dict[str, Execution]:
        executions = honest(stored, *options)
        for execution in executions.values():
            execution.__class__ = LyingExecution
            execution.chance = arguments.chance  # type: ignore[attr-defined]
        return executions

    process.load_executions = lying
    return cli.run(["serving", "start", *others])


if __name__ == "__main__":
    sys.exit(main())
