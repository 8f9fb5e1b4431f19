"""The zygote of one environment class: imports the class's libraries once and forks templates from itself.

It never loads a payload. Run as `python -s -P zygote.py <socket descriptor>`, in bubblewrap where the host allows it.
"""

import importlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from inside import channel, immortal, isolate, kernel, memory, orphans, template


def main() -> None:
    """Say hello, then fork one template per request until the platform closes the channel."""
    started = time.monotonic()
    control = channel.take(int(sys.argv[1]))
    hello, _ = control.receive()
    sys.dont_write_bytecode = True
    sys.path.append(hello["kind_path"])
    for name in hello["preload"]:
        importlib.import_module(name)
    kind = importlib.import_module(hello["kind"] + ".kind")
    isolation = isolate.chosen(hello["isolation"])
    kernel.set_name("q-zygote")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps templates
    guardian = orphans.Guardian(isolation)
    control.send({"ok": True, "import_ms": (time.monotonic() - started) * 1e3, "python": sys.version.split()[0]})
    settings = {**hello, "immortal_heap": hello["immortal_heap"] and immortal.supported()}
    _plugs = memory.arrange(settings["immortal_heap"])  # templates share the libraries as episodes share a template
    isolate.quiet()
    while True:
        try:
            request, fds = guardian.next_request(control)
        except channel.Closed:
            return
        sock_fd, payload_fd, *state = fds
        try:
            pid = isolation.fork()
        except OSError as error:
            channel.take(sock_fd).send({"error": str(error)})
        else:
            if pid == 0:
                guardian.left()
                control.sock.close()
                template.serve(kind.Kind, isolation, request, sock_fd, payload_fd, state, settings)
                os._exit(0)
            guardian.forked(pid)
            for fd in fds:
                os.close(fd)


if __name__ == "__main__":
    main()
