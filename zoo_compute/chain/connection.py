"""`connect(network)`: a checked connection to one deployment, with a typed binding for each contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import BlockNotFound
from web3.middleware import AttributeDictMiddleware

from zoo_compute.chain import artifacts
from zoo_compute.chain.generated import bindings
from zoo_compute.chain.head_pace import Head as Head
from zoo_compute.chain.head_pace import HeadPace
from zoo_compute.chain.network import CONTRACTS, Network
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.errors import Unreachable, WrongDeployment
from zoo_compute.spec.clocks import NEVER_S

if TYPE_CHECKING:
    from web3.contract import Contract

    from zoo_compute.chain.event_store import EventStore
    from zoo_compute.spec.params import Preset

T = TypeVar("T")
BlockNumber = int | Literal["latest"]
BLOCK_POLL_S = 0.1


class Chain:
    """The contracts of one network. Threads can share it; a forked process reconnects by itself."""

    def __init__(self, network: Network, w3: Web3) -> None:
        self.network = network
        self.w3 = w3
        at = network.contracts
        self.zen = bindings.ZenToken(w3, at["zen"])
        self.timelock = bindings.Timelock(w3, at["timelock"])
        self.guardian = bindings.Guardian(w3, at["guardian"])
        self.audit_pool = bindings.AuditPool(w3, at["audit_pool"])
        self.treasury = bindings.Treasury(w3, at["treasury"])
        self.credits = bindings.Credits(w3, at["credits"])
        self.registry = bindings.NodeRegistry(w3, at["registry"])
        self.tasks = bindings.TaskRegistry(w3, at["tasks"])
        self.rewards = bindings.Rewards(w3, at["rewards"])
        self.datasets = bindings.Datasets(w3, at["datasets"])
        self.channels = bindings.Channels(w3, at["channels"])
        self.auction = bindings.Auction(w3, at["auction"])
        self.locks = bindings.Locks(w3, at["locks"])
        self.settlement = bindings.Settlement(w3, at["settlement"])
        self.audits = bindings.Audits(w3, at["audits"])
        self.availability = bindings.Availability(w3, at["availability"])
        self.custody = bindings.Custody(w3, at["custody"])
        self.admissions = bindings.Admissions(w3, at["admissions"])
        self.serving = bindings.Serving(w3, at["serving"])
        self.executor = bindings.OpExecutor(w3, at["executor"])
        self.evidence = bindings.Evidence(w3, at["evidence"])
        self.referee = bindings.Referee(w3, at["referee"])
        self._pace: HeadPace | None = None
        self.event_store: EventStore | None = None  # of a process that reads many jobs, for long (event_log.use_store)
        self._cache: dict[Hashable, Any] = {}

    @property
    def params(self) -> Preset:
        return self.network.params

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """The object under `key`, made on first use. Other modules keep here what they have read from this chain.

        Where another thread forgets all meanwhile, what was made is the caller's, and is not kept.
        """
        cache = self._cache
        try:
            return cache[key]
        except KeyError:
            made = make()
        return cache.setdefault(key, made)

    def forget(self, key: Hashable) -> None:
        """Drop the object under `key`."""
        self._cache.pop(key, None)

    def token(self, address: str) -> bindings.ZenToken:
        """Any ERC-20 payment token, with ZEN's interface."""
        return bindings.ZenToken(self.w3, address)

    def forget_all(self) -> None:
        """Drop all that was read from this chain, but for its events."""
        self._cache = {}
        self.forget_head()

    def follow(self) -> None:
        """Look for a new block less often from now on, as often as the chain makes blocks: for processes that ask all the time."""
        self._pace = HeadPace()

    def forget_head(self) -> None:
        """The newest block is not the one that was seen last: something was just mined."""
        if self._pace is not None:
            self._pace.forget()

    def head(self, block: BlockNumber = "latest") -> Head:
        """A block, the newest by default. Raises Unreachable."""
        if block == "latest" and self._pace is not None:
            return self._pace.newest(self._head)
        return self._head(block)

    def _head(self, block: BlockNumber = "latest") -> Head:
        try:
            header = self.w3.eth.get_block(block)
        except BlockNotFound:
            raise Unreachable(f"the RPC does not have block {block!r} yet") from None
        return Head(header["number"], header["timestamp"], bytes(header["hash"]), bytes(header["parentHash"]))

    def now(self) -> int:
        """The timestamp of the newest block, in seconds: for epochs, permits and the timelock."""
        return self.head().timestamp

    def time(self, head: Head | None = None) -> int:
        """The protocol's time, which all clocks of jobs and disputes are read in: at `head`, or at the newest block."""
        head = head or self.head()
        if self.params.clocks.outage_s >= NEVER_S:
            return head.timestamp
        known: tuple[bytes, int] = self._cache.get("time", (b"", 0))
        if known[0] != head.hash:
            known = self._cache["time"] = head.hash, self.registry.time(block=head.number)
        return known[1]

    def wait_for_block(self, seen: int, longest_s: float) -> None:
        """Return once there is a block after number `seen`, or after `longest_s`. What a chain says changes in blocks only, and
        asking for the newest number costs a fraction of reading a job again."""
        deadline = time.monotonic() + longest_s
        while time.monotonic() < deadline and self.w3.eth.block_number <= seen:
            time.sleep(BLOCK_POLL_S)

    def coin(self, account: str) -> int:
        """Wei of native coin."""
        return self.w3.eth.get_balance(Web3.to_checksum_address(account))

    def contract(self, name: str) -> Contract:
        """The untyped web3 contract of this name in CONTRACTS, for decoding inputs. Making it takes a while."""
        address, abi = Web3.to_checksum_address(self.network.contracts[name]), artifacts.abi(CONTRACTS[name])
        return self.cached(("contract", name), lambda: self.w3.eth.contract(address=address, abi=abi))


def connect(network: Network, api_key: str | None = None) -> Chain:
    """A Chain over the first RPC that answers.

    Raises Unreachable, WrongChain (the RPC serves another chain), WrongDeployment (an address has no code, or not the code of
    the network file). `api_key` is sent as a bearer token to the RPCs of the network file.
    """
    chain = _over(network, FailoverProvider(network.rpcs, network.chain_id, api_key))
    names = list(network.contracts)
    codes = codes_of(chain.w3, [network.contracts[name] for name in names])
    for name, code in zip(names, codes, strict=True):
        where = f"{CONTRACTS[name]} at {network.contracts[name]} (network {network.name!r}, chain {network.chain_id})"
        if not code:
            raise WrongDeployment(f"no contract: {where}")
        if code_hash(code) != network.code_hashes[name]:
            raise WrongDeployment(f"the code differs from the network file's: {where}")
    return chain


def over_each_rpc(chain: Chain) -> dict[str, Chain]:
    """The same contracts as each RPC shows them, by URL. Without RPCs that are set aside, or did not answer this a moment ago."""
    provider = cast(FailoverProvider, chain.w3.provider)
    each = {
        url: chain.cached(("alone", url), partial(_over, chain.network, provider.alone(url)))
        for url in provider.trusted()
    }
    return {url: one for url, one in each.items() if cast(FailoverProvider, one.w3.provider).endpoints[0].is_well()}


def _over(network: Network, provider: FailoverProvider) -> Chain:
    return Chain(network, Web3(provider, middleware=[AttributeDictMiddleware]))


def code_hash(code: bytes) -> str:
    return "0x" + keccak(code).hex()


def codes_of(w3: Web3, addresses: Sequence[str]) -> list[bytes]:
    """The deployed code at each address, in one request."""
    with w3.batch_requests() as batch:
        for address in addresses:
            batch.add(w3.eth.get_code(Web3.to_checksum_address(address)))
        return [bytes(cast(HexBytes, code)) for code in batch.execute()]
