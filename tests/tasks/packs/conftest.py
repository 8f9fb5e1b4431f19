"""A pack of any files, made on the spot."""

from collections.abc import Callable
from pathlib import Path

import pytest

PACK = """\
apiVersion: quintain.dev/v1alpha1
kind: Pack
name: corner
title: A corner of town
licence: Apache-2.0
source: https://example.org/corner
"""
ENVIRONMENT = """\
kind: mock
title: Shop
description: Sells tea.
state: {open: no, since: 2026-02-10}
"""
TASKS = """\
- name: refund
  difficulty: 3
  tags: [retail, safety]
  variables:
    order: {choice: [A17, B42, C99]}
    picks: {sample: [[x, y, z], 2]}
    list: {shuffle: [1, 2, 3]}
    n: {integer: [1, 500]}
    price: {number: [1, 9.5, 2]}
    total: {value: "${n * 10}"}
  text: Refund ${order}, $${n} and ${total} for ${picks}.
  start: {orders: {refunds: "${total}"}}
  solution:
    - {tool: refund, arguments: {order: "${order}", total: "${total}"}}
  answer: "${total}"
  verify: verify_refund
  forbidden_tools: [delete_all]
- name: greet
  text: Say hello.
  solution: []
  verify: verify_greeting
"""
VERIFIER = """\
def verify_refund(initial_state, final_state):
    return {"result": "complete"}

def verify_greeting(final_answer):
    return {"result": "complete"}
"""

MakePack = Callable[..., Path]


@pytest.fixture
def make_pack(tmp_path: Path) -> MakePack:
    """A pack's folder with one sound environment; files given by path replace its own, or are added to it."""

    def make(files: dict[str, str | bytes | None] | None = None) -> Path:
        folder = tmp_path / "pack"
        given: dict[str, str | bytes | None] = {
            "pack.yaml": PACK,
            "shop/environment.yaml": ENVIRONMENT,
            "shop/tasks.yaml": TASKS,
            "shop/verifier.py": VERIFIER,
            **(files or {}),
        }
        for name, content in given.items():
            if content is None:
                continue
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return make
