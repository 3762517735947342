"""An account without a case: it asks about a true claim on a devnet, from the job's files, anywhere."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from keepers.decisions.requests import verify_request
from node.compute.programs import Programs
from node.disputes.computation import SlotRound
from node.disputes.player import result_in
from node.disputes.trees import Trees
from node.inputs.job_files import fetch_inputs
from node.inputs.updates import fetch_results
from zoo_compute.chain.explorations import DisputeView, read_disputes
from zoo_compute.chain.fees import next_base_fee
from zoo_compute.disputes.exploration import Call, Exploration, Opened, values
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.disputed_claims import claim_key
from zoo_compute.spec.exploration import segments_position
from zoo_compute.spec.frames import EMPTY, Kind
from zoo_compute.spec.state import Claim
from zoo_compute.training.work_root import work_of

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Receipt, Sender
    from zoo_compute.chain.views import Commit, JobView
    from zoo_compute.store.interface import Store


class Stranger:
    """Asks about one slot of a claim, and prepays whatever it has to."""

    def __init__(self, chain: Chain, sender: Sender, store: Store, view: JobView, commit: Commit, slot: int) -> None:
        self.chain, self.sender, self.job, self.slot = chain, sender, view.job, slot
        self.claim = Claim(*commit.fields)  # type: ignore[arg-type]
        request = verify_request(view, commit, slot, None)
        inputs = fetch_inputs(store, request)
        entries = fetch_results(store, request, request, commit.start_root)
        self.result = result_in(list(entries.values()), entries[slot])
        self.work = work_of(inputs.manifest, inputs.programs.graph)
        programs = Programs(inputs.programs.graph)
        place = (commit.round, slot)
        self.trees = Trees(SlotRound(inputs.manifest, programs, inputs.checkpoint, inputs.examples, *place))
        sender.send(chain.zen.approve(chain.referee.address, UINT256_MAX))

    @property
    def dispute(self) -> DisputeView | None:
        key = claim_key(self.job, self.claim)
        return next(iter(read_disputes(self.chain, self.chain.head(), wanted=lambda each: each.key == key)), None)

    @property
    def picture(self) -> Exploration:
        dispute = self.dispute
        return dispute.picture if dispute is not None else Exploration()

    def begin(self) -> Receipt:
        """At the root of the segments."""
        position = segments_position(self.work.inner_steps, self.work.segment_steps)
        work, result = self.work, self.result
        plain: Any = (list(work.programs), *values(work)[1:])
        roots = (result.segment_root, result.end_root, result.update_root, list(result.path))
        nothing = (0, (EMPTY, EMPTY, []), [])
        args = (self.job, values(self.claim), int(Kind.TRAINING), self.slot, plain, roots, *nothing)
        return self.send(Call("ask_claim", args, self.picture.prepaid(position)))

    def ask(self, node: Opened, place: int) -> Receipt:
        return self.send(self.picture.ask(node, place))

    def ask_anything(self, node: Opened, rng: random.Random) -> Receipt:
        """Below an answered node. Raises Refusal where the contract takes no ask."""
        from tests.support.explorations.sybils import some_ask

        board: Any = SimpleNamespace(picture=self.picture)
        return self.send(some_ask(board, node, self.trees, rng))

    def send(self, call: Call) -> Receipt:
        value = 2 * call.value(next_base_fee(self.chain.w3))
        return self.sender.send(getattr(self.chain.referee, call.name)(*call.args), value=value)
