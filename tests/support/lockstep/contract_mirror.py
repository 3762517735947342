"""The contracts' side of a stage: deployed once a process, rolled back after every use, called and compared."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, astuple, is_dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from eth_account import Account
from eth_utils import keccak

from tests.support.consent import Signer
from tests.support.contract import Contract
from tests.support.evm import Result, chain
from tests.support.lockstep.contract_views import (
    VIEWS,
    View,
    changed_keys,
    expected_field,
    seal_bytes,
)
from tests.support.lockstep.custody_records import committee_words, signature_words
from tests.support.lockstep.referee_records import sent
from tests.support.lockstep.stage import ACCOUNTS, DEPLOYED, PARTS, START, WEALTH, judge_by_hash, parts_of
from tests.support.protocol_driver import deploy_core, load, wire
from tests.support.rewards_driver import receipt_signature
from tests.support.serving_driver import answer_signature
from tests.support.vouchers import voucher_signature
from zoo_compute.spec.custodians import Member
from zoo_compute.spec.params import PRESETS, Preset
from zoo_compute.spec.receipts import ReceiptSignature
from zoo_compute.spec.state import Config, Consent, Receipt, Seal, Voucher, World
from zoo_compute.spec.world import Call

SPENDERS = (
    "registry",
    "tasks",
    "rewards",
    "audits",
    "custody",
    "serving",
    "referee",
    "treasury",
    "channels",
    "credits",
)
COIN = 10**24  # of the chain's, that each account has
CONFIGURED = ("guardian", "registry", "tasks", "auction", "rewards", "treasury", "availability", "audits")
CONFIGURED += ("custody", "admissions", "serving", "referee", "channels", "credits")
UNLIMITED = 2**256 - 1
ASKED = ("ClaimAsked", "NodeAsked")
FULL_COMPARISON_EVERY = 100  # accepted calls; each compares what the specification wrote


class Disagreement(AssertionError):
    """Contract and specification differ; the message says where."""


@contextmanager
def fresh_mirror(preset_name: str, *, needs_admission: bool = False) -> Iterator["ContractMirror"]:
    """A fresh deployment of the preset, undone at the end."""
    kit = deployed(preset_name, needs_admission=True) if needs_admission else deployed(preset_name)
    with chain.anchor():
        yield ContractMirror(PRESETS[preset_name], *kit)


def persistent_deployment(preset_name: str) -> "ContractMirror":
    """A deployment of its own that lives as long as the process; its user anchors."""
    return ContractMirror(PRESETS[preset_name], *deployed.__wrapped__(preset_name))


@cache
def deployed(preset_name: str, *, needs_admission: bool = False) -> tuple[dict[str, Contract], dict[str, str]]:
    """Contracts by the names of docs/protocol/, tokens as `token ADDRESS`; and the accounts' addresses."""
    preset = PRESETS[preset_name]
    chain.timestamp = START
    accounts = {name: Signer(name).address for name in ACCOUNTS if name not in DEPLOYED}
    with chain.prank(accounts["deployer"]):
        contracts = _deploy(preset, accounts, needs_admission=needs_admission)
        bad = load("mocks/FalseToken").deploy()
        supply = 2 * WEALTH * len(ACCOUNTS)
        tokens = {"zen": contracts["zen"], "usd": load("ZenToken").deploy(supply), "bad": bad}
        for name, token in tokens.items():
            contracts[f"token {token.address}"] = token
            contracts[name] = token
            for account in accounts.values():
                if name == "bad":
                    token.mint(account, WEALTH)
                elif account != accounts["deployer"]:
                    token.transfer(account, WEALTH)
            if name != "bad":
                token.transfer(accounts["sink"], token.balanceOf(accounts["deployer"]) - WEALTH)
    contracts[f"token {contracts['credits'].address}"] = contracts["credits"]
    for account in (*accounts.values(), bad.address):
        chain.set_balance(account, COIN)
    for account in accounts.values():
        for name in ("zen", "usd", "credits"):
            for spender in SPENDERS:
                contracts[name].approve(contracts[spender].address, UNLIMITED, sender=account)
    return contracts, accounts | {name: str(contracts[of].address) for name, of in DEPLOYED.items()}


def _deploy(preset: Preset, accounts: dict[str, str], *, needs_admission: bool) -> dict[str, Contract]:
    """As docs/protocol/ has the constructors; governor and timelock are plain accounts here."""
    governor = accounts["timelock"]
    guardian = load("Guardian").deploy(governor, accounts["guardian"], preset.pause_s)
    zen = load("ZenToken").deploy(2 * WEALTH * len(accounts))
    treasury = load("Treasury").deploy(governor)
    pool = load("AuditPool").deploy(treasury)
    core = deploy_core(
        preset,
        zen,
        treasury,
        guardian,
        governor,
        accounts["deployer"],
        poster=accounts["deployer"],
        needs_admission=needs_admission,
    )
    registry, tasks, settlement = core["registry"], core["tasks"], core["settlement"]
    custody = load("Custody").deploy(
        registry,
        tasks,
        settlement,
        core["availability"],
        preset.bid_window_s,
        preset.exit_delay_s,
        preset.answer_s,
        preset.draw_blocks,
    )
    admissions = load("Admissions").deploy(
        registry, accounts["deployer"], preset.benchmark_s, preset.min_window_s, preset.epoch_s
    )
    serving = load("Serving").deploy(zen, registry, preset.min_window_s, preset.receipt_s)
    evidence = load("mocks/EvidenceDouble").deploy()
    descent, clocks = load("Descent").deploy(evidence), preset.clocks
    referee = load("Referee").deploy(
        registry,
        tasks,
        settlement,
        admissions,
        serving,
        evidence,
        descent,
        clocks.committer_s,
        clocks.asker_s,
        clocks.exclusive_s,
        clocks.seal_lead_s,
        clocks.opening_s,
    )
    evidence.set_parts(PARTS)
    wire(core, referee, custody, admissions, pool)
    admissions.wire(referee)
    serving.wire(referee)
    return core | {
        "zen": zen,
        "guardian": guardian,
        "treasury": treasury,
        "pool": pool,
        "custody": custody,
        "admissions": admissions,
        "serving": serving,
        "referee": referee,
    }


class ContractMirror:
    """Makes the same calls on the contracts, and compares what they show."""

    def __init__(self, preset: Preset, contracts: dict[str, Contract], accounts: dict[str, str]) -> None:
        self.contracts = {**contracts, "chain": SimpleNamespace(balance=chain.balance)}
        self.accounts = accounts
        self.tokens = {name: str(contracts[name].address) for name in ("zen", "usd", "bad", "credits")}
        self.config = Config(
            preset=preset,
            zen=self.tokens["zen"],
            deployer=accounts["deployer"],
            first_guardian=accounts["guardian"],
            first_poster=accounts["deployer"],
            governor=accounts["deployer"],
            treasury_governor=accounts["timelock"],
            needs_admission=contracts["tasks"].needs_admission(),
            judge=judge_by_hash,
            part_count=parts_of,
            audit_pool=accounts["audit pool"],
            **{name: str(contracts[name].address) for name in CONFIGURED},
        )
        self._signers = {address: Signer(name) for name, address in accounts.items()}
        self.calls = 0
        self.last: Result | None = None  # of a call
        self._steps = 0
        self._seen: dict[tuple[str, Any], None] = {}

    def fork(self) -> "ContractMirror":
        """For a walk of its own: what it sees and counts is its own."""
        new = copy(self)
        new.calls, new._steps, new._seen = 0, 0, dict(self._seen)
        return new

    def accept(self, call: Call, before: World, after: World, result: Any) -> None:
        """The contract must accept, return the same and show the same."""
        done = self._invoke(call)
        if done.failure:
            raise Disagreement(f"{call}: refused with {done.reason!r}, specification accepts")
        actual = getattr(self._target(call), call.function).only.decode(done.output)
        if call.contract == "referee":
            self._check_ask(done, result)
        elif result is not None and actual != result:
            raise Disagreement(f"{call.contract}.{call.function}: returned {actual}, specification says {result}")
        written = list(changed_keys(before, after))
        self._seen.update(dict.fromkeys(written))
        self._compare_keys(after, written)
        self._steps += 1
        if self._steps % FULL_COMPARISON_EVERY == 0:
            self.compare(after)

    def _check_ask(self, done: Result, result: Any) -> None:
        """An ask's event shows its id and its record."""
        asked = [log for log in self.contracts["referee"].get_logs(done) if type(log).__name__ in ASKED]
        for log in asked:
            if (log.id, tuple(log.node)) != (result[0], result[1].record):
                raise Disagreement(f"{log}, specification says {result[:2]}")

    def refuse(self, call: Call, reason: str, world: World) -> None:
        """The contract must refuse for the same reason; a revert undoes all it did."""
        done = self._invoke(call)
        if not done.failure:
            raise Disagreement(f"{call}: accepted, specification says {reason!r}")
        if done.reason != reason:
            raise Disagreement(f"{call}: refused with {done.reason!r}, specification says {reason!r}")

    def compare(self, world: World) -> None:
        """Everything the contracts show of keys that any step ever wrote."""
        self._compare_keys(world, list(self._seen))

    def _compare_keys(self, world: World, keys: list[tuple[str, Any]]) -> None:
        checked = set()  # several keys show in one view
        for name, key in keys:
            for view in VIEWS[name](world, key):
                which = view.contract, view.name, view.args
                if which not in checked:
                    checked.add(which)
                    self._check(view)

    def _check(self, view: View) -> None:
        actual = getattr(self.contracts[view.contract], view.name)(*view.args)
        where = f"{view.contract}.{view.name}{view.args}"
        if not hasattr(actual, "_fields"):
            if actual != view.expected:
                raise Disagreement(f"{where} shows {actual!r}, specification says {view.expected!r}")
            return
        for field in actual._fields:
            actual_field, expected = getattr(actual, field), expected_field(view.expected, field)
            if actual_field != expected:
                raise Disagreement(f"{where}.{field} shows {actual_field!r}, specification says {expected!r}")

    def _invoke(self, call: Call) -> Result:
        _to_block(call)
        target = self._target(call)
        method = getattr(target, call.function)
        args = call.args[1:] if call.contract == "token" else call.args or _zeros(method)
        data = method.prepare_calldata(*(self._argument(arg, call) for arg in args))
        self.calls += 1
        self.last = chain.call(target, data, sender=call.sender, value=call.value)
        return self.last

    def _argument(self, arg: Any, call: Call) -> Any:
        if isinstance(arg, Consent):
            terms = asdict(arg)
            signer = self._signers[terms.pop("signer")]
            return signer.signs_at(str(self.contracts["registry"].address), terms)
        if isinstance(arg, Receipt):
            name = self._signers[arg.signer].name
            account = Account.from_key(keccak(text=name))
            at = str(self.contracts["rewards"].address)
            return receipt_signature(account, at, arg.server, arg.client, arg.epoch, arg.total)
        if isinstance(arg, ReceiptSignature):
            account = Account.from_key(keccak(text=self._signers[arg.signer].name))
            return answer_signature(account, str(self.contracts["serving"].address), arg.receipt)
        if isinstance(arg, Voucher):
            account = Account.from_key(keccak(text=self._signers[arg.signer].name))
            return voucher_signature(account, str(self.contracts["channels"].address), arg.channel, arg.total)
        if call.contract in ("custody", "availability") and isinstance(arg, tuple):
            return self._custody_list(arg)
        return sent(arg) if call.contract == "referee" else _encoded(arg)

    def _custody_list(self, arg: tuple[Any, ...]) -> list[Any]:
        """A committee, or what its members signed."""
        if all(isinstance(each, Member) for each in arg):
            return committee_words(arg)
        at = str(self.contracts["custody"].address)
        return [signature_words(keccak(text=self._signers[each.signer].name), at, each) for each in arg]

    def _target(self, call: Call) -> Contract:
        return self.contracts[f"token {call.args[0]}" if call.contract == "token" else call.contract]


def _to_block(call: Call) -> None:
    """The chain is at the call's second and block."""
    chain.timestamp, chain.block, chain.base_fee = call.now, call.block, call.base_fee


def _encoded(arg: Any) -> Any:
    """A specification's argument as a contract takes it."""
    if isinstance(arg, Seal):
        return seal_bytes(arg)
    if is_dataclass(arg):
        return tuple(list(part) if isinstance(part, tuple) else part for part in astuple(arg))
    if isinstance(arg, tuple):
        return [_encoded(item) for item in arg]
    return arg


def _zeros(method: Any) -> tuple[Any, ...]:
    """Zeros for every argument of a function that refuses accounts whatever they pass."""
    return tuple(_zero(part) for part in method.only.inputs)


def _zero(part: dict[str, Any]) -> Any:
    if part["type"] == "tuple":
        return tuple(_zero(member) for member in part["components"])
    if part["type"].endswith("[]"):
        return []
    return {"address": "0x" + 40 * "0", "bytes32": bytes(32), "bool": False}.get(part["type"], 0)
