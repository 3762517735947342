"""What `zoo verify` and `zoo defend` share: the lane of disputes with this process as its worker, and disputes by their names."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepers.queue.work_queue import WorkStatus
from keepers.services.challenging import BASE_FEES
from keepers.services.claims_of_no_job import Questions, no_questions
from keepers.services.disputing import Disputing
from zoo_compute import paths
from zoo_compute.amounts import Token, format_amount
from zoo_compute.atomic import write_atomically
from zoo_compute.chain.fees import next_base_fee
from zoo_compute.chain.tokens import token_at
from zoo_compute.chain.views import AGGREGATOR_SEAT, JobView
from zoo_compute.client.disputes import Dispute, list_disputes
from zoo_compute.errors import ZooError
from zoo_compute.spec import state
from zoo_compute.spec.clocks import gas_price, heavy_fee
from zoo_compute.spec.disputed_claims import price_of

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.cli.context import Settings
    from zoo_compute.store import Store

KEPT = 32  # results of computations, by the names of the work
FOLDER = "verify"  # in ZOO_HOME
SECRET = "seals"  # of the seals that this account places: with it a restart opens them
TURNS = "each answers what the other side sent, before a deadline"  # why its transactions cannot be printed beforehand
GAS_OF_A_DISPUTE = 2_000_000  # of both sides' transactions, down to a conviction (benchmarks/dispute.py)


@dataclass(frozen=True)
class Purse:
    """What an account has, and about what it needs to ask one claim down to a false number: coin, and the job's token.

    needed_tokens: what one heavy ask prepays, about the dearest claim of the job.
    """

    address: str
    token: Token
    coin: int
    tokens: int
    needed_coin: int
    needed_tokens: int

    @classmethod
    def read(cls, chain: Chain, address: str, view: JobView) -> Purse:
        coin = chain.w3.eth.get_balance(address)  # type: ignore[arg-type]
        needed = GAS_OF_A_DISPUTE * gas_price(next_base_fee(chain.w3) * BASE_FEES)
        tokens = chain.token(view.token).balanceOf(address)
        prices = [_heavy_fee(chain, view.job, kind, prices) for kind, prices in _prices(view).items()]
        return cls(address, token_at(chain, view.token), coin, tokens, needed, max(prices))

    @property
    def is_enough(self) -> bool:
        return self.coin >= self.needed_coin and self.tokens >= self.needed_tokens

    @property
    def text(self) -> str:
        has = f"{format_amount(self.coin, 'coin')} and {self.token.format(self.tokens)}"
        needs = f"{format_amount(self.needed_coin, 'coin')} and {self.token.format(self.needed_tokens)}"
        return f"{self.address} has {has}; a dispute needs about {needs}"


def _prices(view: JobView) -> dict[bool, list[int]]:
    """What is paid for a slot-round (False) and for an aggregation (True): of claims that are not final, and of later ones."""
    prices: dict[bool, list[int]] = {False: [], True: []}
    for number, seat in view.seats.items():
        prices[number >= AGGREGATOR_SEAT].append(seat.price)
    for claim in (state.Claim(*each.fields) for each in view.claims if not each.final):  # type: ignore[arg-type]
        prices[claim.is_aggregation].append(price_of(claim))
    return prices


def _heavy_fee(chain: Chain, job: int, is_aggregation: bool, prices: list[int]) -> int:
    _, reserve = chain.tasks.reexecution_price(job, is_aggregation)
    return heavy_fee(max(prices, default=0), reserve)


class InProcessWorker:
    """Computes a dispute's answers and asks in this process. Equal work is computed once."""

    def __init__(self, store: Store, device: str | None) -> None:
        self._store, self._device = store, device
        self._done: OrderedDict[str, WorkStatus] = OrderedDict()

    def __call__(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        if name not in self._done:
            from node.disputes.player import run_dispute

            arguments = {**request, "device": self._device} if self._device else request
            try:
                self._done[name] = WorkStatus("done", result=run_dispute(arguments, self._store))
            except ZooError as error:
                self._done[name] = WorkStatus("failed", error=str(error))
            while len(self._done) > KEPT:
                self._done.popitem(last=False)
        return self._done[name]


def disputing(
    settings: Settings,
    store: Store,
    device: str | None,
    *,
    defends: int | None = None,
    questions: Questions = no_questions,
) -> Disputing:
    """The lane of the account that the settings name. questions: of receipts that it has."""
    folder = Path(paths.home()) / FOLDER
    worker = InProcessWorker(store, device)
    secret = _secret(folder / SECRET)
    return Disputing(
        settings.chain(),
        settings.sender(),
        worker,
        operator=0,
        folder=folder,
        defends=defends,
        secret=secret,
        questions=questions,
    )


def _secret(path: Path) -> bytes:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, secrets.token_bytes(32), mode=0o600)
    return path.read_bytes()


def disputes_of(settings: Settings, job: int) -> dict[bytes, Dispute]:
    """A job's disputes, by the keys of their claims."""
    chain = settings.chain()
    return {each.view.key: each for each in list_disputes(chain, chain.head(), job)}
