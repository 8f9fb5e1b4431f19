"""Serves the pack beside this folder: `python -m server.app`, or `uvicorn server.app:app`."""

from pathlib import Path

from quintain.cli.packaged import PackApp, serve_pack

PACK = Path(__file__).resolve().parents[1] / "pack"

app = PackApp(PACK)


def main() -> None:
    """Serve it until SIGTERM or SIGINT."""
    serve_pack(PACK)


if __name__ == "__main__":
    main()
