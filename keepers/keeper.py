"""The keeper of one operator: one look at the chain, and what is due.

`tick` reads every job at one block, decides (pure: `keepers.decisions.duties`), and performs (`keepers.actions`). Between ticks it
keeps only caches, so a keeper can be killed at any line and started again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import redis
from eth_utils.crypto import keccak

from keepers.actions import Actions
from keepers.capacity import Capacity
from keepers.config import OperatorConfig
from keepers.decisions.duties import duties
from keepers.decisions.open_jobs import OpenJobs, ring_conflicts
from keepers.decisions.orders import Duty, OperatorContext, Progress
from keepers.decisions.requests import claim_names, pin_name, pin_request, prepare_name
from keepers.decisions.urgency import first_deadline
from keepers.operator_money import OperatorMoney
from keepers.peer_directory import PeerDirectory
from keepers.queue.received_bytes import ReceivedBytes
from keepers.queue.work_queue import WorkQueue, WorkStatus
from keepers.services.auditing import Auditing
from keepers.services.beats import Beats
from keepers.services.bid_seals import SECRET, BidSealer
from keepers.services.custody import Custody
from keepers.services.disk_space import DiskSpace
from keepers.services.disputing import Disputing
from keepers.services.observing import Look
from keepers.services.own_trials import OwnTrials
from keepers.services.parent_checks import ParentChecks, parents_command
from keepers.services.precompute import Speculation
from keepers.services.pricing import Pricing
from keepers.services.progress import measured_progress, progress_of
from keepers.services.receipts import Receipts
from keepers.services.retention import Retention
from keepers.services.second_look import SecondLook
from keepers.services.sends import Sends
from keepers.services.served_channels import ServedChannels
from keepers.services.signer_checks import SignerChecks
from keepers.services.statements import Statements
from keepers.services.trial_checks import TrialChecks
from keepers.services.verification import Verifier
from keepers.services.watching import Watching
from zoo_compute.amounts import parse_amount
from zoo_compute.chain.answered_results import published_result
from zoo_compute.chain.audits import read_audits
from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.explorations import Explorations
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.signer import HotKey
from zoo_compute.chain.snapshot import forget_job, read_job, read_operator
from zoo_compute.chain.views import JobState, JobView, OperatorView
from zoo_compute.errors import FalseLook, NeedsOperator, Refusal, Retryable, RpcsDisagree
from zoo_compute.paths import DRAINING, REPORTS
from zoo_compute.spec.pricing import most_capacity
from zoo_compute.store import BlockStore, Store

log = logging.getLogger("zoo.keeper")

PAST_AT_ONCE = 8  # jobs of mine that were over when the keeper started, read at one look


class Keeper:
    """One operator's decisions. `tick` raises nothing: an error ends one job's duties for one tick and is logged.

    received: where its processes count what they download; without it, nothing is signed for that.
    """

    def __init__(
        self,
        config: OperatorConfig,
        chain: Chain,
        account: HotKey,
        sender: Sender,
        store: Store,
        work: WorkQueue,
        received: ReceivedBytes | None = None,
    ) -> None:
        self.config = config
        self.chain = chain
        self.sender = sender
        self.store = store
        self.work = work
        self._secret = keccak(account.sign_message(SECRET).signature)
        revealed = partial(published_result, chain)
        assert chain.event_store is not None, "a keeper reads all jobs: event_log.use_store"
        self.events = chain.event_store
        self._verifier = None
        if "verifier" in config.roles:
            self._verifier = Verifier(config, self._ask, self._secret, revealed, self.events.is_finished)
        self._auditing = None
        if self._verifier is not None and config.operator:
            self._auditing = Auditing(chain, sender, config.operator, self._verifier.agrees)
        self._own_trials = OwnTrials(chain, sender, config.operator, config.device) if config.operator else None
        self._watching = None
        if self._verifier is not None:
            worth = parse_amount(config.coin_price)
            self._watching = Watching(chain, sender, config.operator, _turn_s(config), worth)
        self._speculation = Speculation(work, store)
        self._capacity = Capacity(config)
        self.pricing = Pricing(config, chain, config.folder, work.wake)
        self._money = OperatorMoney(config, chain, sender)
        self._beats = Beats(chain, sender, config.operator, _turn_s(config))
        self.space = DiskSpace(config, store)
        self.retention = Retention(config, chain, store, self.space)
        self.statements = Statements(store, config.poll_s)
        self.signer_checks = SignerChecks(store, config.poll_s)
        self.peers = PeerDirectory(
            config, chain, sender, store, self._speculation.files, (self.retention, self.statements, self.signer_checks)
        )
        self.receipts = None
        if received is not None and config.operator and isinstance(store, BlockStore):
            self.receipts = Receipts(
                config, chain, sender, account, store, received, lambda: self.peers.endpoints, self.peers.scope
            )
        self._sends = Sends(sender, SecondLook(chain), lambda: self.progressed())
        self._custody = Custody(
            *(chain, sender, account, self._ask, self.statements, self._sends),
            ParentChecks(parents_command(config.network_path, config.store_location, config.branch_network_paths)),
            operator=config.operator,
            turn_s=_turn_s(config),
            keeps_offers=config.standby,
        )
        self._actions = Actions(
            config,
            chain,
            store,
            work,
            self._sends,
            ask=self._ask,
            sealer=BidSealer(self._secret),
            capacity=self._capacity,
            speculation=self._speculation,
            custody=self._custody,
        )
        self.served_channels = ServedChannels(config, chain, sender)
        self.disputing = Disputing(
            chain,
            sender,
            self._ask,
            operator=config.operator,
            folder=config.folder,
            reports=config.folder / REPORTS if self._verifier is not None else None,
            secret=self._secret,
            explorations=Explorations(chain),
            questions=self.served_channels.questions,
        )
        self._trial_checks = None
        if self._verifier is not None:
            self._trial_checks = TrialChecks(
                chain,
                self._ask,
                self.disputing.challenge,
                operator=config.operator,
                secret=self._secret,
                sample_rate=config.sample_rate,
            )
        self._open_jobs = OpenJobs()
        self._past_jobs = self.events.finished_jobs()  # mine, whose files may still be kept: read a few at each look
        self._views: list[JobView] = []  # of this tick
        self._bound: dict[int, bool] = {}  # job -> whether money of this operator is still in it
        self.last_look: Look | None = None
        self.progressed: Callable[[], None] = lambda: None  # called between duties: a tick may be long, and is not hung

    def tick(self) -> dict[str, Any]:
        """Look once at every job that is not over. Returns what the status file says."""
        head = self.chain.head()
        mine, tokens = self.config.operator, (self.chain.network.contracts["zen"], *self.config.priced_tokens)
        operator = read_operator(self.chain, mine, head, tokens) if mine else None
        status: dict[str, Any] = {
            "block": head.number,
            "jobs": {},
            "trouble": [],
            "not_bidding": self._open_jobs.reasons,
            "bids": self.pricing.bids,
            "measured": self.pricing.measured,
            "memory": self._capacity.memory,
            "bandwidth": self.receipts.status if self.receipts else {},
        }
        with self._contained("disk", status):
            self.space.look()
        status["trouble"] += self.space.trouble
        if operator is not None:
            with self._contained("beat", status):
                self._beats.keep(head)
            if "custodian" in self.config.roles:
                with self._contained("custody", status):
                    self._custody.note_stake(operator)
        if self._own_trials is not None:
            with self._contained("trial", status):
                self._own_trials.look(head)
            status["trouble"] += self._own_trials.trouble
        if self._watching is not None:
            with self._contained("watch", status):
                self._watching.look(head)
        if self._trial_checks is not None:
            with self._contained("trials", status):
                self._trial_checks.look(head)
        self._read_views(head, status)
        self._read_past_jobs(head, status)
        self._capacity.begin_tick(self._views)  # of all jobs, before anything is decided in one of them
        for view in self._views:
            with self._contained(f"job {view.job}", status):
                self._record_measurements(view)
        if self._serve_all(operator, status) and operator is not None:
            with self._contained("money", status):
                self._money.collect(operator, idle=not any(self._bound.values()))
        status["trouble"] += self.disputing.trouble
        self.last_look = Look(head, self.chain.time(head), operator, tuple(self._views), tuple(self.disputing.asks_due))
        return status

    def _serve_all(self, operator: OperatorView | None, status: dict[str, Any]) -> bool:
        """Do what is due, job by job, the earliest deadline first. False: what was read is not what most RPCs show, and the next look reads it again."""
        mine, params = self.config.operator, self.chain.params
        due = partial(first_deadline, operator=mine, ready_window_s=params.ready_window_s, answer_s=params.answer_s)
        try:
            for view in sorted(self._views, key=due):
                self.progressed()
                status["jobs"][view.job] = JobState(view.state).name
                with self._contained(f"job {view.job}", status):
                    try:
                        self._bound[view.job] = self._serve(view, operator)
                    except FalseLook:
                        self._sends.drop()
                        raise
                    finally:
                        self._sends.start(view.job)
        except FalseLook:
            return False
        finally:
            for job, wait in self._sends.finished():
                with self._contained(f"job {job}", status):
                    wait()
        return True

    def _read_views(self, head: Head, status: dict[str, Any]) -> None:
        self._views, now = [], self.chain.time(head)
        for job in self.events.jobs_to_read(head):
            # An auditor or a custodian has to do with jobs for which it never bids.
            if self._auditing is None and "custodian" not in self.config.roles and self._open_jobs.can_skip(job, now):
                status["jobs"][job] = JobState.OPEN.name
                continue
            self.progressed()
            with self._contained(f"job {job}", status):
                self._views.append(read_job(self.chain, job, head))

    def _read_past_jobs(self, head: Head, status: dict[str, Any]) -> None:
        """After a restart: what retention knows of jobs in which nothing else is left to do."""
        for job in self._past_jobs[-PAST_AT_ONCE:]:
            with self._contained(f"job {job}", status):
                self.retention.record(read_job(self.chain, job, head))
            forget_job(self.chain, job)
        del self._past_jobs[-PAST_AT_ONCE:]

    def _finish(self, view: JobView) -> None:
        """There is nothing more to do in the job: it is not read again, also after a restart, unless its end is undone."""
        self.events.finish(view.job, view.block)
        self.work.forget_job(view.job, claim_names(view))
        self._capacity.forget(view.job)
        if self._verifier is not None:
            self._verifier.forget(view.job)
        forget_job(self.chain, view.job)

    @contextmanager
    def _contained(self, subject: str, status: dict[str, Any]) -> Iterator[None]:
        """Keep the trouble of one job, hostile or unlucky, from the others."""
        try:
            yield
        except Refusal as refusal:  # another operator was quicker, or the chain moved on; the next tick looks again
            log.info("%s: refused: %s", subject, refusal)
        except RpcsDisagree as error:
            log.error("%s: %s; will try again (%s)", subject, error, error.hint)
            status["trouble"].append(f"{subject}: {error}")
            if isinstance(error, FalseLook):
                raise
        except Retryable as error:
            log.warning("%s: %s; will try again", subject, error)
        except NeedsOperator as error:
            log.error("%s: %s (%s)", subject, error, error.hint)
            status["trouble"].append(f"{subject}: {error}")
        except (redis.ConnectionError, redis.TimeoutError):
            raise  # the broker is gone, for all of them
        except Exception as error:
            log.exception("%s: unexpected", subject)
            status["trouble"].append(f"{subject}: {type(error).__name__}: {error}")

    def _serve(self, view: JobView, operator: OperatorView | None) -> bool:
        """Do what is due for one job. Returns whether money of this operator is still bound in it."""
        self.retention.record(view)
        if self._verifier is not None and self._auditing is not None:
            audits = read_audits(self.chain, view)
            self._verifier.owe(view.job, self._auditing.work(view, audits))
            self._verifier.observe(view)
            self._auditing.act(view, audits)
        elif self._verifier is not None:
            self._verifier.observe(view)
        if operator is None:
            # A job that ended may run again after a conviction, until it is closed.
            if view.settled and self._is_verified(view):
                self._finish(view)
            return False
        me = self._context(view, operator)
        view = self._custody.act(view, operator, self.pricing.of_custody(view, me))
        progress = self._progress(view, operator.operator)
        progress = replace(progress, silent=self.signer_checks.silent(view, me))
        me = self.pricing.priced(view, me, progress)
        due = duties(view, me, progress)
        self._open_jobs.record(view, me, progress, due)
        self._perform(view, due)
        self.pricing.record(view, me, progress, due)  # no price is urgent
        stake = view.stakes.get(me.operator)
        is_bound = stake is not None and stake.lots > 0
        is_over = view.settled and self._keeps_result(view, me.operator)
        if is_over and not due and not is_bound and self._is_verified(view) and not self._custody.pending(view.job):
            self._finish(view)
        return is_bound

    def _perform(self, view: JobView, due: list[Duty]) -> None:
        """Perform every duty. One that needs a person, or that RPCs disagree about, is reported after the others are done.

        Raises FalseLook at once: the other duties were decided by the same view.
        """
        needs: NeedsOperator | RpcsDisagree | None = None
        for duty in due:
            try:
                self._actions.perform(view, duty)
            except FalseLook:
                raise
            except (NeedsOperator, RpcsDisagree) as error:
                needs = error
            self.progressed()
        if needs is not None:
            raise needs

    def _is_verified(self, view: JobView) -> bool:
        """Whether the verifier has reported everything that it drew from the job."""
        if self._auditing is not None and self._auditing.pending(view.job):
            return False
        return self._verifier is None or not self._verifier.pending(view)

    def _keeps_result(self, view: JobView, operator: int) -> bool:
        """Ask a worker for the last checkpoint of a job I served. Returns whether it is here, or cannot be downloaded."""
        served = any(commit.operator == operator for commit in view.commits)
        if not served or not view.completed_rounds:
            return True
        return self._ask("work.keep", pin_name(view), pin_request(view)).state in ("done", "failed")

    def _context(self, view: JobView, operator: OperatorView) -> OperatorContext:
        config, params = self.config, self.chain.params
        relative_paces = self.work.relative_paces(prepare_name(view), config.workers)
        self._capacity.record_paces(view.job, relative_paces)
        return OperatorContext(
            operator=operator.operator,
            capacity=self._capacity.slots_for(view.job),
            free=operator.free(view.token) - self._capacity.locked,
            stagger_s=_turn_s(config),
            ready_window_s=self.chain.network.params.ready_window_s,
            relative_paces=relative_paces,
            busy_elsewhere_s=self._capacity.busy_elsewhere_s(view.job),
            is_drained=not operator.eligible or (config.folder / DRAINING).exists() or bool(self.space.short),
            no_room=self.space.short,
            hot=operator.hot,
            answer_s=params.answer_s,
            committer_s=params.clocks.committer_s,
            capability=operator.capability,
            ring_conflicts=ring_conflicts(view, self._views, operator.operator),
            epoch_s=params.epoch_s,
            promises=self._capacity.promises_elsewhere(view.job),
            most_units=most_capacity(operator.stake, params.min_stake),
            **self.pricing.settings(view),
        )

    def _progress(self, view: JobView, operator: int) -> Progress:
        progress = progress_of(self.work, view, operator)
        return self._speculation.observe(view, operator, progress)

    def _record_measurements(self, view: JobView) -> None:
        """What the job's work takes here, as far as a worker measured it; also after a restart."""
        measured = measured_progress(self.work, view)
        if measured.slot_s is not None:
            self._capacity.record_slot_time(view.job, measured.slot_s)
            self._capacity.record_memory(view.job, measured.memory)
            self._capacity.record_opening_time(view, measured.opening_s, self.chain.params.clocks.committer_s)

    def _ask(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        return self.work.submit(task, name, {"peers": self.peers.urls, "scope": self.peers.scope.value, **request})


def _turn_s(config: OperatorConfig) -> int:
    """Seconds that each operator waits for those before it, where any of them may call."""
    return max(1, round(3 * config.poll_s))
