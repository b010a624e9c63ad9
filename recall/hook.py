"""The hook of Claude Code: standard input to the recall service, its answer to standard output. One file that runs alone as
`python -I -S /abs/recall/hook.py EVENT`, on built-in modules only: an interpreter and a socket, nothing heavier. Imported
(as an installed hook does, see `cems/cli/installing/hooks.py`) it is not compiled at each run, a tenth of its time.

Promises: within its deadline, exactly one JSON document of the firing event's shape on standard output and exit code 0,
whatever happens (exit code 2 would erase the user's prompt). It writes nothing, decides nothing and imports nothing from
the folder it is started in. Without a service it asks a process of its own, by keywords, and has the service started for
the next time."""

# No annotations from __future__: that is a file to read.
import _signal  # type: ignore[import-not-found]  # `signal` builds enums: a quarter of this program's time
import _socket
import posix
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS = (b"UserPromptSubmit", b"SessionStart", b"SubagentStart")
DEADLINE = 0.72
"""Seconds for all of it, measured from here; the interpreter has taken some before. The promise is 0.8."""
SERVICE_SECONDS = 0.45
"""Until here the service is waited for; what is left then is for the fallback."""
WORTH_TRYING = 0.15
"""Seconds below which the fallback is not begun."""
INPUT_LIMIT = 4 * 1024 * 1024
"""Bytes of standard input; a prompt is never longer, and nothing is said about more."""
REPLY_LIMIT = 256 * 1024
START_AGAIN = 20.0
"""Seconds after which a service that did not appear is started again."""
PROTOCOL = b"cems1"
FOLDER = "recall"
SOCKET = "recall.sock"
GONE = (2, 20, 61, 111)
"""ENOENT, ENOTDIR, and ECONNREFUSED of macOS and Linux: there is no service."""
_OFF = (b"0", b"false", b"no", b"off")
_SENT = (b"CEMS_CONTEXT_", b"CEMS_RECALL_", b"CLAUDE_PROJECT_DIR", b"CLAUDE_CONFIG_DIR")


class Hook:
    """One run: what it may still have to say, and what must not outlive it."""

    def __init__(self, event: bytes) -> None:
        self.began = time.monotonic()
        self.event = event
        self.said = False
        self.child = 0
        self.service_is_gone = False

    def left(self, until: float = DEADLINE) -> float:
        """Seconds that are left; never quite nothing, because zero means for ever to some calls."""
        return max(0.001, self.began + until - time.monotonic())

    def run(self) -> None:
        """Read, ask, answer."""
        body = read_input()
        self.event = event_named_in(body) or self.event
        if body is None or self.event not in EVENTS or is_off(posix.environ):
            return
        frame = request(self.event, posix.environ, body)
        if not enter_folder(posix.environ):
            return
        reply = self.ask_service(frame)
        if reply is None and self.left() > WORTH_TRYING:
            reply = self.ask_child(frame)
        self.end(reply or b"")

    def ask_service(self, frame: bytes) -> bytes | None:
        """The service's document, empty when it has nothing to say, None when it is not there or mute."""
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(self.left(SERVICE_SECONDS))
            connection.connect(SOCKET)
        except OSError as error:
            self.service_is_gone = (
                error.errno in GONE
            )  # a queue that is full, or late, is a service that lives
            return None

        def read(size: int) -> bytes:
            connection.settimeout(self.left(SERVICE_SECONDS))
            return connection.recv(size)

        try:
            connection.sendall(frame)
            return reply(read)
        except OSError:
            return None

    def ask_child(self, frame: bytes) -> bytes | None:
        """The same question to a process of its own, which is killed at the deadline; keywords only."""
        self.child, to_child, from_child = start_child()
        try:
            while frame:
                frame = frame[posix.write(to_child, frame[:65536]) :]
        except OSError:
            return None
        posix.close(to_child)
        return reply(lambda size: posix.read(from_child, size))  # the alarm ends it

    def end(self, document: bytes) -> None:
        """Say it, once, and leave: without the interpreter's own end, which takes as long as all the rest."""
        if not self.said:
            self.said = True
            say(document or empty(self.event))
        try:
            if self.child:
                posix.kill(self.child, 9)
            if self.service_is_gone:
                start_service()
        except OSError:
            pass
        posix._exit(0)

    def on_alarm(self, _number: int, _frame: object) -> None:
        """The deadline: nothing is said, in the right shape."""
        self.end(b"")


def read_input() -> bytes | None:
    """All of standard input; None where it is too long or cannot be read."""
    pieces: list[bytes] = []
    length = 0
    while length <= INPUT_LIMIT:
        try:
            piece = posix.read(0, 1 << 20)
        except OSError:
            return None
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        length += len(piece)
    return None


def event_named_in(body: bytes | None) -> bytes:
    """The value of `hook_event_name`. Inside a JSON string quotes are escaped, so the bytes with both of them are a key."""
    _, key, rest = (body or b"").partition(b'"hook_event_name"')
    rest = rest[:200].lstrip(b" \t\r\n:")
    return rest[1:].partition(b'"')[0] if key and rest[:1] == b'"' else b""


def is_off(environment: dict[bytes, bytes]) -> bool:
    """Whether this session is not to be given anything: by our switch, in a remote session, with bare or foreign rules."""
    if environment.get(b"CEMS_RECALL_ENABLED", b"").strip().lower() in _OFF:
        return True
    modes = (b"CLAUDE_CODE_REMOTE", b"CLAUDE_CODE_SIMPLE", b"CLAUDE_CODE_DISABLE_CLAUDE_MDS")
    return any(environment.get(name, b"").strip().lower() not in (b"", *_OFF) for name in modes)


def request(event: bytes, environment: dict[bytes, bytes], body: bytes) -> bytes:
    """One request: a line with the lengths, the variables that matter, standard input as it came."""
    sent = b"\0".join(k + b"=" + v for k, v in environment.items() if k.startswith(_SENT))[:16384]
    return b"%s %s %d %d\n" % (PROTOCOL, event, len(sent), len(body)) + sent + body


def reply(read: "Callable[[int], bytes]") -> bytes | None:
    """The document that comes, piece by piece; None where it ends early or has no end."""
    received = b""
    while (found := document_in(received)) is None:
        piece = read(65536)
        if not piece or len(received) > REPLY_LIMIT:
            return None
        received += piece
    return found


def document_in(received: bytes) -> bytes | None:
    """The document of a whole reply, `STATUS LENGTH\\n` and so many bytes; None while some are missing."""
    head, line_end, document = received.partition(b"\n")
    length = int(head.split()[1]) if line_end else 0
    return document if line_end and len(document) == length else None


def empty(event: bytes) -> bytes:
    """Nothing to say. Another event than ours gets no output of its own: some would make the agent go on."""
    if event not in EVENTS:
        return b"{}"
    return b'{"hookSpecificOutput":{"hookEventName":"%s","additionalContext":""}}' % event


def say(document: bytes) -> None:
    """Write to standard output; nobody reading is no error."""
    try:
        while document:
            document = document[posix.write(1, document) :]
    except OSError:
        pass


def enter_folder(environment: dict[bytes, bytes]) -> bool:
    """Go where the socket is, so that its address is short however long the home's path; False: there is no home, which the
    hook never makes. The folder it was started in, which may be hostile or gone, is left behind in each case."""
    home = environment.get(b"CEMS_HOME") or default_home(environment)
    if home.startswith(b"~/"):
        home = environment.get(b"HOME", b"") + home[1:]
    try:
        if not home.startswith(b"/"):
            raise OSError  # relative to a folder that is not ours
        posix.chdir(home)
        try:  # noqa: SIM105 - contextlib is not imported here
            posix.mkdir(FOLDER, 0o700)
        except OSError:
            pass  # it exists
        posix.chdir(FOLDER)
    except OSError:
        posix.chdir("/")
        return False
    return True


def default_home(environment: dict[bytes, bytes]) -> bytes:
    """The platform's folder for a user's data, as `cems.settings` has it."""
    chosen = environment.get(b"XDG_DATA_HOME", b"").strip()
    if chosen.startswith(b"/"):
        return chosen.rstrip(b"/") + b"/cems"
    place = b"/Library/Application Support/cems" if sys.platform == "darwin" else b"/.local/share/cems"
    return environment.get(b"HOME", b"") + place


def start_child() -> tuple[int, int, int]:
    """Have one request answered by `cems recall --direct`: its process, what to write to, what to read from."""
    from_hook, to_child = posix.pipe()
    from_child, to_hook = posix.pipe()
    child = posix.fork()
    if not child:
        run_cems(from_hook, to_hook, b"recall", b"--direct")
    posix.close(from_hook)
    posix.close(to_hook)
    return child, to_child, from_child


def start_service() -> None:
    """Have the service run for the next time: detached, in a session of its own. A lock lets only one live."""
    try:
        if 0 <= time.time() - posix.stat("started").st_mtime < START_AGAIN:
            return
    except OSError:
        pass
    posix.close(posix.open("started", posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC, 0o600))
    posix.utime("started")
    if not posix.fork():
        log = posix.open("service.log", posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC, 0o600)
        run_cems(posix.open("/dev/null", posix.O_RDONLY), log, b"recall", b"--on-demand", errors=log)


def run_cems(read: int, write: int, *arguments: bytes, errors: int | None = None) -> None:
    """Become `cems ARGUMENTS` by this interpreter, isolated, in a session of its own; for a child only."""
    try:
        posix.setsid()
        null = posix.open("/dev/null", posix.O_RDWR)
        for number, fd in enumerate((read, write, null if errors is None else errors)):
            posix.dup2(fd, number)
        program = sys.executable.encode("utf-8", "surrogateescape")
        posix.execve(program, [program, b"-I", b"-m", b"cems", *arguments], posix.environ)
    finally:
        posix._exit(127)


def main() -> None:
    """Run, so that nothing escapes."""
    hook = Hook(sys.argv[1].encode("utf-8", "replace") if len(sys.argv) > 1 else b"")
    try:
        while posix.open("/dev/null", posix.O_RDWR) < 3:
            pass  # a standard stream that is closed must not become our socket
        _signal.signal(_signal.SIGALRM, hook.on_alarm)
        _signal.setitimer(_signal.ITIMER_REAL, DEADLINE)
        hook.run()
    except BaseException:  # noqa: BLE001, S110 - the outermost level: whatever it is, the prompt goes on
        pass
    hook.end(b"")


if __name__ == "__main__":
    main()
