"""The torch side of a trial: the workload of a devnet, run under a seed, gives the root that docs/protocol/ says."""

from __future__ import annotations

import io
import json
from dataclasses import astuple
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import repops
from keepers.decisions.requests_of_no_job import trial_check_request, trial_dispute_request
from node.admission import benchmark, trial
from node.compute.programs import Programs
from node.disputes import player
from node.disputes.trial_check import run_trial_check
from node.errors import BadInputs
from repops import commitments
from zoo_compute.chain.deployment import DEVNET_VRAM_GB, DEVNET_WORKLOAD
from zoo_compute.chain.generated.bindings.admissions import Claim
from zoo_compute.disputes.exploration import Call, Exploration, Opened
from zoo_compute.json_codec import decode
from zoo_compute.operators.admission import TrialAnswer
from zoo_compute.spec import state
from zoo_compute.spec.admissions import claim_of
from zoo_compute.spec.clocks import PRODUCTION, first
from zoo_compute.spec.descents import frame_hash
from zoo_compute.spec.disputed_claims import RESULT, claim_key
from zoo_compute.spec.exploration import Node, Origin, Status, Tree, TreePosition
from zoo_compute.spec.frames import EMPTY, Frame, claim_hash
from zoo_compute.spec.params import GPU_CLASSES
from zoo_compute.spec.trials import TRIALS, Workload

NOW = 10**9
SEED = bytes.fromhex("ffffff80") + b"s" * 28  # the first four bytes are a negative number


@pytest.fixture(scope="module", name="loaded")
def loaded_fixture() -> trial.LoadedWorkload:
    programs = Programs(benchmark.fixed_program())
    return trial.LoadedWorkload(programs, DEVNET_WORKLOAD.program_root, DEVNET_WORKLOAD.state_root)


def test_the_devnets_workload__is_a_step_of_this_installations_benchmark(loaded: trial.LoadedWorkload) -> None:
    assert DEVNET_WORKLOAD.flops == loaded.programs.profile.flops * DEVNET_WORKLOAD.steps
    assert min(gpu_class.least_vram_gb for gpu_class in GPU_CLASSES.values()) == DEVNET_VRAM_GB


def test_run__is_the_segment_root_of_the_program_from_the_seeded_state(loaded: trial.LoadedWorkload) -> None:
    """The other way to the same root: the library's program, which a submitter steps."""
    program = repops.Program(loaded.programs.graph)
    tensors = {name: torch.from_numpy(loaded.start[name].copy()) for name in loaded.programs.names}
    state = program.begin(tensors, seed=0x80FFFFFF)
    roots = [(0, state_root(state))]
    zeros = torch.zeros(8, 128, dtype=torch.int32)
    for step in (1, 2):
        state, _ = program.step(state, (zeros, zeros))
        roots.append((step, state_root(state)))
    assert loaded.run(SEED, 2) == commitments.segment_root(roots)


def state_root(state: dict[str, torch.Tensor]) -> bytes:
    return commitments.state_root({name: tensor.numpy() for name, tensor in state.items()})


def test_run__under_another_seed__gives_another_root_and_under_the_same_the_same(loaded: trial.LoadedWorkload) -> None:
    roots = [loaded.run(seed, 1) for seed in (SEED, b"\1" + SEED[1:], SEED)]
    assert roots[0] == roots[2] != roots[1]


def test_a_worker__answers_for_a_trial_and_asks_about_a_false_one(loaded: trial.LoadedWorkload, tmp_path: Path) -> None:
    workload = DEVNET_WORKLOAD._replace(steps=1)
    root = loaded.run(SEED, 1)
    answers = {
        shown: TrialAnswer(Claim(*astuple(claim_of(7, Workload(*workload), SEED, shown))), workload, 1, 9)
        for shown in (root, b"f" * 32)
    }

    def played(shown: bytes, role: str, picture: Exploration) -> Any:
        places = [{"kind": 0, "slot": 0, "result": None}]
        request = trial_dispute_request(
            answers[shown], role=role, picture=picture, now=NOW, clocks=PRODUCTION, folder=tmp_path, places=places
        )
        # Nothing is fetched.
        answer = player.run_dispute(json.loads(json.dumps({**request, "device": "cpu"})), cast(Any, None))
        return [Call(*decode(each)) for each in answer["calls"]], answer["until"]

    [asked], _ = played(b"f" * 32, "asker", Exploration())
    assert (asked.name, asked.args[:1], asked.args[2:4]) == ("ask_claim", (TRIALS,), (RESULT, 0)), (
        "the chain has no roots of it"
    )
    position = TreePosition(Tree.RESULT)
    for shown in answers:
        claim = state.Claim(*answers[shown].claim)
        frame = Frame(kind=RESULT, claim=claim_hash(claim))
        record = Node(
            claim_key(TRIALS, claim), frame_hash(frame), position, claim.root, Origin(bytes(22)), first(NOW, PRODUCTION)
        )
        picture = Exploration({asked.id: Opened(asked.id, EMPTY, 0, record, frame, Status.ASKED)})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Exploration, "from_plain", lambda _, picture=picture: picture)
            calls, _ = played(shown, "author", Exploration())
        assert [call.name for call in calls] == ["answer_stage"] * (shown == root), (
            "of a false one there is no true result"
        )


def test_a_workload__of_other_roots__is_refused(loaded: trial.LoadedWorkload) -> None:
    with pytest.raises(BadInputs, match="this program has the root"):
        trial.LoadedWorkload(loaded.programs, bytes(32), DEVNET_WORKLOAD.state_root)
    with pytest.raises(BadInputs, match="the workload from 0000"):
        trial.LoadedWorkload(loaded.programs, DEVNET_WORKLOAD.program_root, bytes(32))


def test_command__is_ready_before_it_is_given_the_seed(
    loaded: trial.LoadedWorkload, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    roots = ["--program-root", DEVNET_WORKLOAD.program_root.hex(), "--state-root", DEVNET_WORKLOAD.state_root.hex()]
    monkeypatch.setattr("sys.stdin", io.StringIO(SEED.hex() + "\n"))
    assert trial.main([*roots, "--steps", "1", "--device", "cpu"]) == 0
    ready, answer = capsys.readouterr().out.splitlines()
    assert (ready, json.loads(answer)["root"]) == ("ready", loaded.run(SEED, 1).hex())
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert trial.main([*roots, "--steps", "1", "--device", "cpu"]) == 0
    assert capsys.readouterr().out == "ready\n"
    assert trial.main(["--program-root", "00" * 32, *roots[2:], "--steps", "1", "--device", "cpu"]) == 1
    assert "--program FILE" in capsys.readouterr().err


def test_run_trial_check__tells_a_false_trial_from_a_true_one_and_leaves_other_programs_alone(
    loaded: trial.LoadedWorkload,
) -> None:
    segments = loaded.run(SEED, 2)
    true = claim_of(7, DEVNET_WORKLOAD, SEED, segments)
    workload = DEVNET_WORKLOAD._replace(steps=2)

    def check(claim: state.Claim, program_root: bytes = workload.program_root) -> dict[str, Any]:
        made = TrialAnswer(Claim(*astuple(claim)), workload._replace(program_root=program_root), 5, NOW)
        return run_trial_check(trial_check_request(made), cast(Any, None))

    assert check(true) == {"job": TRIALS, "agrees": True}
    false = check(claim_of(7, DEVNET_WORKLOAD, SEED, b"x" * 32))
    assert (false["agrees"], false["dispute"]) == (False, player.TRIAL_DISPUTE)
    assert check(claim_of(7, DEVNET_WORKLOAD, b"\1" * 32, segments))["agrees"] is False, "of another seed"
    assert check(true, b"p" * 32)["agrees"] is None
