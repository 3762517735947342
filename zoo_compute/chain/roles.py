"""Who governs a deployment, and what of that is unsafe in production."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from eth_utils.address import to_checksum_address

from zoo_compute.amounts import format_seconds
from zoo_compute.chain.addresses import HINT, is_address
from zoo_compute.errors import UserError
from zoo_compute.spec.params import PRODUCTION, Preset

MAX_ACCOUNTS = 16  # of a role in the timelock
LISTED = ("proposers", "executors", "cancellers")


@dataclass(frozen=True)
class Roles:
    """Accounts by what they may do. `shared`: accounts that have two roles on purpose, and why."""

    guardian: str  # pauses intakes for a while
    proposers: Sequence[str]  # schedule calls in the timelock
    executors: Sequence[str]  # execute them after its delay
    cancellers: Sequence[str]  # cancel them before
    holder: str  # receives the ZEN supply
    shared: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_one(cls, account: str) -> Roles:
        """One account for all. For a devnet."""
        return cls(account, (account,), (account,), (account,), account)

    @property
    def by_role(self) -> dict[str, Sequence[str]]:
        return {
            "guardian": (self.guardian,),
            **{name: getattr(self, name) for name in LISTED},
            "holder": (self.holder,),
        }

    def to_dict(self) -> dict[str, Any]:
        """For scripts."""
        listed = {name: list(getattr(self, name)) for name in LISTED}
        return {"guardian": self.guardian, **listed, "holder": self.holder, "shared": dict(self.shared)}


def roles_of(
    deployer: str,
    *,
    guardian: str | None = None,
    proposers: Sequence[str] = (),
    executors: Sequence[str] = (),
    cancellers: Sequence[str] = (),
    holder: str | None = None,
    shared: Sequence[str] = (),
) -> Roles:
    """Roles as a command line names them; the deployer has those that are not given. `shared`: ADDRESS=REASON. Raises UserError."""
    reasons = {}
    for each in shared:
        account, _, reason = each.partition("=")
        if not reason.strip():
            raise UserError(f"--shared takes ADDRESS=REASON, not {each!r}", hint="say why this account has two roles")
        reasons[address_of(account, "--shared")] = reason.strip()
    listed = dict(zip(LISTED, (proposers, executors, cancellers), strict=True))
    return Roles(
        guardian=address_of(guardian or deployer, "--guardian"),
        holder=address_of(holder or deployer, "--holder"),
        shared=reasons,
        **{
            name: tuple(address_of(each, f"--{name.removesuffix('s')}") for each in accounts or (deployer,))
            for name, accounts in listed.items()
        },
    )


def address_of(value: str, what: str) -> str:
    """A checksummed address. Raises UserError."""
    if not is_address(value) or int(value, 16) == 0:
        raise UserError(f"{value} is no address, as {what} takes", hint=f"{HINT}: zoo account show")
    return str(to_checksum_address(value))


def refuse_unsafe(
    deployer: str, code: Callable[[str], bytes], params: Preset, roles: Roles, rewards_pool: int | None
) -> None:
    """Raises UserError with everything that production refuses; each line says what is wrong, what was expected, and what to do.

    rewards_pool: None where a version before fills it.
    """
    faults = [*_empty(roles), *_keys(deployer, code, roles), *_twice(roles), *_short(params)]
    if rewards_pool is not None and rewards_pool < params.emission_per_epoch:
        faults.append(
            "the rewards pool is smaller than one epoch's emission; expected at least one; fund it with --rewards-pool"
        )
    if faults:
        raise UserError(
            "unsafe for production:\n" + "\n".join(f"- {fault}" for fault in faults),
            hint="nothing was deployed; docs/guides/upgrading.md says who should have which role",
        )


def _empty(roles: Roles) -> list[str]:
    return [
        f"there are {len(accounts)} {name}; expected 1 to {MAX_ACCOUNTS}; name a multisig with --{name.removesuffix('s')}"
        for name, accounts in roles.by_role.items()
        if not 1 <= len(accounts) <= MAX_ACCOUNTS
    ]


def _keys(deployer: str, code: Callable[[str], bytes], roles: Roles) -> list[str]:
    faults = []
    for name, accounts in roles.by_role.items():
        option = name.removesuffix("s")
        for account in accounts:
            if account == deployer:
                faults.append(
                    f"the deployer is {option}; expected a multisig, which outlives a key; name one with --{option}"
                )
            elif not code(account):
                faults.append(
                    f"the {option} {account} is a single key: there is no contract at it; expected a multisig; "
                    f"deploy one on this chain, and name it with --{option}"
                )
    return faults


def _twice(roles: Roles) -> list[str]:
    """The ZEN supply may lie with any of them: it decides nothing."""
    having: dict[str, list[str]] = defaultdict(list)
    for name, accounts in roles.by_role.items():
        for account in accounts:
            if name != "holder":
                having[account].append(name.removesuffix("s"))
    return [
        f"{account} is {' and '.join(names)}; expected one role an account, so that no multisig decides alone; "
        f"name another, or say why with --shared {account}=REASON"
        for account, names in having.items()
        if len(names) > 1 and not roles.shared.get(account)
    ]


def _short(params: Preset) -> list[str]:
    """Durations below production's: a delay of nothing, clocks of a devnet."""
    faults = []
    for ours, usual in ((params, PRODUCTION), (params.clocks, PRODUCTION.clocks)):
        for item in fields(usual):
            least = getattr(usual, item.name)
            if item.name.endswith("_s") and getattr(ours, item.name) < least:
                faults.append(
                    f"{item.name} is {format_seconds(getattr(ours, item.name))}; expected at least "
                    f"{format_seconds(least)}; deploy the production preset as it is"
                )
    return faults
