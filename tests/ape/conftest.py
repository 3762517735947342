"""The contracts as ape compiles, deploys and calls them. Runs under `ape test tests/ape --network ethereum:local:test`."""

import sys
from pathlib import Path

# Under plain pytest there is no provider: nothing here is collected.
if Path(sys.argv[0]).name != "ape":
    collect_ignore_glob = ["test_*.py"]
else:
    from types import SimpleNamespace

    import pytest
    from eth_abi.abi import encode
    from eth_utils.crypto import keccak

    ZEN = 10**18
    UNLIMITED = 2**256 - 1
    # The devnet preset of docs/protocol.md.
    BID_WINDOW_S, REVEAL_WINDOW_S, READY_WINDOW_S, MIN_WINDOW_S = 8, 6, 20, 10
    EXIT_DELAY_S, EPOCH_S, TIMELOCK_S = 30, 60, 10
    MIN_STAKE, EMISSION, WEIGHT_PER_FEE = 100 * ZEN, 1_000 * ZEN, 10**12
    AUDIT_BOND, DRAW_BLOCKS, ANSWER_S, BENCHMARK_S = 10 * ZEN, 2, 3, 10

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
        timelock = project.Timelock.deploy(TIMELOCK_S, [deployer], sender=deployer)
        treasury = project.Treasury.deploy(timelock, sender=deployer)
        registry = project.NodeRegistry.deploy(zen, guardian, MIN_STAKE, EXIT_DELAY_S, EPOCH_S, sender=deployer)
        tasks = project.TaskRegistry.deploy(treasury, deployer, guardian, sender=deployer)
        rewards = project.Rewards.deploy(zen, registry, EPOCH_S, EMISSION, WEIGHT_PER_FEE, sender=deployer)
        datasets = project.Datasets.deploy(tasks, rewards, sender=deployer)
        auction = project.Auction.deploy(registry, tasks, guardian, BID_WINDOW_S, REVEAL_WINDOW_S, sender=deployer)
        settlement = project.Settlement.deploy(
            registry, tasks, auction, rewards, zen, READY_WINDOW_S, MIN_WINDOW_S, sender=deployer
        )
        audits = project.Audits.deploy(
            registry, tasks, settlement, rewards, zen, AUDIT_BOND, DRAW_BLOCKS, sender=deployer
        )
        availability = project.Availability.deploy(registry, tasks, settlement, ANSWER_S, sender=deployer)
        admissions = project.Admissions.deploy(registry, deployer, BENCHMARK_S, MIN_WINDOW_S, EPOCH_S, sender=deployer)
        registry.wire(auction, settlement, tasks, rewards, admissions, sender=deployer)
        tasks.wire(auction, settlement, sender=deployer)
        rewards.wire(settlement, audits, datasets, sender=deployer)
        auction.wire(settlement, sender=deployer)
        settlement.wire(referee, availability, treasury, sender=deployer)
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
            return SimpleNamespace(id=operator, owner=owner, hot=hot)

        return _register

    @pytest.fixture
    def operators(register):
        """Three slot holders and an aggregator."""
        return [register(index) for index in (4, 6, 8, 10)]

    @pytest.fixture
    def to(chain):
        """The next block's second."""

        def _to(second):
            chain.pending_timestamp = second

        return _to

    @pytest.fixture
    def terms(kit):
        """Terms of a job of one slot a holder and two rounds."""
        return {
            "token": kit.zen.address,
            "work_root": b"\x01" * 32,
            "state_root": b"\x02" * 32,
            "data_root": b"\x03" * 32,
            "manifest": b"\x04" * 32,
            "rounds": 2,
            "slots": 3,
            "quorum": 2,
            "reserve": 1_000,
            "max_price": 2_000,
            "aggregator_reserve": 500,
            "aggregator_max_price": 1_000,
            "slot_s": 60,
            "aggregate_s": 30,
            "reexecute_s": 20,
            "flops": 10**12,
            "depth": 4,
            "policy": 0,
        }

    @pytest.fixture
    def post(kit, terms, deployer, submitter):
        def _post(**changes):
            kit.zen.transfer(submitter, 10 * ZEN, sender=deployer)
            kit.zen.approve(kit.tasks, UNLIMITED, sender=submitter)
            kit.tasks.post({**terms, **changes}, sender=submitter)
            return kit.tasks.job_count()

        return _post

    @pytest.fixture
    def bid(kit):
        def _bid(job, kind, operator, price):
            attempt = kit.auction.lots(job, kind).attempt
            values = (job, kind, attempt, operator.id, price, 1, b"\x07" * 32)
            seal = keccak(encode(["uint256"] * 6 + ["bytes32"], values))
            kit.auction.bid(job, kind, operator.id, seal, 1, False, sender=operator.hot)

        return _bid

    @pytest.fixture
    def running(kit, post, bid, to, operators, anyone):
        """A job in turn 0, seat `i` held by operator `i`: three holders bid 100, 200 and 300, the aggregator 400."""
        job = post()
        *holders, aggregator = operators
        offers = [(0, each, 100 * (index + 1)) for index, each in enumerate(holders)] + [(1, aggregator, 400)]
        for kind, operator, price in offers:
            bid(job, kind, operator, price)
        lot = kit.auction.lots(job, 0)
        to(lot.bid_end)
        for kind, operator, price in offers:
            kit.auction.reveal(job, kind, operator.id, price, b"\x07" * 32, sender=anyone)
        to(lot.reveal_end)
        for kind, members in ((0, holders), (1, [aggregator])):
            kit.auction.clear(job, kind, [each.id for each in members], sender=anyone)
        for kind, members in ((0, holders), (1, [aggregator])):
            kit.auction.award(job, kind, [each.id for each in members], sender=anyone)
        for seat, each in enumerate(holders):
            kit.settlement.ready(job, seat, 10, sender=each.hot)
        return job
