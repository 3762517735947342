"""Jobs that generate: how prompts become items and outputs texts, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.generation_job import NEW, PROMPTS, SIZES, job, model
from zoo_compute.errors import UserError
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.jobs.data_source import dataset_of
from zoo_compute.jobs.generation import Text, prompts_array
from zoo_compute.models.decoding_inputs import OWN

LONGEST = max(map(len, PROMPTS))


def generation_of(made: ComputeJob) -> Any:
    assert made.generation is not None
    return made.generation


def test_a_slots_round__is_one_batch_of_whole_texts() -> None:
    made = job()
    steps = LONGEST + NEW - 1
    assert (made.training.inner_steps, made.training.rounds, made.training.slots) == (steps, 2, 2)
    assert made.outline().segment_steps == -(-steps // 4)
    assert made.outline().is_map
    items = dataset_of(made, lambda text: None).examples["inputs"].reshape(4, steps, 2)
    for place, prompt in [((0, 0), 0), ((0, 1), 1), ((1, 0), 2), ((1, 1), 3), ((2, 0), 4), ((2, 1), 0), ((3, 1), 2)]:
        row = items[place[0], :, place[1]].tolist()
        tokens = PROMPTS[prompt].encode()
        assert row == [-2 - tokens[0], *tokens[1:], *[OWN] * (steps - len(tokens))], place


def test_outputs__are_cut_to_the_new_tokens_of_each_prompt() -> None:
    generation = generation_of(job([[1, 2, 3], [4]], batch_size=1, slots=2, new_tokens=2))
    outputs = np.array([[90, 91, 65, 66], [67, 68, 92, 93]], np.float32)
    assert generation.steps == 4
    assert generation.texts(outputs.ravel()) == [Text("", "AB", [65, 66]), Text("", "CD", [67, 68])]
    outputs[1, 1] = np.nan
    with pytest.raises(UserError, match="prompt 2: the model has no output for it"):
        generation.texts(outputs.ravel())


def test_prompts_of_a_file__are_its_lines(tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("One\n\nTwo or three\n")
    assert generation_of(job(data={"path": str(tmp_path / "prompts.txt")})).said == ("One", "Two or three")


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        (["ok", ""], {}, "data: prompt 2 is empty; a text goes on from at least one token"),
        ([[1, 2], []], {}, "data: prompt 2 is empty"),
        ([], {}, "data: there is no prompt"),
        ([[1, 256]], {}, "data: prompt 1 has token 256, and the model has 256 tokens"),
        (["x" * 20], {}, "prompt 1 has 20 tokens: with 6 new ones it needs 25 positions, and the model has 24"),
        (["ok"], {"new_tokens": 0}, "map.new_tokens: expected 1 to"),
        (["ok"], {"temperature": -1.0}, "map.temperature: expected 0 to 100"),
        (["ok"], {"temperature": 1e-4}, "map.temperature: expected 0, or 0.001 and more"),
        (["ok"], {"inner_steps": 4}, "map.inner_steps: prompts and new_tokens set the steps"),
        (["ok"], {"new_tokens": None, "temperature": 0.5}, "map.temperature: a map without new_tokens"),
        (["ok"] * 10_001, {"batch_size": 1, "slots": 1}, "10,001 prompts make 10,001 rounds, at most"),
    ],
)
def test_prompts_that_no_text_follows_from__are_refused(prompts: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError) as refused:
        job(prompts, **options)
    assert message in str(refused.value)


def test_arrays_that_are_no_prompts__are_refused() -> None:
    for array in (np.zeros((2, 3), np.float32), np.zeros(3, np.int32)):
        with pytest.raises(JobError, match="expected prompts as texts, or as integers"):
            job(data={"arrays": {"prompts": array}})
    with pytest.raises(UserError, match="expected texts, or lists of tokens, got both"):
        prompts_array(["a", [1]])  # type: ignore[list-item]


def test_a_module_without_a_decoding_step__is_refused_with_what_it_needs() -> None:
    made = ComputeJob.from_dict(
        {
            "model": {"module": torch.nn.Linear(2, 2)},
            "data": {"arrays": {"prompts": prompts_array(["a"])}},
            "map": {"batch_size": 1, "slots": 1, "new_tokens": 2},
        }
    )
    with pytest.raises(JobError, match=r"Linear has no decoding step; .* give yours `decode` and `cache_shape`"):
        _ = made.traced


def test_a_live_model_whose_context_is_too_short__is_refused() -> None:
    sections = {
        "data": {"arrays": {"prompts": prompts_array(["abc"])}},
        "map": {"batch_size": 1, "slots": 1, "new_tokens": 23},
    }
    with pytest.raises(JobError, match="prompt and text need 25 positions, and the model has 24"):
        _ = ComputeJob.from_dict({"model": {"module": model()}, **sections}).traced


def test_a_program_file__is_refused() -> None:
    sections = {
        "data": {"arrays": {"prompts": prompts_array(["a"])}},
        "map": {"batch_size": 1, "slots": 1, "new_tokens": 2},
    }
    with pytest.raises(JobError, match="takes a model, whose step it makes itself"):
        ComputeJob.from_dict({"model": {"program": "step.bin"}, **sections})


def test_a_live_module__stays_in_the_mode_it_was_in() -> None:
    from zoo_compute.models import gpt

    module = gpt.build(**SIZES)[0].train()
    made = ComputeJob.from_dict(
        {
            "model": {"module": module},
            "data": {"arrays": {"prompts": prompts_array(["a"])}},
            "map": {"batch_size": 1, "slots": 1, "new_tokens": 2},
        }
    )
    assert set(made.traced.initial or {}) == module.state_dict().keys()
    assert all(each.training for each in module.modules())
    assert not dict(module.named_buffers()), "the caller's module has no cache"


def test_a_model_of_transformers_by_its_folder__generates_in_its_tokenizers_tokens(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    from transformers import AutoTokenizer

    from tests.support.tiny_gpt2 import save_model, save_tokenizer

    save_model(tmp_path / "gpt2")
    save_tokenizer(tmp_path / "gpt2")
    (tmp_path / "prompts.txt").write_text("Story 7: the fox\nthe old goat went\n")
    sections = {"model": {"transformers": "gpt2"}, "data": {"path": "prompts.txt"}}
    keys = {"batch_size": 2, "slots": 1, "new_tokens": 5}
    made = ComputeJob.from_dict({**sections, "map": keys}, directory=tmp_path)
    generation, tokenizer = generation_of(made), AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    assert generation.prompts == tuple(tuple(ids) for ids in tokenizer(list(generation.said))["input_ids"])
    assert generation.end == tokenizer.eos_token_id == 0
    words = tokenizer(" home and came back")["input_ids"][:3]
    rows = np.full((2, generation.steps), 0, np.float32)
    for row, prompt in zip(rows, generation.prompts, strict=True):
        row[len(prompt) - 1 :][: len(words)] = words
    texts = generation.texts(rows.T.ravel())
    assert [text.tokens for text in texts] == [words, words], "without the end-of-text token and what follows"
    assert texts[0].text == tokenizer.decode(words)
    assert made.traced.initial.keys() >= {"transformer.wte.weight"}
    with pytest.raises(JobError, match="the model has 16"):
        ComputeJob.from_dict({**sections, "map": {**keys, "new_tokens": 40}}, directory=tmp_path)
