"""Submit a job: prepare and store its files, then approve and post, once.

Files are content-addressed, so preparing again changes nothing. A record on this machine and the chain's events show what
was posted. So after a crash at any line, run the same command again.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repops import backend, files
from repops.commitments import state_root
from repops.graph import STEP
from zoo_compute import paths
from zoo_compute.amounts import Token, format_amount, format_count
from zoo_compute.atomic import write_atomically
from zoo_compute.chain import permits
from zoo_compute.chain.events import scan
from zoo_compute.chain.fees import next_base_fee
from zoo_compute.chain.generated.bindings.task_registry import Terms as PostedTerms
from zoo_compute.chain.tokens import set_allowance
from zoo_compute.chain.views import JobState
from zoo_compute.errors import BareRevert, NotFunded, Retryable, TokenRefusal, UserError
from zoo_compute.formats.manifest import Manifest
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.custody import CustodyTerms
from zoo_compute.jobs.data_source import Say, dataset_of
from zoo_compute.jobs.files import publish_files, with_schedule
from zoo_compute.jobs.model_record import record_model
from zoo_compute.jobs.quote import terms_of
from zoo_compute.spec import params
from zoo_compute.spec.params import Terms, least_posting_deposit
from zoo_compute.store.cid import digest_of
from zoo_compute.training.examples import Dataset, batch_of
from zoo_compute.training.merge import Merge
from zoo_compute.training.outer_optimizers import OUTER
from zoo_compute.training.rounds import begin
from zoo_compute.training.work_root import work_of

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender
    from zoo_compute.store import Store


class AlreadyPosted(UserError):
    """The same job was posted before from this account. job: its number."""

    def __init__(self, job: int, *, over: bool = False) -> None:
        done = f"it is over: fetch it with `zoo job result {job}`" if over else f"follow it with `zoo job watch {job}`"
        super().__init__(
            f"the same job was posted before, as job {job}",
            hint=f"{done}; --again posts (and pays for) it a second time, with the budget that you give now",
        )
        self.job = job


@dataclass(frozen=True)
class PreparedJob:
    """A job with stored and pinned files. cid: of the manifest."""

    manifest: Manifest
    cid: str
    terms: Terms
    token: Token
    custody: CustodyTerms | None = None

    @property
    def escrow(self) -> int:
        return params.escrow(self.terms)


def prepare(
    job: ComputeJob, store: Store, *, weights: Path | None = None, merge: Merge | None = None, say: Say
) -> PreparedJob:
    """Cut the data, trace the module, store and pin all files. Raises UserError, StoreError.

    weights: a safetensors file that replaces the module's initial tensors. merge: how they were merged; the manifest names
    the branches as the job's parents.
    """
    say("preparing the data")
    dataset = dataset_of(job, say)
    shapes = {name: f"{array.dtype.name} {array.shape[1:]}" for name, array in dataset.examples.items()}
    counts = [len(next(iter(part.values()))) for part in dataset if part]
    of = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    say(
        f"{counts[0]:,} examples of {of}; {counts[1]:,} held out" if job.map is None else f"{counts[0]:,} items of {of}"
    )
    say("tracing the module" if not job.model.program else f"reading {job.model.program}")
    profile = job.profile
    say(
        f"{profile.parameters:,} parameters, {profile.nodes:,} operations and {format_count(profile.flops, 'FLOP')} a step"
    )
    dataset = with_schedule(job, dataset)
    tensors = None if weights is None else read_weights(weights, say)
    if merge is not None and (tensors is None or state_root(tensors).hex() != merge.root):
        raise UserError(
            "the initial weights are not the merge of these parents",
            hint="pass the file that `zoo job merge` wrote beside the parents as --weights",
        )
    say("storing program, data and weights")
    manifest = publish_files(job, dataset, store, weights=tensors, parents=merge.parents if merge else None)
    _try_first_step(job, manifest, dataset, tensors or job.traced.initial or {})
    record_model(job, manifest)
    cid = store.add(manifest.to_bytes(), pin=True)
    assert digest_of(cid) == manifest.digest, "a manifest is one raw block"
    work_root = work_of(manifest, job.traced.graph).root
    terms = terms_of(manifest, work_root, job.prices, job.token.address, job.requirements.word)
    return PreparedJob(manifest, cid, terms, job.token, job.custody)


def _try_first_step(job: ComputeJob, manifest: Manifest, dataset: Dataset, tensors: Mapping[str, Any]) -> None:
    """Refuse a job whose first step the network would skip but charge for. Raises UserError."""
    graph = job.traced.graph
    try:
        runner = backend.prepare(graph)
    except backend.NoBackend:  # without kernels, post untested
        return
    if STEP not in runner.state:
        return
    begin(graph, runner.state, tensors, manifest.draw_seed(0, 0))
    loss = runner.step(batch_of(dataset.examples, manifest.examples_for(0, 0, 0), manifest.accumulate))
    if not runner.state[STEP].any():
        raise UserError(
            f"the job's first step would be skipped: its loss is {loss:g}, or a gradient is not finite, or an index is out of range",
            hint="check for tokens or classes beyond the module's, and for too large a learning rate or initial weights",
        )


def read_weights(path: Path, say: Say) -> dict[str, Any]:
    """The module's tensors by name, without the outer optimiser's state of a checkpoint."""
    say(f"reading the weights of {path}")
    try:
        state = files.load_state(path)
    except files.FileRefused as error:
        raise UserError(
            f"{path}: {error}", hint="write it with `repops.files.save_state`, sorted and without metadata"
        ) from error
    return {name: array for name, array in state.items() if not name.startswith(OUTER)}


def check_funds(chain: Chain, account: str, token: Token, most: int) -> None:
    """Refuse an account that cannot pay, before storing or sending anything. most: escrow, and custodians. Raises NotFunded,
    UserError.
    """
    if not chain.tasks.is_allowed(token.address):
        raise UserError(
            f"the network accepts no payment in {token.symbol} ({token.address})",
            hint="`zoo network show` lists accepted tokens; its governor can add one with `zoo network allow`",
        )
    balance = chain.token(token.address).balanceOf(account)
    if balance < most:
        raise NotFunded(
            f"the account {account} has {token.format(balance)}; the job takes {token.format(most)}",
            hint=f"send it {token.format(most - balance)}, or lower the budget",
        )
    coin, deposit = chain.coin(account), posting_deposit(chain)
    if coin <= deposit:
        least = format_amount(deposit, "")
        raise NotFunded(
            f"the account {account} has {format_amount(coin, '')} coin; posting takes a deposit of {least}, and gas",
            hint="send it some of the chain's native coin; the deposit comes back when the job ends",
        )


def posting_deposit(chain: Chain) -> int:
    """The deposit to post with, in wei: twice the least, so that the base fee may rise until the transaction is mined."""
    return 2 * least_posting_deposit(next_base_fee(chain.w3))


def post(sender: Sender, prepared: PreparedJob, *, again: bool = False, say: Say) -> int:
    """Post with a signed allowance, or after approving exactly the escrow; return the job's number. After a crash, call it again.

    Raises AlreadyPosted if this job was posted before and `again` is not set.
    """
    chain, record = sender.chain, _Record(sender, prepared)
    with record.locked():
        known = record.read()
        posted = _active_job(sender, prepared, known)
        if posted and not again:
            raise AlreadyPosted(posted, over=chain.tasks.jobs(posted).state == JobState.ENDED)
        if not known or "job" in known or known["since"] > chain.head().number + 1:
            known = {"since": chain.head().number + 1, "manifest": prepared.cid}
            record.write(known)
        elif job := _find_posted(sender, prepared, known["since"]):
            say("an earlier run had already posted it")
            record.write({**known, "job": job})
            return job
        # Recorded, so that after a crash the sender recognises the transaction, which sends the same deposit.
        if known.get("deposit", 0) < least_posting_deposit(next_base_fee(chain.w3)):
            known["deposit"] = posting_deposit(chain)
            record.write(known)
        job = _post_permitted(sender, prepared, record, known, say)
        if job is None:
            job = _post_approved(sender, prepared, known, say)
        record.write({**known, "job": job})
        return job


def _post_permitted(
    sender: Sender, prepared: PreparedJob, record: _Record, known: dict[str, Any], say: Say
) -> int | None:
    """Post in one transaction, with a signed allowance; None if token or account do not support it.

    The signed terms are recorded before sending. After a crash this makes the same transaction again, which the sender
    recognises. A permit is valid once, so a second post by mistake is impossible.
    """
    address, tasks = prepared.terms.token, sender.chain.network.contracts["tasks"]
    recorded = known.get("permit")
    if recorded is None:
        if sender.chain.token(address).allowance(sender.address, tasks) >= prepared.escrow:
            return None  # the allowance is there: a failing permit would go unnoticed
        terms = permits.next_terms(sender, address)
        if terms is None:
            return None
        if job := _find_posted(
            sender, prepared, known["since"]
        ):  # mined between the first search and reading the nonce
            return job
        known["permit"] = terms.to_dict()
        record.write(known)
    else:
        terms = permits.PermitTerms(**recorded)
    permit = permits.sign_permit(sender, address, tasks, prepared.escrow, terms, say)
    if permit is None:
        return None
    say(_posting(known))
    try:
        call = sender.chain.tasks.post_permitted(PostedTerms(**asdict(prepared.terms)), *permit)
        receipt = sender.send(call, value=known["deposit"])
    except (TokenRefusal, BareRevert):  # permit used, expired or not supported
        job = _find_posted(sender, prepared, known["since"])
        if job is None and permits.is_usable(sender, address, tasks, prepared.escrow, permit):
            raise Retryable(
                "an earlier transaction that posts this job is not mined yet", hint="run the same command again"
            ) from None
        return job
    return int(receipt.event("JobPosted").args["job"])


def _posting(known: dict[str, Any]) -> str:
    return f"posting the job, with a deposit of {format_amount(known['deposit'], '')} coin that comes back when it ends"


def _post_approved(sender: Sender, prepared: PreparedJob, known: dict[str, Any], say: Say) -> int:
    """Approve exactly the escrow, then post."""
    since = known["since"]
    token, tasks = sender.chain.token(prepared.terms.token), sender.chain.network.contracts["tasks"]
    # An exact allowance makes a second post by mistake impossible: the first one consumes it.
    if token.allowance(sender.address, tasks) != prepared.escrow:
        if job := _find_posted(sender, prepared, since):
            return job
        say(f"approving {prepared.token.format(prepared.escrow)}")
        set_allowance(sender, prepared.terms.token, tasks, prepared.escrow)
    say(_posting(known))
    try:
        receipt = sender.send(sender.chain.tasks.post(PostedTerms(**asdict(prepared.terms))), value=known["deposit"])
        return int(receipt.event("JobPosted").args["job"])
    except (TokenRefusal, BareRevert):
        job = _find_posted(sender, prepared, since)  # mined between the search above and sending
        if job is None:
            raise
        return job


def _active_job(sender: Sender, prepared: PreparedJob, known: dict[str, Any]) -> int | None:
    """The recorded job, if it exists on this chain (a devnet may have restarted) and is not cancelled.

    A reorganisation may have posted it under another number.
    """
    if "job" not in known:
        return None
    job = int(known["job"])
    onchain = sender.chain.tasks.jobs(job)
    if (onchain.submitter, bytes(onchain.manifest)) != (sender.address, prepared.manifest.digest):
        renumbered = _find_posted(sender, prepared, known["since"])
        if renumbered is None:
            return None
        job, onchain = renumbered, sender.chain.tasks.jobs(renumbered)
    return job if onchain.state != JobState.CANCELLED else None


def _find_posted(sender: Sender, prepared: PreparedJob, since: int) -> int | None:
    """The account's job with this manifest, posted in or after block `since`."""
    head = sender.chain.head().number
    for event in scan(sender.chain, since, head, names=("JobPosted",)) if since <= head else ():
        if event.args["submitter"] == sender.address and bytes(event.args["manifest"]) == prepared.manifest.digest:
            return int(event.args["job"])
    return None


class _Record:
    """The record of one submission on this machine: {"since": block, "manifest": CID, "permit": signed terms, "job": number}."""

    def __init__(self, sender: Sender, prepared: PreparedJob) -> None:
        network = sender.chain.network
        deployment = f"{network.chain_id}-{network.contracts['tasks'][2:10].lower()}"
        self._folder = paths.home() / "submissions" / deployment
        self._lock = self._folder / f"{sender.address.lower()}.lock"
        self._path = self._folder / f"{sender.address.lower()}-{prepared.manifest.digest.hex()[:32]}.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One submission per account at a time: they share the allowance."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._lock, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> dict[str, Any]:
        try:
            record = json.loads(self._path.read_text())
            return record if isinstance(record, dict) and "since" in record else {}
        except (FileNotFoundError, ValueError):
            return {}

    def write(self, record: dict[str, Any]) -> None:
        write_atomically(self._path, json.dumps(record).encode(), mode=0o600)
