"""The operator's coin: deposits of its demands, within the limit of operator.json, refunds, and parts of posting deposits."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from keepers.config import OperatorConfig
from keepers.decisions.demands import deposits_outstanding
from keepers.decisions.orders import DemandChunk
from zoo_compute.amounts import format_amount, parse_amount
from zoo_compute.chain.call import Call
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.custody import words_of
from zoo_compute.chain.fees import next_base_fee
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.views import JobView, OperatorView
from zoo_compute.errors import NeedsOperator
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import COIN

log = logging.getLogger("zoo.keeper")

CHECKS_PART = 4  # of deposits_per_job: what checks of custodians may cost


def demand(config: OperatorConfig, chain: Chain, view: JobView, duty: DemandChunk, me: str) -> tuple[Call, int] | None:
    """The call that demands one chunk from my account, and its deposit. Raises NeedsOperator when the job's limit does not suffice.

    None: of checks that keep to their part of the limit, so that whoever answers them for the deposits leaves me what I need myself.
    """
    limit = parse_amount(config.deposits_per_job)
    deposit = least_deposit(next_base_fee(chain.w3))
    claim = duty.claim
    what = f"what operator {claim.operator} committed in turn {claim.turn} is not served"
    signer: tuple[Any, ...] = ()  # place, and committee
    if duty.signer is not None:
        assert view.custody is not None, "signers are those of the job's custody"
        record = view.custody.records[claim.turn]
        committee = view.custody.committees[record.version]
        signer = (duty.signer, words_of(committee))
        what = f"operator {committee[duty.signer].operator} does not serve what it signed for in turn {claim.turn}"
    outstanding = deposits_outstanding(view, me)
    if duty.is_check and (outstanding + deposit) * CHECKS_PART > limit:
        log.info("job %d: %s: not demanded: checks keep to a part of deposits_per_job", view.job, what)
        return None
    if outstanding + deposit > limit:
        raise NeedsOperator(
            f"{what}, and another demand of it ({format_amount(deposit, 'coin')}) would pass the job's limit",
            hint="raise deposits_per_job in operator.json",
        )
    known = [slot for slot, place in duty.chunks.items() if place is not None]
    slot = secrets.choice(known or list(duty.chunks))
    tensor, group = duty.chunks[slot] or (secrets.randbits(32), secrets.randbits(40))
    args: Any = (view.job, claim.fields, duty.lane, slot, tensor, group)
    log.warning("job %d: %s: demanding it on chain for %s", view.job, what, format_amount(deposit, "coin"))
    contract = chain.availability
    return contract.demand_of_signer(*args, *signer) if signer else contract.demand(*args), deposit


def withdraw(chain: Chain, sender: Sender, operator: OperatorView, *, idle: bool) -> None:
    """Withdraw refunds to the hot key at once, and deposits that answers earned to the owner when no job is under way."""
    for account, wei in operator.deposits.items():
        if wei and (idle or account == operator.hot):
            sender.send(chain.availability.withdraw(account))
            log.info("withdrew %s of deposits to %s", format_amount(wei, "coin"), account)
    for account, wei in operator.coin_owed.items():
        if wei and (idle or account == operator.hot):
            sender.send(chain.tasks.withdraw(COIN, account))
            log.info("withdrew %s of posting deposits to %s", format_amount(wei, "coin"), account)
