"""A posted job: follow it, fetch its result, cancel it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repops import encoding
from repops.graph import BadProgram
from repops.profile import profile
from zoo_compute.chain.event_log import History
from zoo_compute.chain.ledger import JobAccount, job_account
from zoo_compute.chain.sender import Receipt
from zoo_compute.chain.snapshot import read_job, time_of
from zoo_compute.chain.tokens import token_at
from zoo_compute.chain.views import JobState, JobView
from zoo_compute.client.copies import Redundancy, confirmed
from zoo_compute.client.progress import LossReader, Progress, progress_of
from zoo_compute.errors import Retryable, UserError, ZooError
from zoo_compute.formats.manifest import Manifest
from zoo_compute.jobs.shortfall import Offer, low_price, missing, offers
from zoo_compute.spec.params import COIN
from zoo_compute.store import StoreError, raw_cid
from zoo_compute.training.memory import needed_bytes

if TYPE_CHECKING:
    from zoo_compute.client.branches import LineageReport, LoadedBranch
    from zoo_compute.client.evaluation import Evaluation, Metric
    from zoo_compute.client.outputs import MappedRound
    from zoo_compute.client.results import Result
    from zoo_compute.client.session import Session
    from zoo_compute.formats.lineage import Branch
    from zoo_compute.jobs.custody import CustodyTerms

DEFAULT_POLL_S = 2.0
LOOK_TIMEOUT_S = 10.0  # for the small files that one reading needs
OFFERS_KEPT_S = 30  # of the chain's time


class Job:
    """A posted job. Has no state of its own: any process can get it again with `client.job(id)`."""

    def __init__(self, client: Session, number: int) -> None:
        self.id = number
        self._client = client
        self._losses = LossReader(client.store)
        self._history = History(client.chain, job=number)
        self._offers: tuple[int, Sequence[Offer]] = (0, ())  # the chain's time, and what operators offered then
        self._memory: int | None = None
        self._evaluations: dict[str, Evaluation] = {}  # by the checkpoint's root

    def __repr__(self) -> str:
        return f"Job({self.id})"

    def view(self) -> JobView:
        """The job's state on chain, all read at one block."""
        return read_job(self._client.chain, self.id)

    def account(self) -> JobAccount:
        """The job's money: what was accepted, what was refused or slashed, why, and how much."""
        return self._account(self.view())

    def progress(self) -> Progress:
        """State, round, loss, spending and nodes, read once."""
        view = self.view()
        return self._progress(view, self._account(view))

    def _progress(self, view: JobView, account: JobAccount) -> Progress:
        self._client.use_peers()
        spent = account.paid + account.fee
        losses, token = self._losses.losses(view), token_at(self._client.chain, view.token)
        return progress_of(
            view, spent=spent, due=account.committed, losses=losses, token=token, missing=self._missing(view)
        )

    def history(self) -> list[dict[str, Any]]:
        """A row for each round, which `pandas.DataFrame` takes as they are. `loss`: reported by nodes, unverified; `heldout_loss`,
        `perplexity`, `accuracy` and the caller's metrics: what `evaluate` computed on this object; `time`: of its checkpoint, in UTC; `price`: of its accepted work, in
        whole tokens.
        """
        from zoo_compute.client.history import rows_of

        view, chain = self.view(), self._client.chain
        self._client.use_peers()
        losses, token = self._losses.losses(view), token_at(chain, view.token)
        return rows_of(view, losses, self._evaluations, token, lambda block: time_of(chain, block))

    def _repr_html_(self) -> str:
        """What a notebook shows. The chain's errors become a line: a cell that shows a job does not fail."""
        from zoo_compute import drawing
        from zoo_compute.client.picture import picture

        try:
            view = self.view()
            account = self._account(view)
            return picture(view, self._progress(view, account), account, self._client.description.name)
        except (ZooError, StoreError) as error:
            return drawing.page(repr(self), drawing.lines(f"not readable now: {error}"))

    def _missing(self, view: JobView) -> list[str]:
        """What an open job lacks to be awarded. Reads operators at most every OFFERS_KEPT_S, the job's program once."""
        if view.state != JobState.OPEN:
            return []
        at, offered = self._offers
        if view.now >= at + OFFERS_KEPT_S:
            self._offers = (
                view.now,
                (offered := offers(self._client.chain, view.token, view.block, view.terms.requirements)),
            )
        if self._memory is None:
            self._memory = self._step_bytes(view)
        lacks = missing(view, offered, self._memory or None)
        return low_price(view, self._client.chain.network.contracts["zen"]) + lacks if lacks else []

    def _step_bytes(self, view: JobView) -> int:
        """Memory of one step; 0 if the job's files are unavailable here."""
        try:
            program = self._manifest(view).program
            data = self._client.store.read(program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=LOOK_TIMEOUT_S)
            step = profile(encoding.decode(data))
        except (StoreError, UserError, BadProgram):
            return 0
        return needed_bytes(step)

    def operators_with_files(self) -> list[int]:
        """Operators whose stores have the job's program, data and weights. If there are any, the submitter can stop serving."""
        manifest = self._manifest(self.view())
        urls = self._client.endpoints()
        serving = confirmed([manifest.program.cid, manifest.data.cid, manifest.state.cid], urls.values())
        return [operator for operator, url in urls.items() if url in serving]

    def redundancy(self) -> Redundancy | None:
        """Copies of the newest checkpoint, wanted and confirmed; None if its manifest or pointer is unavailable."""
        from zoo_compute.client.results import pointers_of

        view = self.view()
        self._client.use_peers()
        try:
            manifest = self._manifest(view)
            cids = [manifest.state.cid]
            if view.completed_rounds:
                newest, store = view.completed_rounds, self._client.store
                pointers = pointers_of(view, store, newest, timeout_s=LOOK_TIMEOUT_S)
                cids = [*map(raw_cid, view.checkpoint_cids[newest]), *(each.state for each in pointers)]
        except (StoreError, UserError):
            return None
        return Redundancy(manifest.redundancy, len(confirmed(cids, self._client.endpoints().values())))

    def _manifest(self, view: JobView) -> Manifest:
        from zoo_compute.client.results import manifest_of

        return manifest_of(view, self._client.store, timeout_s=LOOK_TIMEOUT_S)

    def poll(self, poll_s: float = DEFAULT_POLL_S, *, until_settled: bool = False) -> Iterator[Progress]:
        """Read progress repeatedly until the job is over (or every claim is paid). Waits for an RPC that does not answer."""
        while True:
            now = self._look()
            yield now
            if now.settled or (now.over and not until_settled):
                return
            time.sleep(poll_s)

    def watch(self, poll_s: float = DEFAULT_POLL_S, *, until_settled: bool = False) -> Iterator[Progress]:
        """As `poll`, without readings that differ from the previous one only in time."""
        last: Progress | None = None
        for now in self.poll(poll_s, until_settled=until_settled):
            if last is None or now.reader_key != last.reader_key:
                yield now
            last = now

    def join(self, timeout_s: float | None = None, poll_s: float = DEFAULT_POLL_S) -> Progress:
        """Block until the job is over. Raises TimeoutError; the job keeps running."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not (now := self._look()).over:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"job {self.id} is still {now.state} after {timeout_s:g} s")
            time.sleep(poll_s)
        return now

    async def wait(self, poll_s: float = DEFAULT_POLL_S) -> Progress:
        """As `join`, for `await`. Cancelling it leaves the job running."""
        while True:
            try:  # one thread per reading: a cancelled wait leaves no thread behind that waits for an RPC
                now = await asyncio.to_thread(self.progress)
            except Retryable as error:
                self._client.say(f"{error}; waiting for it")
            else:
                if now.over:
                    return now
            await asyncio.sleep(poll_s)

    def result(self, path: str | Path, *, whole: bool = False) -> Result:
        """Fetch the newest checkpoint, verify it against the chain, and write its parameters as safetensors to `path`.

        whole: include the outer optimiser's state. Raises UserError before the first checkpoint, ContentMissing, ContentTampered.
        """
        from zoo_compute.client.results import fetch_result

        self._client.use_peers()
        return fetch_result(self.view(), self._client.store, Path(path), whole=whole)

    def is_map(self) -> bool:
        """Whether the job maps a module over items, instead of training it. False if its manifest is unavailable here."""
        try:
            return self._manifest(self.view()).is_map
        except (StoreError, UserError):
            return False

    def outputs(
        self,
        *,
        after: int = 0,
        poll_s: float = DEFAULT_POLL_S,
        show: Callable[[Progress], None] = lambda progress: None,
    ) -> Iterator[MappedRound]:
        """The outputs of a map job, round after round from `after` on, each as soon as its claims are final; verified against the chain.

        show: called with every reading. Ends with the last round, or with the job. Raises UserError for a job that trains, ContentMissing,
        ContentTampered.
        """
        from zoo_compute.client.outputs import Outputs

        self._client.use_peers()
        outputs, round_ = Outputs(self.view(), self._client.store), after
        while True:
            now = self._look()
            show(now)
            if round_ < now.final_rounds:
                view = self.view()
                while round_ < view.final_rounds:
                    yield outputs.of_round(view, round_)
                    round_ += 1
            if round_ == now.rounds or now.settled:
                return
            time.sleep(poll_s)

    def save_pretrained(self, folder: str | Path, *, model: str | Path | None = None, merge: bool = False) -> Result:
        """Fetch and verify the newest checkpoint as `result` does, and write what `from_pretrained` of `transformers` loads: weights,
        configuration, tokenizer, and a model card with the job's proof. Of a job with `lora`, what `peft` loads; with `merge` the
        adapter is added to the weights.

        model: a folder or NAME@REVISION of the hub with configuration and tokenizer; by default those of the posted job, if it was
        posted from this machine. Raises UserError, ContentMissing, ContentTampered.
        """
        from zoo_compute.client.results import write_pretrained

        self._client.use_peers()
        view, store = self.view(), self._client.store
        progress = self.progress() if view.completed_rounds else None
        network = self._client.description
        return write_pretrained(view, store, Path(folder), model, progress, network, merge=merge)

    def evaluate(self, *, every: bool = False, metric: Metric | str | None = None) -> list[Evaluation]:
        """Loss, perplexity and accuracy of the initial and the newest checkpoint on the held-out examples, computed on this machine.

        every: of all checkpoints. metric: a function, or FILE.py:FUNCTION, of the module's tensors and the held-out examples, that
        returns a number, or several by name. Raises UserError, ContentMissing, ContentTampered.
        """
        from zoo_compute.client.evaluation import evaluate, load_metric

        self._client.use_peers()
        view = self.view()
        done = view.completed_rounds
        rounds = range(done + 1) if every else sorted({0, done})
        measure = load_metric(metric) if isinstance(metric, str) else metric
        made = list(evaluate(view, self._client.store, rounds, measure))
        self._evaluations |= {each.root: each for each in made}
        return made

    def branch(self, since: int = 0, round_: int | None = None) -> LoadedBranch:
        """The rounds from checkpoint `since` to `round_` (default: the newest final one), as a branch to merge with others.

        Raises UserError, ContentMissing, ContentTampered.
        """
        from zoo_compute.client.branches import load_branch

        self._client.use_peers()
        return load_branch(self._client.description, self.view(), self._client.store, since, round_)

    def check_parents(self, *elsewhere: Session) -> LineageReport:
        """Recompute this job's initial weights from the branches in its manifest, and compare.

        elsewhere: clients of the other networks that have branches. Raises UserError for a job without parents;
        the store's errors pass.
        """
        from zoo_compute.client.branches import check_lineage

        clients = (self._client, *elsewhere)
        self._client.use_peers()
        view = self.view()
        initial_root = view.checkpoint_roots[0]
        return check_lineage(
            self._manifest(view), initial_root, lambda b: _home_of(b, clients).branch(b.since, b.round)
        )

    def audits(self) -> dict[str, Any]:
        """What auditors were drawn for, what they said and what they were paid; amounts as decimal strings."""
        from zoo_compute.chain.audits import read_audits, summary

        view = self.view()
        return summary(view, read_audits(self._client.chain, view))

    def fund_audits(self, amount: int) -> Receipt:
        """Add to what auditors of this job are paid from, in the smallest unit of its token."""
        from zoo_compute.chain.tokens import set_allowance

        sender, chain = self._client.sender, self._client.chain
        set_allowance(sender, self.view().token, chain.network.contracts["audits"], amount)
        return sender.send(chain.audits.fund(self.id, amount))

    def refund_audits(self) -> Receipt:
        """Of a job that is over: what no verdict has reserved goes to the submitter."""
        sender, chain = self._client.sender, self._client.chain
        view = self.view()
        sender.send(chain.audits.refund(self.id))
        return sender.send(chain.audits.withdraw(view.token, view.submitter))

    def custody(self) -> dict[str, Any] | None:
        """Who holds what the job commits, who signed for it, and what that paid; None if nobody asked for custodians."""
        from zoo_compute.chain.custody import read_custody, summary

        view = self.view()
        return summary(read_custody(self._client.chain, view), view)

    def request_custody(self, terms: CustodyTerms) -> None:
        """Ask for custodians of my job, and pay their escrow in. Doing it again does what is left of it."""
        chain, view = self._client.chain, self.view()
        asked = chain.custody.requests(self.id).fee
        if not asked and view.state == JobState.OPEN:
            self._client.sender.send(chain.custody.request(self.id, terms.price, terms.size))
            self._client.say(f"job {self.id} asks for {terms.custodians} custodians")
        missing = terms.cost - chain.custody.escrows(self.id)
        if missing > 0 and not view.over and (asked or view.state == JobState.OPEN):
            self.fund_custody(missing)

    def fund_custody(self, amount: int) -> Receipt:
        """Add to what custodians of this job are paid from, in the smallest unit of its token."""
        from zoo_compute.chain.tokens import set_allowance

        sender, chain = self._client.sender, self._client.chain
        set_allowance(sender, self.view().token, chain.network.contracts["custody"], amount)
        return sender.send(chain.custody.fund(self.id, amount))

    def refund_custody(self) -> Receipt:
        """Of a job that is over and counted: what custodians did not earn goes to the submitter."""
        return self._client.sender.send(self._client.chain.custody.refund(self.id))

    def cancel(self) -> Receipt:
        """Cancel before the award and get the escrow back, and the posting deposit, unless revealed bids are paid from it.

        Raises Refusal if it is too late.
        """
        client, view = self._client, self.view()
        receipt = client.sender.send(client.chain.tasks.cancel(self.id)) if view.state != JobState.CANCELLED else None
        for token in (view.token, COIN):
            if client.chain.tasks.owed(token, view.submitter):
                paid = client.sender.send(client.chain.tasks.withdraw(token, view.submitter))
                receipt = receipt or paid
        if receipt is None:
            raise UserError(f"job {self.id} is already cancelled, and its escrow was returned")
        return receipt

    def _account(self, view: JobView) -> JobAccount:
        head = self._client.chain.head(view.block)
        return job_account(self._client.chain, view, self._history.events_until(head))

    def _look(self) -> Progress:
        reported = False
        while True:
            try:
                return self.progress()
            except Retryable as error:
                if not reported:
                    self._client.say(f"{error}; waiting for it")
                reported = True
                time.sleep(DEFAULT_POLL_S)


def _home_of(branch: Branch, clients: Sequence[Session]) -> Job:
    """The branch's job on its chain. If two development chains have equal addresses, the one where the job has the root."""
    there = [
        c for c in clients if (c.description.chain_id, c.description.contracts["tasks"]) == (branch.chain, branch.tasks)
    ]
    if not there:
        raise UserError(
            f"no given network has chain {branch.chain} with the TaskRegistry {branch.tasks}",
            hint="give the branch's network file: `zoo job parents JOB --branch-network FILE`",
        )
    jobs = [Job(client, branch.job) for client in there if client.chain.tasks.job_count() >= branch.job]
    if not jobs:
        raise UserError("there is no such job")
    return next(
        (job for job in jobs if job.view().checkpoint_roots.get(branch.round, b"").hex() == branch.root), jobs[0]
    )
