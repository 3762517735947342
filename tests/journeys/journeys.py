"""The journeys, in the order a person makes them. The first ones are on one machine; the last is on another one, for whom the
network of the first is a public network."""

from __future__ import annotations

from collections.abc import Callable

from tests.journeys.walking import Walk

README, CLI, OPERATING, SEEDS = "README.md", "docs/cli.md", "docs/operating.md", "tests/journeys/seeds.md"
PAGES = (README, CLI, OPERATING, SEEDS)

# Blocks that no journey runs, by a text in them, and why.
UNTRIED: dict[str, tuple[str, ...]] = {
    "continuous integration clones and runs both": ("make demo",),
    "a list of keys, no command": ('model: {module: "model.py:build", width: 128}',),
}


def train(walk: Walk) -> None:
    """Install, start a network, train a module of one's own, use it (README)."""
    walk.do(README, "zoo devnet --nodes 3")
    walk.do(README, "class Bytes")
    walk.do(README, 'module: "model.py:build", width: 192')
    walk.do(README, "zoo train job.yaml")
    walk.do(README, "load_state_dict")
    walk.do(README, "python use.py")
    walk.do(README, "client = Client()")


def verify(walk: Walk) -> None:
    """Check the work of others (README)."""
    walk.do(README, "zoo verify 1")


def provide(walk: Walk) -> None:
    """Earn with a node of one's own: it is registered, it runs, it is paid (README)."""
    walk.do(README, "zoo node register")
    walk.do(README, "zoo node status")


def seeds(walk: Walk) -> None:
    """What the seed documents print, on another machine (tests/journeys/seeds.md)."""
    walk.do(SEEDS, "layers: 1")
    walk.do(SEEDS, "model_config = {")
    walk.do(SEEDS, "pip install zoo-compute")
    walk.do(SEEDS, "ComputeJob(", after=("before.py",))
    walk.do(SEEDS, "checkpoint_config", after=("before.py",))
    walk.do(SEEDS, "client.train(")
    walk.do(SEEDS, "gym register")
    walk.interrupt("gym start")
    walk.do(SEEDS, "gym node register")
    walk.do(SEEDS, "DistributedTrainer", codes=(1,))


FIRST: dict[str, Callable[[Walk], None]] = {"train": train, "verify": verify, "provide": provide}
SECOND: dict[str, Callable[[Walk], None]] = {"seeds": seeds}
JOURNEYS = {**FIRST, **SECOND}
