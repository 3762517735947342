"""Trains on while a job's chain is out of reach: a branch of the job on another chain, and then the merge of both.

Started before anything is wrong, on a machine from which the other chain can be reached. What was done is in a record, and no job is
posted twice, so it may be killed at any line and started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repops import files
from repops.fields import BadField, canonical_json, parse_json, read
from zoo_compute.atomic import write_atomically
from zoo_compute.client.branches import merge_branches
from zoo_compute.client.evaluation import Heldout
from zoo_compute.client.results import fetch_result, manifest_of
from zoo_compute.errors import Retryable, UserError
from zoo_compute.jobs.loading import plan_job
from zoo_compute.store import StoreError
from zoo_compute.training.merge import Merge

if TYPE_CHECKING:
    from repops.commitments import Array
    from zoo_compute.chain.views import JobView
    from zoo_compute.client.branches import LoadedBranch
    from zoo_compute.client.client import Client
    from zoo_compute.jobs.config import ComputeJob

POLL_S = 2.0
RECORD, START = "partition.json", "start.safetensors"


@dataclass(frozen=True)
class Record:
    """What was done. round, root: of the newest checkpoint that is here; 0: the initial state. branch, continued: the jobs that were
    posted, on the other chain and on the job's own; 0: not yet.
    """

    job: int
    round: int = 0
    root: str = ""
    branch: int = 0
    continued: int = 0


@dataclass(frozen=True)
class Rule:
    """How to go on. file: the job's own. after_s: how long its chain may show no new block while the other one does.

    rounds and slots: of the branch; then: rounds of the job that continues from the merge; None: as in the file. max_budget: of each of the
    two, in whole tokens; None: the file's.
    """

    file: Path
    after_s: float = 300.0
    rounds: int | None = None
    slots: int | None = None
    then: int | None = None
    max_budget: str | None = None
    anyway: bool = False


class Partition:
    """home, far: clients of the job's network and of the other one. folder: for the record and the weights."""

    def __init__(self, home: Client, far: Client, job: int, rule: Rule, folder: Path) -> None:
        self._home, self._far, self._rule, self._folder = home, far, rule, folder
        self.record = self._read(job)
        self._say, self._said = home.say, ""

    def run(self) -> Record:
        """Until the job is over and nothing happened, or the job that continues from the merge is posted.

        Raises UserError where the sides cannot be merged.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._check()
        while not self.record.branch:
            if not self._follow():
                return self.record
            self._go_on()
        if not self.record.continued:
            branch = self._ended(self._far, self.record.branch)
            home = self._ended(self._home, self.record.job)
            while not self.record.continued:
                try:
                    self._continue(home, branch)
                except (Retryable, StoreError) as error:
                    self._wait_for(f"{error}; will try again")
                    time.sleep(POLL_S)
        return self.record

    # -- before

    def _check(self) -> None:
        """Refuse early what would fail when nobody is there. Raises UserError."""
        if self.record.branch:
            return
        from zoo_compute.jobs.submission import check_funds

        job = self._branch()
        token = self._far.pay_in_token_of(job)
        check_funds(self._far.chain, self._far.signer.address, token, job.most)
        try:
            if _is_same(self._home, self._far):
                name = self._far.description.name
                raise UserError(f"both networks are {name}", hint="--on names another network's file")
            manifest = manifest_of(self._home.job(self.record.job).view(), self._home.store)
        except Retryable as error:  # started again in the middle of a partition
            self._say(f"{error}; job {self.record.job} is not compared with {self._rule.file}")
            return
        if manifest.program.root != job.traced.root.hex():
            raise UserError(
                f"{self._rule.file} trains another program than job {self.record.job}: a branch could not be merged",
                hint="give the file that the job was posted from",
            )

    def _follow(self) -> bool:
        """Keep the job's newest checkpoint here. Returns whether its chain is out of reach; False: the job is over."""
        seen = {self._home: Seen(), self._far: Seen()}
        while True:
            if seen[self._home].look(self._home):
                try:
                    view = self._home.job(self.record.job).view()
                    if view.over:
                        return False
                    self._keep(view)
                except (Retryable, StoreError) as error:
                    self._wait_for(f"{error}; will try again")
            seen[self._far].look(self._far)
            if seen[self._home].silent_s > self._rule.after_s >= seen[self._far].silent_s:
                return True
            time.sleep(POLL_S)

    def _keep(self, view: JobView) -> None:
        newest = view.completed_rounds
        root = view.checkpoint_roots[newest].hex()
        if newest and (newest, root) != (self.record.round, self.record.root):
            before = self._weights
            self._home.use_peers()
            fetch_result(view, self._home.store, self._weights_of(newest, root))
            self._write(round=newest, root=root)
            before.unlink(missing_ok=True)
            self._say(f"checkpoint {newest} of job {view.job} is here")

    @property
    def _weights(self) -> Path:
        return self._weights_of(self.record.round, self.record.root)

    def _weights_of(self, round_: int, root: str) -> Path:
        return self._folder / f"checkpoint-{round_}-{root[:8]}.safetensors"

    # -- during

    def _go_on(self) -> None:
        """Post the branch; where that fails for now, the chains are looked at again."""
        since, own, other = self.record.round, self._home.description.name, self._far.description.name
        self._say(
            f"{own} has shown no block for {self._rule.after_s:g} s, {other} has: going on from checkpoint {since}"
        )
        try:
            number = self._posted(self._far, self._branch(), self._weights if since else None)
        except (Retryable, StoreError) as error:
            self._wait_for(f"{error}; will try again")
            return
        self._write(branch=number)
        self._say(f"job {number} of {other} is the branch")

    # -- after

    def _continue(self, home: JobView, branch: JobView) -> None:
        """Merge what both sides trained, and post the job that continues from there."""
        since = self.record.round
        sides = ((self._home, home, since), (self._far, branch, 0))
        trained = [client.job(view.job).branch(at) for client, view, at in sides if view.final_rounds > at]
        if not trained:
            raise UserError(f"neither side made a checkpoint after {since}: there is nothing to continue from")
        merge, start = self._start(home, trained)
        path = self._folder / START
        files.save_state(path, start)
        job = self._planned(self._rule.then, None, self._examples + self._branch().examples_wanted)
        number = self._posted(self._home, job, path, merge)
        self._write(continued=number)
        self._say(f"job {number} of {self._home.description.name} continues from there")

    def _start(self, home: JobView, trained: Sequence[LoadedBranch]) -> tuple[Merge | None, dict[str, Array]]:
        """Where to continue: the merge, or a side's end where the held-out loss is less than the merge's. None: no merge."""
        if len(trained) == 1:
            self._say(f"only {trained[0]} went on")
            return None, trained[0].end
        merge, merged = merge_branches(trained)
        try:
            heldout = Heldout(home, self._home.store)
        except UserError as error:
            self._say(f"{error}: the merge is not compared with its sides")
            return merge, merged
        losses = [heldout.loss(each.end) for each in trained]
        loss = heldout.loss(merged)
        ends = ", ".join(
            f"{each} trained on {each.branch.examples:,} examples to {of:.4f}"
            for each, of in zip(trained, losses, strict=True)
        )
        self._say(f"held-out loss: {ends}; merged {loss:.4f}")
        if min(losses) < loss:
            return None, trained[losses.index(min(losses))].end
        return merge, merged

    def _ended(self, client: Client, number: int) -> JobView:
        """Wait until a job is over and every checkpoint of it is final."""
        name = client.description.name
        while True:
            try:
                view = client.job(number).view()
                if view.over and view.final_rounds == view.completed_rounds:
                    return view
                self._wait_for(
                    f"job {number} of {name}: {view.completed_rounds} rounds are done, {view.final_rounds} final"
                )
            except Retryable as error:
                self._wait_for(f"{error}; waiting for it")
            time.sleep(POLL_S)

    def _wait_for(self, text: str) -> None:
        """Say it, unless it was said last."""
        if text != self._said:
            self._say(text)
        self._said = text

    # -- jobs

    def _planned(self, rounds: int | None, slots: int | None, skip: int) -> ComputeJob:
        training = {name: value for name, value in (("rounds", rounds), ("slots", slots)) if value is not None}
        sections: dict[str, Any] = {"training": training} if training else {}
        return plan_job(self._rule.file, self._rule.max_budget, {"skip": skip}, **sections).job

    @cached_property
    def _examples(self) -> int:
        """What the job uses, which neither the branch nor the continued job trains on again while there are others."""
        job = plan_job(self._rule.file, self._rule.max_budget).job
        return job.data.skip + job.examples_wanted

    def _branch(self) -> ComputeJob:
        """Made anew: it holds the model, and following takes days."""
        return self._planned(self._rule.rounds, self._rule.slots, self._examples)

    def _posted(self, client: Client, job: ComputeJob, weights: Path | None, merge: Merge | None = None) -> int:
        from zoo_compute.jobs.submission import AlreadyPosted

        try:
            return client.train(job, weights=weights, merge=merge, anyway=self._rule.anyway).id
        except AlreadyPosted as posted:
            return posted.job

    # -- the record

    def _read(self, job: int) -> Record:
        try:
            record = read(Record, parse_json((self._folder / RECORD).read_bytes(), "record"), "record")
        except FileNotFoundError:
            return Record(job)
        except BadField as error:
            raise UserError(
                f"{self._folder / RECORD}: {error}", hint="choose another --folder, or remove it"
            ) from error
        if record.job != job:
            raise UserError(
                f"{self._folder} has the record of job {record.job}, not of {job}", hint="choose another --folder"
            )
        return record

    def _write(self, **done: Any) -> None:
        self.record = replace(self.record, **done)
        write_atomically(self._folder / RECORD, canonical_json(asdict(self.record)), mode=0o600)


def _is_same(one: Client, other: Client) -> bool:
    """Whether two networks are one. Development chains have equal ids and addresses; their blocks differ."""
    networks = [each.description for each in (one, other)]
    if len({(each.chain_id, each.contracts["tasks"]) for each in networks}) > 1:
        return False
    block = networks[0].first_block
    return one.chain.head(block).hash == other.chain.head(block).hash


class Seen:
    """When a chain last had a new block, as far as its RPCs show it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._number, self._at = clock, -1, clock()

    def look(self, client: Client) -> bool:
        """Whether the chain answers now."""
        try:
            number = client.chain.head().number
        except Retryable:
            return False
        if number > self._number:
            self._number, self._at = number, self._clock()
        return True

    @property
    def silent_s(self) -> float:
        return self._clock() - self._at
