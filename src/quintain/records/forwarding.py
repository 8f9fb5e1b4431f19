"""Sending what is in a spool to an ingest process elsewhere, states first, each record until it was acknowledged."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import httpx

from quintain.errors import ArtifactCorrupt, ArtifactError, ArtifactMissing, RecordError, RecordUnreadable
from quintain.records.frames import frame
from quintain.records.recorder import Sealed
from quintain.records.spool_reader import Delivery, SpoolReader
from quintain.records.states import blobs_of, drop

_PATH: Final = "/v1/records"
_STATES_PATH: Final = "/v1/states"
_CONTENT_TYPE: Final = "application/vnd.quintain.records"
_BATCH: Final = 256
_BATCH_BYTES: Final = 8 * 2**20
_TIMEOUT_S: Final = 60.0


@dataclass
class Forwarded:
    """What was sent, and what the other side made of it."""

    sent: int = 0
    duplicates: int = 0
    refused: int = 0
    states: int = 0
    """Files of states that the other side lacked, and were sent."""
    stateless: int = 0
    """Files of states that records name, and that neither side has."""


class Forwarder:
    """Sends a spool's records to one ingest process. Not to be used from several threads at once."""

    def __init__(
        self, reader: SpoolReader, url: str, token: str | None = None, *, client: httpx.Client | None = None
    ) -> None:
        """`url` is where the ingest process listens, without a path."""
        self.done = Forwarded()
        self._reader = reader
        self._base = url.rstrip("/")
        self._url = self._base + _PATH
        headers = {"Content-Type": _CONTENT_TYPE, **({"Authorization": f"Bearer {token}"} if token else {})}
        self._client = client or httpx.Client(timeout=_TIMEOUT_S, trust_env=False)
        self._headers = headers

    def close(self) -> None:
        """Close the connection; the reader stays open."""
        self._client.close()

    def once(self) -> int:
        """Send what comes next in the spool; how many records. They are removed from it once they were acknowledged.

        Raises:
            RecordError: it was not acknowledged; the same records are sent again the next time.
        """
        deliveries = self._reader.read(_BATCH, _BATCH_BYTES)
        if not deliveries:
            return 0
        try:
            there = self._send_states(deliveries)
            self._send(deliveries)
        except BaseException:
            self._reader.rewind()
            raise
        self._reader.acknowledge(one.position for one in deliveries)
        drop(self._reader.states, there)
        return len(deliveries)

    def drain(self, wait: Callable[[float], object] = time.sleep, *, tries: int = 5) -> Forwarded:
        """Send until the spool is empty.

        Args:
            wait: called with the seconds to wait before trying again.
            tries: how often in a row sending may fail.

        Raises:
            RecordError: it failed that often; what was not acknowledged is still in the spool.
        """
        failed = 0
        while True:
            try:
                if not self.once():
                    self._reader.tidy()
                    return self.done
                failed = 0
            except RecordError:
                failed += 1
                if failed >= tries:
                    raise
                wait(min(0.2 * 2**failed, 10.0))

    def _send(self, deliveries: Sequence[Delivery]) -> None:
        body = b"".join(frame(one.payload) for one in deliveries)
        told = self._asked("POST", self._url, content=body)
        self.done.sent += len(deliveries)
        self.done.duplicates += told["duplicates"]
        self.done.refused += len(told["refused"])
        self.done.stateless += len(told.get("stateless", ()))

    def _send_states(self, deliveries: Sequence[Delivery]) -> set[str]:
        """Send the states that these records name and the other side lacks; those that it has now.

        What is missing or damaged here cannot be sent. The other side, which accepts the record, tells of it.
        """
        digests: dict[str, None] = {}
        for one in deliveries:
            if b'"states":' in one.payload:
                with suppress(RecordUnreadable):  # the other side will say so
                    digests |= dict.fromkeys(blob.digest for blob in blobs_of(Sealed.read(one.payload).record()))
        if not digests:
            return set()
        states = self._base + _STATES_PATH
        lacking = self._asked("POST", states, content=json.dumps({"digests": list(digests)}).encode())["missing"]
        for digest in lacking:
            try:
                data = self._reader.states.get(digest)
            except (ArtifactMissing, ArtifactCorrupt):
                del digests[digest]
                continue
            except ArtifactError as error:
                raise RecordError(str(error)) from error
            self._asked("PUT", f"{states}/{digest}", content=data)
            self.done.states += 1
        return set(digests)

    def _asked(self, method: str, url: str, *, content: bytes) -> Any:
        """What the ingest process answers.

        Raises:
            RecordError: it cannot be reached, or does not answer 200.
        """
        try:
            answer = self._client.request(method, url, content=content, headers=self._headers)
        except httpx.HTTPError as error:
            raise RecordError(
                f"the ingest process at {url} cannot be reached: {error or type(error).__name__}"
            ) from error
        if answer.status_code != 200:
            said = " ".join(answer.text.split())[:200]
            raise RecordError(f"the ingest process at {url} answered {answer.status_code}: {said}")
        return answer.json()
