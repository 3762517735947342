"""How long a job takes at most: its rounds, its windows, and the locks behind its seats."""

from zoo_compute.spec.params import MAX_LONGER_WINDOWS, Preset, Terms, window_s, windows


def longest_rounds_s(rounds: int, depth: int, round_s: int, window_s: int) -> int:
    """Seconds until the last round closes, each taking `round_s`: one opens when the claims of the round `depth` before it are final."""
    waits, last = divmod(rounds - 1, depth)
    return waits * max(depth * round_s, round_s + window_s) + (last + 1) * round_s


def longest_run_s(terms: Terms, preset: Preset, *, is_zen: bool) -> int:
    """Seconds from an auction's end until the last claim can be paid and locks are free, without disputes, rollbacks and halts.

    is_zen: the job pays in ZEN, whose `window_value` is the preset's; of another token the longest windows are assumed.
    """
    many = windows(terms, preset.window_value) if is_zen else 1 + MAX_LONGER_WINDOWS
    window, round_s = window_s(preset, terms.reexecute_s, many), 2 * terms.slot_s + terms.aggregate_s
    return preset.ready_window_s + longest_rounds_s(terms.rounds, terms.depth, round_s, window) + window
