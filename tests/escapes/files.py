"""Attempts on files: the host's, the platform's, other episodes' and the kernel's own."""

from escapes.base import HOST_FILE, NOTHING, READ_ONLY, REFUSED, Escape

_AREA = "files"
_NOT_THERE = "the root holds the class's runtime and nothing of the host; at reduced, Landlock refuses the rest"
_READ_ONLY = "everything but the state directory is mounted read-only; at reduced, Landlock refuses it"

ESCAPES = (
    Escape("files of the host", _AREA, _NOT_THERE, """
def attempt(told):
    paths = ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/root/.bashrc", "/root/.ssh/id_rsa", "/var/log/dpkg.log",
             "/proc/self/root/etc/passwd", "/proc/1/root/etc/passwd", "/proc/self/cwd/../../etc/passwd",
             "/data/../etc/passwd", told["secret_file"])
    return [tried(read, path) for path in paths]
""", HOST_FILE),
    Escape("hidden tests", _AREA, "verifiers and solutions are in the dataset, which no sandbox sees", """
def attempt(told):
    return [tried(read, path) for path in told["hidden_files"]] + [tried(os.listdir, told["folder"])]
""", HOST_FILE),
    Escape("files of the platform", _AREA, _NOT_THERE, """
def attempt(told):
    return [tried(read, path) for path in told["platform_files"]]
""", HOST_FILE),
    Escape("another episode's files", _AREA, "every instance has a state directory that only it can name", """
def attempt(told):
    paths = ["..", "../..", "/proc/self/cwd/..", "/data/../data/../proc/2/root/data"]
    paths += [f"/proc/{pid}/{name}" for pid in told["pids"] for name in ("root/data", "cwd", "fd", "map_files")]
    paths += [f"{place}/{name}" for place in ("..", told["folder"]) for name in ("e1", "e2", "t1", "t1/e1", "t1/e2")]
    own = {"data", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "quintain", "root", "tmp", "usr", "var"}
    seen = [path for path in paths if not tried(os.listdir, path).startswith("E")]
    return sorted(f"GOT {path}" for path in seen if set(os.listdir(path)) - own) or ["nothing"]
""", NOTHING),
    Escape("memory and environment of processes", _AREA, "/proc is the episode's own; at reduced it cannot be read", """
def attempt(told):
    return [tried(read, f"/proc/{pid}/{name}") for pid in told["pids"]
            for name in ("mem", "environ", "maps", "cmdline", "stack", "auxv", "root/etc/passwd")]
""", HOST_FILE),
    Escape("/proc/self", _AREA,
           "its own maps, limits and mappings are its own; what would widen them takes no writes", """
def attempt(told):
    names = ("setgroups", "uid_map", "gid_map", "projid_map", "loginuid")
    return [tried(put, f"/proc/self/{name}", b"0 0 1") for name in names] + [
        tried(put, "/proc/self/setgroups", b"allow"), tried(put, "/proc/self/oom_score_adj", b"-1000")]
""", frozenset({"EACCES", "EPERM", "ENOENT", "EINVAL"}), roles=("tool", "verifier")),
    Escape("kernel settings", _AREA, "they belong to the host's root, which nobody inside is", """
def attempt(told):
    names = ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "vm/overcommit_memory",
             "vm/drop_caches", "net/ipv4/ip_forward", "fs/binfmt_misc/register", "user/max_user_namespaces")
    return [tried(write, f"/proc/sys/{name}") for name in names] + [
        tried(write, "/proc/sysrq-trigger"), tried(put, "/proc/sys/kernel/ns_last_pid", b"1")]
""", frozenset({"EACCES", "EPERM", "ENOENT", "EROFS"})),
    Escape("kernel memory", _AREA, "reading it takes a capability, and there is none", """
def attempt(told):
    return [tried(read, path) for path in ("/proc/kcore", "/proc/kmsg", "/proc/kpagecount", "/proc/slabinfo",
            "/dev/mem",
                                           "/dev/kmsg", "/dev/port", "/sys/kernel/debug/tracing/trace")]
""", frozenset({"EACCES", "EPERM", "ENOENT"})),
    Escape("sysfs and control groups", _AREA, "neither is mounted, and nothing can be", """
def attempt(told):
    return [tried(os.listdir, "/sys"), tried(os.listdir, "/sys/fs/cgroup"), tried(write, "/sys/fs/cgroup/cgroup.procs"),
            tried(write, "/sys/fs/cgroup/release_agent"), tried(read, "/sys/class/dmi/id/product_uuid")]
""", frozenset({"ENOENT", "EACCES"})),
    Escape("devices", _AREA, "five harmless ones are there; others cannot be made", """
def attempt(told):
    names = ("mem", "kmsg", "sda", "vda", "nvme0n1", "kvm", "fuse", "tty", "console", "ptmx", "net/tun", "loop-control",
             "dri/card0", "nvidia0", "shm/x", "mqueue", "userfaultfd", "vsock", "cpu/0/msr", "hwrng")
    made = [tried(os.mknod, f"node{n}", kind | 0o600, os.makedev(1, 1)) for n, kind in enumerate((0o20000, 0o60000))]
    return made + [tried(lambda path=f"/dev/{name}": os.open(path, os.O_RDWR)) for name in names]
""", frozenset({"ENOENT", "EACCES", "EPERM", "ENXIO"})),
    Escape("symbolic and hard links", _AREA, "a link leads to what is not there, or is refused", """
def attempt(told):
    found = []
    for number, target in enumerate(("/etc/passwd", "/proc/1/root/etc/passwd", told["secret_file"])):
        for make in (os.symlink, os.link):
            name = f"link-{number}-{make.__name__}"
            found.append(tried(lambda: make(target, name) or read(name)))
            found.append(tried(lambda: os.unlink(name)))
    return [word for word in found if word != "nothing"] or ["nothing"]
""", frozenset({"ENOENT", "EACCES", "EPERM", "EROFS", "EXDEV"})),
    Escape("writing elsewhere", _AREA, _READ_ONLY, """
def attempt(told):
    import sysconfig
    library = sysconfig.get_paths()["purelib"]
    paths = ("/x", "/etc/x", "/usr/lib/x", "/lib64/x", "/quintain/inside/x", "/quintain/x", "/dev/x", "/dev/shm/x",
            "/home/x",
             "/root/x", "/var/tmp/x", "/proc/x", library + "/sqlite3.py", os.__file__, os.path.dirname(os.__file__)
             + "/x.py",
             told["folder"] + "/x", told["secret_file"])
    return [tried(write, path) for path in paths]
""", READ_ONLY),
    Escape("held directories", _AREA, "no descriptor of a directory outside is inherited", """
def attempt(told):
    held = []
    for fd in range(256):
        try:
            kind = os.readlink(f"/proc/self/fd/{fd}") if os.path.isdir("/proc/self/fd") else ""
            os.close(os.open("..", os.O_PATH, dir_fd=fd))
            held.append(f"GOT {fd} {kind}")
        except OSError:
            continue
    return held or ["nothing"]
""", NOTHING),
    Escape("handles and roots", _AREA, "calls that leave a mount namespace are refused", """
def attempt(told):
    return [tried(os.chroot, "."), tried(call, "chroot"), tried(call, "pivot_root"), tried(call, "open_by_handle_at"),
            tried(call, "name_to_handle_at"), tried(call, "open_tree"), tried(call, "statmount"),
            tried(call, "listmount")]
""", REFUSED),
    Escape("attributes of files", _AREA, "the host's files keep mode, owner, times and attributes", """
def attempt(told):
    ways = (lambda path: os.chmod(path, 0o777), lambda path: os.chown(path, 0, 0), lambda path: os.utime(path, (0, 0)),
            lambda path: os.setxattr(path, "user.x", b"x"), lambda path: os.truncate(path, 0), os.unlink)
    now = os.stat(os.__file__)
    same = (lambda: os.chmod(os.__file__, now.st_mode & 0o777), lambda: os.chown(os.__file__, now.st_uid, now.st_gid),
            lambda: os.utime(os.__file__, ns=(now.st_atime_ns, now.st_mtime_ns)))
    return [tried(way, told["secret_file"]) for way in ways] + [tried(way) for way in same]
""", frozenset({"ENOENT", "EROFS", "EACCES", "EPERM"})),
    Escape("environment variables", _AREA, "the environment was cleared before the class's interpreter started", """
def attempt(told):
    mine = {"HOME", "TMPDIR", "PATH", "LANG", "TZ", "MALLOC_ARENA_MAX", "PWD", "LC_CTYPE", "DATABASE_PATH"}
    libc = ctypes.POINTER(ctypes.c_char_p).in_dll(LIBC, "environ")
    native, at = [], 0
    while libc[at] is not None:
        native.append(libc[at].decode().partition("=")[0])
        at += 1
    return sorted(n for n in {*os.environ, *native} - mine if not n.startswith("PYTHON")) or ["nothing"]
""", NOTHING),
    Escape("descriptors", _AREA, "all were closed but the conversation's own", """
def attempt(told):
    is_open = [fd for fd in range(3, 256) if tried(os.fstat, fd) != "EBADF"]
    return [f"GOT {is_open}"] if is_open != [channel()] else ["nothing"]
""", NOTHING, roles=("verifier",)),
)  # fmt: skip
