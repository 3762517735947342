"""An OpenAI-compatible server on this machine, in front of a client of a service: whoever asks it knows nothing of seats and vouchers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from keepers.serving.answers import as_base64, event, head_of, usage_of
from keepers.serving.refusals import RequestRefused, bad_request
from keepers.serving.requests import NONCE, Asked, read_request
from zoo_compute.errors import ZooError
from zoo_compute.inference.answers import Completions, Embeddings, Served
from zoo_compute.inference.client import FalseStream, Inference, NotAnswered
from zoo_compute.serving.questions import NONCE_BYTES, Question
from zoo_compute.serving.receipt_file import receipt_to_dict
from zoo_compute.serving.service import COMPLETIONS, EMBEDDINGS
from zoo_compute.store.errors import StoreError

# Names of this machine: a page elsewhere whose name was pointed here cannot spend your deposits.
HOSTS = ["127.0.0.1", "localhost"]
MAX_BODY = 8 * 1024 * 1024
JSON = "application/json"


def application(inference: Inference) -> Starlette:
    """Spends what `inference` may spend, for whoever reaches it: to be served on the loopback address alone."""
    proxy = _Proxy(inference)
    return Starlette(
        routes=[
            Route("/v1/models", proxy.models),
            Route("/v1/completions", proxy.completions, methods=["POST"]),
            Route("/v1/embeddings", proxy.embeddings, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)],
        exception_handlers={RequestRefused: _refused, HTTPException: _http, Exception: _failed},
    )


class _Proxy:
    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    async def models(self, _: Request) -> Response:
        model = {"id": self._inference.service.model, "object": "model", "created": 0, "owned_by": "zoo"}
        return JSONResponse({"object": "list", "data": [model]})

    async def completions(self, request: Request) -> Response:
        asked = await self._asked(request, COMPLETIONS)
        if asked.streams:
            return await run_in_threadpool(self._stream, asked.question)
        answer = await run_in_threadpool(_answered, self._inference.answer_completions, asked.question)
        return JSONResponse(_completions(asked.question, answer))

    async def embeddings(self, request: Request) -> Response:
        asked = await self._asked(request, EMBEDDINGS)
        answer = await run_in_threadpool(_answered, self._inference.answer_embeddings, asked.question)
        return JSONResponse(await run_in_threadpool(_embeddings, asked, answer))

    async def _asked(self, request: Request, kind: str) -> Asked:
        """Raises RequestRefused."""
        # A page of another site can send other types without asking the browser first.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise bad_request(f"expected the header Content-Type: {JSON}", "content_type")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise RequestRefused(413, f"the body is larger than {MAX_BODY:,} bytes", "too_large")
        headers = {NONCE: secrets.token_hex(NONCE_BYTES)}
        service, texts = self._inference.service, await run_in_threadpool(lambda: self._inference.texts)
        return await run_in_threadpool(read_request, bytes(body), headers, kind, service, texts)

    def _stream(self, question: Question) -> Response:
        """Once there is a first piece, or none at all: a request that nobody answers has its status."""
        pieces = _answered(self._pieces, question)
        first = _answered(next, pieces)
        return StreamingResponse(
            _joined(first, pieces), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    def _pieces(self, question: Question) -> Iterator[str]:
        head, stream = head_of(question), self._inference.stream_completions(question)
        while True:
            try:
                piece = next(stream)
            except StopIteration as end:
                choices = [_choice(index, "", reason) for index, reason in enumerate(end.value.finish_reasons)]
                usage = usage_of(question, end.value.tokens)
                yield event({**head, "choices": choices, "usage": usage, "zoo": _zoo(end.value)}) + "data: [DONE]\n\n"
                return
            yield event({**head, "choices": [_choice(piece.index, piece.text, None)]})


def _joined(first: str, rest: Iterator[str]) -> Iterator[str]:
    """The status is sent: what goes wrong now is an event."""
    yield first
    try:
        yield from rest
    except (ZooError, StoreError, ValueError, OSError) as error:
        yield event(_refusal(error).to_dict())


def _answered(ask: Any, question: Any) -> Any:
    try:
        return ask(question)
    except (ZooError, StoreError, ValueError, OSError) as error:
        raise _refusal(error) from error


def _refusal(error: Exception) -> RequestRefused:
    hint = getattr(error, "hint", "")
    message = f"{error}; {hint}" if hint else str(error)
    if isinstance(error, FalseStream):
        zoo = {"right": list(error.answer.texts), **_zoo(error.answer)}
        return RequestRefused(500, str(error), "false_stream", zoo=zoo)
    return RequestRefused(503 if isinstance(error, NotAnswered) else 500, message, "not_answered")


def _completions(question: Question, answer: Completions) -> dict[str, Any]:
    choices = [
        _choice(index, *each) for index, each in enumerate(zip(answer.texts, answer.finish_reasons, strict=True))
    ]
    return {**head_of(question), "choices": choices, "usage": usage_of(question, answer.tokens), "zoo": _zoo(answer)}


def _embeddings(asked: Asked, answer: Embeddings) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, "embedding": as_base64(row) if asked.as_base64 else row.tolist()}
        for index, row in enumerate(answer.vectors)
    ]
    question = asked.question
    return {
        "object": "list",
        "data": data,
        "model": question.service.model,
        "usage": usage_of(question),
        "zoo": _zoo(answer),
    }


def _zoo(answer: Served) -> dict[str, Any]:
    """What an OpenAI client does not look at."""
    facts = {"seat": answer.seat, "operator": answer.operator, "cost": str(answer.cost), "paid": str(answer.paid)}
    checks = {"checked": answer.checked, "is_true": answer.is_true}
    signed = answer.receipt.signed
    return {**facts, **checks, "receipt": receipt_to_dict(signed.receipt), "signature": "0x" + signed.signature.hex()}


def _choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"text": text, "index": index, "finish_reason": reason, "logprobs": None}


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    return JSONResponse(error.to_dict(), error.status)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: there is no such path here"
    body = {"error": {"message": message, "type": "invalid_request_error", "code": "no_such_path"}}
    return JSONResponse(body, error.status_code)


async def _failed(_: Request, error: Exception) -> Response:
    return JSONResponse(RequestRefused(500, "the request failed, which is a bug in zoo", "failed").to_dict(), 500)
