"""`DistributedTrainer`: a budget of tokens becomes a job, every argument has a name, and nothing is posted that cannot be trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.job_board import Board, a_board, a_client, offer
from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute import CheckpointConfig, Client, ComputeJob, DistributedTrainer, Network
from zoo_compute.cli.context import Settings
from zoo_compute.client.trainer import LEAST_STEPS, MOST_STEPS, ROUNDS
from zoo_compute.errors import NotFunded, UserError, ZooError
from zoo_compute.jobs.config import JobError
from zoo_compute.jobs.model_source import ModelSource
from zoo_compute.spec.params import MAX_ROUNDS
from zoo_compute.training.memory import least_bytes, needed_bytes

TINY = {"layers": 1, "heads": 2, "width": 8, "context": 8}
TOKENS_A_STEP = 4 * 8 * 8  # nodes, batch, context


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_bytes(b"the quick brown fox jumps over the lazy dog. " * 400)
    return tmp_path / "text.txt"


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    return a_board(tmp_path, monkeypatch)


def trainer_of(text: Path, steps: float, **options: Any) -> DistributedTrainer:
    return DistributedTrainer(TINY, text, 4, steps * TOKENS_A_STEP, max_budget=10**6, **options)


def pace_of(text: Path, steps: float, **training: Any) -> tuple[int, int]:
    job = trainer_of(text, steps, training=training).job_description
    return job.training.rounds, job.training.inner_steps


# -- tokens


def test_tokens__of_the_seed__are_a_job_the_protocol_takes(text: Path) -> None:
    job = DistributedTrainer(model="llama-7b", dataset=text, nodes=100, budget_tokens=1e12).job_description
    rounds, steps = job.training.rounds, job.training.inner_steps
    assert (job.training.slots, job.training.batch_size, steps) == (100, 8, 500)
    assert rounds <= MAX_ROUNDS
    assert 1e12 <= rounds * steps * 100 * 8 * 2_048 < 1.001e12


@pytest.mark.parametrize(
    "steps",
    [1, 29, 30, 31, 59, 60, 2_999, 3_000, 3_001, 49_999, 50_001, 4_999_999, 5_000_001, 10**7, 10**9],
)
def test_tokens__become_rounds_of_30_to_500_steps__then_longer_ones(text: Path, steps: int) -> None:
    rounds, inner_steps = pace_of(text, steps)
    assert rounds * inner_steps >= steps, "all tokens are trained on"
    assert (rounds - 1) * inner_steps < steps, "and no round is needless"
    assert rounds <= MAX_ROUNDS
    if steps >= LEAST_STEPS:
        assert inner_steps >= LEAST_STEPS
    if steps <= MOST_STEPS * MAX_ROUNDS:
        assert inner_steps <= MOST_STEPS
    if ROUNDS * LEAST_STEPS <= steps <= ROUNDS * MOST_STEPS:
        assert 0.96 * ROUNDS < rounds <= ROUNDS


def test_rounds_and_inner_steps__that_are_given__win(text: Path) -> None:
    assert pace_of(text, 10**9, rounds=3, inner_steps=7) == (3, 7)
    assert pace_of(text, 1_000, inner_steps=50) == (20, 50)
    assert pace_of(text, 1_000, rounds=3) == (3, 334)
    with pytest.raises(UserError, match="are 20,000,000 rounds of 50 inner steps; a job has at most 10,000") as refused:
        pace_of(text, 10**9, inner_steps=50)
    assert "set 100,000 or more" in refused.value.hint


@pytest.mark.parametrize("tokens", [0, -1, float("nan"), float("inf"), "many", None])
def test_tokens__that_are_no_number__are_refused(text: Path, tokens: Any) -> None:
    with pytest.raises(UserError, match="budget_tokens should be a positive number"):
        DistributedTrainer(TINY, text, 4, tokens, max_budget=1)


def test_nodes__that_another_key_contradicts__are_refused(text: Path) -> None:
    with pytest.raises(UserError, match=r"training\.slots is 5, nodes is 4"):
        trainer_of(text, 100, training={"slots": 5})


# -- arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DistributedTrainer(TINY, "x", 4, 1, compresion={}), "'compresion'; did you mean 'compression'?"),
        (lambda: DistributedTrainer(TINY, "x", 4, 1, max_buget=1), "'max_buget'; did you mean 'max_budget'?"),
        (lambda: DistributedTrainer(TINY, "x", 4, 1, acount="me"), "'acount'; did you mean 'account'?"),
        (lambda: DistributedTrainer(TINY, "x", 4), "missing a required argument: 'budget_tokens'"),
        (lambda: Client(netwrok="n.json"), "Client: unknown argument 'netwrok'; did you mean 'network'?"),
        (lambda: Network(acount="me"), "Client: unknown argument 'acount'; did you mean 'account'?"),
        (lambda: ComputeJob(TINY, {}, {}, compresion_config={}), "did you mean 'compression_config'?"),
        (lambda: ComputeJob(TINY, {}, {}, compression={}), "did you mean 'compression_config'?"),
        (lambda: ComputeJob(TINY), "missing a required argument: 'data_config'"),
        (lambda: CheckpointConfig(intervall=5), "did you mean 'interval'?"),
        (lambda: CheckpointConfig(5, "s3"), "checkpoint.storage: expected 'ipfs'"),
        (lambda: CheckpointConfig(1, "ipfs", 3, 4), "CheckpointConfig: too many positional arguments"),
    ],
)
def test_an_argument__that_nothing_takes__is_refused_with_the_nearest_name(call: Any, message: str) -> None:
    with pytest.raises(UserError) as refused:
        call()
    assert message in str(refused.value)
    assert isinstance(refused.value, ZooError)


def test_an_argument_of_train__that_nothing_takes__is_refused_with_the_nearest_name(board: Board) -> None:
    client = a_client(board)
    with pytest.raises(UserError, match="train: unknown argument 'max_buget'; did you mean 'max_budget'"):
        client.train(TINY, max_buget=1)
    with pytest.raises(UserError, match="train: unknown argument 'agregation'; did you mean 'aggregation'"):
        client.submit(TINY, agregation={})
    with pytest.raises(UserError, match="quote: unknown argument 'trainin'; did you mean 'training'"):
        client.quote(trainin={})
    with pytest.raises(JobError, match="no job given"):
        client.train()
    training = {"batch_size": 1, "rounds": 1, "slots": 1, "inner_steps": 1, "learning_rate": 0.1}
    with pytest.raises(JobError, match="compression: unknown key 'kep'; did you mean 'keep'"):
        client.train(model=TINY, training=training, compression={"kep": 3})
    with pytest.raises(JobError, match=r"checkpoint\.interval: expected a whole number, got 1000\.0"):
        client.train(model=TINY, training=training, checkpoint=CheckpointConfig(1e3))  # type: ignore[arg-type]


def test_a_client__beside_what_one_is_made_of__is_refused(text: Path, board: Board) -> None:
    with pytest.raises(UserError, match=r"a client or the client's arguments \(account\), not both"):
        trainer_of(text, 1, client=a_client(board), account="me")


def test_checkpoints__of_the_seed__fit_any_inner_steps(text: Path) -> None:
    kept = CheckpointConfig(interval=1000, storage="ipfs", redundancy=3)
    trainer = trainer_of(text, 10_000, checkpoint=kept, training={"inner_steps": 333})
    assert trainer.job_description.outline().keep_every == 4
    assert trainer.job_description.outline().redundancy == 3


# -- a network that is too small


def big(text: Path, board: Board, **options: Any) -> DistributedTrainer:
    return DistributedTrainer("llama-7b", text, 100, 1e12, client=a_client(board), **options)


def test_a_model__that_no_operator_has_memory_for__is_refused_before_it_is_traced(
    text: Path, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ComputeJob, "traced", property(lambda _: pytest.fail("traced")))
    for say in (lambda: big(text, board).train(), lambda: big(text, board, max_budget=5).submit()):
        with pytest.raises(UserError) as refused:
            say()
        assert "no operator of this network can train this job: no operator has 226 GB; the largest has 24 GB" in str(refused.value)  # fmt: skip
        assert "100 slots, each on a GPU with 226 GB" in refused.value.hint
        assert "--anyway" in refused.value.hint
    assert not board.posted
    assert not list(board.store.pins()), "nothing is stored"


def test_a_network__without_operators__is_said(text: Path, board: Board) -> None:
    board.offers = []
    with pytest.raises(UserError, match="no operator is registered"):
        trainer_of(text, 60, client=a_client(board)).submit()
    trainer_of(text, 60, client=a_client(board)).submit(anyway=True)
    assert len(board.posted) == 1


def test_a_module__whose_size_only_its_trace_says__is_refused_before_it_is_posted(
    text: Path, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelSource, "__post_init__", lambda self: object.__setattr__(self, "parameters", None), False)
    board.offers = [offer(vram_gb=0)]
    with pytest.raises(UserError, match="no operator has 1 GB; the largest has 0 GB"):
        trainer_of(text, 60, client=a_client(board)).submit()
    assert not board.posted


def test_collateral__that_is_locked__is_a_note(text: Path, board: Board) -> None:
    board.offers, said = [offer(free_collateral=0)], []
    trainer_of(text, 60, client=a_client(board, say=said.append)).submit()
    assert "note: every operator's collateral is locked or empty" in said
    assert len(board.posted) == 1


def test_a_budget__of_nobodys__is_a_price_and_no_more_than_the_account_has(text: Path, board: Board) -> None:
    client = a_client(board)
    trainer = DistributedTrainer(TINY, text, 4, 60 * TOKENS_A_STEP, client=client)
    assert trainer.submit().id == 1
    board.zen = 0
    with pytest.raises(NotFunded, match="has 0 ZEN; the job takes"):
        DistributedTrainer(TINY, text, 4, 60 * TOKENS_A_STEP, client=client).submit()
    board.zen = client.quote(trainer.job_description).escrow - 1
    with pytest.raises(NotFunded, match="the job takes 20 ZEN"):
        DistributedTrainer(TINY, text, 4, 60 * TOKENS_A_STEP, client=client).train()
    assert len(board.posted) == 1


def test_zoo_train__of_a_model_that_is_too_large__says_what_it_needs_and_how_to_post_anyway(
    text: Path, board: Board, zoo: Zoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "client", lambda *_args, **_options: a_client(board))
    file = text.with_name("job.yaml")
    file.write_text("model: {name: llama-7b}\ntraining: {batch_size: 1, inner_steps: 50, rounds: 2, slots: 3}\n")
    code, _, err = zoo.run("train", str(file), "--data", str(text), "--max-budget", "1000", "--no-watch")
    assert code == 1
    assert "no operator has 226 GB; the largest has 24 GB" in err
    assert "3 slots, each on a GPU with 226 GB" in err
    assert "--anyway" in err


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_least_bytes__is_a_little_less_than_the_trace_says(optimizer: str) -> None:
    model = {"layers": 2, "heads": 2, "width": 128, "context": 16}
    training = {
        "batch_size": 1,
        "rounds": 1,
        "slots": 1,
        "inner_steps": 1,
        "learning_rate": 0.1,
        "optimizer": optimizer,
    }
    job = ComputeJob(model, {}, training, 1)
    assert job.model.parameters == job.profile.parameters
    least, needed = least_bytes(job.profile.parameters, optimizer), needed_bytes(job.profile)
    assert 0.9 * needed < least < needed
