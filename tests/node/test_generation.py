"""A worker generates texts by the tasks that train: they are what torch makes of the prompts, and a false token is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.generation_job import BATCH, NEW, PROMPTS, SLOTS, continued, job, model, publish
from tests.support.liars.faults import flip_bit


def test_rounds__give_the_texts_that_torch_gives(tmp_path: Path) -> None:
    made, wanted = publish(tmp_path), [continued(model(), prompt.encode(), NEW) for prompt in PROMPTS]
    generation = job().generation
    assert generation is not None
    outputs = []
    for round_ in range(made.manifest.rounds):
        made.bundles = []
        for slot in range(SLOTS):
            assert made.train(slot)["skipped"] == 0
            made.commit(7 + slot, [slot])
            outputs.append(made.sent(slot).state["outputs"])
        assert all(made.verify(slot)["agrees"] for slot in range(SLOTS))
        aggregated = made.aggregate()
        assert aggregated["root"] == made.manifest.state.root, "the checkpoint is the model, and stays"
        made.base |= {"round": round_ + 1, "checkpoint": aggregated["pointer"]}
    assert made.manifest.rounds == 2
    assert np.concatenate(outputs).shape == (4 * generation.steps, BATCH)
    texts = generation.texts(np.concatenate(outputs).ravel())
    assert [text.tokens for text in texts] == wanted
    assert [text.prompt for text in texts] == PROMPTS
    assert texts[1].text == bytes(wanted[1]).decode(errors="replace")


def test_one_false_token__is_seen_by_who_repeats_it(tmp_path: Path) -> None:
    made = publish(tmp_path)
    made.train(0, tamper=flip_bit(round=0, slot=0, tensor="outputs", element=2, bit=20))
    made.train(1)
    made.commit(7, [0])
    made.commit(9, [1])
    answer = made.verify(0)
    assert (answer["agrees"], answer["field"]) == (False, "update_root")
    assert answer["dispute"] is not None
    assert made.verify(1)["agrees"]


def test_drawn_texts__follow_from_the_jobs_seed(tmp_path: Path) -> None:
    drawn = [_first_slot(tmp_path / str(at), seed=seed) for at, seed in enumerate((1, 1, 2))]
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def _first_slot(folder: Path, seed: int) -> np.ndarray:
    made = publish(folder, temperature=1.0, seed=seed)
    made.train(0)
    return made.sent(0).state["outputs"]
