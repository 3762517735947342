"""Every exception the package raises on purpose.

    ZooError                    .hint says what to do
    ├── UserError               what was asked cannot be: wrong input, wrong file
    │   └── ConfigError         a file or a setting (network file, environment, options)
    ├── KeystoreError           a key file
    │   ├── WrongPassphrase
    │   ├── NoPassphrase        none given, and nobody to ask
    │   └── KeystoreExists
    ├── DevnetError             the local chain: anvil absent, not starting, port taken
    ├── StoreError              content (zoo_compute/store/errors.py)
    └── ChainError
        ├── Unreachable         no RPC answers                                Retryable
        ├── TransactionPending  sent, not mined in time                       Retryable
        ├── FeeTooHigh          gas costs more than the sender's limit        Retryable
        ├── WrongChain          another chain id
        ├── WrongDeployment     no code, or other code, at an address
        ├── NotFunded           the account has no coin for gas
        └── Refusal             a contract said no: .reason, .hint
            ├── RegistryRefusal    "registry: ..."
            ├── TasksRefusal       "tasks: ..."
            ├── AuctionRefusal     "auction: ..."
            ├── SettlementRefusal  "settlement: ..."
            ├── RewardsRefusal     "rewards: ..."
            ├── DatasetsRefusal    "datasets: ..."
            ├── AvailabilityRefusal  "availability: ..."
            ├── AuditsRefusal      "audits: ..."
            ├── AdmissionsRefusal  "admissions: ..."
            ├── RefereeRefusal     "referee: ..."
            ├── EvidenceRefusal    "evidence: ..."
            ├── ExecutorRefusal    "executor: ..."
            ├── TreasuryRefusal    "treasury: ..."
            ├── TimelockRefusal    "timelock_controller: ...", "access_control: ..."
            ├── TokenRefusal       "erc20: ...", "ownable: ..."
            └── BareRevert         no reason, or one that is not in docs/protocol.md

Across the tree, two markers say who must act: `Retryable` (try again later) and `NeedsOperator` (a person must act).
"""


class ZooError(Exception):
    """Something that can be told to a user; `hint` is the next thing to do, or empty."""

    hint: str = ""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint
            self.add_note(hint)  # a traceback shows it too


class Retryable(ZooError):
    """Transient: the same call may succeed later; a task is retried."""


class NeedsOperator(ZooError):
    """A person must act; a lane stops and says why."""


class UserError(ZooError):
    """What was asked cannot be done as asked."""


class ConfigError(UserError, NeedsOperator):
    """A file or a setting is wrong; the message names it, says what was found and what was expected."""


class KeystoreError(NeedsOperator):
    """A key file cannot be used."""


class WrongPassphrase(KeystoreError):
    hint = "check the passphrase; a lost one cannot be recovered"


class NoPassphrase(KeystoreError):
    hint = "run in a terminal, or set ZOO_PASSPHRASE_FILE (a file) or ZOO_PASSPHRASE"


class KeystoreExists(KeystoreError):
    hint = "choose another path; a key file is never overwritten"


class DevnetError(NeedsOperator):
    """The local chain could not be started or used."""


class ChainError(ZooError):
    """Anything between us and the contracts."""


class Unreachable(ChainError, Retryable):
    hint = "check the network connection and the `rpcs` of the network file"


class TransactionPending(ChainError, Retryable):
    """Sent, and not mined in time; sending the same call again waits for it or replaces it."""

    def __init__(self, message: str, transaction_hash: str) -> None:
        super().__init__(message, hint="wait; sending again replaces it at a higher fee")
        self.transaction_hash = transaction_hash


class FeeTooHigh(ChainError, Retryable):
    hint = "wait for cheaper blocks, or raise the sender's fee limit"


class WrongChain(ChainError, NeedsOperator):
    hint = "use the RPC of the chain that the network file names, or another network file"


class WrongDeployment(ChainError, NeedsOperator):
    hint = "the network file is of another deployment or another chain; get the current one from the network's maker"


class NotFunded(ChainError, NeedsOperator):
    """The sending account cannot pay for gas (or for the value sent)."""


class Refusal(ChainError):
    """A contract refused: `reason` is its string, word for word, as docs/protocol.md lists it."""

    def __init__(self, reason: str, *, operation: str = "", hint: str = "") -> None:
        super().__init__(f"{operation}: {reason}" if operation else reason, hint=hint)
        self.reason = reason
        self.operation = operation

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


class DatasetsRefusal(Refusal):
    """Datasets."""


class AvailabilityRefusal(Refusal):
    """Availability."""


class AuditsRefusal(Refusal):
    """Audits."""


class AdmissionsRefusal(Refusal):
    """Admissions."""


class RefereeRefusal(Refusal):
    """A move of a dispute game was refused."""


class EvidenceRefusal(Refusal):
    """The evidence does not show that a claim is false."""


class ExecutorRefusal(Refusal):
    """What was to be executed is no part of that node."""


class TreasuryRefusal(Refusal):
    """Treasury."""


class TimelockRefusal(Refusal):
    """Timelock (snekmate's controller)."""


class TokenRefusal(Refusal):
    """ZEN, or another payment token: balance or allowance."""


class BareRevert(Refusal):
    """A revert without a reason, or with one that the protocol does not list."""
