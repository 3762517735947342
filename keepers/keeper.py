"""The keeper of one operator: what it holds (chain, hot key, store, work queue) and one look at the chain.

`tick` is: a snapshot at one block -> duties (pure) -> sends that the contract refuses the second time. Nothing is remembered
between ticks but caches, so a keeper may be killed at any line and started again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from keepers.config import OperatorConfig
from keepers.decisions.duties import duties, training_time_s
from keepers.decisions.open_jobs import OpenJobs, ring_conflicts
from keepers.decisions.orders import (
    Aggregate,
    CommitTrained,
    DemandChunk,
    Duty,
    Fetch,
    OpenBid,
    OperatorContext,
    PostAggregate,
    Precompute,
    Prepare,
    Progress,
    SealBid,
    Send,
    Train,
)
from keepers.decisions.requests import (
    aggregate_name,
    aggregate_request,
    fetch_name,
    fetch_request,
    pin_name,
    pin_request,
    precompute_work,
    prepare_name,
    prepare_request,
    present_claims,
)
from keepers.queue.work import WorkQueue, WorkStatus
from keepers.services import deposits
from keepers.services.bidding import BidSealer, priced_token
from keepers.services.challenging import MismatchReports
from keepers.services.disputing import DisputePlayer
from keepers.services.precompute import Speculation
from keepers.services.progress import bundle_to_fetch, fetched_bundles, progress_of, trained, training_work
from keepers.services.retention import CheckpointRetention
from keepers.services.verification import REPORTS, Verifier
from node.inputs import bundles
from zoo_compute.chain.answered_results import published_result
from zoo_compute.chain.call import Call
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.events import scan
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job, read_operator
from zoo_compute.chain.views import AGGREGATOR_SEAT, JobState, JobView, Kind, OperatorView
from zoo_compute.errors import NeedsOperator, Refusal, Retryable
from zoo_compute.gpus import PERIODS
from zoo_compute.operators.account import Operators
from zoo_compute.paths import DRAINING
from zoo_compute.spec.params import aggregator_lock
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.cid import digest_of
from zoo_compute.store.peers import is_gateway
from zoo_compute.store.probe import save_endpoints

log = logging.getLogger("zoo.keeper")


class Keeper:
    """One operator's decisions. Raises nothing from `tick`: an error stops one job's duties for one tick and is logged."""

    def __init__(
        self, config: OperatorConfig, chain: Chain, account: LocalAccount, sender: Sender, store: Store, work: WorkQueue
    ) -> None:
        self.config = config
        self.chain = chain
        self.sender = sender
        self.store = store
        self.work = work
        secret = keccak(account.sign_message(encode_defunct(text="zoo: seals of this operator's bids")).signature)
        self._sealer = BidSealer(secret)
        shown = partial(published_result, chain)
        self._verifier = Verifier(config, self._ask, secret, shown) if "verifier" in config.roles else None
        self._finished: set[int] = set()
        self._open_jobs = OpenJobs()
        self._views: list[JobView] = []  # of this tick
        self._engagements: dict[int, int] = {}  # job -> slots that it holds of mine, or that I bid for
        self._locked_now = 0  # collateral bound since the snapshot of this tick
        self._slot_seconds: dict[int, float] = {}  # job -> timed seconds of one of its slot-rounds
        self._slot_paces: dict[int, tuple[float, ...]] = {}  # job -> `Me.paces`
        self._bound: dict[int, bool] = {}  # job -> money of mine is still in it
        self._ahead = Speculation(work, store)
        self.retaining = CheckpointRetention(config, chain, store)
        self._peers: list[str] = []
        self._endpoints: dict[int, str] = {}  # operator -> where its store serves blocks
        self._unseen = chain.network.first_block  # first block whose announcements were not read
        self._rewarded_epoch = -1
        self._last_beat = (-1, -1)  # epoch, period

    def tick(self) -> dict[str, Any]:
        """One look at every job that is not over; what was seen, for the status file."""
        head = self.chain.head()
        block = head.number
        mine, monies = self.config.operator, (self.chain.network.contracts["zen"], *self.config.priced_tokens)
        operator = read_operator(self.chain, mine, block, monies) if mine else None
        status: dict[str, Any] = {"block": block, "jobs": {}, "trouble": [], "not_bidding": self._open_jobs.reasons}
        self._views = []
        for job in range(1, self.chain.tasks.job_count(block=block) + 1):
            if self._open_jobs.can_skip(job, head.timestamp):
                status["jobs"][job] = JobState.OPEN.name
            elif job not in self._finished:
                with self._contained(f"job {job}", status):
                    self._views.append(read_job(self.chain, job, head))
        # What I am bound to in all jobs is known before anything is decided in one of them.
        self._engagements = {v.job: _engaged_slots(v, self.config.operator) for v in self._views}
        self._locked_now = 0
        for view in self._views:
            status["jobs"][view.job] = JobState(view.state).name
            with self._contained(f"job {view.job}", status):
                self._bound[view.job] = self._serve(view, operator)
        if operator is not None:
            with self._contained("money", status):
                self._beat(operator)
                self._claim_rewards(operator)
                idle = not any(self._bound.values())
                deposits.withdraw(self.chain, self.sender, operator, idle=idle)
                if idle:
                    self._withdraw(operator)
        return status

    def dispute_player(self) -> DisputePlayer:
        """The lane that plays the games of this operator and of its key."""
        mismatches = None
        if self._verifier is not None:
            mismatches = MismatchReports(self.chain, self.sender, self.config.folder / REPORTS)
        return DisputePlayer(
            self.chain,
            self.sender,
            self._ask,
            operator=self.config.operator,
            folder=self.config.folder,
            mismatches=mismatches,
        )

    @contextmanager
    def _contained(self, what: str, status: dict[str, Any]) -> Iterator[None]:
        """Whatever goes wrong with one job, hostile or unlucky, must not keep the others waiting."""
        try:
            yield
        except Refusal as refusal:  # somebody was quicker, or the chain moved on; the next tick looks again
            log.info("%s: refused: %s", what, refusal)
        except Retryable as error:
            log.warning("%s: %s; will try again", what, error)
        except NeedsOperator as error:
            log.error("%s: %s (%s)", what, error, error.hint)
            status["trouble"].append(f"{what}: {error}")
        except Exception as error:
            log.exception("%s: unexpected", what)
            status["trouble"].append(f"{what}: {type(error).__name__}: {error}")

    def refresh_peers(self) -> None:
        """Whose stores to ask for what is not here: the network's, and what operators announced on chain."""
        head = self.chain.head().number
        names = ("OperatorRegistered", "EndpointAnnounced")
        for event in scan(self.chain, self._unseen, head, names=names) if self._unseen <= head else ():
            self._endpoints[int(event.args["operator"])] = str(event.args["endpoint"])
        self._unseen = head + 1
        mine = self.config.operator
        if mine and self.config.endpoint and self._endpoints.get(mine) != self.config.endpoint:
            self.sender.send(self.chain.registry.announce(mine, self.config.endpoint))
        others = [url for operator, url in self._endpoints.items() if operator != mine and is_gateway(url)]
        self.use_peers([*dict.fromkeys([*self.chain.network.storage, *others])], self._endpoints)

    def use_peers(self, peers: list[str], endpoints: Mapping[int, str]) -> None:
        """endpoints: by operator, those of `peers` that are its own."""
        self._peers = peers
        if isinstance(self.store, BlockStore):
            self.store.set_peers(peers)
            save_endpoints(self.store.root, filter(is_gateway, endpoints.values()))
        self._ahead.files.set_peers(peers, endpoints)
        self.retaining.endpoints = dict(endpoints)

    def _serve(self, view: JobView, operator: OperatorView | None) -> bool:
        """Do what is due for one job; whether money of mine is still bound in it."""
        self.retaining.record(view)
        if self._verifier is not None:
            self._verifier.observe(view)
        if operator is None:
            # A job that ended may run again after a conviction, until it is closed.
            if view.settled and not (self._verifier and self._verifier.pending(view)):
                self._finished.add(view.job)
            return False
        me = self._me(view, operator)
        progress = self._progress(view, operator.operator)
        found = duties(view, me, progress)
        self._open_jobs.record(view, me, progress, found)
        needs: NeedsOperator | None = None
        for duty in found:
            try:
                self._perform(view, duty)
            except NeedsOperator as error:  # told when the other duties are done
                needs = error
        if needs is not None:
            raise needs
        standing = view.stakes.get(me.operator)
        bound = standing is not None and standing.lots > 0
        if (
            view.settled
            and self._keeps_result(view, operator.operator)
            and not found
            and not bound
            and not (self._verifier and self._verifier.pending(view))
        ):
            self._finished.add(view.job)
        return bound

    def _keeps_result(self, view: JobView, operator: int) -> bool:
        """Whether the last checkpoint of a job I served is in my store, or cannot be had; asks for it otherwise."""
        served = any(commit.operator == operator for commit in view.commits)
        if not served or not view.completed_rounds:
            return True
        return self._ask("work.keep", pin_name(view), pin_request(view)).state in ("done", "failed")

    def _me(self, view: JobView, operator: OperatorView) -> OperatorContext:
        config = self.config
        token = priced_token(config, self.chain, view.token)
        price, aggregator_price = (config.price_in(token, kind) if token else None for kind in Kind)
        return OperatorContext(
            operator=operator.operator,
            is_provider="provider" in config.roles and price is not None,
            is_aggregator="aggregator" in config.roles and aggregator_price is not None,
            price=price or 0,
            aggregator_price=aggregator_price or 0,
            capacity=config.capacity - sum(slots for job, slots in self._engagements.items() if job != view.job),
            standby=config.standby,
            free=operator.free(view.token) - self._locked_now,
            stagger_s=max(1, round(3 * config.poll_s)),
            ready_window_s=self.chain.network.params.ready_window_s,
            relative_paces=self._paces(view),
            busy_elsewhere_s=self._seconds_elsewhere(view.job),
            max_job_s=config.longest_job_days * 86_400,
            is_drained=not operator.eligible or (config.folder / DRAINING).exists(),
            hot=operator.hot,
            answer_s=self.chain.params.answer_s,
            move_s=self.chain.params.move_s,
            demand_after_s=config.demand_after_s,
            gpu_class=operator.gpu_class,
            ring_conflicts=ring_conflicts(view, self._views, operator.operator),
            token=token,
            hours=sum(1 << hour for hour in set(config.availability_hours)),
            epoch_s=self.chain.params.epoch_s,
        )

    def _seconds_elsewhere(self, job: int) -> float:
        """What the slots of my other jobs take of my workers' time in a round."""
        total = 0.0
        for other, slots in self._engagements.items():
            if other != job and slots:
                relative_paces = self._slot_paces.get(other, (1.0,) * self.config.workers)
                total += training_time_s(self._slot_seconds.get(other, 0.0), slots, relative_paces)
        return total

    def _paces(self, view: JobView) -> tuple[float, ...]:
        self._slot_paces[view.job] = self.work.relative_paces(prepare_name(view), self.config.workers)
        return self._slot_paces[view.job]

    def _progress(self, view: JobView, operator: int) -> Progress:
        progress = progress_of(self.work, view, operator)
        if progress.slot_s is not None:
            self._slot_seconds[view.job] = progress.slot_s
        return self._ahead.observe(view, operator, progress)

    def _perform(self, view: JobView, duty: Duty) -> None:
        match duty:
            case Send(contract, function, args):
                if function == "take_over":
                    self._engage(view, args)
                self._send(view, getattr(getattr(self.chain, contract), function)(*args))
            case SealBid():
                self._engagements[view.job] += duty.capacity if duty.kind == Kind.SLOTS else 0
                self._locked_now += duty.capacity * view.lots[duty.kind].lock
                self._seal_bid(view, duty)
            case OpenBid():
                self._open_bid(view, duty)
            case Prepare():
                self._ask("work.prepare", prepare_name(view), prepare_request(view))
            case Train(slot, ahead):
                begun = self._ahead.begin(view, self.config.operator) if ahead else view
                self._ask("work.train", *training_work(self.work, begun, slot))
            case Precompute():
                self._ask("work.advance", *precompute_work(view))
            case CommitTrained(seat):
                self._commit(view, seat)
            case Fetch(seat):
                commit = next(c for c in present_claims(view) if c.seat == seat)
                bundle = bundle_to_fetch(self.work, self.store, view, commit)
                request = fetch_request(view, commit, bundle, self.chain.params.answer_s)
                self._ask("work.fetch", fetch_name(commit, view.job), request)
            case DemandChunk():
                call, deposit = deposits.demand(self.config, self.chain, view, duty)
                self._send(view, call, value=deposit)
            case Aggregate():
                request = aggregate_request(view, fetched_bundles(self.work, view))
                self._ask("work.aggregate", aggregate_name(view), request)
            case PostAggregate(mask):
                self._post_checkpoint(view, mask)

    def _engage(self, view: JobView, args: tuple[Any, ...]) -> None:
        """Remember what a takeover binds, before the next snapshot says so."""
        _, seat, _, count, _ = args
        assert view.run is not None, "a seat is taken over after the award"
        if seat == AGGREGATOR_SEAT:
            self._locked_now += aggregator_lock(view.terms)
        else:
            self._engagements[view.job] += count
            self._locked_now += count * view.run.lock

    def _ask(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        return self.work.submit(task, name, {"peers": self._peers, **request})

    def _send(self, view: JobView, call: Call, *, value: int = 0) -> None:
        """Send, and let a refusal of one duty not keep the next ones from being done."""
        try:
            receipt = self.sender.send(call, value=value)
            log.info("job %d: %s.%s in %s", view.job, call.contract, call.function, receipt.transaction_hash)
        except Refusal as refusal:
            log.info("job %d: %s.%s refused: %s", view.job, call.contract, call.function, refusal.reason)

    def _seal_bid(self, view: JobView, duty: SealBid) -> None:
        # The price is kept with the operator's broker before it is sealed, so that a changed configuration cannot unseal it.
        price = self.work.first_value(f"bid:{view.job}:{duty.kind}:{duty.attempt}", duty.price)
        seal = self._sealer.seal(view.job, duty.kind, duty.attempt, self.config.operator, price, duty.capacity)
        call = self.chain.auction.bid(
            view.job, duty.kind, self.config.operator, seal, duty.capacity, self.config.standby
        )
        self._send(view, call)

    def _open_bid(self, view: JobView, duty: OpenBid) -> None:
        price = self.work.first_value(f"bid:{view.job}:{duty.kind}:{duty.attempt}", duty.price)
        salt = self._sealer.salt(view.job, duty.kind, duty.attempt)
        self._send(view, self.chain.auction.reveal(view.job, duty.kind, self.config.operator, price, salt))

    def _commit(self, view: JobView, seat: int) -> None:
        assert view.run is not None, "a seat is committed while the job runs"
        reports = [trained(self.work, view, slot).result for slot in view.seats[seat].slots]
        results = [bundles.result_of(report) for report in reports if report is not None]
        assert len(results) == view.seats[seat].count, "CommitTrained follows the last slot's training"
        bundle = bundles.bundle_bytes(view.job, view.run.round, self.config.operator, results)
        digest = digest_of(self.store.add(bundle))
        root = bundles.round_root(results)
        self._send(view, self.chain.settlement.commit(view.job, seat, view.run.turn, root, digest))

    def _post_checkpoint(self, view: JobView, mask: int) -> None:
        assert view.run is not None, "a checkpoint is posted while the job runs"
        result = self.work.status(aggregate_name(view)).result
        assert result is not None, "PostAggregate follows a finished aggregation"
        root, digest = bytes.fromhex(result["root"]), digest_of(result["pointer"])
        self._send(view, self.chain.settlement.post_checkpoint(view.job, view.run.turn, mask, root, digest))

    def _beat(self, operator: OperatorView) -> None:
        """A heartbeat, once in each period that the configuration lists."""
        epoch_s = self.chain.params.epoch_s
        beat = (operator.now // epoch_s, operator.now % epoch_s * PERIODS // epoch_s)
        if beat[1] in self.config.availability_hours and beat != self._last_beat and operator.stake:
            self.sender.send(self.chain.registry.heartbeat(operator.operator))
            self._last_beat = beat

    def _claim_rewards(self, operator: OperatorView) -> None:
        """Network rewards, to the cold owner: once when an epoch is over."""
        epoch = operator.now // self.chain.params.epoch_s
        if epoch != self._rewarded_epoch:
            Operators(self.chain, self.sender).claim_rewards(operator.operator, say=log.info)
            self._rewarded_epoch = epoch

    def _withdraw(self, operator: OperatorView) -> None:
        """Payments to the cold owner, once no job of mine is under way."""
        for token, amount in operator.owed.items():
            if amount:
                call = self.chain.tasks.withdraw(token, operator.owner)
                receipt = self.sender.send(call)
                log.info("withdrew %d of %s to %s in %s", amount, token, operator.owner, receipt.transaction_hash)


def _engaged_slots(view: JobView, operator: int) -> int:
    """Slots I may have to train for the job at once."""
    bid = view.bids.get((Kind.SLOTS, operator))
    if view.state == JobState.OPEN:
        return bid.capacity if bid is not None and bid.attempt == view.lots[Kind.SLOTS].attempt else 0
    return view.slot_count_of(operator) if view.state in (JobState.AWARDED, JobState.RUNNING) else 0
