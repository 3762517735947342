"""What keeps two keepers of one account from both sending: who may send now, and what the other one sent last."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from zoo_compute.chain.pending_transactions import PendingTransaction


class Fence(Protocol):
    """Of an account that several keepers could send for. The one that may send writes its pending transactions where its successor reads them."""

    def check(self) -> None:
        """Return only where this process may sign and send now."""

    def left(self, why: str) -> None:
        """This process must send nothing any more. Does not return."""

    def write(self, changed: Mapping[int, PendingTransaction], removed: Collection[int]) -> None:
        """Entries by nonce, where a successor finds them, before this returns. Raises Unreachable."""

    def read(self) -> dict[int, PendingTransaction]:
        """What the account's last sender wrote. Raises Unreachable."""


class FencedAccount:
    """Signs as the account does, while the fence lets it."""

    def __init__(self, account: Any, fence: Fence) -> None:
        self._account, self._fence = account, fence
        self.address = account.address

    def sign_transaction(self, transaction_dict: Any) -> Any:
        self._fence.check()
        return self._account.sign_transaction(transaction_dict)

    def sign_message(self, signable_message: Any) -> Any:
        self._fence.check()
        return self._account.sign_message(signable_message)

    def sign_typed_data(self, domain: dict[str, Any], types: dict[str, Any], message: dict[str, Any]) -> Any:
        self._fence.check()
        return self._account.sign_typed_data(domain, types, message)
