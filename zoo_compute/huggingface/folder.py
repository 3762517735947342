"""The folder of a trained model: what `AutoModelForCausalLM.from_pretrained` and `AutoTokenizer.from_pretrained` load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repops.commitments import Array
from zoo_compute.errors import UserError
from zoo_compute.huggingface import library, lora, reason
from zoo_compute.huggingface.places import Place
from zoo_compute.huggingface.tokens import has_tokenizer, load_tokenizer

KEY = "--format hf"


def write_folder(
    source: Place, tensors: Mapping[str, Array], folder: Path, *, merge: bool = False, base: str = ""
) -> None:
    """Write the model of `source` with these tensors, and its tokenizer if it has one. Of a job with `lora`: the adapter of `peft`.

    source: a folder or a name of the hub with the configuration; its weights are not read. merge: add the adapter to the weights,
    and write a whole model. base: what the adapter says it belongs to. Raises UserError where the tensors are another model's.
    """
    model = _empty_model(source)
    if merge and not lora.is_adapter(tensors):
        raise UserError("the job trained a whole model", hint="leave --merge out")
    if lora.is_adapter(tensors) and not merge:
        lora.write_adapter(tensors, model, base or source.said, folder)
    else:
        _write_model(model, lora.merged(tensors, model) if merge else tensors, source, folder)
    if has_tokenizer(source):
        load_tokenizer(source).save_pretrained(folder)


def filled_model(source: Place, tensors: Mapping[str, Array]) -> Any:
    """The model of `source` with these tensors; adapters are added to its weights. Raises UserError."""
    model = _empty_model(source)
    _fill(model, lora.merged(tensors, model) if lora.is_adapter(tensors) else tensors, source)
    return model


def _empty_model(source: Place) -> Any:
    transformers = library("transformers", KEY)
    try:
        config = transformers.AutoConfig.from_pretrained(source.location, **source.options)
        return transformers.AutoModelForCausalLM.from_config(config, dtype="float32", trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{source.said}: {reason(error)}", hint="name a folder with a causal model's config.json"
        ) from error


def _write_model(model: Any, tensors: Mapping[str, Array], source: Place, folder: Path) -> None:
    transformers = library("transformers", KEY)
    _fill(model, tensors, source)
    if not source.is_local or (Path(source.location) / "generation_config.json").exists():
        model.generation_config = transformers.GenerationConfig.from_pretrained(source.location, **source.pinned)
    model.save_pretrained(folder)


def _fill(model: Any, tensors: Mapping[str, Array], source: Place) -> None:
    """Load all tensors. Tied ones come once; buffers that are not saved follow from the configuration."""
    import torch

    parameters, buffers = dict(model.named_parameters(remove_duplicate=False)), dict(model.named_buffers())
    own = {name: torch.from_numpy(array) for name, array in tensors.items() if name not in buffers}
    try:
        model.load_state_dict(own, strict=False)
    except RuntimeError as error:
        raise UserError(f"the result does not fit the model of {source.said}: {_mismatch(error)}") from error
    filled = {id(parameters[name]) for name in own if name in parameters}
    strange = sorted(set(own) - set(parameters)) or sorted(
        n for n, each in parameters.items() if id(each) not in filled
    )
    if strange:
        raise UserError(
            f"the result does not fit the model of {source.said}: {strange[0]!r} is in one of them alone",
            hint="name the folder of the model that the job started from",
        )


def _mismatch(error: RuntimeError) -> str:
    return str(error).strip().splitlines()[-1].strip()
