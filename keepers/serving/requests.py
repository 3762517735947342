"""A request's body and headers as a question and a voucher. Whatever changes the answer and is not the service's is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keepers.serving.refusals import RequestRefused, bad_request
from repops.fields import BadField, parse_json
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import COMPLETIONS, EMBEDDINGS, Service
from zoo_compute.serving.texts import Texts
from zoo_compute.serving.vouchers import SignedVoucher

NONCE, VOUCHER = "Zoo-Nonce", "Zoo-Voucher"
DEFAULT_NEW_TOKENS = 16
_NONCE = re.compile(r"[0-9a-f]{64}")
PROMPTS = {COMPLETIONS: "prompt", EMBEDDINGS: "input"}
OURS = {COMPLETIONS: {"max_tokens", "temperature", "stream", "stream_options"}, EMBEDDINGS: {"encoding_format"}}
# OpenAI's others that change nothing with these values, or with any: those are None.
NEUTRAL: Mapping[str, tuple[Any, ...] | None] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "top_p": (1,),
    "logit_bias": ({},),
    "stop": ([],),
    "suffix": ("",),
    "logprobs": (),
    "seed": (),
    "user": None,
    "metadata": None,
    "store": None,
    "service_tier": None,
}


@dataclass(frozen=True)
class Asked:
    """A request. streams: its answer comes in pieces. as_base64: vectors not as lists of numbers."""

    question: Question
    streams: bool = False
    as_base64: bool = False


def read_request(body: bytes, headers: Mapping[str, str], kind: str, service: Service, texts: Texts) -> Asked:
    """Raises RequestRefused: 400, or 404 for another model."""
    try:
        raw = parse_json(body, "the body")
    except ValueError as error:
        raise bad_request(f"{error}; expected a JSON object", "invalid_json") from None
    if not isinstance(raw, dict):
        raise bad_request("expected a JSON object", "invalid_json")
    model = raw.get("model")
    if model != service.model:
        raise RequestRefused(404, f"there is no model {model!r} here; expected {service.model!r}", "model_not_found")
    if service.kind != kind:
        raise bad_request(f"{service.model} answers {service.kind}, not {kind}", "wrong_endpoint")
    _check_others(raw, kind, service)
    prompts = _prompts(raw.get(PROMPTS[kind]), PROMPTS[kind], texts)
    new_tokens = _number(raw, "max_tokens", DEFAULT_NEW_TOKENS) if kind == COMPLETIONS else 0
    nonce = headers.get(NONCE, "")
    if not _NONCE.fullmatch(nonce):
        raise bad_request(f"the header {NONCE} is missing or is not 64 hex digits; draw 32 random bytes", "nonce")
    try:
        question = Question(service, prompts, new_tokens, bytes.fromhex(nonce))
    except BadField as error:
        raise bad_request(str(error)) from None
    return Asked(question, raw.get("stream") is True, raw.get("encoding_format") == "base64")


def read_voucher(headers: Mapping[str, str]) -> SignedVoucher | None:
    """None without one. Raises RequestRefused."""
    text = headers.get(VOUCHER)
    if text is None:
        return None
    try:
        return SignedVoucher.of_dict(parse_json(text.encode(), "voucher"))
    except ValueError as error:
        raise bad_request(f"the header {VOUCHER}: {error}", "voucher") from None


def _check_others(raw: Mapping[str, Any], kind: str, service: Service) -> None:
    for name, value in raw.items():
        if name in ("model", PROMPTS[kind], *OURS[kind]) or value is None:
            continue
        if name not in NEUTRAL:
            raise bad_request(
                f"{name}: this server does not know it, and an answer might depend on it; leave it out", name
            )
        allowed = NEUTRAL[name]
        if allowed is not None and not any(
            value == each and isinstance(value, bool) == isinstance(each, bool) for each in allowed
        ):
            expected = " or ".join(map(repr, allowed)) or "nothing"
            raise bad_request(
                f"{name}: it would change the answer, which the service fixes; expected {expected}, got {value!r}", name
            )
    for name, expected_type, expected in (("stream", bool, "true or false"), ("stream_options", dict, "an object")):
        value = raw.get(name)
        if value is not None and not isinstance(value, expected_type):
            raise bad_request(f"{name}: expected {expected}, got {value!r}", name)
    if raw.get("encoding_format") not in (None, "float", "base64"):
        raise bad_request(
            f"encoding_format: expected 'float' or 'base64', got {raw['encoding_format']!r}", "encoding_format"
        )
    temperature = raw.get("temperature")
    if temperature is not None and (isinstance(temperature, bool) or temperature != service.temperature):
        raise bad_request(
            f"temperature: {service.model} samples at {service.temperature:g}, not {temperature!r}; leave it out",
            "temperature",
        )


def _number(raw: Mapping[str, Any], name: str, default: int) -> int:
    value = raw.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise bad_request(f"{name}: expected a number from 1 on, got {value!r}", name)
    return value


def _prompts(value: Any, name: str, texts: Texts) -> tuple[tuple[int, ...], ...]:
    """Of a text, a list of texts, a list of tokens, or a list of those."""
    if isinstance(value, str):
        return (texts.encode(value),)
    if isinstance(value, list) and value:
        if all(isinstance(each, str) for each in value):
            return tuple(texts.encode(each) for each in value)
        if _are_tokens(value):
            return (tuple(value),)
        if all(isinstance(each, list) and _are_tokens(each) for each in value):
            return tuple(tuple(each) for each in value)
    raise bad_request(f"{name}: expected a text, a list of texts, a list of tokens, or a list of such lists", name)


def _are_tokens(value: list[Any]) -> bool:
    return all(isinstance(each, int) and not isinstance(each, bool) for each in value)
