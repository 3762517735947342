"""How a rule of the protocol refuses a call (docs/protocol/index.md)."""


class Refused(Exception):
    """The protocol refuses the call and nothing changes; `reason` is the contract's revert string."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def require(condition: bool, reason: str) -> None:
    """Refuse with `reason` unless `condition` holds."""
    if not condition:
        raise Refused(reason)
