"""An operator's account, for its owner: register, stake, deposit, earn, withdraw, leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from eth_utils.address import to_checksum_address

from zoo_compute.amounts import format_amount
from zoo_compute.atomic import write_atomically
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.events import scan
from zoo_compute.chain.ledger import ClaimRecord, job_account, net_payments
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.chain.snapshot import read_job, read_operator
from zoo_compute.chain.tokens import address_of, set_allowance, token_at
from zoo_compute.chain.unsigned import AGAIN
from zoo_compute.errors import ConfigError, NotFunded, Refusal, UserError
from zoo_compute.operators.balances import EarnedClaim, Earnings, OperatorBalances, RegistrationResult
from zoo_compute.operators.bandwidth import read_bandwidth
from zoo_compute.paths import CONFIG, DRAINING, HOT_KEY, NEW_HOT_KEY
from zoo_compute.spec.params import CLAIM_EPOCHS, COIN, LIST_LIMIT, GpuClass

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.events import Event
    from zoo_compute.operators.consent import Consent

Say = Callable[[str], None]
MAX_URL = 128
STAKE_UNIT = 10**12  # wei: the registry counts stakes in these
OWNER_EVENTS = ("OperatorRegistered", "OwnerChanged")


class Operators:
    """The node registry, for an operator's owner. Without a sender it only reads."""

    def __init__(self, chain: Chain, sender: Sender | None = None) -> None:
        self.chain = chain
        self._sender = sender
        self._zen = chain.network.contracts["zen"]

    @property
    def sender(self) -> Sender:
        if self._sender is None:
            raise ConfigError("this needs an account", hint="pass --account")
        return self._sender

    # -- which operator

    def check(self, number: int) -> int:
        """Return the number if the operator exists. Raises UserError."""
        count = self.chain.registry.operator_count()
        if not 1 <= number <= count:
            raise UserError(
                f"there is no operator {number}: {count} are registered", hint="`zoo node show` names yours"
            )
        return number

    def owned_by(self, owner: str) -> list[int]:
        """The operators that an account owns: it registered them, or accepted them and did not hand them over."""
        owners = _owners(self._events(OWNER_EVENTS))
        return [operator for operator, account in owners.items() if account == to_checksum_address(owner)]

    def operator_in(self, folder: Path) -> int | None:
        """The operator of this folder; None if there is none. Raises ConfigError for a broken file."""
        try:
            config = json.loads((folder / CONFIG).read_text())
            return int(config["operator"]) or None
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{folder / CONFIG} cannot be read: {error}", hint="repair it, or give --operator"
            ) from error

    def require_operator_in(self, folder: Path) -> int:
        """The operator of this folder. Raises UserError, ConfigError."""
        number = self.operator_in(folder)
        if number is None:
            raise UserError(
                f"{folder} is not an operator's folder", hint="pass --home, or run `zoo node register` first"
            )
        return self.check(number)

    def token(self, address: str | None) -> str:
        """The payment token's address; ZEN by default. Raises UserError."""
        return address_of(self.chain, address)

    # -- joining

    def register(self, hot: str, gpu: GpuClass, vram_gb: int, stake: int, endpoint: str, *, say: Say) -> int:
        """Stake and register; return the new operator's number. `registration.py` does the whole procedure."""
        self._approve(self._zen, "registry", stake)
        say(f"registering with {format_amount(stake)} at stake")
        receipt = self.sender.send(self.chain.registry.register(hot, gpu.id, vram_gb, stake, endpoint))
        return int(receipt.event("OperatorRegistered").args["operator"])

    def consent(self, folder: Path, gpu: GpuClass, vram_gb: int, stake: int, endpoint: str, holds_s: int) -> Consent:
        """The consent with which a sponsor can register this account's operator. Makes the folder's hot key."""
        from zoo_compute.operators.consent import Consent

        self.check_stake(stake)
        if endpoint:
            check_url(endpoint)
        from zoo_compute.operators.hot_key import hot_account

        hot = self.hot_key(folder)
        owner = self.sender.address
        agreed = Consent(
            chain_id=self.chain.network.chain_id, registry=self.chain.registry.address, owner=owner, hot=hot,
            gpu_class=gpu.id, vram_gb=vram_gb, stake=str(stake), endpoint=endpoint,
            nonce=self.chain.registry.nonces(owner), deadline=self.chain.now() + holds_s,
        )  # fmt: skip
        return agreed.signed_by(self.sender.account, hot_account(folder))

    def register_for(self, agreed: Consent, *, hot_coin: int, say: Say) -> RegistrationResult:
        """Register the consenting operator, paying stake and gas. Raises UserError for a consent of another network."""
        expected = (self.chain.network.chain_id, self.chain.registry.address)
        if (agreed.chain_id, agreed.registry) != expected:
            raise UserError(
                f"the consent is for the registry {agreed.registry} on chain {agreed.chain_id}, this network's is "
                f"{expected[1]} on chain {expected[0]}"
            )
        stake = int(agreed.stake)
        self._check_balance(self._zen, stake, "the stake")
        self._approve(self._zen, "registry", stake)
        say(f"registering {agreed.owner} with {format_amount(stake)} at stake")
        receipt = self.sender.send(agreed.call(self.chain))
        self.top_up(agreed.hot, hot_coin, say)
        number = int(receipt.event("OperatorRegistered").args["operator"])
        return RegistrationResult(number, agreed.owner, agreed.hot, stake, new=True)

    def declare(self, folder: Path, number: int, tier: int, hours: list[int]) -> Receipt:
        """Promise availability in these hours. The folder's keeper, if there is one, then sends heartbeats."""
        receipt = self.sender.send(self.chain.registry.declare(number, tier, sum(1 << hour for hour in hours)))
        if (folder / CONFIG).exists():
            path = folder / CONFIG
            values = json.loads(path.read_text()) | {"availability_hours": hours}
            write_atomically(path, (json.dumps(values, indent=2) + "\n").encode(), mode=0o600)
        return receipt

    def declare_region(self, number: int, region: int) -> Receipt:
        """Say where the operator's machines are; 0 takes it back."""
        return self.sender.send(self.chain.registry.declare_region(number, region))

    def registered_with(self, hot: str) -> list[tuple[int, str]]:
        """Operators that have or had this hot key: number and present owner."""
        events = self._events((*OWNER_EVENTS, "HotKeyChanged"))
        owners = _owners(event for event in events if "owner" in event.args)
        numbers = dict.fromkeys(int(event.args["operator"]) for event in events if event.args.get("hot") == hot)
        return [(number, owners[number]) for number in numbers]

    def check_stake(self, stake: int) -> None:
        least = self.chain.params.min_stake
        if stake < least:
            raise UserError(
                f"the stake of {format_amount(stake)} is below the network's minimum, {format_amount(least)}"
            )
        if stake % STAKE_UNIT:
            raise UserError(f"a stake must be a multiple of {format_amount(STAKE_UNIT, places=6)}, not {stake} wei")

    def top_up(self, hot: str, wanted: int, say: Say) -> None:
        missing = wanted - self.chain.coin(hot)
        if missing > 0:
            say(f"topping the hot key up with {format_amount(missing, '')} coin for gas")
            self.sender.send_coin(hot, missing)

    def hot_key(self, folder: Path) -> str:
        """The address of the folder's hot key. Makes the key if there is none."""
        from zoo_compute.operators.hot_key import key_at

        return key_at(folder, HOT_KEY)

    def replace_hot_key(self, folder: Path, number: int, hot_coin: int, say: Say) -> str:
        """A new hot key in the folder, which the registry knows; its address. The old key's file is renamed. Run again after a crash, it goes on."""
        from zoo_compute.operators.hot_key import key_at

        hot = key_at(folder, NEW_HOT_KEY)
        if self.chain.registry.hot_key(number) != hot:
            say(f"making {hot} the hot key of operator {number}")
            self.sender.send(self.chain.registry.set_hot(number, hot))
        self.sender.needs_mined(f"the new key replaces the old one in {folder} when the registry knows it; {AGAIN}")
        self.top_up(hot, hot_coin, say)
        old = folder / HOT_KEY
        if old.exists():
            old.replace(folder / f"{HOT_KEY}.old-{old.stat().st_mtime_ns}")
        (folder / NEW_HOT_KEY).replace(old)
        return hot

    def announce(self, number: int, url: str) -> Receipt:
        """Announce where the operator's store serves blocks."""
        check_url(url)
        return self.sender.send(self.chain.registry.announce(number, url))

    def allow_answers(self, number: int, account: str, allowed: bool) -> Receipt:
        """Let an account answer asks in disputes about the operator's claims, or no longer."""
        return self.sender.send(self.chain.registry.allow_answers(number, account, allowed))

    def offer_owner(self, number: int, account: str) -> Receipt:
        """Offer the operator to a new owner."""
        return self.sender.send(self.chain.registry.offer_owner(number, account))

    def accept_owner(self, number: int) -> Receipt:
        """Become the owner of an operator that was offered to this account."""
        return self.sender.send(self.chain.registry.accept_owner(number))

    # -- money

    def add_stake(self, number: int, amount: int) -> Receipt:
        self._check_balance(self._zen, amount, "the stake")
        self._approve(self._zen, "registry", amount)
        return self.sender.send(self.chain.registry.add_stake(number, amount))

    def deposit(self, number: int, token: str, amount: int) -> Receipt:
        self._check_balance(token, amount, "the deposit")
        self._approve(token, "registry", amount)
        return self.sender.send(self.chain.registry.deposit(number, token, amount))

    def withdraw(self, number: int, token: str, collateral: int, *, say: Say) -> dict[str, int]:
        """Send payments owed, parts of posting deposits (coin), network rewards of past epochs, and `collateral` to the owner.

        Returns the amount of each.
        """
        balances = self.balances(number, token)
        took = {
            "payments": 0,
            "coin": balances.view.coin_owed.get(balances.view.owner, 0),
            "rewards": 0,
            "collateral": 0,
        }
        if took["coin"]:
            self.sender.send(self.chain.tasks.withdraw(COIN, balances.view.owner))
        if balances.owed:
            self.sender.send(self.chain.tasks.withdraw(token, balances.view.owner))
            took["payments"] = balances.owed
        took["rewards"] = self.claim_rewards(number, say=say)
        if collateral:
            self.sender.send(self.chain.registry.withdraw(number, token, collateral))
            took["collateral"] = collateral
        return took

    def claim_rewards(self, number: int, *, say: Say) -> int:
        """Claim network rewards of past epochs for the owner. Returns their sum."""
        total = 0
        for epoch, jobs in self._epochs(number).items():
            try:
                for start in range(0, len(jobs), LIST_LIMIT):
                    receipt = self.sender.send(
                        self.chain.rewards.claim(number, epoch, jobs[start : start + LIST_LIMIT])
                    )
                    total += int(receipt.event("RewardClaimed").args["amount"])
            except Refusal as refusal:
                say(f"network rewards of epoch {epoch}: {refusal.reason}")
        return total

    def _epochs(self, number: int) -> dict[int, list[int]]:
        """Past epochs that did not expire -> jobs with rewards recorded in them and not claimed yet."""
        head = self.chain.head()
        events = list(
            scan(self.chain, self.chain.network.first_block, head.number, names=("ComputeRecorded",), operator=number)
        )
        now = head.timestamp // self.chain.params.epoch_s
        recorded = sorted({(int(e.args["epoch"]), int(e.args["job"])) for e in events})
        due = [(epoch, job) for epoch, job in recorded if epoch < now <= epoch + CLAIM_EPOCHS]
        shares = read_all(
            self.chain, head.number, [Read("rewards", "shares", (number, epoch, job)) for epoch, job in due]
        )
        jobs: dict[int, list[int]] = {}
        for (epoch, job), share in zip(due, shares, strict=True):
            if share["weight"] or share["fees"]:
                jobs.setdefault(epoch, []).append(job)
        return jobs

    def deposit_for_audits(self, number: int, token: str, amount: int) -> Receipt:
        """Add to what bonds of places and verdicts reserve."""
        self._check_balance(token, amount, "the deposit")
        self._approve(token, "audits", amount)
        return self.sender.send(self.chain.audits.deposit(number, token, amount))

    def deposit_for_custody(self, number: int, token: str, amount: int) -> Receipt:
        """Add to what reserves of custody are taken from."""
        self._check_balance(token, amount, "the deposit")
        self._approve(token, "custody", amount)
        return self.sender.send(self.chain.custody.deposit(number, token, amount))

    def _approve(self, token: str, contract: str, amount: int) -> None:
        set_allowance(self.sender, token, self.chain.network.contracts[contract], amount)

    def _check_balance(self, address: str, amount: int, what: str) -> None:
        token = token_at(self.chain, address)
        balance = self.chain.token(address).balanceOf(self.sender.address)
        if balance < amount:
            raise NotFunded(
                f"the account {self.sender.address} has {token.format(balance)}; {what} is {token.format(amount)}",
                hint=f"send it {token.format(amount - balance)}",
            )

    # -- leaving

    def request_exit(self, number: int) -> Receipt:
        return self.sender.send(self.chain.registry.request_exit(number))

    def withdraw_stake(self, number: int) -> Receipt:
        return self.sender.send(self.chain.registry.withdraw_stake(number))

    def start_draining(self, folder: Path) -> Path | None:
        """Make this folder's keeper, if there is one, take no new work. Returns the marker file that it reads."""
        if not (folder / CONFIG).exists():
            return None
        marker = folder / DRAINING
        marker.touch()
        return marker

    def stop_draining(self, folder: Path) -> None:
        (folder / DRAINING).unlink(missing_ok=True)

    # -- looking

    def balances(self, number: int, token: str | None = None) -> OperatorBalances:
        address = self.token(token)
        return OperatorBalances(read_operator(self.chain, number, tokens=[address]), address)

    def earnings(self, number: int, token: str | None = None) -> Earnings:
        """Claims, penalties and sums over all the operator's jobs, from the contracts' events."""
        address = self.token(token)
        head = self.chain.head().number
        events = list(scan(self.chain, self.chain.network.first_block, head, operator=number))
        claims, penalties, paid = [], [], 0
        for job in sorted({e.job for e in events if e.job is not None}):
            view = read_job(self.chain, job, head)
            if view.token != address:
                continue
            of_job = list(scan(self.chain, view.posted_block, view.block, job=job))
            account = job_account(self.chain, view, of_job)
            mine = [c for c in account.claims if c.operator == number]
            claims += [
                EarnedClaim(job, c.round, _work(c.kind, c.slots), c.state, c.amount, _payable_at(c)) for c in mine
            ]
            paid += net_payments(of_job)[number]
            penalties += [p for p in account.penalties if p.operator == number]
        return Earnings(
            paid=paid,
            pending=sum(c.amount for c in claims if c.is_pending),
            rewards=sum(int(e.args["amount"]) for e in events if e.name == "RewardClaimed"),
            slashed=sum(p.lost for p in penalties),
            claims=tuple(claims),
            penalties=tuple(penalties),
            bandwidth=read_bandwidth(self.chain, number),
        )

    def _events(self, names: tuple[str, ...]) -> list[Any]:
        return list(scan(self.chain, self.chain.network.first_block, self.chain.head().number, names=names))


def _owners(events: Iterable[Event]) -> dict[int, str]:
    """The present owners by operator, of OWNER_EVENTS in their order."""
    return {int(event.args["operator"]): str(event.args["owner"]) for event in events}


def _payable_at(claim: ClaimRecord) -> int | None:
    return claim.deadline + 1 if claim.deadline is not None and claim.state in ("challenge window", "payable") else None


def _work(kind: str, slots: tuple[int, ...]) -> str:
    return "aggregation" if kind == "aggregation" else f"slots {slots[0]}-{slots[-1]}"


def check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or len(url) > MAX_URL:
        raise UserError(
            f"an endpoint is a URL of at most {MAX_URL} characters, such as http://203.0.113.7:8600, not {url!r}"
        )
