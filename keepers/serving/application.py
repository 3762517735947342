"""The HTTP application of a serving seat (docs/protocol/serving.md): a request is read, has a place, pays, and is answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from keepers.serving.answers import Stream, event, whole
from keepers.serving.engine import Engine, Place
from keepers.serving.refusals import RequestRefused
from keepers.serving.requests import read_request, read_voucher
from keepers.serving.seat import SeatWatch
from repops.commitments import Array
from zoo_compute.errors import VoucherRefused, ZooError
from zoo_compute.inference.books import OperatorBook
from zoo_compute.serving.prices import cost_of
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import COMPLETIONS, EMBEDDINGS, Service
from zoo_compute.serving.texts import Texts
from zoo_compute.serving.vouchers import SignedVoucher
from zoo_compute.spec.receipts import Offer
from zoo_compute.store.cid import raw_cid

log = logging.getLogger("zoo.serving")

MAX_BODY = 8 * 1024 * 1024
BODY_S = 30.0  # for all of a request's body


@dataclass(frozen=True)
class Network:
    """What a voucher and a receipt are bound to."""

    chain_id: int
    serving: str
    channels: str


@dataclass(frozen=True)
class ServedSeat:
    """All that answers the requests of a seat."""

    watch: SeatWatch
    service: Service
    texts: Texts
    engine: Engine
    book: OperatorBook
    network: Network

    def application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/completions", self._completions, methods=["POST"]),
                Route("/v1/embeddings", self._embeddings, methods=["POST"]),
            ],
            exception_handlers={RequestRefused: _refused, HTTPException: _http, Exception: _failed},
        )

    async def _models(self, _: Request) -> Response:
        offer, seat = self.watch.offer(), self.watch.seat
        zoo = {
            "seat": seat.number,
            "operator": seat.operator,
            "service": raw_cid(offer.service),
            "token": offer.token,
            "price": str(offer.price),
            "chain_id": self.network.chain_id,
            "serving": self.network.serving,
            "channels": self.network.channels,
            "queue": self.engine.waiting,
        }
        model = {"id": self.service.model, "object": "model", "created": 0, "owned_by": f"operator {seat.operator}"}
        return JSONResponse({"object": "list", "data": [{**model, "zoo": zoo}]})

    async def _completions(self, request: Request) -> Response:
        return await self._answer(request, COMPLETIONS)

    async def _embeddings(self, request: Request) -> Response:
        return await self._answer(request, EMBEDDINGS)

    async def _answer(self, request: Request, kind: str) -> Response:
        body = await _body_of(request)
        asked = await run_in_threadpool(read_request, body, request.headers, kind, self.service, self.texts)
        voucher, offer = read_voucher(request.headers), self.watch.offer()
        place = self.engine.reserve()
        try:
            owed = await run_in_threadpool(self._paid, voucher, asked.question, offer)
        except BaseException:
            place.leave()
            raise
        if asked.streams:
            live = Live(Stream(asked.question, self.texts), place, owed)
            return StreamingResponse(
                live.pieces(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
            )
        answer = await asyncio.wrap_future(place.ask(asked.question))
        return JSONResponse(await run_in_threadpool(whole, asked, answer, self.texts, owed))

    def _paid(self, voucher: SignedVoucher | None, question: Question, offer: Offer) -> int:
        """What the channel owes with the voucher, which is kept. Raises RequestRefused with 402, and then keeps nothing."""
        cost = cost_of(question, offer.price)
        zoo = {"cost": str(cost)}
        if voucher is None:
            raise RequestRefused(
                402, f"the request costs {cost}, and the header Zoo-Voucher is missing", "no_voucher", zoo=zoo
            )
        try:
            # A free request needs no larger total than the last one.
            self.book.accept(voucher, cost, offer.token)
        except VoucherRefused as error:
            owed = self.book.owed(voucher.voucher.channel)
            if owed is not None:
                zoo["owed"] = str(owed)
            hint = f"; {error.hint}" if error.hint else ""
            raise RequestRefused(402, f"{error}{hint}", "voucher_refused", zoo=zoo) from error
        except (ZooError, OSError) as error:
            log.warning("a voucher could not be compared with its channel: %s", error)
            raise RequestRefused(503, "the chain does not answer; try again, or ask another seat", "chain") from error
        return voucher.voucher.total


class Live:
    """An answer that is sent while it is made."""

    def __init__(self, stream: Stream, place: Place, owed: int) -> None:
        self._stream, self._place, self._owed = stream, place, owed
        self._steps: asyncio.Queue[tuple[int, Array] | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def said(step: int, outputs: Array) -> None:
            loop.call_soon_threadsafe(self._steps.put_nowait, (step, outputs.copy()))

        # Here and not in `pieces`, which never begins where the client is gone already.
        self._answered = place.ask(stream.question, said)
        self._answered.add_done_callback(lambda _: loop.call_soon_threadsafe(self._steps.put_nowait, None))

    async def pieces(self) -> AsyncIterator[str]:
        """Server-sent events. Where the client is gone, the work for it ends."""
        try:
            while (step := await self._steps.get()) is not None:
                if piece := self._stream.step(*step):
                    yield piece
            yield self._stream.end(self._answered.result(), self._owed)
        except Exception:
            log.exception("an answer ends in the middle")
            yield event(RequestRefused(500, "the answer could not be completed", "failed").to_dict())
        finally:
            self._place.leave()


async def _body_of(request: Request) -> bytes:
    """Raises RequestRefused for one that is too large or too slow."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > MAX_BODY:
        raise _too_large()

    async def read() -> bytes:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise _too_large()
        return bytes(body)

    try:
        return await asyncio.wait_for(read(), BODY_S)
    except TimeoutError:
        raise RequestRefused(400, f"the body did not arrive in {BODY_S:g} s", "slow_body") from None


def _too_large() -> RequestRefused:
    return RequestRefused(413, f"the body is larger than {MAX_BODY:,} bytes", "too_large")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    headers = {} if error.retry_s is None else {"Retry-After": str(error.retry_s)}
    return JSONResponse(error.to_dict(), error.status, headers)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = (
        f"{request.method} {request.url.path}: there is no such path here" if error.status_code == 404 else error.detail
    )
    body = {"error": {"message": message, "type": "invalid_request_error", "code": "no_such_path"}}
    return JSONResponse(body, error.status_code)


async def _failed(_: Request, error: Exception) -> Response:
    return JSONResponse(RequestRefused(500, "the request could not be answered", "failed").to_dict(), 500)
