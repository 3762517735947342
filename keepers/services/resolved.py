"""What a resolved dispute leaves to do: fees are settled, seals opened, rewards collected, and all of it withdrawn."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from keepers.services.challenging import salt_of, seal_of, unit_id
from keepers.services.retries import Backoff, Troubles
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.disputes.exploration import Opened
from zoo_compute.errors import NeedsOperator, Refusal
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import COIN
from zoo_compute.spec.watching import NOBODY

if TYPE_CHECKING:
    from zoo_compute.chain.call import Call
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.sender import Sender
    from zoo_compute.chain.views import Claim

log = logging.getLogger("zoo.disputes")
FAILED_S, LONGEST_S = 30.0, 3_600.0  # pauses after a withdrawal that fails
SETTLED_AT_ONCE = 32  # MAX_SETTLED of the Referee
_U40, _U96 = 2**40 - 1, 2**96 - 1


class Withdrawal(NamedTuple):
    """What a contract may owe an account. contract: a name of CONTRACTS; asset: a token, or the coin."""

    contract: str
    asset: str
    account: str


class Resolved:
    """Of one account, and of the owner of `operator` (0: of none). Everything is asked of the chain, so it can be done again."""

    def __init__(self, chain: Chain, sender: Sender, operator: int, secret: bytes = b"") -> None:
        self._chain, self._sender, self._operator, self._secret = chain, sender, operator, secret
        self._withdrawals: set[Withdrawal] = set()  # not done yet
        self._failing = Backoff[Withdrawal](FAILED_S, LONGEST_S)
        self._troubles = Troubles[Withdrawal]()

    def finish(self, head: Head, dispute: DisputeView, claim: Claim, token: str) -> int | None:
        """Do what can be done now, but `withdraw`. Returns the second after which there is more to do; None: nothing is left.

        token: the job's; none of a trial, about which asks prepay no tokens.
        """
        self._settle(head, dispute)
        later = self._reward(head, dispute, claim) if self._secret else None
        accounts: set[str] = {self._sender.address}
        if self._operator and dispute.operator == self._operator:
            accounts.add(self._chain.registry.owner_of(self._operator))
        tokens = {token} if token else set[str]()
        self._withdrawals |= {
            Withdrawal("referee", asset, account) for asset in {COIN} | tokens for account in accounts
        }
        self._withdrawals |= {Withdrawal("tasks", asset, self._sender.address) for asset in tokens}
        return later

    def withdraw(self) -> None:
        """Take what resolved disputes left to this operator. A token that refuses one transfer keeps nothing else waiting."""
        for due in sorted(each for each in self._withdrawals if self._failing.is_due(each)):
            contract, asset, account = due
            where = f"a withdrawal of {asset} from {contract} to {account}"
            with self._troubles.contained(due, where, failed=partial(self._failing.failed, due)):
                source = getattr(self._chain, contract)
                if source.owed(asset, account):
                    self._withdraw(source.withdraw(asset, account))
                self._withdrawals.discard(due)
                self._failing.succeeded(due)

    def _withdraw(self, call: Call) -> None:
        try:
            self._sender.send(call)
        except Refusal as refusal:
            raise NeedsOperator(f"refused: {refusal.reason}", hint="it is tried again, ever more rarely") from refusal

    @property
    def trouble(self) -> list[str]:
        return self._troubles.texts

    def _settle(self, head: Head, dispute: DisputeView) -> None:
        """The fees of nodes that are mine, as far as nobody has settled them."""
        mine = [node for node in dispute.picture.nodes.values() if self._is_mine(dispute, node)]
        kept = read_all(self._chain, head.number, [Read("referee", "nodes", (node.id,)) for node in mine])
        left = [node.id for node, word in zip(mine, kept, strict=True) if word]
        for start in range(0, len(left), SETTLED_AT_ONCE):
            call = dispute.picture.settle(left[start : start + SETTLED_AT_ONCE])
            self._sender.send(self._chain.referee.settle(*call.args))

    def _is_mine(self, dispute: DisputeView, node: Opened) -> bool:
        """Whether what was prepaid for the node goes to me, or to my operator's owner."""
        payment, me = node.record.payment, self._sender.address.lower()
        if not payment.fee and not payment.is_heavy:
            return False
        if dispute.end != End.FINAL:
            return payment.asker == me
        is_owners = node.record.answerer == NOBODY and dispute.operator == self._operator
        return is_owners or node.record.answerer == me

    def _reward(self, head: Head, dispute: DisputeView, claim: Claim) -> int | None:
        """Open my seal of the convicted step while that counts; collect its share afterwards."""
        referee, me = self._chain.referee, self._sender.address
        verdict, finder = referee.verdicts(dispute.key), referee.finders(dispute.key)
        judged_at, opening_s = verdict & _U40, self._chain.params.clocks.opening_s
        if not judged_at or finder & _U96 == _U96:
            return None
        is_finder = finder >> 96 == int(me, 16)
        if is_finder and self._chain.time(head) > judged_at + opening_s:
            self._sender.send(referee.reward(dispute.job, claim.fields))  # type: ignore[arg-type]
            log.info("job %d: the reward of turn %d, seat %d is collected", dispute.job, claim.turn, claim.seat)
            return None
        if not is_finder and self._chain.time(head) <= judged_at + opening_s:
            salt = salt_of(self._secret, dispute.key, unit_id(verdict))
            placed = referee.seals(seal_of(me, unit_id(verdict), salt))
            is_early = placed + self._chain.params.clocks.seal_lead_s <= verdict >> 40 & _U40
            if not placed or not is_early or (finder and finder & _U96 <= placed):
                return None
            self._sender.send(referee.open_seal(dispute.job, claim.fields, me, salt))  # type: ignore[arg-type]
            is_finder = True
        return judged_at + opening_s if is_finder else None
