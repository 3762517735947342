"""Deploys the protocol: order, constructor arguments and wiring, for both web3 and ape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Protocol, cast

from eth_account.signers.local import LocalAccount
from hexbytes import HexBytes
from web3 import Web3
from web3.contract import Contract
from web3.types import TxParams

from zoo_compute.amounts import format_amount
from zoo_compute.chain import artifacts
from zoo_compute.chain.connection import code_hash
from zoo_compute.chain.generated.bindings.admissions import Workload
from zoo_compute.chain.network import CONTRACTS, Network
from zoo_compute.chain.roles import Roles, refuse_unsafe
from zoo_compute.chain.wiring import WIRED, miswired
from zoo_compute.errors import ChainError, UserError
from zoo_compute.spec import auditing
from zoo_compute.spec.clocks import NEVER_S
from zoo_compute.spec.params import DOLLAR, ZEN, Preset
from zoo_compute.spec.state import ZERO_ADDRESS

INITIAL_SUPPLY = 100_000_000 * ZEN
REWARDS_POOL = 10_000_000 * ZEN  # network rewards: at most 1,000 production epochs
CREDITS_POOL = 10_000_000 * ZEN  # mints: at most 1,000 production epochs

DEVNET_RATE = DOLLAR  # for a ZEN
# On a devnet: one step of the packaged benchmark (node/generated/benchmark.repops), for any GPU or CPU.
DEVNET_VRAM_GB = 8
DEVNET_WORKLOAD = Workload(
    program_root=bytes.fromhex("30500eb97d5fd7de55b2d368d4947117798a61f5064880f50881926cf03a6c70"),
    state_root=bytes.fromhex("79458ce1c60d95d5b9124c1bd9e2d60607e72d72d09525175390eb69d31309ca"),
    steps=1,
    flops=21_867_538_515,
)

RECEIPT_TIMEOUT_S = 180.0
GAS_MARGIN = 100_000  # above the estimate, as the state may change until the transaction is mined
EMPTY_BYTES32 = bytes(32)


class Deployer(Protocol):
    """An account that deploys and calls. `RpcDeployer` here, `ApeDeployer` in scripts/deploy.py."""

    @property
    def address(self) -> str: ...

    def block(self) -> int:
        """The number of the newest block."""

    def deploy(self, contract: str, *args: Any) -> str:
        """Deploy a contract ("NodeRegistry") and return its address."""

    def call(self, contract: str, address: str, function: str, *args: Any) -> None:
        """Send one transaction and wait for it."""

    def code(self, address: str) -> bytes: ...

    def read(self, contract: str, address: str, function: str) -> str:
        """What a view without arguments returns: an address."""


@dataclass(frozen=True)
class Deployment:
    """A deployment. `pending`: calls that the timelock executes later; none on a devnet."""

    contracts: Mapping[str, str]  # by the names of network.CONTRACTS
    code_hashes: Mapping[str, str]
    first_block: int
    roles: Roles
    pending: Sequence[str] = ()

    def describe(self, name: str, preset: Preset, chain_id: int, rpcs: Sequence[str]) -> Network:
        """Its network file."""
        return Network(
            name=name,
            preset=preset.name,
            chain_id=chain_id,
            rpcs=tuple(rpcs),
            contracts=self.contracts,
            code_hashes=self.code_hashes,
            first_block=self.first_block,
        )


def deploy(
    deployer: Deployer,
    params: Preset,
    *,
    roles: Roles | None = None,
    supply: int = INITIAL_SUPPLY,
    rewards_pool: int | None = None,
    credits_pool: int | None = None,
    devnet: bool = False,
    zen: str | None = None,
) -> Deployment:
    """Deploy, wire, allow ZEN as payment token, fund the pools of rewards and of mints, and check what came of it.

    roles: who governs; the deployer alone unless given, which the production preset refuses. UserError is raised before
    anything is sent. On a devnet the deployer governs payment tokens and workloads, and time never stops: tests travel far. Otherwise the timelock does, and ZEN is scheduled
    there if the deployer is a proposer. Only a devnet gets a workload: elsewhere nobody can be admitted until the timelock sets one,
    and nobody can bid until admitted. A devnet alone has a rate of credits, which the deployer posts.
    zen: the token of the version before, beside which this one is deployed. Then no supply is minted, and the pools are empty unless
    `rewards_pool` and `credits_pool` are given: the timelock of that version moves its pools here.
    """
    me = deployer.address
    if rewards_pool is None:
        rewards_pool = 0 if zen else REWARDS_POOL
    if credits_pool is None:
        credits_pool = 0 if zen else CREDITS_POOL
    _refuse_impossible(deployer, supply, rewards_pool, credits_pool, zen)
    roles = roles or Roles.of_one(me)
    if params.name == "production" and not devnet:
        refuse_unsafe(deployer.address, deployer.code, params, roles, None if zen else rewards_pool)
    first_block = deployer.block() + 1
    at: dict[str, str] = {}
    at["zen"] = zen or deployer.deploy("ZenToken", supply)
    by_role = (list(roles.proposers), list(roles.executors), list(roles.cancellers))
    at["timelock"] = deployer.deploy("Timelock", params.timelock_s, *by_role)
    at["guardian"] = deployer.deploy("Guardian", at["timelock"], roles.guardian, params.pause_s)
    at["treasury"] = deployer.deploy("Treasury", at["timelock"])
    at["audit_pool"] = deployer.deploy("AuditPool", at["treasury"])
    first = (me, DEVNET_RATE) if devnet else (ZERO_ADDRESS, 0)
    minting = (params.epoch_s, params.mint_per_epoch, params.rate_step_s, params.rate_stale_s)
    at["credits"] = deployer.deploy("Credits", at["zen"], at["treasury"], at["timelock"], *first, *minting)
    at["registry"] = deployer.deploy(
        "NodeRegistry",
        at["zen"],
        at["guardian"],
        params.min_stake,
        params.exit_delay_s,
        params.epoch_s,
        NEVER_S if devnet else params.clocks.outage_s,
    )
    at["tasks"] = deployer.deploy(
        "TaskRegistry",
        at["treasury"],
        me if devnet else at["timelock"],
        at["guardian"],
        at["credits"],
        not devnet,  # needs admission
    )
    emission = (params.epoch_s, params.emission_per_epoch, params.weight_per_fee)
    at["rewards"] = deployer.deploy("Rewards", at["zen"], at["registry"], at["timelock"], *emission)
    at["datasets"] = deployer.deploy("Datasets", at["tasks"], at["rewards"])
    at["channels"] = deployer.deploy(
        "Channels", *(at[name] for name in ("registry", "tasks", "treasury")), params.notice_s
    )
    at["auction"] = deployer.deploy(
        "Auction", at["registry"], at["tasks"], at["guardian"], params.bid_window_s, params.reveal_window_s
    )
    at["locks"] = deployer.deploy("Locks", at["registry"], at["tasks"])
    at["settlement"] = deployer.deploy(
        "Settlement",
        at["registry"],
        at["tasks"],
        at["auction"],
        at["locks"],
        at["rewards"],
        at["zen"],
        params.ready_window_s,
        params.min_window_s,
        params.clocks.pay_fades_from_s,
        params.clocks.pay_gone_at_s,
    )
    at["audits"] = deployer.deploy(
        "Audits",
        at["registry"],
        at["tasks"],
        at["settlement"],
        at["rewards"],
        at["zen"],
        params.audit_bond,
        params.draw_blocks,
        auditing.lapse_s(params.clocks),
    )
    at["availability"] = deployer.deploy("Availability", at["registry"], at["tasks"], at["settlement"], params.answer_s)
    at["custody"] = deployer.deploy(
        "Custody",
        *(at[name] for name in ("registry", "tasks", "settlement", "availability")),
        params.bid_window_s,
        params.exit_delay_s,
        params.answer_s,
        params.draw_blocks,
    )
    at["admissions"] = deployer.deploy(
        "Admissions",
        at["registry"],
        me if devnet else at["timelock"],
        params.benchmark_s,
        params.min_window_s,
        params.epoch_s,
    )
    at["serving"] = deployer.deploy("Serving", at["zen"], at["registry"], params.min_window_s, params.receipt_s)
    _judge(deployer, at, params)
    _wire(deployer, at)
    if devnet:
        deployer.call("Admissions", at["admissions"], "set_workload", DEVNET_VRAM_GB, DEVNET_WORKLOAD)
    pending = _allow_tokens(deployer, at, params, roles, devnet)
    for name, pool in (("rewards", rewards_pool), ("credits", credits_pool)):
        if pool:
            deployer.call("ZenToken", at["zen"], "approve", at[name], pool)
            deployer.call(CONTRACTS[name], at[name], "fund", pool)
    rest = supply - rewards_pool - credits_pool
    if not zen and roles.holder != me and rest > 0:
        deployer.call("ZenToken", at["zen"], "transfer", roles.holder, rest)
    codes = {name: deployer.code(at[name]) for name in CONTRACTS}
    _check_wired(deployer, at, params, codes, devnet=devnet)
    return Deployment(
        contracts={name: at[name] for name in CONTRACTS},
        code_hashes={name: code_hash(codes[name]) for name in CONTRACTS},
        first_block=first_block,
        roles=roles,
        pending=pending,
    )


def _refuse_impossible(deployer: Deployer, supply: int, rewards_pool: int, credits_pool: int, zen: str | None) -> None:
    """Raises UserError for what would fail after the contracts are deployed and paid for."""
    if zen and not deployer.code(zen):
        raise UserError(
            f"there is no contract at {zen}", hint="--zen takes the address of `zen` in the old network file"
        )
    if not zen and rewards_pool > supply:
        raise UserError(
            f"the rewards pool ({format_amount(rewards_pool)}) is larger than the supply ({format_amount(supply)})",
            hint="lower --rewards-pool, or raise --supply",
        )
    if not zen and rewards_pool + credits_pool > supply:
        raise UserError(
            f"the pools ({format_amount(rewards_pool + credits_pool)}) are larger than the supply ({format_amount(supply)})",
            hint="lower --rewards-pool or --credits-pool, or raise --supply",
        )


def _check_wired(
    deployer: Deployer, at: Mapping[str, str], params: Preset, codes: Mapping[str, bytes], *, devnet: bool
) -> None:
    wired = {
        (contract, name): deployer.read(CONTRACTS[contract], at[contract], name)
        for contract, names in WIRED.items()
        for name in names
    }
    faults = miswired(at, params, codes, wired, devnet=devnet)
    if faults:
        raise ChainError("the deployment is miswired: " + "; ".join(map(str, faults)))


def _judge(deployer: Deployer, at: dict[str, str], params: Preset) -> None:
    """Deploy the contracts of disputes."""
    at["executor"] = deployer.deploy("OpExecutor")
    at["consistency"] = deployer.deploy("ConsistencyProofs", at["tasks"], at["settlement"])
    at["evidence"] = deployer.deploy("Evidence", at["executor"], at["consistency"])
    at["descent"] = deployer.deploy("Descent", at["executor"])
    clocks = params.clocks
    at["referee"] = deployer.deploy(
        "Referee",
        *(at[name] for name in ("registry", "tasks", "settlement", "admissions", "serving", "evidence", "descent")),
        clocks.committer_s,
        clocks.asker_s,
        clocks.exclusive_s,
        clocks.seal_lead_s,
        clocks.opening_s,
    )


def _wire(deployer: Deployer, at: Mapping[str, str]) -> None:
    registry = ("auction", "settlement", "locks", "tasks", "rewards", "admissions")
    deployer.call("NodeRegistry", at["registry"], "wire", *(at[name] for name in registry))
    deployer.call("TaskRegistry", at["tasks"], "wire", at["auction"], at["settlement"], at["locks"])
    deployer.call("Auction", at["auction"], "wire", at["settlement"])
    deployer.call(
        "Settlement", at["settlement"], "wire", *(at[name] for name in ("referee", "availability", "custody"))
    )
    deployer.call("Locks", at["locks"], "wire", at["settlement"], at["audit_pool"])
    deployer.call("Audits", at["audits"], "wire", at["referee"])
    deployer.call("Admissions", at["admissions"], "wire", at["referee"])
    deployer.call("Serving", at["serving"], "wire", at["referee"])
    deployer.call("Credits", at["credits"], "wire", at["tasks"], at["registry"])
    deployer.call("Rewards", at["rewards"], "wire", at["settlement"], at["audits"], at["datasets"])


def _allow_tokens(
    deployer: Deployer, at: Mapping[str, str], params: Preset, roles: Roles, devnet: bool
) -> Sequence[str]:
    """ZEN, and on a devnet credits: at once there; scheduled if the timelock governs. Returns the calls that remain to be executed."""
    if devnet:
        for token in ("zen", "credits"):
            deployer.call("TaskRegistry", at["tasks"], "allow", at[token], True, params.window_value)
        return ()
    call = allow_zen_operation(at, params)
    scheduled = deployer.address in roles.proposers
    if scheduled:
        deployer.call("Timelock", at["timelock"], "schedule", *call, params.timelock_s)
        when = f"an executor runs `zoo network allow ZEN`, {params.timelock_s} s from now"
    else:
        call_ = f"zoo network govern tasks.allow {at['zen']} true {params.window_value} --print"
        when = f"proposers and, {params.timelock_s} s later, executors sign what `{call_}` prints"
    return (
        f"jobs cannot be paid in ZEN yet: {when}",
        "nobody can bid yet: every job asks for admission, and no trial has a workload; the timelock sets one for each size of memory "
        "(`zoo network govern admissions.set_workload`), then operators run `zoo node admit`",
        "jobs cannot be paid in credits yet: the timelock sets a rate (`zoo network govern credits.set_rate`), names who posts the next "
        "ones (`credits.appoint`) and allows the token (`tasks.allow`)",
    )


def allow_zen_operation(at: Mapping[str, str], params: Preset) -> tuple[str, int, bytes, bytes, bytes]:
    """(target, amount, payload, predecessor, salt) of the timelock's `schedule` and `execute` that allow ZEN."""
    tasks = Web3().eth.contract(abi=artifacts.abi("TaskRegistry"))
    payload = bytes.fromhex(tasks.encode_abi("allow", args=[at["zen"], True, params.window_value])[2:])
    return at["tasks"], 0, payload, EMPTY_BYTES32, EMPTY_BYTES32


class RpcDeployer(ABC):
    """Deploys over a web3 connection, from the artifacts in this package; a subclass says how to `_send`. Nobody else sends for `address`
    meanwhile."""

    def __init__(self, w3: Web3, address: str) -> None:
        self.w3 = w3
        self.address = address
        self._types: dict[str, type[Contract]] = {}

    def block(self) -> int:
        return self.w3.eth.block_number

    def deploy(self, contract: str, *args: Any) -> str:
        return str(self._mined(contract, self._type(contract).constructor(*args))["contractAddress"])

    def call(self, contract: str, address: str, function: str, *args: Any) -> None:
        self._mined(f"{contract}.{function}", self._bound(contract, address).functions[function](*args))

    def code(self, address: str) -> bytes:
        return bytes(self.w3.eth.get_code(Web3.to_checksum_address(address)))

    def read(self, contract: str, address: str, function: str) -> str:
        return str(self._bound(contract, address).functions[function]().call())

    def _type(self, contract: str) -> type[Contract]:
        if contract not in self._types:
            self._types[contract] = self.w3.eth.contract(
                abi=artifacts.abi(contract), bytecode=artifacts.bytecode(contract)
            )
        return self._types[contract]

    def _bound(self, contract: str, address: str) -> Contract:
        return self._type(contract)(Web3.to_checksum_address(address))

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        """What every transaction has, asked once: a deployment is some thirty of them."""
        return {
            "from": self.address,
            "chainId": self.w3.eth.chain_id,
            "maxPriorityFeePerGas": self.w3.eth.max_priority_fee,
        }

    @cached_property
    def _nonces(self) -> Iterator[int]:
        return count(self.w3.eth.get_transaction_count(self.address))  # type: ignore[arg-type]

    def _mined(self, what: str, function: Any) -> Any:
        block = self.w3.eth.get_block("latest")
        gas = min(block["gasLimit"], function.estimate_gas({"from": self.address}) + GAS_MARGIN)
        max_fee = 2 * block["baseFeePerGas"] + self._fixed["maxPriorityFeePerGas"]
        options = {**self._fixed, "nonce": next(self._nonces), "gas": gas, "maxFeePerGas": max_fee}
        digest = self._send(function.build_transaction(options))
        receipt = self.w3.eth.wait_for_transaction_receipt(digest, timeout=RECEIPT_TIMEOUT_S, poll_latency=0.05)
        if receipt["status"] != 1:
            raise ChainError(f"{what} reverted while deploying, transaction 0x{digest.hex()}")
        return receipt

    @abstractmethod
    def _send(self, transaction: TxParams) -> HexBytes:
        """Send it from `address`; return its hash."""


class Web3Deployer(RpcDeployer):
    """Signs with a local key."""

    def __init__(self, w3: Web3, account: LocalAccount) -> None:
        super().__init__(w3, str(account.address))
        self._account = account

    def _send(self, transaction: TxParams) -> HexBytes:
        signed = self._account.sign_transaction(cast(Any, transaction))
        return self.w3.eth.send_raw_transaction(signed.raw_transaction)
