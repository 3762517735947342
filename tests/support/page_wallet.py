"""A wallet in the browser, injected before the page (EIP-1193, announced as EIP-6963 says): it signs with a key of its own, on a devnet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eth_account.signers.local import LocalAccount

from zoo_compute.chain.connection import Chain

if TYPE_CHECKING:
    from playwright.sync_api import Page

DECLINED, UNKNOWN_CHAIN, UNSUPPORTED = 4001, 4902, 4200
INJECTED = """
const listeners = {};
const provider = {
  request: async ({ method, params }) => {
    const answer = await window.askWallet(method, params || []);
    if (answer.error) throw Object.assign(new Error(answer.error.message), { code: answer.error.code });
    return answer.result;
  },
  on: (name, heard) => { listeners[name] = heard; },
};
const info = { uuid: "350670db-19fa-4704-a166-e52e178b59d2", name: "Test wallet", icon: "data:,", rdns: "test.wallet" };
const announce = () => window.dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail: Object.freeze({ info, provider }) }));
window.addEventListener("eip6963:requestProvider", announce);
"""


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class PageWallet:
    """asked: the methods, in order. declines: the next signature. chain_id: which it is on; knows: which it can switch to."""

    def __init__(self, chain: Chain, account: LocalAccount) -> None:
        self.account, self._chain = account, chain
        self.asked: list[str] = []
        self.declines = False
        self.chain_id = chain.network.chain_id
        self.knows = {chain.network.chain_id}

    def inject(self, page: Page) -> None:
        page.expose_function("askWallet", self._answer)
        page.add_init_script(INJECTED)

    def _answer(self, method: str, params: list[Any]) -> dict[str, Any]:
        self.asked.append(method)
        try:
            return {"result": self._result(method, params)}
        except Refused as error:
            return {"error": {"code": error.code, "message": str(error)}}

    def _result(self, method: str, params: list[Any]) -> Any:
        if method == "eth_requestAccounts":
            return [self.account.address]
        if method == "eth_chainId":
            return hex(self.chain_id)
        if method == "wallet_switchEthereumChain":
            wanted = int(params[0]["chainId"], 16)
            if wanted not in self.knows:
                raise Refused(UNKNOWN_CHAIN, "Unrecognized chain ID")
            self.chain_id = wanted
            return None
        if method != "eth_sendTransaction":
            raise Refused(UNSUPPORTED, f"{method} is not supported")
        if self.declines:
            raise Refused(DECLINED, "User rejected the request.")
        return self._sent(params[0])

    def _sent(self, asked: dict[str, str]) -> str:
        eth, block = self._chain.w3.eth, self._chain.w3.eth.get_block("latest")
        assert asked.pop("from") == self.account.address
        signed = self.account.sign_transaction(
            {
                "to": asked["to"], "data": asked["data"], "value": int(asked["value"], 16), "gas": int(asked["gas"], 16),
                "chainId": self.chain_id, "nonce": eth.get_transaction_count(self.account.address, "pending"),
                "maxFeePerGas": 2 * block["baseFeePerGas"] + 10**9, "maxPriorityFeePerGas": 10**9,
            }
        )  # fmt: skip
        return "0x" + eth.send_raw_transaction(signed.raw_transaction).hex()
