"""A server that is restarted on its port: clients notice, and go on with a new session."""

import json
import subprocess
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from e2e.peer import PEERS, SCRIPTS, environment, program
from e2e.serving import serving
from e2e.wire import Wire

pytestmark = pytest.mark.xdist_group("e2e-restart")


def test_clients_of_every_kind_reconnect(tmp_path: Path) -> None:
    """OpenEnv 0.10 connects anew by itself; the client of 0.3 keeps a dead socket until it is closed."""
    clients = {}
    try:
        with serving(tmp_path) as server:
            port = server.port
            for peer in PEERS:
                script = [program(peer, "python"), str(SCRIPTS / "reconnect.py"), server.url]
                clients[peer] = subprocess.Popen(
                    script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
                )
            for client in clients.values():
                assert client.stdout is not None
                assert json.loads(client.stdout.readline()) == {"generic": "reset_ok", "own": "reset_ok"}
            with Wire(server.url) as bare:
                bare.reset("vet_clinic_1")
                assert server.stop() == 0
                with pytest.raises(ConnectionClosed):
                    bare.receive()
            assert server.complaints == []
        with serving(tmp_path, port=port) as server:
            assert server.port == port
            told = {peer: json.loads(client.communicate("\n", timeout=60)[0]) for peer, client in clients.items()}
            assert told["openenv"] == {"generic": ["reset_ok"], "own": ["reset_ok"]}
            for attempts in told["openenv-core"].values():
                assert attempts[-1] == "reset_ok"
            server.settle()
            assert server.episodes() == []
            assert server.complaints == []
    finally:
        for client in clients.values():
            client.kill()
            client.communicate()
