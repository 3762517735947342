"""From a job's description to a job on chain: prepare and store its files, then approve and post, once.

Everything prepared is content-addressed, so preparing again changes nothing. What was posted is found again by a record
on this machine and by the chain's events: a crash at any line is followed by running the same command again.
"""

from __future__ import annotations

import fcntl
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repops import files
from zoo_compute import data as texts
from zoo_compute import home
from zoo_compute.amounts import format_amount
from zoo_compute.atomic import write_atomically
from zoo_compute.chain.bindings.task_registry import Terms as PostedTerms
from zoo_compute.chain.events import scan
from zoo_compute.chain.views import JobState
from zoo_compute.errors import NotFunded, TokenRefusal, UserError
from zoo_compute.job import ComputeJob
from zoo_compute.manifest import Manifest
from zoo_compute.publish import OUTER, publish_files
from zoo_compute.quote import terms_of
from zoo_compute.spec import params
from zoo_compute.spec.params import Terms
from zoo_compute.store.cid import digest_of

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender
    from zoo_compute.store import Store

Say = Callable[[str], None]


class AlreadyPosted(UserError):
    """This very job was posted before from this account; `job` is its number."""

    def __init__(self, job: int) -> None:
        super().__init__(
            f"this very job was posted before, as job {job}",
            hint=f"follow it with `zoo job watch {job}`; --again posts (and pays) it a second time",
        )
        self.job = job


@dataclass(frozen=True)
class Prepared:
    """A job whose files are stored and pinned. cid: of the manifest."""

    manifest: Manifest
    cid: str
    terms: Terms

    @property
    def escrow(self) -> int:
        return params.escrow(self.terms)


def token_of(job: ComputeJob, chain: Chain) -> str:
    """The address of the job's payment token."""
    return chain.network.contracts["zen"] if job.market.token == "ZEN" else job.market.token


def prepare(job: ComputeJob, token: str, store: Store, *, weights: Path | None = None, say: Say) -> Prepared:
    """Cut the data, make (or read) the initial weights, store and pin all files. Raises UserError, StoreError.

    weights: a safetensors file with the architecture's parameters, in place of fresh ones from the seed.
    """
    say("preparing the data")
    dataset = _dataset(job, say)
    say(f"{len(dataset.examples):,} examples of {job.model.context + 1} bytes, {len(dataset.heldout):,} held out")
    state = _initial_state(job, weights, say)
    say("storing data and weights")
    manifest = publish_files(job, dataset, state, store)
    cid = store.add(manifest.to_bytes(), pin=True)
    assert digest_of(cid) == manifest.digest, "a manifest is one raw block"
    return Prepared(manifest, cid, terms_of(manifest, job.prices, token))


def _dataset(job: ComputeJob, say: Say) -> texts.Dataset:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", texts.RepeatedData)
        try:
            dataset = texts.prepare_text(
                job.data_paths(),
                job.model.context,
                job.training.seed,
                wanted=job.examples_wanted,
                minimum=job.examples_of_a_round,
                heldout=job.data.heldout,
            )
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"data: {error}") from error
    for warning in caught:
        say(f"note: {warning.message}")
    return dataset


def _initial_state(job: ComputeJob, weights: Path | None, say: Say) -> dict[str, Any]:
    """The parameters by name, as arrays."""
    if weights is not None:
        say(f"reading the weights of {weights}")
        try:
            state = files.load_state(weights)
        except files.FileRefused as error:
            raise UserError(
                f"{weights}: {error}", hint="write it with `repops.files.save_state`, sorted and without metadata"
            ) from error
        state = {
            name: array for name, array in state.items() if not name.startswith(OUTER)
        }  # of an earlier job's checkpoint
        found = sum(array.size for array in state.values())
        if found != job.profile.parameters:
            raise UserError(f"{weights}: {found:,} parameters, the model of this job has {job.profile.parameters:,}")
        return _checked_by_torch(job, state)
    say(f"making the initial weights: {job.profile.parameters:,} parameters from seed {job.training.seed}")
    try:
        from repops.program import build
    except ModuleNotFoundError as error:
        raise UserError(
            "initial weights are made with torch, which is not installed",
            hint="pip install 'zoo-compute[node]', or give them with --weights FILE (safetensors)",
        ) from error
    return {name: tensor.numpy() for name, tensor in build(job.spec).initial_state(job.training.seed).items()}


def _checked_by_torch(job: ComputeJob, state: dict[str, Any]) -> dict[str, Any]:
    """Names and shapes against the program, where torch is at hand; nodes check them in any case."""
    try:
        import torch

        from repops.program import build
    except ModuleNotFoundError:
        return state
    try:
        build(job.spec).parameters_of({name: torch.from_numpy(array) for name, array in state.items()})
    except ValueError as error:
        raise UserError(f"the weights do not fit the model: {error}") from error
    return state


def check_funds(chain: Chain, account: str, token: str, escrow: int) -> None:
    """Refuse an account that cannot pay, before anything is stored or sent. Raises NotFunded, UserError."""
    if not chain.tasks.is_allowed(token):
        raise UserError(f"the network takes no payment in {token}", hint="leave market.token away to pay in ZEN")
    held = chain.token(token).balanceOf(account)
    symbol = "ZEN" if token == chain.network.contracts["zen"] else "of the payment token"
    if held < escrow:
        raise NotFunded(
            f"the account {account} has {format_amount(held, symbol)}; the job's escrow is {format_amount(escrow, symbol)}",
            hint=f"send it {format_amount(escrow - held, symbol)}, or lower the budget",
        )
    if chain.coin(account) == 0:
        raise NotFunded(f"the account {account} has no coin for gas", hint="send it some of the chain's native coin")


def post(sender: Sender, prepared: Prepared, *, again: bool = False, say: Say) -> int:
    """Approve exactly the escrow and post; the job's number. Running it again after a crash finds what was sent.

    Raises AlreadyPosted when this job was posted before and `again` is not set.
    """
    chain, record = sender.chain, _Record(sender, prepared)
    with record.locked():
        known = record.read()
        posted = _standing_job(sender, prepared, known)
        if posted and not again:
            raise AlreadyPosted(posted)
        if not known or "job" in known or known["since"] > chain.head().number + 1:
            known = {"since": chain.head().number + 1, "manifest": prepared.cid}
            record.write(known)
        elif job := _posted(sender, prepared, known["since"]):
            say("an earlier run had posted it already")
            record.write({**known, "job": job})
            return job
        token, tasks = chain.token(prepared.terms.token), chain.network.contracts["tasks"]
        # An exact allowance makes a second post by mistake impossible: the first one uses it up.
        if token.allowance(sender.address, tasks) != prepared.escrow:
            if job := _posted(sender, prepared, known["since"]):
                record.write({**known, "job": job})
                return job
            say(f"approving {format_amount(prepared.escrow)}")
            sender.send(token.approve(tasks, prepared.escrow))
        say("posting the job")
        try:
            receipt = sender.send(chain.tasks.post(PostedTerms(**asdict(prepared.terms))))
            job = int(receipt.event("JobPosted").args["job"])
        except TokenRefusal:
            found = _posted(sender, prepared, known["since"])  # mined between the look above and the sending
            if found is None:
                raise
            job = found
        record.write({**known, "job": job})
        return job


def _standing_job(sender: Sender, prepared: Prepared, known: dict[str, Any]) -> int | None:
    """The recorded job, if this chain knows it (a devnet may have started anew) and it was not cancelled."""
    if "job" not in known:
        return None
    found = sender.chain.tasks.jobs(known["job"])
    same = (found.submitter, bytes(found.manifest)) == (sender.address, prepared.manifest.digest)
    return int(known["job"]) if same and found.state != JobState.CANCELLED else None


def _posted(sender: Sender, prepared: Prepared, since: int) -> int | None:
    """The job of this account with this manifest that was posted in or after block `since`."""
    head = sender.chain.head().number
    for event in scan(sender.chain, since, head, names=("JobPosted",)) if since <= head else ():
        if event.args["submitter"] == sender.address and bytes(event.args["manifest"]) == prepared.manifest.digest:
            return int(event.args["job"])
    return None


class _Record:
    """What this machine knows of one submission: {"since": block, "manifest": CID, "job": number once posted}."""

    def __init__(self, sender: Sender, prepared: Prepared) -> None:
        network = sender.chain.network
        deployment = f"{network.chain_id}-{network.contracts['tasks'][2:10].lower()}"
        self._folder = home.home() / "submissions" / deployment
        self._lock = self._folder / f"{sender.address.lower()}.lock"
        self._path = self._folder / f"{sender.address.lower()}-{prepared.manifest.digest.hex()[:32]}.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One submission of an account at a time: the allowance is shared."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._lock, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_text())
            return found if isinstance(found, dict) and "since" in found else {}
        except (FileNotFoundError, ValueError):
            return {}

    def write(self, record: dict[str, Any]) -> None:
        write_atomically(self._path, json.dumps(record).encode(), mode=0o600)
