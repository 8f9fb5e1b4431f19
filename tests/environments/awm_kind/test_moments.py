"""Pydantic's types that look at the clock look at the episode's."""

import json
from typing import Any

import pytest

CODE = """
from typing import Annotated
from datetime import date
from fastapi import FastAPI
from pydantic import BaseModel, FutureDate, FutureDatetime, PastDate, PastDatetime

app = FastAPI()

class Plan(BaseModel):
    begins: FutureDatetime | None = None
    heard: PastDatetime | None = None
    ends: FutureDate | None = None
    asked: Annotated[date, PastDate()] | None = None

@app.post("/plans", operation_id="plan")
def plan(plan: Plan):
    return plan
"""
FITTING = {
    "begins": ("2026-02-10T00:00:02", "2026-02-10T01:00:02+01:00", "2026-02-11T00:00:00Z"),
    "heard": ("2026-02-10T00:00:00", "2026-02-10T00:59:59+01:00", "2026-02-09T23:59:59Z"),
    "ends": ("2026-02-11",),
    "asked": ("2026-02-09",),
}
OTHERS = {
    "begins": ("2026-02-10T00:00:01", "2026-02-10T00:59:59+01:00", "date"),
    "heard": ("2026-02-10T00:00:01", "2027-01-01T00:00:00Z", "date"),
    "ends": ("2026-02-10", "2026-02-09", "date"),
    "asked": ("2026-02-10", "2026-02-11", "date"),
}


@pytest.mark.parametrize("name", FITTING)
def test_it_is_compared_with_the_episodes_clock(driver: Any, name: str) -> None:
    calls = [("plan", {name: value}, 1) for value in (*FITTING[name], *OTHERS[name])]
    answers = driver.answers(CODE, *calls)
    statuses = [answer["status"] for answer in answers]
    assert statuses == ["ok"] * len(FITTING[name]) + ["invalid_args"] * len(OTHERS[name])
    relation = "future" if name in ("begins", "ends") else "past"
    for answer in answers[len(FITTING[name]) : -1]:
        assert f"in the {relation}" in answer["error"], answer


def test_the_listed_tool_is_as_without(driver: Any) -> None:
    (tool,) = driver.run(CODE, [])["description"]["tools"]
    shown = json.dumps(tool["input_schema"])
    assert shown.count('"date-time"') == 2
    assert shown.count('"date"') == 2
