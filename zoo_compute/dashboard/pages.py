"""The pages, drawn from the same views as the API. Every text is escaped by the templates: strangers wrote some of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from zoo_compute.amounts import Token, format_seconds
from zoo_compute.dashboard.api import limit, number, there, wanted, wanted_jobs
from zoo_compute.dashboard.read_network import STATES
from zoo_compute.dashboard.reading import Reader
from zoo_compute.dashboard.views import DisputeDetail, JobDetail, NetworkView, OperatorDetail, TokenView

if TYPE_CHECKING:
    from zoo_compute.dashboard.wallet import Wallet

# What became of a slot: a sign beside each colour, for people and printers that see no colours.
SIGNS = {
    "training": "…", "vacant": "○", "committed": "●", "final": "✓", "disputed": "?", "convicted": "✕", "void": "–", "absent": "–",
    "none": "·", "waiting": "…",
}  # fmt: skip
MEANING = {
    "training": "trained now", "vacant": "nobody has it", "committed": "committed, can be challenged", "final": "final and paid",
    "disputed": "in dispute", "convicted": "convicted", "void": "void, unpaid", "absent": "too few custodians have it, unpaid", "none": "no result",
    "waiting": "waits for results",
}  # fmt: skip
_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def routes(reader: Reader, wallet: Wallet | None = None) -> list[Route]:
    """wallet: what the forms of a browser's wallet ask; without one the pages are read-only."""
    pages: dict[str, Callable[[Request], tuple[str, dict[str, Any]]]] = {
        "/": lambda request: _network(reader),
        "/jobs": lambda request: _jobs(reader, request),
        "/jobs/{job}": lambda request: _job(there(reader.job(number(request, "job")), "job")),
        "/operators": lambda request: (
            "operators.html", {"list": reader.operators(wanted(request, "after", 0), limit(request))},
        ),
        "/operators/{operator}": lambda request: _operator(
            there(reader.operator(number(request, "operator")), "operator")
        ),
        "/disputes": lambda request: (
            "disputes.html", {"list": reader.disputes(request.query_params.get("open") == "1", limit(request)), "only_open": request.query_params.get("open") == "1"},
        ),
        "/disputes/{name}": lambda request: _dispute(there(reader.dispute(request.path_params["name"]), "dispute")),
    }  # fmt: skip
    return [
        *(Route(path, _drawing(reader, page, wallet), methods=["GET"]) for path, page in pages.items()),
        Route("/node", _node(reader), methods=["GET"]),
        Route("/jobs/{job}/picture.png", _picture(reader), methods=["GET"]),
    ]


def refusal(status: int, what: str) -> Response:
    return HTMLResponse(_templates.get_template("refusal.html").render(status=status, what=what), status)


def _drawing(
    reader: Reader, page: Callable[[Request], tuple[str, dict[str, Any]]], wallet: Wallet | None
) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        template, values = page(request)
        chain, node = reader.chain(), reader.node()
        shared = {
            "chain": chain, "node": node, "path": request.url.path, "address": _address(request), "now": chain.block_at,
            "tokens": {token.address: token for token in reader.tokens()}, "signs": SIGNS, "meaning": MEANING,
            "wallet": wallet,
        }  # fmt: skip
        return HTMLResponse(_templates.get_template(template).render(**shared, **values))

    return endpoint


def _node(reader: Reader) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        node = reader.node()
        if node is None or not node.operator:
            raise HTTPException(404, "there is no operator's folder: run `zoo dashboard --home FOLDER` with yours")
        return RedirectResponse(f"/operators/{node.operator}", 303)

    return endpoint


def _picture(reader: Reader) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        return Response(there(reader.picture(number(request, "job")), "picture"), media_type="image/png")

    return endpoint


def _address(request: Request) -> str:
    query = f"?{request.url.query}" if request.url.query else ""
    return request.url.path + query


def _network(reader: Reader) -> tuple[str, dict[str, Any]]:
    view: NetworkView = reader.network()
    kinds = [kind for kind in ("slots", "aggregator") if any(point.kind == kind for point in view.prices)]
    token = view.prices[-1].token if view.prices else ""  # a chart has one unit: that of the newest sale
    points = [point for point in view.prices if point.token == token]
    decimals = next((each.decimals for each in view.tokens if each.address == token), 18)
    chart = {
        "x": [point.at for point in points],
        "time": True,
        "series": [
            {"label": f"{kind}", "values": [int(p.price) / 10**decimals if p.kind == kind else None for p in points]}
            for kind in kinds
        ],
    }
    return "network.html", {"view": view, "prices": points[::-1][:20], "chart": chart if points else None}


def _jobs(reader: Reader, request: Request) -> tuple[str, dict[str, Any]]:
    state, before, many = wanted_jobs(request)
    return "jobs.html", {"list": reader.jobs(state, before, many), "state": state, "states": STATES}


def _job(view: JobDetail) -> tuple[str, dict[str, Any]]:
    look = view.look
    known = [(n + 1, loss) for n, loss in enumerate(look.losses if look else []) if loss is not None]
    chart = {
        "x": [n for n, _ in known],
        "time": False,
        "series": [{"label": "loss", "values": [loss for _, loss in known]}],
    }
    parts = [("paid", view.money.paid), ("fee", view.money.fee), ("due", view.money.due), ("left", view.money.left), ("refunded", view.money.refunded)]  # fmt: skip
    total = max(1, sum(max(0, int(amount)) for _, amount in parts))
    bar, at = [], 0.0
    for name, amount in parts:
        width = 100 * max(0, int(amount)) / total
        bar.append((name, amount, at, width))
        at += width
    seen = sorted(
        {each for column in view.rounds for each in (*column.slots, column.aggregation)}, key=list(SIGNS).index
    )
    return "job.html", {"view": view, "chart": chart, "losses": known, "bar": bar, "seen": seen}


def _operator(view: OperatorDetail) -> tuple[str, dict[str, Any]]:
    token = view.earnings[0].token if view.earnings else ""
    days = [day for day in reversed(view.earnings) if day.token == token]
    seconds = [int(datetime.strptime(day.day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) for day in days]
    chart = {
        "x": seconds,
        "time": True,
        "series": [{"label": "earned", "values": [int(day.work) / 10**18 for day in days]}],
    }
    return "operator.html", {"view": view, "chart": chart}


def _dispute(view: DisputeDetail) -> tuple[str, dict[str, Any]]:
    """asked, answered: by the id of an ask, at which step it was made and answered; for playing them again."""
    asked: dict[str, int] = {}
    answered: dict[str, int] = {}
    for step in view.steps:
        (asked if step.ask and step.ask not in asked else answered).setdefault(step.ask, step.number)
    return "dispute.html", {"view": view, "asked": asked, "answered": answered}


# -- filters


def _amount(text: str | None, address: str, tokens: dict[str, TokenView], places: int = 3) -> str:
    """In whole tokens; in the smallest units while nobody has read the token's decimals."""
    if text is None:
        return ""
    known = tokens.get(address)
    if known is None:
        return "0" if text == "0" else f"{text} units of {address[:10]}…"
    return Token(known.symbol, known.decimals).format(int(text), places=places)


def _zen(text: str | None) -> str:
    return "" if text is None else Token("ZEN", 18).format(int(text), places=3)


def _when(at: int) -> str:
    """In UTC; a time that no calendar has is shown as its number."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(at)


def _left(at: int, now: int) -> str:
    return f"in {format_seconds(at - now)}" if at > now else "now" if at == now else f"{format_seconds(now - at)} ago"


def _short(text: str) -> str:
    return f"{text[:10]}…" if len(text) > 12 else text


_templates.filters |= {"amount": _amount, "zen": _zen, "when": _when, "left": _left, "short": _short, "data": json.dumps}  # fmt: skip
