"""Performs the duties that `keepers.decisions` names: transactions on chain, and requests to the operator's own workers."""

from __future__ import annotations

import logging

from keepers.capacity import Capacity
from keepers.config import OperatorConfig
from keepers.decisions.demands import shares_to_fetch
from keepers.decisions.orders import (
    Aggregate,
    CommitTrained,
    DemandChunk,
    Duty,
    Fetch,
    MeasureAgain,
    OpenBid,
    PostAggregate,
    Precompute,
    Prepare,
    SealBid,
    Send,
    Train,
)
from keepers.decisions.requests import (
    aggregate_name,
    aggregate_request,
    fetch_name,
    fetch_request,
    precompute_work,
    prepare_name,
    prepare_request,
    present_claims,
)
from keepers.queue.work_queue import WorkQueue
from keepers.services import deposits
from keepers.services.bid_seals import BidSealer
from keepers.services.custody import Custody
from keepers.services.precompute import Speculation
from keepers.services.progress import bundle_to_fetch, fetched_bundles, measure_again, trained, training_work
from keepers.services.sends import Sends
from keepers.services.verification import RequestWork
from node.inputs import bundles
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.views import JobView
from zoo_compute.formats.tags import job_tag
from zoo_compute.store import Store
from zoo_compute.store.cid import digest_of

log = logging.getLogger("zoo.keeper")


class Actions:
    """Doing a duty twice is harmless: the contract refuses the second send, and work has a name."""

    def __init__(
        self,
        config: OperatorConfig,
        chain: Chain,
        store: Store,
        work: WorkQueue,
        sends: Sends,
        *,
        ask: RequestWork,
        sealer: BidSealer,
        capacity: Capacity,
        speculation: Speculation,
        custody: Custody,
    ) -> None:
        self._config = config
        self._chain = chain
        self._store = store
        self._work = work
        self._sends = sends
        self._ask = ask
        self._sealer = sealer
        self._capacity = capacity
        self._speculation = speculation
        self._custody = custody

    def perform(self, view: JobView, duty: Duty) -> None:
        """Transactions are only added to `sends`. Raises NeedsOperator, RpcsDisagree and the store's errors."""
        match duty:
            case Send(contract, function, args):
                if function == "take_over":
                    self._capacity.add_takeover(view, args)
                self._sends.add(view, getattr(getattr(self._chain, contract), function)(*args))
            case SealBid():
                self._capacity.add_bid(view, duty)
                self._seal_bid(view, duty)
            case OpenBid():
                self._open_bid(view, duty)
            case Prepare():
                self._ask("work.prepare", prepare_name(view), prepare_request(view))
            case MeasureAgain():
                log.info("job %d: its program is measured again: it was too slow for a bid", view.job)
                self._ask("work.prepare", prepare_name(view), measure_again(self._work, view))
            case Train(slot, ahead):
                begun = self._speculation.begin(view, self._config.operator) if ahead else view
                self._ask("work.train", *training_work(self._work, begun, slot))
            case Precompute():
                self._ask("work.advance", *precompute_work(view))
            case CommitTrained(seat):
                self._commit(view, seat)
            case Fetch(seat):
                self._fetch(view, seat)
            case DemandChunk():
                demanded = deposits.demand(self._config, self._chain, view, duty, self._sends.address)
                if demanded is not None:
                    self._sends.add(view, demanded[0], value=demanded[1])
            case Aggregate(seat):
                request = aggregate_request(view, fetched_bundles(self._work, view, self._config.operator), seat)
                self._ask("work.aggregate", aggregate_name(view, seat), request)
            case PostAggregate(mask, seat):
                self._post_checkpoint(view, seat, mask)

    def _price_of(self, view: JobView, bid: SealBid | OpenBid) -> int:
        """The price that was sealed first. The broker keeps it, so that a changed configuration still opens the bid."""
        return self._work.first_value(f"bid:{view.job}:{bid.kind}:{bid.attempt}", bid.price)

    def _seal_bid(self, view: JobView, bid: SealBid) -> None:
        operator, price = self._config.operator, self._price_of(view, bid)
        seal = self._sealer.seal(view.job, bid.kind, bid.attempt, operator, price, bid.capacity)
        self._sends.add(view, self._chain.auction.bid(view.job, bid.kind, operator, seal, bid.capacity))

    def _open_bid(self, view: JobView, bid: OpenBid) -> None:
        price = self._price_of(view, bid)
        salt = self._sealer.salt(view.job, bid.kind, bid.attempt)
        self._sends.add(view, self._chain.auction.reveal(view.job, bid.kind, self._config.operator, price, salt))

    def _fetch(self, view: JobView, seat: int) -> None:
        claim = next(claim for claim in present_claims(view) if claim.seat == seat)
        bundle = bundle_to_fetch(self._work, self._store, view, claim, self._config.operator)
        shares = shares_to_fetch(view, self._config.operator)
        request = fetch_request(view, claim, bundle, self._chain.params.answer_s, shares)
        self._ask("work.fetch", fetch_name(claim, view.job, shares), request)

    def _commit(self, view: JobView, seat: int) -> None:
        assert view.run is not None, "a seat is committed while the job runs"
        reports = [trained(self._work, view, slot).result for slot in view.seats[seat].slots]
        results = [bundles.result_of(report) for report in reports if report is not None]
        assert len(results) == view.seats[seat].count, "CommitTrained follows the last slot's training"
        bundle = bundles.bundle_bytes(view.job, view.run.round, self._config.operator, results)
        digest = digest_of(self._store.add(bundle, tag=job_tag(view.job)))
        root = bundles.round_root(results)
        self._sends.add(view, self._chain.settlement.commit(view.job, seat, view.run.turn, root, digest))

    def _post_checkpoint(self, view: JobView, seat: int, mask: int) -> None:
        assert view.run is not None, "a checkpoint is posted while the job runs"
        result = self._work.status(aggregate_name(view, seat)).result
        assert result is not None, "PostAggregate follows a finished aggregation"
        root, digest = bytes.fromhex(result["root"]), digest_of(result["pointer"])
        if view.custodians:
            self._custody.propose(view, seat, mask, root, result["pointer"])
            return
        self._sends.add(view, self._chain.settlement.post_checkpoint(view.job, seat, view.run.turn, mask, root, digest))
