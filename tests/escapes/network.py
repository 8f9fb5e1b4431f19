"""Attempts to reach anyone: over the network, over local sockets, over what System V left."""

from escapes.base import NOTHING, REFUSED, Escape

_AREA = "network and ipc"
_NO_SOCKET = "no socket of any family can be made; a pair of local streams, which asyncio needs, leads nowhere"

ESCAPES = (
    Escape("internet sockets", _AREA, _NO_SOCKET, """
def attempt(told):
    import urllib.request
    return [tried(socket.socket, family, kind) for family in (2, 10) for kind in (1, 2, 3)] + [
        tried(socket.create_connection, ("127.0.0.1", told["port"]), 1),
        tried(urllib.request.urlopen, f"http://127.0.0.1:{told['port']}/stats", timeout=1),
        tried(urllib.request.urlopen, "http://169.254.169.254/latest/meta-data/", timeout=1)]
""", REFUSED),
    Escape("local sockets", _AREA, _NO_SOCKET, """
def attempt(told):
    left, right = socket.socketpair()
    names = ("\\0quintain", told["folder"] + "/socket", "/run/docker.sock", "/run/systemd/notify", "/dev/log")
    pairs = [tried(socket.socketpair, socket.AF_UNIX, kind) for kind in (2, 5)]
    return pairs + [tried(socket.socket, socket.AF_UNIX, kind) for kind in (1, 2, 5)] + [
        tried(act, name) for act in (left.connect, left.bind) for name in names] + [tried(left.listen),
        tried(left.accept)]
""", REFUSED),
    Escape("other families", _AREA, _NO_SOCKET, """
def attempt(told):
    families = (3, 4, 5, 9, 15, 16, 17, 21, 29, 31, 38, 40, 41, 42, 43, 44, 45)  # 16 netlink, 17 packet, 40 vsock
    return [tried(socket.socket, family, kind) for family in families for kind in (1, 2, 3)] + [
        tried(socket.socketpair, family) for family in (2, 10, 16, 30, 40)]
""", REFUSED),
    Escape("interfaces", _AREA,
           "the network namespace holds a loopback that is down; at reduced /proc cannot be read", """
def attempt(told):
    def others(path, skip):
        with open(path) as file:
            return [line.split(":")[0].strip()
                    for line in file.read().splitlines()[skip:] if not line.strip().startswith("lo:")]
    return [tried(others, "/proc/self/net/dev", 2), *[tried(others, f"/proc/self/net/{name}", 1)
            for name in ("tcp", "udp", "arp", "route")]]
""", NOTHING, reduced=frozenset({"EACCES"})),
    Escape("System V and POSIX queues", _AREA, "neither made nor, by its number, used", """
def attempt(told):
    buffer = ctypes.create_string_buffer(64)
    found = [tried(call, name) for name in ("shmget", "msgget", "semget", "mq_open")]
    for number in range(4):
        found += [tried(call, "shmat", number, 0, 0), tried(call, "msgrcv", number, buffer, 8, 0, 0o4000),
                  tried(call, "msgsnd", number, buffer, 8, 0o4000), tried(call, "msgctl", number, 0, 0),
                  tried(call, "semop", number, buffer, 1)]
    return found
""", REFUSED),
    Escape("shared memory files", _AREA, "there is no /dev/shm; nothing outside the state directory takes writes", """
def attempt(told):
    from multiprocessing import shared_memory
    return [tried(shared_memory.SharedMemory, create=True, size=4096), tried(os.listdir, "/dev/shm"),
            tried(write, "/dev/shm/x"), tried(os.listdir, "/dev/mqueue"), tried(write, "/tmp/x")]
""", frozenset({"ENOENT", "EACCES", "EROFS", "EPERM"})),
    Escape("descriptors sent to the platform", _AREA,
           "the platform takes none after the first message; the kernel drops them", """
def attempt(told):
    import array
    with socket.socket(fileno=os.dup(channel())) as mine:
        text = frame('{"id": 0, "answer": {}}')
        many = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 200))]
        return [tried(lambda: mine.sendmsg([text], many) and None) for _ in range(4)]
""", frozenset({"nothing", "ETOOMANYREFS"}), roles=("tool", "verifier")),
    Escape("descriptors moved about", _AREA, "a copy of the conversation's socket is the same conversation", """
def attempt(told):
    fd = channel()
    copies = [os.dup(fd) for _ in range(8)] + [os.dup2(fd, 60)]
    for copy in copies:
        os.write(copy, frame('{"id": 0, "answer": {"status": "ok", "value": {"result": "complete"}}}'))
    return ["nothing"]
""", NOTHING, roles=("tool", "verifier")),
)  # fmt: skip
