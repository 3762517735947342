"""The SDK: submit jobs, follow them, fetch trained models. Methods block, in a notebook too; those that are `async` are for `await`.

client = Client(network="network.json", account="me")
job = client.train(config="training_config.yaml", max_budget=5000)
job.join()                    # you can stop waiting; client.job(job.id) resumes, also in another process
job.result("model.safetensors")
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo_compute.amounts import ZEN, Token
from zoo_compute.arguments import check_names, checks_arguments, names_of
from zoo_compute.chain.events import scan
from zoo_compute.chain.tokens import address_of, token_at
from zoo_compute.client.job import Job
from zoo_compute.client.session import Session
from zoo_compute.errors import ConfigError, UserError, ZooError
from zoo_compute.jobs import shortfall
from zoo_compute.jobs.loading import Amount, Config, Data, plan_job
from zoo_compute.jobs.needs import check_capacity
from zoo_compute.jobs.quote import PUBLIC, Quote, price_lines, quote
from zoo_compute.jobs.sections import SECTIONS
from zoo_compute.spec.params import COIN
from zoo_compute.store import BlockStore, confirmations
from zoo_compute.training.examples import INPUTS

if TYPE_CHECKING:
    from zoo_compute.inference.client import Inference
    from zoo_compute.jobs.config import ComputeJob
    from zoo_compute.jobs.generation import Text
    from zoo_compute.jobs.submission import PreparedJob
    from zoo_compute.training.merge import Merge

SERVED_TIMEOUT_S = 5.0


@checks_arguments
class Client(Session):
    """One account on one network.

    network: a network file's path, or a Network; by default ZOO_NETWORK, ./network.json, ~/.zoo/network.json, or the running devnet.
    account: a name in ~/.zoo/keystores, a key file, or a signer (eth-account's LocalAccount); unlocked when first needed,
    with `passphrase`, ZOO_PASSPHRASE_FILE or ZOO_PASSPHRASE. api_key (or ZOO_API_KEY): authenticates to the hosted RPC, and
    to the hosted signer if the network file names one and you give no account. store: a Store or its location.
    """

    @cached_property
    def network(self) -> Network:
        return Network(client=self)

    def quote(
        self,
        config: Config | None = None,
        max_budget: Amount | None = None,
        data: Data | None = None,
        **sections: Any,
    ) -> Quote:
        """Work, prices, worst case, locks, durations. Connects only to read the decimals of a token other than ZEN."""
        check_names("quote", sections, [*names_of(self.quote), *SECTIONS])
        job = plan_job(config, max_budget, data, **sections).job
        if job.market.token != ZEN.symbol:
            self.pay_in_token_of(job)
        return quote(job, self.description.params)

    def train(
        self,
        config: Config | None = None,
        max_budget: Amount | None = None,
        data: Data | None = None,
        *,
        weights: str | Path | None = None,
        merge: Merge | None = None,
        again: bool = False,
        anyway: bool = False,
        **sections: Any,
    ) -> Job:
        """Submit a job and return at once. If interrupted, call it again: it resumes.

        config: a job's file, its sections as a mapping, or a ComputeJob. max_budget (whole tokens), data (a path, or keys of the
        section) and sections (`training={"rounds": 3}`) override it; without config they are the job.
        anyway: post even if no operator can train the job now, or no storage peer of the network serves its files yet.
        merge: how `weights` were merged (`zoo_compute.client.branches.merge_branches`); the manifest names it.
        Raises JobError, BudgetTooSmall, NotFunded, UserError before anything is sent; AlreadyPosted unless `again`.
        """
        check_names("train", sections, [*names_of(self.train), *SECTIONS])
        plan = plan_job(config, max_budget, data, **sections)
        token = self.pay_in_token_of(plan.job)
        plan.check_budget()
        self.say(f"public once the job is posted: {PUBLIC}")
        offers = () if anyway else shortfall.offers(self.chain, token.address, asks=plan.job.requirements.word)
        if not anyway:
            check_capacity(plan.job, offers, say=self.say)
        dataset = self.bring(plan.job)
        plan.check_budget()  # again: a dataset's shapes say what custodians cost
        prepared = self.prepare(plan.job, weights=Path(weights) if weights else None, merge=merge)
        for line in price_lines(plan.job):
            self.say(line)
        if not anyway:
            check_capacity(plan.job, offers, prepared, say=self.say)
            self.check_served(prepared)
        from zoo_compute.jobs.submission import AlreadyPosted, post

        try:
            number = post(self.sender, prepared, again=again, say=self.say)
        except AlreadyPosted as posted:  # the earlier run may have ended before what follows
            self._follow_up(posted.job, prepared, dataset)
            raise
        self._follow_up(number, prepared, dataset)
        return Job(self, number)

    def map(self, module: Any, inputs: Any, max_budget: Amount, *, batch_size: int = 32, **sections: Any) -> Any:
        """module(inputs), computed by the network in batches of items (rows of `inputs`); blocks until it is final.

        module: of torch, in eval mode, or a `model` section. inputs: an array. Returns what the module returns for all items: an array, or a
        mapping of arrays. sections: of a job's file; `map` has one slot unless it says otherwise. If interrupted, call it again: it goes on.
        Raises what `train` raises, and UserError if the job ends without them.
        """
        items = {"batch_size": batch_size, "slots": 1, **sections.pop("map", {})}
        data = {"arrays": {INPUTS: np.asarray(inputs)}}
        model = module if isinstance(module, Mapping) else {"module": module}
        options = _posting_options("map", sections)
        return self._mapped(plan_job(None, max_budget, data, model=model, map=items, **sections).job, options)

    def generate(
        self,
        model: Any,
        prompts: Sequence[str] | Sequence[Sequence[int]],
        max_budget: Amount,
        *,
        new_tokens: int = 64,
        temperature: float = 0.0,
        batch_size: int = 8,
        **sections: Any,
    ) -> list[Text]:
        """How a causal model continues each prompt, computed by the network, `batch_size` texts at a time; blocks until it is final.

        model: a built-in one or one of `transformers`, or a `model` section. prompts: texts, or lists of tokens. temperature: 0 takes the
        likeliest token. sections: of a job's file, and options of `train`, such as `weights`. Raises what `map` raises.
        """
        from zoo_compute.jobs.generation import prompts_array

        keys = {"new_tokens": new_tokens, "temperature": temperature}
        items = {"batch_size": batch_size, "slots": 1, **keys, **sections.pop("map", {})}
        data = {"arrays": {"prompts": prompts_array(prompts)}, **sections.pop("data", {})}
        if not isinstance(model, Mapping):
            model = {"transformers" if hasattr(model, "save_pretrained") else "module": model}
        options = _posting_options("generate", sections)
        job = plan_job(None, max_budget, data, model=model, map=items, **sections).job
        assert job.generation is not None
        return job.generation.texts(self._mapped(job, options))

    def render(
        self,
        scene: str | Path,
        max_budget: Amount,
        *,
        frames: tuple[int, int] = (1, 1),
        size: tuple[int, int] = (640, 360),
        samples: int = 16,
        fps: int = 24,
        slots: int = 2,
        **sections: Any,
    ) -> Any:
        """The frames (first, last) of the scene in a file, as `zoo render` makes them: an array (frames, height, width, 3) of uint8.

        size: (width, height). sections: others of a job's file. Blocks until it is final; if interrupted, call it again. Raises as `map`.
        """
        from zoo_compute.rendering.layout import Layout
        from zoo_compute.rendering.pictures import Picture
        from zoo_compute.rendering.plan import data_of, sections_of

        layout = Layout.of(*size, frames, samples, fps)
        options = _posting_options("render", sections)
        plan = plan_job(None, max_budget, data_of(layout), **sections_of(Path(scene), layout, slots), **sections)
        rows = self._mapped(plan.job, options)
        made = []
        for frame in layout.frames:
            picture, items = Picture(layout), layout.items_of(frame)
            picture.add(layout.items[items.start : items.stop], rows[items.start : items.stop])
            made.append(picture.pixels()[..., :3])
        return np.stack(made)

    def inference(
        self,
        service: str,
        max_price: Amount,
        *,
        deposit: Amount = 1,
        check: float = 0.01,
        timeout_s: float = 120.0,
        tries: int = 3,
        at_once: int = 8,
    ) -> Inference:
        """A client of a model that operators serve live: `complete`, `stream`, `embed`; threads can share it.

        service: its CID. max_price: whole ZEN for 1,000 tokens. deposit: whole ZEN of each channel, opened when an operator is first asked,
        and added when it is spent. check: the chance with which an answer is computed again here. timeout_s: of one try; tries: at most,
        each at another seat; at_once: requests in flight. Raises UserError and the store's errors.
        """
        from zoo_compute.inference.client import Terms, inference, scope_of

        prices = ZEN.parse(max_price, what="max_price"), ZEN.parse(deposit, what="deposit")
        scope = scope_of(self.description.preset)
        terms = Terms(*prices, check, timeout_s, tries, at_once, scope)
        self.use_peers()
        return inference(self.chain, self.sender, self.store, service, terms=terms, say=self.say)

    def _mapped(self, job: ComputeJob, options: Mapping[str, Any]) -> Any:
        """The outputs of all items. Goes on with the same job if it is posted already."""
        from zoo_compute.client.outputs import joined
        from zoo_compute.jobs.submission import AlreadyPosted

        try:
            posted = self.train(job, **options)
        except AlreadyPosted as known:
            posted = self.job(known.job)
        return joined(list(posted.outputs()), posted.view().terms.rounds, posted.id)

    def _follow_up(self, job: int, prepared: PreparedJob, dataset: int | None) -> None:
        if prepared.custody is not None:
            Job(self, job).request_custody(prepared.custody)
        self._cite(job, dataset)

    def bring(self, job: ComputeJob) -> int | None:
        """Fetch a job's dataset once and check it against its root on chain; return its number. Raises UserError, StoreError."""
        if job.data.on_network is None:
            return None
        from zoo_compute.client.datasets import fetch, find_dataset

        record = find_dataset(self.chain, job.data.on_network)
        if job.fetched is None:
            if not self.store.has(record.cid):
                self.use_peers()
            job.bring(fetch(record, self.store, self.say))
        return record.number

    def _cite(self, job: int, dataset: int | None) -> None:
        """Cite the job's dataset, unless it is cited already. A failure does not stop the job."""
        datasets = self.chain.datasets
        if dataset is None or datasets.citations(job).cited:
            return
        try:
            self.sender.send(datasets.cite(job, [dataset]))
            self.say(f"job {job} cites dataset {dataset}; score it with `zoo job score` when the job is settled")
        except ZooError as error:
            self.say(f"job {job} does not cite dataset {dataset} yet ({error}): `zoo job cite {job} {dataset}`")

    def submit(self, config: Config | None = None, max_budget: Amount | None = None, **options: Any) -> int:
        """As `train`, but return the job's number on chain."""
        return self.train(config, max_budget, **options).id

    def prepare(self, job: ComputeJob, *, weights: Path | None = None, merge: Merge | None = None) -> PreparedJob:
        """Check that the account can pay, then store and pin the job's files. Sends nothing."""
        from zoo_compute.jobs.submission import check_funds, prepare

        self.pay_in_token_of(job)
        check_funds(self.chain, self.signer.address, job.token, job.most)
        return prepare(job, self.store, weights=weights, merge=merge, say=self.say)

    def pay_in_token_of(self, job: ComputeJob) -> Token:
        """Read the job's payment token from the chain. From then on the job's prices are in its units."""
        token = token_at(self.chain, job.market.token, what="market.token")
        if job.known_token != token:
            job.use_token(token)
        return token

    def check_served(self, prepared: PreparedJob) -> None:
        """Refuse to post a job whose files nodes cannot fetch. Raises UserError."""
        peers = self.description.storage
        if not isinstance(self.store, BlockStore):
            return  # an IPFS daemon announces its content itself
        manifest = prepared.manifest
        cids = [prepared.cid, manifest.program.cid, manifest.state.cid, manifest.data.cid]
        if not all(confirmations(cid, peers, timeout_s=SERVED_TIMEOUT_S) for cid in cids):
            names = ", ".join(peers) or "the network file names none"
            raise UserError(
                f"no storage peer of the network serves this job's files ({names}): nodes could not fetch them",
                hint="run `zoo store serve` at an address that the network file's `storage` names, "
                "use an IPFS daemon (--store kubo:URL), or post anyway (--anyway, in Python anyway=True) if you will serve them soon",
            )

    def job(self, number: int) -> Job:
        """A posted job, of any submitter. Raises UserError for a number that does not exist."""
        count = self.chain.tasks.job_count()
        if not 1 <= number <= count:
            newest = f"the newest is {count}" if count else "none has been posted yet"
            raise UserError(
                f"there is no job {number} on {self.description.name}: {newest}", hint="`zoo job list` lists the jobs"
            )
        return Job(self, number)

    def jobs(self, submitter: str | None = None) -> list[int]:
        """Job numbers, of one submitter or of all, oldest first."""
        events = scan(self.chain, self.description.first_block, self.chain.head().number, names=("JobPosted",))
        return [int(e.args["job"]) for e in events if submitter is None or e.args["submitter"] == submitter]

    def withdraw(self, token: str | None = None) -> int:
        """Withdraw what this account is owed: the rest of a job's escrow, and what channels could not deliver. Returns the amount."""
        address, took = address_of(self.chain, token, what="token"), 0
        for contract in (self.chain.tasks, self.chain.channels):
            owed = contract.owed(address, self.signer.address)
            if owed:
                self.sender.send(contract.withdraw(address, self.signer.address))
            took += owed
        return took

    def withdraw_coin(self) -> int:
        """Withdraw the coin that the task registry owes this account: posting deposits. Returns the amount in wei."""
        owed = self.chain.tasks.owed(COIN, self.signer.address)
        if owed:
            self.sender.send(self.chain.tasks.withdraw(COIN, self.signer.address))
        return owed


def _posting_options(method: str, sections: dict[str, Any]) -> dict[str, Any]:
    """Take the options of `train` out of the keywords that are sections. Raises UserError for what is neither."""
    names = ("weights", "merge", "again", "anyway")
    check_names(method, sections, [*names, *SECTIONS])
    return {name: sections.pop(name) for name in names if name in sections}


class Network:
    """`await network.submit(job)`: jobs from async code."""

    def __init__(self, *args: Any, client: Client | None = None, **kwargs: Any) -> None:
        if client is not None and (args or kwargs):
            raise ConfigError("give a client or the client's arguments, not both")
        self.client = client or Client(*args, **kwargs)

    async def submit(self, config: Config | None = None, max_budget: Amount | None = None, **options: Any) -> int:
        """Post a job, with the arguments of `Client.train`; return its number. Runs in a thread and does not block the event loop."""
        return await asyncio.to_thread(self.client.submit, config, max_budget, **options)

    def job(self, number: int) -> Job:
        return self.client.job(number)
