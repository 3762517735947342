"""The contracts as ape deploys and calls them. Runs under `ape test tests/ape --network ethereum:local:test`.

They are those of the committed artifacts where these are the sources' own: ape would compile all of them for more than a
minute, and would not notice a change of a module. test_compiler.py says that what ape compiles is the same.
"""

import sys
from pathlib import Path

# Under plain pytest there is no provider: nothing here is collected.
if Path(sys.argv[0]).name != "ape":
    collect_ignore_glob = ["test_*.py"]
else:
    from dataclasses import dataclass
    from types import SimpleNamespace
    from typing import ClassVar

    import pytest
    from ape.contracts import ContractContainer
    from ethpm_types import ContractType

    from tests.support import sources
    from tests.support.job_driver import JobDriver, Offer

    ZEN = 10**18
    UNLIMITED = 2**256 - 1
    # The devnet preset of docs/protocol/.
    BID_WINDOW_S, REVEAL_WINDOW_S, READY_WINDOW_S, MIN_WINDOW_S = 8, 6, 20, 10
    EXIT_DELAY_S, EPOCH_S, TIMELOCK_S, NEVER_S = 30, 60, 10, 2**40
    MIN_STAKE, EMISSION, WEIGHT_PER_FEE = 100 * ZEN, 1_000 * ZEN, 10**12
    NOTICE_S = 10
    AUDIT_BOND, DRAW_BLOCKS, LAPSE_S, ANSWER_S, BENCHMARK_S = 10 * ZEN, 2, 300, 3, 10
    PAY_FADES_S = 20, 120  # of its own clock, from which on an aggregator is paid less, and nothing

    @dataclass(frozen=True)
    class Operator:
        id: int
        owner: object
        hot: object

    class Artifacts:
        """`project.ZenToken`, as ape deploys it."""

        def __getattr__(self, name):
            if not (sources.CONTRACTS / f"{name}.vy").exists():
                raise AttributeError(f"no contract {name}")
            compiled = sources.load(name)
            bytecode = {"bytecode": f"0x{compiled.bytecode.hex()}"}
            content = {"contractName": name, "abi": compiled.abi, "deploymentBytecode": bytecode}
            return ContractContainer(ContractType.model_validate(content))

    @pytest.fixture(scope="session")
    def project():
        return Artifacts()

    @pytest.fixture(scope="session")
    def deployer(accounts):
        return accounts[0]

    @pytest.fixture(scope="session")
    def guardian(accounts):
        return accounts[1]

    @pytest.fixture(scope="session")
    def submitter(accounts):
        return accounts[2]

    @pytest.fixture(scope="session")
    def anyone(accounts):
        return accounts[3]

    @pytest.fixture(scope="session")
    def referee(accounts):
        """Stands for the contract that judges disputes."""
        return accounts[18]

    @pytest.fixture(scope="session")
    def kit(project, deployer, guardian, referee):
        """All contracts, deployed in order and wired."""
        zen = project.ZenToken.deploy(10**9 * ZEN, sender=deployer)
        timelock = project.Timelock.deploy(TIMELOCK_S, *3 * [[deployer]], sender=deployer)
        treasury = project.Treasury.deploy(timelock, sender=deployer)
        audit_pool = project.AuditPool.deploy(treasury, sender=deployer)
        registry = project.NodeRegistry.deploy(
            zen, guardian, MIN_STAKE, EXIT_DELAY_S, EPOCH_S, NEVER_S, sender=deployer
        )
        credits = project.Credits.deploy(
            zen, treasury, timelock, deployer, 0, EPOCH_S, EMISSION, 5, 60, sender=deployer
        )
        tasks = project.TaskRegistry.deploy(treasury, deployer, guardian, credits, False, sender=deployer)
        rewards = project.Rewards.deploy(zen, registry, timelock, EPOCH_S, EMISSION, WEIGHT_PER_FEE, sender=deployer)
        datasets = project.Datasets.deploy(tasks, rewards, sender=deployer)
        channels = project.Channels.deploy(registry, tasks, treasury, NOTICE_S, sender=deployer)
        auction = project.Auction.deploy(registry, tasks, guardian, BID_WINDOW_S, REVEAL_WINDOW_S, sender=deployer)
        locks = project.Locks.deploy(registry, tasks, sender=deployer)
        settlement = project.Settlement.deploy(
            registry, tasks, auction, locks, rewards, zen, READY_WINDOW_S, MIN_WINDOW_S, *PAY_FADES_S, sender=deployer
        )
        audits = project.Audits.deploy(
            registry, tasks, settlement, rewards, zen, AUDIT_BOND, DRAW_BLOCKS, LAPSE_S, sender=deployer
        )
        availability = project.Availability.deploy(registry, tasks, settlement, ANSWER_S, sender=deployer)
        admissions = project.Admissions.deploy(registry, deployer, BENCHMARK_S, MIN_WINDOW_S, EPOCH_S, sender=deployer)
        registry.wire(auction, settlement, locks, tasks, rewards, admissions, sender=deployer)
        tasks.wire(auction, settlement, locks, sender=deployer)
        credits.wire(tasks, registry, sender=deployer)
        rewards.wire(settlement, audits, datasets, sender=deployer)
        auction.wire(settlement, sender=deployer)
        settlement.wire(referee, availability, deployer, sender=deployer)
        locks.wire(settlement, audit_pool, sender=deployer)
        tasks.allow(zen, True, 0, sender=deployer)
        return SimpleNamespace(**{key: value for key, value in locals().items() if hasattr(value, "contract_type")})

    @pytest.fixture(scope="session")
    def register(kit, deployer, accounts):
        """Registers account `index` as owner, and the one after it as hot key."""

        def _register(index):
            owner, hot = accounts[index], accounts[index + 1]
            kit.zen.transfer(owner, 1_000 * ZEN, sender=deployer)
            kit.zen.approve(kit.registry, UNLIMITED, sender=owner)
            kit.registry.register(hot, 1, 24, MIN_STAKE, "http://here", sender=owner)
            operator = kit.registry.operator_count()  # eth-tester has no traces, so receipts know no return value
            kit.registry.deposit(operator, kit.zen, 100 * ZEN, sender=owner)
            return Operator(operator, owner, hot)

        return _register

    @pytest.fixture(scope="session")
    def operators(register):
        """Three slot holders and an aggregator."""
        return [register(index) for index in (4, 6, 8, 10)]

    @pytest.fixture
    def to(chain):
        """The next block's second."""

        def _to(second):
            chain.pending_timestamp = second

        return _to

    class ApeDriver(JobDriver):
        """Jobs of two rounds on ape's chain."""

        TERMS: ClassVar = {"rounds": 2}

        def __init__(self, kit, chain, submitter, anyone):
            super().__init__(kit, kit.zen, submitter, anyone)
            self.chain = chain

        @property
        def now(self):
            return self.chain.pending_timestamp

        @property
        def sent_at(self):
            return self.chain.blocks.head.timestamp

        def to(self, now):
            self.chain.pending_timestamp = now

        def posted(self, result):
            return self.kit.tasks.job_count()

        def turn(self, job):
            """Everyone commits, the aggregator closes the turn; the claims."""
            self.refs[job] = []
            self.commit_all(job)
            self.post_checkpoint(job)
            return self.refs[job]

    @pytest.fixture(scope="session")
    def play(kit, chain, deployer, submitter, anyone):
        kit.zen.transfer(submitter, 10 * ZEN, sender=deployer)
        kit.zen.approve(kit.tasks, UNLIMITED, sender=submitter)
        return ApeDriver(kit, chain, submitter, anyone)

    @pytest.fixture(scope="session")
    def running(play, operators):
        """A job in turn 0, seat `i` of operator `i`: three bid 100, 200 and 300, the aggregator 400."""
        play.operators = {each.id: each for each in operators}
        *holders, aggregator = operators
        offers = {each: Offer(100 * (index + 1)) for index, each in enumerate(holders)}
        return play.running(offers, {aggregator: Offer(400)})
