# Continues `probe.py`: the run of the script, guarded.

class Refused(PermissionError):
    """An operation that is refused, because it is work."""


WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSED = {
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.link", "os.mkdir", "os.posix_spawn",
    "os.remove", "os.rename", "os.rmdir", "os.spawn", "os.symlink", "os.system", "os.truncate", "signal.pthread_kill",
    "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendmsg", "socket.sendto", "subprocess.Popen",
}  # fmt: skip
OF_PATHS = {"os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate"}
own = os.path.realpath(os.environ.get("TMPDIR") or "/nonexistent") + os.sep


def allowed(path):
    """True for devices, among which `/dev/shm` is a folder of files, and for the folder for temporary files, which is removed."""
    if isinstance(path, int):
        return True
    try:
        path = os.path.realpath(os.fsdecode(path))
    except Exception:
        return False
    return (path + os.sep).startswith(own) or (path.startswith("/dev/") and not path.startswith("/dev/shm/"))


def guard(event, args):
    if event == "open":
        path, mode, flags = args
        if not isinstance(path, int) and (flags or 0) & WRITES and not allowed(path):
            raise Refused("`sweep new` lets the script write nothing: " + text(path))
    elif event in REFUSED:
        paths = [path for path in args if isinstance(path, (str, bytes, os.PathLike))] if event in OF_PATHS else []
        if paths and all(allowed(path) for path in paths):
            return
        raise Refused("`sweep new` does not let the script do this: " + event)


def line_of(error):
    """The line of the script at which an error arose."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == SCRIPT:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def none(why):
    tell(source="none", parameters=[], why=text(why))


def main():
    import argparse
    import runpy
    import threading

    patch_argparse(argparse)
    watch_imports()
    patch_exec()
    sys.argv = [SCRIPT, *ARGUMENTS]
    sys.path[0] = os.path.dirname(os.path.realpath(SCRIPT))
    watch = threading.Timer(SECONDS, none, ["it has not read any within %g s" % SECONDS])
    watch.daemon = True
    watch.start()
    sys.addaudithook(guard)
    try:
        runpy.run_path(SCRIPT, run_name="__main__")
    except SystemExit as end:
        none("it ended with exit code %s before it read any" % (0 if end.code is None else end.code))
    except Refused as error:
        none("in line %d it begins to work before it reads any: %s" % (line_of(error), error))
    except SyntaxError as error:
        if error.filename != SCRIPT:
            none("in line %d it fails before it reads any: %s: %s" % (line_of(error), error.filename, error.msg))
        tell(source="broken", parameters=[], line=error.lineno or 0, why=text(error.msg))
    except ImportError as error:
        tell(source="broken", parameters=[], line=line_of(error), why=text(error), module=text(error.name or ""))
    except BaseException as error:
        none("in line %d it fails before it reads any: %s: %s" % (line_of(error), type(error).__name__, error))
    none("it ended before it read any")


main()
