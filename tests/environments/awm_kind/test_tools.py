"""The tool list is the one that fastapi-mcp gives for the same application."""

from collections.abc import Callable
from typing import Any

import pytest

from quintain.tasks.shipped import open_pack

with open_pack() as _pack:
    SCENARIOS = [scenario.name for scenario in _pack.scenarios()]

UNUSUAL = '''
from typing import Annotated, List, Literal, Optional, Union
from fastapi import APIRouter, Body, Cookie, Depends, FastAPI, Form, Header, Query
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

app = FastAPI(description="All kinds of operations")
router = APIRouter(prefix="/more", tags=["more"])

class Inner(BaseModel):
    """A part of something."""
    when: Optional[str] = Field(None, examples=["2026-02-10"])
    tags: List[str] = []

class Outer(BaseModel):
    id: int
    inner: Inner = Field(..., description="described where it is used")
    many: list[Inner] = []
    by_name: dict[str, Inner] = {}
    choice: Union[int, str, None] = None
    word: Literal["a", "b"] = "a"

class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9

class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True

@app.get("/plain", response_class=PlainTextResponse)
def plain() -> str: return "x"

@app.get("/nothing")
def nothing(): return None

@app.put("/outer/{id}", operation_id="same_name_twice", responses={404: {"description": "none"}})
def put(id: int, body: Outer, q: Annotated[list[int], Query()] = [], x_key: Annotated[str | None, Header()] = None): ...

@app.post("/made", status_code=201, response_model=Outer, responses={
    201: {"content": {"application/json": {"example": {"id": 5}}}}, 409: {"description": "clash"}})
def make(body: Outer, note: str = Body("n"), session: str | None = Cookie(None)): ...

@app.post("/animals", response_model=Union[Cat, Dog])
def animal(body: Annotated[Union[Cat, Dog], Body(discriminator="kind")]): ...

@app.post("/list", response_model=list[list[Inner]])
def many(body: list[Inner]): ...

@app.post("/form")
def form(name: str = Form(...), size: int = Form(3)): ...

@app.api_route("/both", methods=["GET", "DELETE"], operation_id="both")
def both(maybe: Optional[float] = Query(None, alias="may-be", description="perhaps", gt=0)): ...

@app.get("/hidden", include_in_schema=False)
def hidden(): ...

@router.patch("/{a}/{b:path}", summary="Patch it", description="With a path.")
def patch(a: str, b: str, flag: bool = True): ...

@router.head("/{a}")
def head(a: str): ...

@app.delete("/outer/{id}", status_code=204)
def delete(id: int): ...

app.include_router(router)
'''

CIRCULAR = """
from __future__ import annotations
from typing import List, Optional
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()

class Node(BaseModel):
    '''A node of a tree.'''
    name: str
    children: List[Node] = []
    parent: Optional[Node] = None

@app.post("/tree", response_model=Node)
def tree(body: Node):
    return body
"""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_equals_what_fastapi_mcp_lists(
    scenario: str, driver: Any, pack: Any, peer: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    payload = pack.payload(scenario)
    ours = driver.run(payload)
    theirs = peer(_order(ours["root"], payload, []))["tools"]
    listed = ours["description"]["tools"]
    assert len(listed) == len(theirs) > 0
    compared = [(mine, other) for mine, other in zip(listed, theirs, strict=True) if other is not None]
    assert len(compared) >= len(listed) - 3  # recipe_box_1 has three with circular models
    for mine, other in compared:
        assert mine == other
        assert list(mine["input_schema"]["properties"]) == list(other["input_schema"]["properties"])


def test_equals_it_for_unusual_operations_too(driver: Any, peer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    ours = driver.run(UNUSUAL)
    theirs = peer(_order(ours["root"], driver.payload(UNUSUAL), []))["tools"]
    listed = ours["description"]["tools"]
    assert [tool["name"] for tool in listed] == [tool["name"] for tool in theirs]
    assert len(listed) == 11
    for mine, other in zip(listed, theirs, strict=True):
        choice = mine["input_schema"]["properties"].get("choice")
        if choice is not None and mine["name"] == "same_name_twice":
            # which type of a union comes first depends there on the order of a set
            assert choice["type"] == "integer"
            assert other["input_schema"]["properties"]["choice"].pop("type") in ("integer", "string")
            del choice["type"]
        assert mine["description"] == other["description"]
        assert _untyped(mine) == _untyped(other)


def test_models_inside_themselves_are_cut(driver: Any) -> None:
    run = driver.run(CIRCULAR, [("tree_tree_post", {"name": "root", "children": [{"name": "leaf"}]})])
    (tool,) = run["description"]["tools"]
    cut = {"type": "object", "title": "Node", "description": "A node of a tree."}
    properties = tool["input_schema"]["properties"]
    assert properties["name"]["type"] == "string"
    assert properties["children"]["items"] == cut
    assert properties["parent"]["anyOf"] == [cut, {"type": "null"}]
    assert "$ref" not in str(tool)
    assert run["episodes"][0]["answers"][0]["status"] == "ok"


def test_models_that_name_each_other_widely_stay_bounded(driver: Any) -> None:
    names = [f"M{number}" for number in range(9)]
    models = "\n".join(
        f"class {name}(BaseModel):\n" + "\n".join(f"    f{other}: Optional[{other}] = None" for other in names)
        for name in names
    )
    code = (
        "from __future__ import annotations\nfrom typing import Optional\nfrom fastapi import FastAPI\n"
        f"from pydantic import BaseModel\napp = FastAPI()\n{models}\n"
        "@app.post('/wide', operation_id='wide')\ndef wide(body: M0): return 1\n"
    )
    run = driver.run(code, [("wide", {"fM1": {}})])
    assert "error" not in run
    assert run["description"]["tools"][0]["name"] == "wide"
    assert run["episodes"][0]["answers"][0] == {"status": "ok", "text": "1", "http_status": 200}


def _untyped(tool: dict[str, Any]) -> dict[str, Any]:
    """Without the type that a union is given beside its `anyOf`, where several are possible."""
    for schema in tool["input_schema"]["properties"].values():
        types = {option.get("type") for option in schema.get("anyOf", ())} - {"null", None}
        if len(types) > 1:
            schema.pop("type", None)
    return tool


def _order(root: Any, payload: dict[str, Any], calls: list[Any]) -> dict[str, Any]:
    return {"code": payload["code"], "root": str(root), "database": f"{root}/{payload['database']}", "calls": calls}
