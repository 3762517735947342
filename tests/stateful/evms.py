"""A walk whose every call is made on two EVMs: on revm, where all tests run, and on py-evm, which neither of us wrote.

python -m tests.stateful.evms --seed 12 --steps 40
"""

from __future__ import annotations

import argparse

from tests.support import evm
from tests.support.two_evms import TwoChains


def walk(seed: int, steps: int) -> int:
    """How many calls agreed. The process has no other chain from here on."""
    chain = evm.chain = TwoChains()
    from tests.stateful.machine import walk_from
    from tests.support.lockstep.coverage import Coverage

    walk_from(seed, steps, Coverage())
    assert chain.cold < chain.calls / 100
    return chain.calls


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    print(walk(args.seed, args.steps))
