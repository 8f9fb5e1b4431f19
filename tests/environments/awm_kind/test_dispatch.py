"""Where arguments go, what comes back, and errors by cause."""

import json
from collections.abc import Callable
from typing import Any

APP = """
import asyncio, sys
from typing import Annotated, Any, Optional
from fastapi import BackgroundTasks, Depends, FastAPI, Form, Header, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from pydantic import BaseModel

app = FastAPI()

class Item(BaseModel):
    name: str
    size: int = 1
    note: Optional[str] = None

@app.get("/echo/{word}", operation_id="echo")
def echo(word: str, q: Optional[str] = None, flag: bool = False, many: Annotated[list[int], Query()] = [],
         x_key: Annotated[Optional[str], Header()] = None):
    return {"word": word, "q": q, "flag": flag, "many": many, "x_key": x_key}

@app.get("/echo/{word}/other", operation_id="other")
def other(word: str): return {"other": word}

@app.get("/files/{path:path}", operation_id="file")
def file(path: str): return {"path": path}

@app.post("/items/{number}", operation_id="make", status_code=201)
async def make(number: int, body: Item, request: Request):
    return {"number": number, **body.model_dump(), "url": str(request.base_url)}

@app.post("/touch", operation_id="touch")
async def touch(request: Request): return {"body": (await request.body()).decode()}

@app.delete("/items", operation_id="drop")
async def drop(body: Item): return body

@app.get("/ask", operation_id="ask")
async def ask(request: Request): return {"body": (await request.body()).decode(), "query": request.url.query}

@app.post("/form", operation_id="form")
async def form(name: str = Form(...), size: int = Form(3)): return [name, size]

@app.get("/empty", operation_id="empty", status_code=204)
def empty(): return None

@app.get("/result/{kind}", operation_id="result")
async def result(kind: str):
    return {
        "null": lambda: None,
        "text": lambda: PlainTextResponse("12 \u2028 apples"),
        "number": lambda: PlainTextResponse("1.50"),
        "png": lambda: Response(b"\\x89PNG\\r\\n\\x1a\\n\\x00\\xff\\xfe", media_type="image/png"),
        "latin": lambda: Response("caf\u00e9".encode("latin-1"), media_type="text/plain; charset=latin-1"),
        "unknown": lambda: Response(b"abc\\xff", headers={"content-type": "text/plain; charset=no-such"}),
        "unicode": lambda: {"a": "line\u2028separator \u00e9 \U0001f600 \\u0000", "b": [1, 2.5, True, None]},
        "half": lambda: Response(b'{"half": "\\\\ud83d"}', media_type="application/json"),
        "big": lambda: {"a": "x" * (10 * 2**20)},
        "huge": lambda: StreamingResponse((b"y" * 2**20 for _ in iter(int, 1))),
        "fits": lambda: PlainTextResponse("z" * (10 * 2**20)),
        "redirect": lambda: RedirectResponse("/elsewhere"),
        "html": lambda: HTMLResponse("<b>hi</b>"),
        "stream": lambda: StreamingResponse(iter(["one,", "two"])),
    }[kind]()

def cleaned():
    yield "resource"
    print("cleaned up")

def after(): print("after the answer")
def failing_after(): raise ValueError("too late")

@app.get("/fail/{kind}", operation_id="fail")
async def fail(kind: str, tasks: BackgroundTasks, resource: str = Depends(cleaned)):
    async def broken():
        yield "part"
        raise RuntimeError("stream broke")
    if kind == "404": raise HTTPException(404, "Order not found")
    if kind == "422": raise HTTPException(422, detail=[{"loc": ["body", "x"], "msg": "odd"}])
    if kind == "418": raise HTTPException(418, detail={"reason": "teapot"})
    if kind == "500": raise HTTPException(500, "database is away")
    if kind == "raise": raise KeyError("secret detail")
    if kind == "recurse":
        def down(n): return down(n + 1)
        return down(0)
    if kind == "exit": sys.exit(3)
    if kind == "interrupt": raise KeyboardInterrupt
    if kind == "cancel":
        raise asyncio.CancelledError
    if kind == "stream": return StreamingResponse(broken())
    if kind == "background": tasks.add_task(after); return {"fine": 1}
    if kind == "late": tasks.add_task(failing_after); return {"fine": 2}
    if kind == "print":
        print("to stdout"); print("to stderr", file=sys.stderr); print("x" * 100_000)
        return "printed"
    return kind

@app.get("/sync/{kind}", operation_id="sync")
def sync(kind: str):
    if kind == "exit": sys.exit(3)
    if kind == "loop":
        async def nested(): await asyncio.sleep(0.001); return "a loop of its own"
        return asyncio.run(nested())
    raise ZeroDivisionError("in synchronous code")
"""


def test_where_arguments_go(driver: Any) -> None:
    odd = "a/b?c#d %2F é 日本 \u2028 ;=&+"
    answers = driver.answers(
        APP,
        ("echo", {"word": odd, "q": odd, "flag": True, "many": [3, 4], "x-key": "k"}),
        ("echo", {"word": "plain", "q": None, "flag": None, "many": None, "x-key": None, "unknown": 1}),
        ("echo", {"word": True, "q": 2.0}),
        ("other", {"word": odd}),
        ("file", {"path": "deep/er/file.txt"}),
        ("make", {"number": "3", "name": "n", "size": "3", "note": None}),
        ("touch", {}),
        ("touch", {"any": [1, None], "é": "\u2028"}),
        ("drop", {"name": "n"}),
        ("ask", {"x": 1}),
        ("form", {"name": "é & co", "size": 4}),
    )
    texts = [answer.get("text") for answer in answers]
    assert [answer["status"] for answer in answers] == ["ok"] * len(answers), answers
    values = [json.loads(text) for text in texts]
    assert values[0] == {"word": odd, "q": odd, "flag": True, "many": [3, 4], "x_key": "k"}
    assert values[1] == {"word": "plain", "q": None, "flag": False, "many": [], "x_key": None}
    assert (values[2]["word"], values[2]["q"]) == ("true", "2.0")
    assert values[3] == {"other": odd}
    assert values[4] == {"path": "deep/er/file.txt"}
    assert values[5] == {"number": 3, "name": "n", "size": 3, "note": None, "url": "http://apiserver/"}
    assert values[6] == {"body": ""}
    assert json.loads(values[7]["body"]) == {"any": [1, None], "é": "\u2028"}
    assert values[8] == {"name": "n", "size": 1, "note": None}
    assert values[9] == {"body": "", "query": ""}
    assert values[10] == ["é & co", 4]


def test_arguments_that_cannot_be_sent(driver: Any) -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    answers = driver.answers(
        APP,
        ("make", {"number": 1, "name": "n", "size": float("nan")}),
        ("echo", {"word": "w", "q": float("inf")}),
        ("echo", {}),
        ("echo", {"word": None}),
        ("echo", {"word": ""}),
        ("echo", {"word": "\ud800"}),
        ("make", {"number": "three", "name": 5}),
        ("make", {"number": 3}),
        ("no_such_tool", {}),
        ("touch", [1]),
    )
    assert [answer["status"] for answer in answers] == ["invalid_args"] * 8 + ["tool_not_found", "invalid_args"]
    assert "not JSON" in answers[0]["error"]
    assert "word is missing" in answers[2]["error"]
    assert "word is missing" in answers[3]["error"]
    assert "word is empty" in answers[4]["error"]
    assert answers[6]["http_status"] == 422
    assert "path.number" in answers[6]["error"]
    assert "name: " in answers[6]["error"]
    assert answers[0]["http_status"] is None


def test_results_as_text(driver: Any) -> None:
    kinds = ["null", "text", "number", "latin", "unknown", "unicode", "half", "fits", "redirect", "html", "stream"]
    calls = [("result", {"kind": kind}) for kind in kinds]
    answers = driver.answers(APP, *calls, ("empty", {}), ("result", {"kind": "png"}))
    assert [answer["status"] for answer in answers] == ["ok"] * len(answers)
    found = dict(zip([*kinds, "empty", "png"], [answer["text"] for answer in answers], strict=True))
    assert found["null"] == "null"
    assert found["text"] == "12 \u2028 apples"
    assert found["number"] == "1.5"
    assert found["latin"] == "café"
    assert found["unknown"] == "abc\ufffd"
    assert '"line\u2028separator é 😀 \\u0000"' in found["unicode"]
    assert found["half"] == '{\n  "half": "?"\n}'
    assert len(found["fits"]) == 10 * 2**20
    assert found["redirect"] == ""
    assert found["empty"] == ""
    assert found["html"] == "<b>hi</b>"
    assert found["stream"] == "one,two"
    assert found["png"].startswith("\ufffdPNG")


def test_results_over_the_limit(driver: Any) -> None:
    big, huge, after = driver.answers(
        APP, ("result", {"kind": "big"}), ("result", {"kind": "huge"}), ("echo", {"word": "after"})
    )
    assert big["status"] == huge["status"] == "tool_error"
    assert "10485760" in big["error"]
    assert f"{10 * 2**20 + 13}" in big["error"]
    assert "more than" in huge["error"]
    assert after["status"] == "ok"


def test_errors_by_cause(driver: Any) -> None:
    kinds = ["404", "422", "418", "500", "raise", "recurse", "exit", "interrupt", "cancel", "stream", "late"]
    answers = driver.answers(
        APP,
        *[("fail", {"kind": kind}) for kind in kinds],
        ("sync", {"kind": "raise"}),
        ("sync", {"kind": "exit"}),
        ("sync", {"kind": "loop"}),
        ("fail", {"kind": "background"}),
        ("fail", {"kind": "print"}),
        ("echo", {"word": "after"}),
    )
    found = dict(zip([*kinds, "sync", "syncexit", "loop", "background", "print", "echo"], answers, strict=True))
    assert found["404"]["status"] == "tool_error"
    assert found["404"]["error"] == "fail answered 404: Order not found"
    assert (found["422"]["status"], found["422"]["error"]) == ("invalid_args", "fail answered 422: x: odd")
    assert "teapot" in found["418"]["error"]
    assert (found["500"]["status"], found["500"]["http_status"]) == ("server_error", 500)
    assert "database is away" in found["500"]["error"]
    for kind, name in {
        "raise": "KeyError",
        "recurse": "RecursionError",
        "exit": "SystemExit",
        "interrupt": "KeyboardInterrupt",
        "stream": "RuntimeError",
        "sync": "ZeroDivisionError",
        "syncexit": "SystemExit",
    }.items():
        assert found[kind]["status"] == "server_error", kind
        assert name in found[kind]["error"], kind
        assert name in found[kind]["log"], kind
    assert found["loop"]["text"] == '"a loop of its own"'
    assert found["cancel"]["status"] == "server_error"
    assert "secret detail" not in found["raise"]["error"]
    assert "secret detail" in found["raise"]["log"]
    assert found["late"]["status"] == "ok"
    assert "too late" in found["late"]["log"]
    assert found["background"]["status"] == "ok"
    assert found["background"]["log"].split() == ["after", "the", "answer", "cleaned", "up"]
    printed = found["print"]["log"]
    assert "to stdout" in printed
    assert "to stderr" in printed
    assert "more bytes were printed" in printed
    assert len(printed.encode()) <= 64 * 2**10
    assert found["echo"]["status"] == "ok"
    assert "log" not in found["echo"]


def test_same_texts_as_fastapi_mcp(driver: Any, pack: Any, peer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    payload = pack.payload("outdoor_marketplace_1")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_profile", {}),
        ("list_products", {}),
        ("list_products", {"category_id": 2, "max_price": 299.99, "in_stock": True, "sort_by": "price_asc"}),
        ("get_product", {"product_id": 1}),
        ("list_product_reviews", {"product_id": 1, "min_rating": 4}),
        ("list_orders", {"status": "pending"}),
        ("get_spending_summary", {}),
        ("add_cart_item", {"product_id": 3, "quantity": "2"}),
        ("get_product", {"product_id": "x"}),
        ("delete_review", {"review_id": 1}),
    ]
    run = driver.run(payload, calls[:7])
    order = {"code": payload["code"], "root": str(run["root"]), "database": f"{run['root']}/{payload['database']}"}
    theirs = peer({**order, "calls": calls})["answers"]
    mine = driver.answers(payload, *calls)
    for call, answer, other in zip(calls, mine, theirs, strict=True):
        assert (answer["status"] == "ok") == other["ok"], (call, answer, other)
        if other["ok"] and call[0] != "add_cart_item":  # carries the time of the call
            assert answer["text"] == other["text"], call
    assert mine[8]["status"] == "invalid_args"
    assert sum(answer["ok"] for answer in theirs) == 9


def test_same_texts_as_fastapi_mcp_for_unusual_results(
    driver: Any, peer: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    kinds = ["null", "text", "number", "unicode", "redirect", "html", "stream"]
    calls: list[tuple[str, dict[str, Any]]] = [("result", {"kind": kind}) for kind in kinds]
    calls += [("empty", {}), ("touch", {"a": "é"}), ("touch", {}), ("make", {"number": 1, "name": "é"})]
    run = driver.run(APP, calls)
    payload = driver.payload(APP)
    theirs = peer({"code": APP, "root": str(run["root"]), "database": payload["database"], "calls": calls})["answers"]
    for call, answer, other in zip(calls, run["episodes"][0]["answers"], theirs, strict=True):
        assert answer["text"] == other["text"], call
