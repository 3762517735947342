"""Allowances in a token like Tether's, which changes none but from or to zero and answers nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vyper.compiler import compile_code

from keepers.services.challenging import APPROVED, Asking
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.tokens import set_allowance
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import BareRevert
from zoo_compute.spec import state

pytestmark = pytest.mark.integration

MOCK = Path(__file__).parents[2] / "contracts/mocks/WaryToken.vy"
CLAIM = state.Claim(0, 0, 0, 1, 1, 0, bytes(32), bytes(32))


def deployed(devnet: Devnet) -> Any:
    w3 = devnet.chain.w3
    made = compile_code(MOCK.read_text(), output_formats=["abi", "bytecode"])
    by: Any = {"from": w3.eth.accounts[0]}
    made_at = w3.eth.contract(abi=made["abi"], bytecode=made["bytecode"]).constructor().transact(by)
    address = w3.eth.wait_for_transaction_receipt(made_at)["contractAddress"]
    assert address is not None
    return w3.eth.contract(address=address, abi=made["abi"])


def test_a_wary_token__is_allowed_again_whatever_is_left_of_the_allowance(devnet: Devnet):
    chain, token, account = devnet.chain, deployed(devnet), devnet.account("asker", zen=1)
    sender, referee = Sender(chain, account, folder=devnet.folder), chain.referee.address
    binding, w3 = chain.token(token.address), chain.w3
    w3.eth.wait_for_transaction_receipt(
        token.functions.mint(account.address, 10_000).transact({"from": w3.eth.accounts[0]})
    )
    price = [100]
    asking: Any = Asking(
        SimpleNamespace(  # type: ignore[arg-type]
            tasks=SimpleNamespace(reexecution_price=lambda *_: (token.address, price[0])),
            referee=chain.referee,
            token=chain.token,
        ),
        sender,
    )
    asking.provide(1, CLAIM)
    assert binding.allowance(account.address, referee) == APPROVED * 100
    price[0] = APPROVED * 100 + 1
    with pytest.raises(BareRevert):
        sender.send(binding.approve(referee, 1))
    asking.provide(1, CLAIM)
    assert binding.allowance(account.address, referee) == APPROVED * price[0], "what was left was too little"
    sent = w3.eth.get_transaction_count(account.address)
    set_allowance(sender, token.address, referee, APPROVED * price[0])
    assert w3.eth.get_transaction_count(account.address) == sent, "it is so already"
    for amount in (7, 0, 9):
        set_allowance(sender, token.address, referee, amount)
        assert binding.allowance(account.address, referee) == amount
