"""Gas of payment channels, read from receipts: what each costs once its client, operator and treasury have the token already.

`channel_open` pulls the deposit by a signed allowance, as `zoo channel open` does; `channel_open_approved` by one that an earlier
transaction approved. `channel_close` pays the operator's owner, the treasury and the client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount

from zoo_compute.chain import permits
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.inference.channels import close, close_unpaid, domain_at
from zoo_compute.serving.vouchers import SignedVoucher, Voucher, sign
from zoo_compute.spec.params import ZEN

DEPOSIT = 10 * ZEN


@dataclass
class ChannelBench:
    """Channels of one client to one operator on a devnet."""

    client: Sender
    operator: int
    hot: Sender
    key: LocalAccount = field(default_factory=Account.create)

    def measure(self) -> dict[str, int]:
        """name -> gas. Each is done twice, and the second counts: its balances were written before."""
        chain, gas = self.client.chain, dict[str, int]()
        self._open(permitted=False)  # and stays: the contract always has some of the token
        for _ in range(2):
            gas["channel_open"] = self._open(permitted=True).gas_used
            gas["channel_close"] = close(self.hot, self._voucher(4 * ZEN)).gas_used
            gas["channel_open_approved"] = self._open(permitted=False).gas_used
            gas["channel_add"] = self.client.send(chain.channels.add(self._number, ZEN)).gas_used
            gas["channel_redeem"] = self.hot.send(chain.channels.redeem(*self._voucher(ZEN).args)).gas_used
            gas["channel_leave"] = self.client.send(chain.channels.leave(self._number)).gas_used
            close(self.hot, self._voucher(2 * ZEN))
            self._open(permitted=False)
            gas["channel_close_unpaid"] = close_unpaid(self.hot, self._number).gas_used
        return gas

    @property
    def _number(self) -> int:
        return int(self.client.chain.channels.channel_count())

    def _open(self, *, permitted: bool) -> Receipt:
        chain = self.client.chain
        channels, args = chain.channels, (self.operator, chain.zen.address, self.key.address, DEPOSIT)
        if not permitted:
            self.client.send(chain.zen.approve(channels.address, 2 * DEPOSIT))
            return self.client.send(channels.open(*args))
        terms = permits.next_terms(self.client, chain.zen.address)
        assert terms is not None, "ZEN takes permits"
        say: Any = lambda _: None  # noqa: E731 (nobody reads what a benchmark signs)
        permit = permits.sign_permit(self.client, chain.zen.address, channels.address, DEPOSIT, terms, say)
        assert permit is not None
        return self.client.send(channels.open_permitted(*args, *permit))

    def _voucher(self, total: int) -> SignedVoucher:
        voucher = Voucher(self._number, total)
        return SignedVoucher(voucher, sign(domain_at(self.client.chain), voucher, bytes(self.key.key)))
