"""What must hold of channels after every step; see `invariants`."""

from collections import Counter

from zoo_compute.spec.state import World


def channel_dues(w: World) -> Counter[str]:
    """What Channels has for somebody, by token."""
    sums: Counter[str] = Counter()
    for channel in w.channels.values():
        sums[channel.token] += channel.deposit - channel.paid
    for (token, _), amount in w.channels_owed.items():
        sums[token] += amount
    return sums


def check_channels(w: World) -> None:
    """Nobody is paid more than a channel has; numbers count up, and each is some operator's."""
    for number, channel in w.channels.items():
        assert 0 < number <= w.channel_count, f"channel {number} of {w.channel_count}"
        assert 0 <= channel.paid <= channel.deposit, f"channel {number}: paid {channel.paid} of {channel.deposit}"
        assert channel.deposit > 0, f"channel {number}: an empty one"
        assert channel.operator in w.operators, f"channel {number}: of no operator"
