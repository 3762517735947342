"""The web application: pages, API, server-sent events and files; for browsers on this machine alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zoo_compute.dashboard import api, pages, wallet_routes
from zoo_compute.dashboard.reading import Reader

if TYPE_CHECKING:
    from zoo_compute.dashboard.wallet import Wallet

STATIC = Path(__file__).parent / "static"
# Names of this machine: a page elsewhere whose name was pointed here cannot read it.
HOSTS = ["127.0.0.1", "localhost"]
LOOK_S = 0.25  # at what changed, for each open page
SAY_S = 15.0  # something, so that a page that was closed is noticed
SECURITY = {
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class SecurityHeaders:
    """On every answer. Nothing but files may be kept: what a page says changes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY)
                headers.setdefault("cache-control", "no-cache" if scope["path"].startswith("/static/") else "no-store")
            await send(message)

        await self._app(scope, receive, sending)


def application(reader: Reader, wallet: Wallet | None = None) -> Starlette:
    """wallet: plans what a browser's wallet is asked to send. Without one the pages are read-only."""
    return Starlette(
        routes=[
            *api.routes(reader),
            *pages.routes(reader, wallet),
            *(wallet_routes.routes(wallet) if wallet else ()),
            Route("/events", _events(reader), methods=["GET"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS),
            Middleware(GZipMiddleware, minimum_size=2_000, compresslevel=3),
        ],
        exception_handlers={HTTPException: _refused, 500: _failed},
    )


def _events(reader: Reader):  # type: ignore[no-untyped-def]
    async def endpoint(request: Request) -> Response:
        """An event `changed` whenever a page would show something else."""

        async def changes() -> AsyncIterator[str]:
            seen, quiet = reader.changes, 0.0
            yield "retry: 2000\n\n"
            while not await request.is_disconnected():
                if reader.changes != seen:
                    seen, quiet = reader.changes, 0.0
                    yield f"event: changed\ndata: {seen}\n\n"
                elif quiet >= SAY_S:
                    quiet = 0.0
                    yield ": still here\n\n"
                quiet += LOOK_S
                await asyncio.sleep(LOOK_S)

        return StreamingResponse(changes(), media_type="text/event-stream")

    return endpoint


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _said(request, error.status_code, str(error.detail))


def _failed(request: Request, error: Exception) -> Response:
    return _said(request, 500, "this page failed, which is a bug in zoo: the terminal in which it runs says more")


def _said(request: Request, status: int, what: str) -> Response:
    if request.url.path.startswith("/api/"):
        body = TypeAdapter(api.Refused).dump_json(api.Refused(what, "/api/schema.json lists what there is"))
        return Response(body, status, media_type="application/json")
    return pages.refusal(status, what)
