"""`quintain prepare`: build ahead what the first start would build, for example while an image is made."""

from quintain.cli import options
from quintain.environments.awm import awm_class
from quintain.environments.mcp import mcp_class
from quintain.environments.python.kind import python_class
from quintain.sandboxes.conformance import probe_class
from quintain.sandboxes.runtime import choose_interpreter, ensure_runtime
from quintain.verifiers.sandbox import verifier_class


def prepare(as_json: options.AsJson = False) -> None:
    """Build the class runtimes into the cache, so that no server needs a package index when it starts."""
    settings = options.settings_with()
    cache = options.cache_of(settings)
    interpreter = choose_interpreter(settings.runtime_python)
    built = {}
    verifiers = verifier_class(settings.verify_timeout_s)
    for sandbox_class in (awm_class(), python_class(), mcp_class(), verifiers, probe_class()):
        with options.errors.status(f"building the {sandbox_class.name} runtime with Python {interpreter}"):
            runtime = ensure_runtime(sandbox_class.lock, cache / "runtimes", interpreter)
        built[sandbox_class.name] = str(runtime.root)
    if as_json:
        options.print_json({"python": str(interpreter), "runtimes": built})
    else:
        for name, root in built.items():
            options.console.print(f"{name}: {root}", soft_wrap=True)
