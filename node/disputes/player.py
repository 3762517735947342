"""What a worker does in a dispute: the answers of a claim's author or defender, or an asker's next call.

A request of `run_dispute`, in plain JSON (zoo_compute.json_codec), beside what names the job's files:

    role             author, defender or asker
    claim, picture   the disputed claim, and the exploration so far
    now, clocks      chain time in seconds, and the clock preset
    folder           where computations are kept until the dispute is over
    places           of an asker: kind, slot, and the slot's result where it is not the bundle's
    skipped          asks to leave alone
    failing          asks to try last, as they could not be computed before
    bundle, operator, root, slots   of a claim of slots
    bundles          of an aggregation, each with its claim
    before           by slot (node.inputs.carried_state)
    aggregated       the claim in the aggregation's place of the turn before, or null
    bundles_before   as bundles, of the turn before

A trial has `work` and `trial` (the roots of its program and its start, its seed) in place of files and bundles; a receipt of an answer
has `work` and `question` (`zoo_compute.serving.files`).

The answer has `calls`, each with the fields of `exploration.Call`; `until`, the second after which the other side's silence
convicts; and `unanswered`, by the id (hex) of an ask: why this side has no answer to it.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from node.admission import benchmark
from node.admission.trial import LoadedWorkload
from node.backends import falls_back, on_switch
from node.compute.programs import Programs, Tensors
from node.device import computes_on, pick_device
from node.disputes.alone import Answer, Trial
from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed, Wait, explored_first
from node.disputes.computation import Computation, SlotRound
from node.disputes.previous_turn import PreviousTurn, SeatClaim
from node.disputes.rounds import Aggregation, Update
from node.disputes.trees import Trees
from node.inputs import carried_state
from node.inputs.fetching import UNAVAILABLE, root_from_hex
from node.inputs.job_files import Inputs, fetch_inputs
from node.inputs.updates import fetch_results, get_updates
from repops.commitments import tensor_roots
from repops.merkle import Tree as HashTree
from zoo_compute.codec.pruning import PrunedTree
from zoo_compute.disputes.exploration import Call, Exploration
from zoo_compute.disputes.roles import ASKER, AUTHOR
from zoo_compute.formats.bundles import SlotResult
from zoo_compute.json_codec import decode, encode
from zoo_compute.serving.files import StoredService
from zoo_compute.spec.carry import is_restart
from zoo_compute.spec.clocks import ClockPreset
from zoo_compute.spec.frames import EMPTY, Frame, Kind, Phase, Result, Work
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS
from zoo_compute.store.interface import Store
from zoo_compute.training.work_root import work_of

log = logging.getLogger("zoo.disputes")

SlotRoundFactory = Callable[..., SlotRound]
KEPT = 2  # computations kept in memory, each with a state of the job
# After which the answers made so far are given: the first asks' clocks do not wait for the last ones' answers.
BATCH_S = 1.0

_trees: OrderedDict[tuple[Any, ...], Trees] = OrderedDict()
on_switch(_trees.clear)


@falls_back
def run_dispute(request: Mapping[str, Any], store: Store, *, made: SlotRoundFactory = SlotRound) -> dict[str, Any]:
    """Raises BadInputs, Withheld and the store's errors. made: for fault injection.

    Training may hold the GPU's memory, and a dispute's clocks do not wait for it: an answer is then computed on the CPU.
    """
    return _played(request, store, made)


def _played(request: Mapping[str, Any], store: Store, made: SlotRoundFactory) -> dict[str, Any]:
    try:
        return _Player(request, store, made).played()
    except BaseException:
        _trees.clear()  # a step that memory did not suffice for may be done by half: it must not be gone on from
        raise


def _in_time(calls: Iterable[Call]) -> Iterator[Call]:
    """Those made in BATCH_S, at least one."""
    end = time.monotonic() + BATCH_S
    for call in calls:
        yield call
        if time.monotonic() > end:
            return


class _Player:
    """Both sides of one claim, from a request."""

    def __init__(self, request: Mapping[str, Any], store: Store, made: SlotRoundFactory) -> None:
        self._request, self._store, self._made = request, store, made
        self._picture = Exploration.from_plain(request["picture"])
        self._claim = Claim(*decode(request["claim"]))
        self._is_alone = "work" in request

    def played(self) -> dict[str, Any]:
        if self._request["role"] == ASKER:
            step = self._next()
            calls = [step] if isinstance(step, Call) else []
            return {"calls": encode(calls), "until": step.until if isinstance(step, Wait) else None, "unanswered": {}}
        request = self._request
        # Of the claim's author, or of a stranger that defends it.
        answerer = Answerer(
            self._claim,
            self._trees,
            ClockPreset(*decode(request["clocks"])),
            result_of=self._result,
            is_author=request["role"] == AUTHOR,
        )
        left_out = (decode(request.get(name, [])) for name in ("skipped", "failing"))
        calls = list(_in_time(answerer.calls(self._picture, request["now"], *left_out)))
        if answerer.failed:
            _trees.clear()  # what stopped half way
        unanswered = {id.hex(): why for id, why in answerer.unanswered.items()}
        return {"calls": encode(calls), "until": None, "unanswered": unanswered}

    def _next(self) -> Call | Wait | None:
        """At the first place where something is false. Those that somebody explored come first: what was asked there is used.

        Raises what keeps a place from being computed where no other convicts.
        """
        failure: Exception | None = None
        places = [self._disputed(*place) for place in self._request["places"]]
        for disputed in explored_first(places, self._picture):
            try:
                asker = Asker(self._trees(disputed.kind, disputed.slot), disputed)
                step = asker.next(self._picture, self._request["now"])
            except UNAVAILABLE as error:
                log.warning("slot %d: %s", disputed.slot, error)
                _trees.clear()
                failure = error
                continue
            if step is not None:
                return step
        if failure is not None:
            raise failure
        return None

    def _disputed(self, kind: int, slot: int, known: Any) -> Disputed:
        """known: the slot's result, as an answer on chain shows it."""
        result = Result(*decode(known)) if known else None
        if result is None and kind != Kind.AGGREGATION:
            result = self._bundled(slot)
        return Disputed(self._request.get("job", TRIALS), self._claim, Kind(kind), slot, self._work(), result)

    def _work(self) -> Work:
        if self._is_alone:
            return Work(*decode(self._request["work"]))
        inputs = fetch_inputs(self._store, self._request)
        return work_of(inputs.manifest, inputs.programs.graph)

    def _bundled(self, slot: int) -> Result | None:
        """An asker's. None where it cannot be had, or in a trial: then it is asked for on chain."""
        if self._is_alone:
            return None
        try:
            return self._result(slot)
        except UNAVAILABLE as error:
            log.warning("the results of the claim are not served: %s", error)
            return None

    def _result(self, slot: int) -> Result | None:
        """As the bundle has it, or as it was computed here of what is of no job."""
        if self._is_alone:
            return self._computed_result(slot)
        request = self._request
        entries = fetch_results(self._store, request, request, root_from_hex(request["start_root"]))
        return result_in(list(entries.values()), entries[slot]) if slot in entries else None

    def _computed_result(self, slot: int) -> Result:
        """A trial's answer names the segments alone."""
        work, trees = self._work(), self._trees(Kind.TRAINING, slot)
        shape = Frame(inner_steps=work.inner_steps, segment_steps=work.segment_steps)
        end = EMPTY if "trial" in self._request else trees.states(shape, Phase.SEGMENTS)[-1]
        return Result(trees.tree(shape, Phase.SEGMENTS).root, end)

    # --- what is computed

    def _trees(self, kind: int, slot: int) -> Trees:
        names = ("device", "folder", "manifest", "start_root", "round", "role")
        key = (*(self._request.get(name) for name in names), self._claim.seat, slot, kind)
        if key not in _trees:
            _trees[key] = Trees(self._computation(kind, slot))
            while len(_trees) > KEPT:
                _trees.popitem(last=False)
        _trees.move_to_end(key)
        return _trees[key]

    def _computation(self, kind: int, slot: int) -> Computation:
        request = self._request
        folder = Path(request["folder"]) / f"{kind if kind == Kind.AGGREGATION else 0}-{slot}"
        if "trial" in request:
            return self._trial(folder)
        if "question" in request:
            return self._answer(folder)
        inputs = fetch_inputs(self._store, request)
        if kind == Kind.AGGREGATION:
            return self._aggregation(inputs, folder)
        # Of its own: the programs that are kept for training hold the state of another slot-round.
        programs = Programs(inputs.programs.graph, inputs.programs.device)
        begins: dict[str, Any] = {"carried": None, "before": None}
        if not is_restart(request["round"], inputs.manifest.carry):
            begins = self._going_on(inputs, slot)
        place = (request["round"], slot)
        computed = self._made(
            inputs.manifest, programs, inputs.checkpoint, inputs.examples, *place, folder=folder, **begins
        )
        return Update(computed, folder=folder / "update") if kind == Kind.UPDATE else computed

    def _going_on(self, inputs: Inputs, slot: int) -> dict[str, Any]:
        """What a slot-round goes on from, done again, and what shows it: claims are the chain's, of one the results too."""
        request, kept = self._request, self._request["aggregated"]
        about = {**request, "slot": slot, "before": request["before"].get(str(slot), [])}
        rounds = carried_state.rounds_since_restart(about, inputs.manifest.carry)
        last = carried_state.replay(about, rounds, inputs, self._store) if rounds else None
        end = inputs.programs.tensor_roots() if last else {}
        seated = []
        for commit in request["bundles_before"]:
            claim = Claim(*decode(commit["claim"]))
            entries = {}
            if rounds and slot in claim.slots:
                entries = fetch_results(self._store, {**request, "round": claim.round}, commit, claim.start_root)
            results = {slot: result_in(list(entries.values()), entries[slot])} if entries else {}
            seated.append(SeatClaim(claim, results))
        before = PreviousTurn(
            Claim(*decode(kept)) if kept else None, seated, end, tensor_roots(last.update) if last else {}
        )
        return {"carried": last.private if last is not None else None, "before": before}

    def _trial(self, folder: Path) -> Trial:
        """Of this installation's benchmark. Raises BadInputs where the workload is another."""
        program_root, state_root, seed = map(bytes.fromhex, self._request["trial"])
        programs = Programs(benchmark.fixed_program(), computes_on(pick_device(self._request.get("device"))))
        return Trial(LoadedWorkload(programs, program_root, state_root), seed, folder=folder)

    def _answer(self, folder: Path) -> Answer:
        """Raises BadService."""
        about = self._request["question"]
        stored = StoredService.fetch(self._store, about["service"])
        question = stored.question(about)
        programs = Programs(stored.graph(question.program), computes_on(pick_device(self._request.get("device"))))
        return Answer(programs, stored.weights(programs.graph), question, folder=folder)

    def _aggregation(self, inputs: Inputs, folder: Path) -> Aggregation:
        """From what the present seats committed, fetched and checked."""
        request, step = self._request, inputs.programs.graph
        updates, trees, seated = dict[int, Tensors](), dict[int, PrunedTree](), []
        several = inputs.manifest.aggregators > 1
        share = self._claim.seat - AGGREGATOR_SEAT if several else None
        for commit in request["bundles"]:
            entries = fetch_results(self._store, request, commit, root_from_hex(commit["start_root"]))
            for slot, received in get_updates(self._store, entries, inputs.manifest, step, share=share).items():
                updates[slot], trees[slot] = received.state, received.tree
            results = {slot: result_in(list(entries.values()), entry) for slot, entry in entries.items()}
            seated.append(SeatClaim(Claim(*decode(commit["claim"])), results))
        sent: Any = {"claim": self._claim, "seated": seated, "trees": trees, "share": share, "folder": folder}
        return Aggregation(inputs.manifest, step, inputs.checkpoint, updates, **sent)


def dispute_of(slot: int, result: Result, field: str) -> dict[str, Any] | None:
    """Where a slot's result is false, whose `field` differs; None where that is no question of arithmetic."""
    if field not in ("segment_root", "end_root", "update_root"):
        return None
    kind = Kind.UPDATE if field == "update_root" else Kind.TRAINING
    return {"kind": int(kind), "slot": slot, "result": encode(result)}


AGGREGATION_DISPUTE: dict[str, Any] = {"kind": int(Kind.AGGREGATION), "slot": 0, "result": None}
TRIAL_DISPUTE: dict[str, Any] = {"kind": int(Kind.TRAINING), "slot": 0, "result": None}


def result_in(results: Sequence[SlotResult], entry: SlotResult) -> Result:
    """One of a claim's results with its path to the claim's root."""
    ordered = sorted(results, key=lambda result: result.slot)
    path = HashTree([result.root for result in ordered]).path(ordered.index(entry))
    return Result(entry.segment_root, entry.end_root, entry.update_root, path)
