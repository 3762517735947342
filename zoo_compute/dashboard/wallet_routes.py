"""The addresses that the page's wallet asks. Loopback alone, from this page alone: what another page sends is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zoo_compute.errors import ZooError
from zoo_compute.store.errors import StoreError

if TYPE_CHECKING:
    from zoo_compute.dashboard.wallet import Wallet

MOST_BYTES = 16_384
FORM = "application/json"


def routes(wallet: Wallet) -> list[Route]:
    return [
        Route("/wallet/plan", _answering(lambda asked: asdict(wallet.plan(asked))), methods=["POST"]),
        Route("/wallet/outcome", _answering(lambda asked: wallet.outcome(asked.get("hash", ""))), methods=["POST"]),
    ]


def _answering(answer: Callable[[dict[str, str]], dict[str, Any]]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        if why := foreign(request):
            return _refused(403, why)
        asked = _words(await _body(request))
        if asked is None:
            return _refused(400, f"the request should be a JSON object of texts, at most {MOST_BYTES:,} bytes")
        try:
            return JSONResponse(await run_in_threadpool(answer, asked))
        except (ZooError, StoreError, ValueError, OSError) as error:
            # An answer like any other: what a contract refuses is no fault of the page, and browsers log other statuses as one.
            return _refused(200, str(error), str(getattr(error, "hint", "") or ""))

    return endpoint


def foreign(request: Request) -> str:
    """Why a request is not of this page; empty if it is. A browser says where a request comes from, and no page can change that;
    JSON it sends elsewhere only after asking, which is not answered.
    """
    origin = urlsplit(request.headers.get("origin", ""))
    if origin.scheme not in ("http", "https") or origin.netloc != request.headers.get("host"):
        return "this request does not come from the dashboard's own page"
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM:
        return f"this request should be {FORM}"
    return ""


async def _body(request: Request) -> bytes:
    """At most one byte more than is read."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            break
    return body


def _words(body: bytes) -> dict[str, str] | None:
    if len(body) > MOST_BYTES:
        return None
    try:
        asked = json.loads(body)
    except ValueError:
        return None
    if not isinstance(asked, dict) or not all(isinstance(value, str) for value in asked.values()):
        return None
    return asked


def _refused(status: int, error: str, hint: str = "") -> Response:
    return JSONResponse({"error": error, "hint": hint}, status)
