"""Admission of a machine: enter a trial, run it with its seed, answer, and settle after the challenge window.

The run itself is a process of `node.admission.trial`. It starts before the trial is entered and has no key.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo_compute.chain import views
from zoo_compute.chain.events import scan
from zoo_compute.errors import NeedsOperator, UserError
from zoo_compute.spec import state
from zoo_compute.spec.frames import claim_hash
from zoo_compute.spec.trials import TRIALS
from zoo_compute.subprocesses import tied_to_parent

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.events import Event
    from zoo_compute.chain.generated.bindings.admissions import Claim, Workload
    from zoo_compute.chain.sender import Sender

READY = "ready"
POLL_S = 0.2
EMPTY_HASH = bytes(32)
HASH_BYTES = 30  # of a claim's hash, that its word keeps
SEAT = 0  # of a trial's claim


class TrialFailed(NeedsOperator):
    """The torch side could not run the workload; the message is its own."""


@dataclass(frozen=True)
class AdmissionStatus:
    """The state of an operator's admission. wait_s: until the trial can be settled; 0 if none is open."""

    operator: int
    admitted: bool
    score: int  # FLOPs a second of the trial that admitted it
    wait_s: int
    seconds: int = 0  # that the answered trial took


class TrialAnswer(NamedTuple):
    """An answered trial, from its event. seconds: that it took. deadline: the last second of its window."""

    claim: Claim
    workload: Workload
    seconds: int
    deadline: int

    @property
    def seed(self) -> bytes:
        return self.claim.round.to_bytes(32, "big")

    @property
    def view(self) -> views.Claim:
        """As a job's claim is shown."""
        return views.Claim(*self.claim, deadline=self.deadline)

    @property
    def claim_hash(self) -> bytes:
        return claim_hash(state.Claim(*self.claim))


def advance_admission(chain: Chain, sender: Sender, operator: int, options: Sequence[str]) -> AdmissionStatus:
    """Settle a trial whose challenge window is over, leave one whose window is open, or else run a new one."""
    pending = pending_trial(chain, operator)
    if pending is None:
        pending = run_trial(chain, sender, operator, options)
    elif chain.time() > pending.deadline:
        sender.send(chain.admissions.settle(pending.claim))
        score = chain.admissions.scores(operator)
        return AdmissionStatus(operator, chain.registry.is_admitted(operator), score, 0, pending.seconds)
    wait_s = max(1, pending.deadline + 1 - chain.time())
    score = chain.admissions.scores(operator)
    return AdmissionStatus(operator, chain.registry.is_admitted(operator), score, wait_s, pending.seconds)


def pending_trial(chain: Chain, operator: int) -> TrialAnswer | None:
    """The operator's answered trial that is not settled yet."""
    if chain.admissions.claims(TRIALS, SEAT, operator) == EMPTY_HASH:
        return None
    return trial_answers(chain, operator)[-1]


def is_pending(chain: Chain, claim: views.Claim) -> bool:
    """Whether this answered trial is neither settled nor judged."""
    word = chain.admissions.claims(TRIALS, SEAT, claim.operator)
    hash = claim_hash(state.Claim(*claim.fields))  # type: ignore[arg-type]
    return word != EMPTY_HASH and word[:HASH_BYTES] == hash[:HASH_BYTES]


def trial_answers(chain: Chain, operator: int) -> list[TrialAnswer]:
    """All trials that the operator answered."""
    head = chain.head("latest")
    events = scan(chain, chain.network.first_block, head.number, ("TrialAnswered",), operator=operator)
    return [answered(event) for event in events]


def run_trial(chain: Chain, sender: Sender, operator: int, options: Sequence[str]) -> TrialAnswer:
    """Enter, run, answer. options: of `node.admission.trial`. Raises UserError, TrialFailed, Refusal."""
    workload = chain.admissions.workload_of(operator)
    if not workload.steps:
        raise UserError(
            f"no workload is set for the memory of operator {operator}", hint="the network's governor sets them"
        )
    with _trial_process(workload, options) as process:
        sender.send(chain.admissions.enter(operator))
        seed = _seed(chain, operator)
        root = bytes.fromhex(_send_seed(process, seed.hex())["root"])
        # Send the seed that was run, not the current one: after a reorganisation the contract refuses it instead of accepting a false claim.
        receipt = sender.send(chain.admissions.answer(operator, seed, root))
    return answered(receipt.event("TrialAnswered"))


def _seed(chain: Chain, operator: int) -> bytes:
    """The seed of the operator's entry. Waits until its block is deep enough."""
    until = time.monotonic() + chain.params.benchmark_s
    while (seed := chain.admissions.seed_of(operator)) == EMPTY_HASH:
        if time.monotonic() > until:
            raise TrialFailed("the block of the seed was not mined in time", hint="check the chain, then enter again")
        time.sleep(POLL_S)
    return seed


@contextmanager
def _trial_process(workload: Workload, options: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that has loaded the workload and waits for the seed."""
    roots = ["--program-root", workload.program_root.hex(), "--state-root", workload.state_root.hex()]
    command = [sys.executable, "-m", "node.admission.trial", *roots, "--steps", str(workload.steps), *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=tied_to_parent(),
    ) as process:  # fmt: skip
        assert process.stdout
        if process.stdout.readline().strip() != READY:
            raise _failed(process)
        yield process


def _send_seed(process: subprocess.Popen[str], seed: str) -> dict[str, Any]:
    assert process.stdin
    assert process.stdout
    process.stdin.write(seed + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise _failed(process)
    answer: dict[str, Any] = json.loads(line)
    return answer


def _failed(process: subprocess.Popen[str]) -> TrialFailed:
    assert process.stderr
    return TrialFailed(process.stderr.read().strip() or f"the trial ended with {process.wait()}")


def answered(event: Event) -> TrialAnswer:
    """From a `TrialAnswered`."""
    from zoo_compute.chain.generated.bindings.admissions import Claim, Workload

    args = event.args
    return TrialAnswer(
        Claim(**dict(args["claim"])), Workload(**dict(args["workload"])), args["seconds"], args["deadline"]
    )
