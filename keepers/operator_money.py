"""What an operator earns and gets back: heartbeats that earn rewards, rewards, deposits and payments."""

from __future__ import annotations

import logging

from keepers.config import OperatorConfig
from keepers.services import deposits
from zoo_compute.amounts import format_amount
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.credits import read_credits
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.views import OperatorView
from zoo_compute.errors import Refusal
from zoo_compute.gpus import PERIODS
from zoo_compute.operators.account import Operators

log = logging.getLogger("zoo.keeper")


class OperatorMoney:
    """Sends what is due to the cold owner. Remembers only what it sent in this epoch."""

    def __init__(self, config: OperatorConfig, chain: Chain, sender: Sender) -> None:
        self._config = config
        self._chain = chain
        self._sender = sender
        self._rewarded_epoch = -1
        self._last_beat = (-1, -1)  # epoch, period

    def collect(self, operator: OperatorView, *, idle: bool) -> None:
        """idle: no job binds money of this operator, so that what it earned can be withdrawn at once."""
        self._beat(operator)
        self._claim_rewards(operator)
        deposits.withdraw(self._chain, self._sender, operator, idle=idle)
        if idle:
            self._withdraw(operator)

    def _beat(self, operator: OperatorView) -> None:
        """Send one heartbeat in each period that the configuration lists."""
        epoch_s = self._chain.params.epoch_s
        beat = (operator.block_time // epoch_s, operator.block_time % epoch_s * PERIODS // epoch_s)
        if beat[1] in self._config.availability_hours and beat != self._last_beat and operator.stake:
            self._sender.send(self._chain.registry.heartbeat(operator.operator))
            self._last_beat = beat

    def _claim_rewards(self, operator: OperatorView) -> None:
        """Claim network rewards, and shares of mints, for the owner, once an epoch."""
        epoch = operator.block_time // self._chain.params.epoch_s
        if epoch != self._rewarded_epoch:
            Operators(self._chain, self._sender).claim_rewards(operator.operator, say=log.info)
            self._claim_mints(operator)
            self._rewarded_epoch = epoch

    def _claim_mints(self, operator: OperatorView) -> None:
        """What its work that was paid in credits has of mints that are over, if it serves jobs in credits."""
        if self._chain.network.contracts.get("credits") not in self._config.priced_tokens:
            return
        for share in read_credits(self._chain, operator.owner).claimable:
            try:
                self._sender.send(self._chain.credits.claim(operator.owner, share.epoch))
                log.info("claimed %s of the mint of epoch %d", format_amount(share.amount), share.epoch)
            except Refusal as refusal:  # somebody else did
                log.info("the mint of epoch %d: %s", share.epoch, refusal.reason)

    def _withdraw(self, operator: OperatorView) -> None:
        """Send payments to the owner."""
        for token, amount in operator.owed.items():
            if amount:
                receipt = self._sender.send(self._chain.tasks.withdraw(token, operator.owner))
                log.info("withdrew %d of %s to %s in %s", amount, token, operator.owner, receipt.transaction_hash)
