"""Every exception the package raises on purpose.

    ZooError                    .hint says what to do
    ├── UserError               the request is wrong: bad input, bad file
    │   ├── ConfigError         a file or a setting (network file, environment, options)
    │   └── VoucherRefused      a voucher that an operator does not accept, or a client cannot sign
    ├── KeystoreError           a key file
    │   ├── WrongPassphrase
    │   ├── NoPassphrase        none is set, and there is no terminal to ask
    │   └── KeystoreExists
    ├── SignerRefuses           the hot key's signer refuses, or signs something else
    ├── DevnetError             the local chain: anvil is missing, does not start, or the port is taken
    ├── StoreError              content (zoo_compute/store/errors.py)
    └── ChainError
        ├── Unreachable         no RPC answers                                Retryable
        │   └── SignerUnreachable  the hot key's signer does not answer
        ├── RpcsDisagree        about a block, its time or a job              Retryable
        │   └── FalseLook       most show another chain than was read
        ├── TransactionPending  sent, not mined in time                       Retryable
        ├── FeeTooHigh          gas costs more than the sender's limit        Retryable
        ├── WrongChain          another chain id
        ├── WrongDeployment     no code, or other code, at an address
        ├── NotFunded           the account has no coin for gas
        └── Refusal             a contract reverted: .reason, .hint
            ├── RegistryRefusal    "registry: ..."
            ├── TasksRefusal       "tasks: ..."
            ├── AuctionRefusal     "auction: ..."
            ├── SettlementRefusal  "settlement: ..."
            ├── RewardsRefusal     "rewards: ..."
            ├── CreditsRefusal     "credits: ..."
            ├── DatasetsRefusal    "datasets: ..."
            ├── ChannelsRefusal    "channels: ..."
            ├── AvailabilityRefusal  "availability: ..."
            ├── CustodyRefusal     "custody: ..."
            ├── AuditsRefusal      "audits: ..."
            ├── AdmissionsRefusal  "admissions: ..."
            ├── ServingRefusal     "serving: ..."
            ├── RefereeRefusal     "referee: ..."
            ├── EvidenceRefusal    "evidence: ..."
            ├── ExecutorRefusal    "executor: ..."
            ├── TreasuryRefusal    "treasury: ...", "pool: ..."
            ├── GuardianRefusal    "guardian: ..."
            ├── TimelockRefusal    "timelock_controller: ...", "access_control: ..."
            ├── TokenRefusal       "erc20: ...", "ownable: ..."
            └── BareRevert         no reason, or one that docs/protocol/ does not list

Two marker classes say who must act: `Retryable` (try again later) and `NeedsOperator` (a person must act).
"""

from __future__ import annotations

from zoo_compute.documentation import address, place_of

# Kinds without an entry: what they are about differs from error to error, and their messages say it.
GENERAL = {"ZooError", "Retryable", "NeedsOperator", "UserError", "ConfigError", "KeystoreError", "ChainError"}


class ZooError(Exception):
    """An error for users to read; `hint` says what to do next, or is empty."""

    hint: str = ""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint
        for note in filter(None, (hint, self.see and f"see {self.see}")):
            self.add_note(note)  # tracebacks print it too

    @property
    def see(self) -> str:
        """The address of the documentation's entry about this kind of error; empty where `hint` is all there is."""
        kind = next(each for each in type(self).__mro__ if each.__module__ == __name__)
        return "" if kind.__name__ in GENERAL else address("reference/errors", place_of(kind.__name__))


class Retryable(ZooError):
    """Transient: the same call may succeed later; tasks are retried."""


class NeedsOperator(ZooError):
    """A person must act; the lane stops and says why."""


class UserError(ZooError):
    """The request is wrong; the message says what to change."""


class ConfigError(UserError, NeedsOperator):
    """A file or a setting is wrong; the message names it and says what was expected."""


class VoucherRefused(UserError):
    """A payment channel's voucher: an operator does not accept it, or its client cannot sign it."""


class KeystoreError(NeedsOperator):
    """A key file cannot be used."""


class WrongPassphrase(KeystoreError):
    hint = "check the passphrase; a lost one cannot be recovered"


class NoPassphrase(KeystoreError):
    hint = "run this in a terminal, or set ZOO_PASSPHRASE_FILE (a path) or ZOO_PASSPHRASE"


class KeystoreExists(KeystoreError):
    hint = "choose another path; a key file is never overwritten"


class SignerRefuses(NeedsOperator):
    """The program that has the hot key signs nothing, or not what it was asked to."""


class DevnetError(NeedsOperator):
    """The local chain could not be started or used."""


class ChainError(ZooError):
    """Base of all errors between this machine and the contracts."""


class Unreachable(ChainError, Retryable):
    hint = "check the network connection and the `rpcs` of the network file"


class SignerUnreachable(Unreachable):
    """The program that has the hot key."""

    hint = "start the signer, or change `signer` in operator.json: zoo node configure --signer"


class RpcsDisagree(ChainError, Retryable):
    hint = "find out which of the network file's `rpcs` is wrong, and remove it; with three or more, the keeper finds out by itself"


class FalseLook(RpcsDisagree):
    """Most RPCs show something else than what was read of the chain: all is read again before anything is decided."""


class TransactionPending(ChainError, Retryable):
    """Sent but not mined in time; sending the same call again waits for it or replaces it."""

    def __init__(self, message: str, transaction_hash: str) -> None:
        super().__init__(message, hint="wait, or run it again: that replaces the transaction at a higher fee")
        self.transaction_hash = transaction_hash


class FeeTooHigh(ChainError, Retryable):
    hint = "wait for cheaper blocks, or raise the sender's fee limit"


class WrongChain(ChainError, NeedsOperator):
    hint = "use an RPC of the chain that the network file names, or another network file"


class WrongDeployment(ChainError, NeedsOperator):
    hint = "the network file describes another deployment or chain; get the current one from whoever runs the network"


class NotFunded(ChainError, NeedsOperator):
    """The sending account cannot pay for gas (or for the value sent)."""


class Refusal(ChainError):
    """A contract reverted: `reason` is its exact string, as listed in docs/protocol/."""

    def __init__(self, reason: str, *, operation: str = "", hint: str = "") -> None:
        self.reason = reason
        super().__init__(f"{operation}: {reason}" if operation else reason, hint=hint)
        self.operation = operation

    @property
    def see(self) -> str:
        """The entry of the reason, on the page of its contract."""
        contract, colon, _ = self.reason.partition(":")
        return address(f"reference/errors/{contract}", place_of(self.reason)) if colon and self.hint else ""

    def __reduce__(self) -> tuple:
        return _rebuild, (type(self), self.reason, self.operation, self.hint)


def _rebuild(cls: type[Refusal], reason: str, operation: str, hint: str) -> Refusal:
    return cls(reason, operation=operation, hint=hint)


class RegistryRefusal(Refusal):
    """NodeRegistry."""


class TasksRefusal(Refusal):
    """TaskRegistry."""


class AuctionRefusal(Refusal):
    """Auction."""


class SettlementRefusal(Refusal):
    """Settlement."""


class RewardsRefusal(Refusal):
    """Rewards."""


class CreditsRefusal(Refusal):
    """Credits: a rate, a purchase, a pledge or a share of a mint."""


class DatasetsRefusal(Refusal):
    """Datasets."""


class ChannelsRefusal(Refusal):
    """Channels."""


class AvailabilityRefusal(Refusal):
    """Availability."""


class CustodyRefusal(Refusal):
    """Custody."""


class AuditsRefusal(Refusal):
    """Audits."""


class AdmissionsRefusal(Refusal):
    """Admissions."""


class ServingRefusal(Refusal):
    """Serving: a seat, or a receipt of an answer."""


class RefereeRefusal(Refusal):
    """Referee: an ask, an answer or a judgement of a dispute."""


class EvidenceRefusal(Refusal):
    """Evidence: it does not prove that the claim is false."""


class ExecutorRefusal(Refusal):
    """OpExecutor: the part is not one of that node."""


class TreasuryRefusal(Refusal):
    """Treasury, or AuditPool."""


class GuardianRefusal(Refusal):
    """Guardian: this pause is not yours to make, or not now."""


class TimelockRefusal(Refusal):
    """Timelock (snekmate's controller)."""


class TokenRefusal(Refusal):
    """ZEN, or another payment token: balance or allowance."""


class BareRevert(Refusal):
    """A revert without a reason, or with one that the protocol does not list."""
