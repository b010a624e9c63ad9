"""Runs the observer as a process under test, from the same parts and settings as the product:
`python -m tests.fault.launcher [options]`. With `--respawn` a parent which has everything loaded forks the observer and
forks it again when it is killed, as a service manager would; what it does is written to its standard output, one JSON
object a line. Only here can a point of failure be armed."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable

import observer.observe
import observer.start
from cems import home, logs
from cems.errors import CemsError
from cems.failpoint import armed
from cems.settings import Settings
from cems.settings import load as load_settings
from db.access import reach
from observer.process import Process
from tests.fault import broken

Locking = Callable[[Settings], contextlib.AbstractContextManager[None]]
LOCKS: dict[str, Locking] = {
    "take": lambda settings: home.exclusive(settings.home, "observer"),
    "wait": lambda settings: home.waiting(settings.home, "observer"),
    "none": lambda _settings: contextlib.nullcontext(),
}


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="An observer for fault tests")
    parser.add_argument("--lock", choices=LOCKS, default="take", help="what to do about the home's lock")
    parser.add_argument(
        "--failpoint", action="append", default=[], metavar="NAME:PROBABILITY", help="a point to die at"
    )
    parser.add_argument(
        "--deaths", type=int, default=10**9, help="how many observers are armed before a sound one"
    )
    parser.add_argument(
        "--kill-every", type=float, default=0.0, help="mean seconds between two kills at random times"
    )
    parser.add_argument("--respawn", action="store_true", help="start the observer again when it was killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--broken", choices=["cursor-first"], help="a write path that must be found out")
    return parser.parse_args(argv)


def say(**event: object) -> None:
    os.write(1, (json.dumps(event) + "\n").encode())


def die(chance: random.Random, probability: float) -> None:
    """The end of this process, without any of what a process does at its end."""
    if chance.random() < probability:
        os.kill(os.getpid(), signal.SIGKILL)


def wait_for_the_end(stop: threading.Event) -> None:
    """A thread that takes the signal: a handler could run while a lock is held that it needs."""
    signal.sigwait({signal.SIGTERM})
    stop.set()


def pass_on(stop: threading.Event, process: Process) -> None:
    stop.wait()
    process.shutdown()


def observe(options: argparse.Namespace, *, arm: bool) -> int:
    """One observer from start to end; returns its exit code."""
    settings = load_settings()
    logs.configure(settings.log_level, "json")
    if options.broken:
        broken.install()
    if arm:
        chance = random.Random()
        for item in options.failpoint:
            name, _, probability = item.partition(":")
            armed[name] = functools.partial(die, chance, float(probability or 1))
    stop = threading.Event()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=wait_for_the_end, args=(stop,), daemon=True).start()
    say(waiting=os.getpid())
    try:
        with LOCKS[options.lock](settings), reach(settings, stop) as db:
            process = observer.start.process(db, settings)[0]
            threading.Thread(target=pass_on, args=(stop, process), daemon=True).start()
            process.run(ready=lambda: say(ready=os.getpid()))
    except CemsError as error:
        say(error=type(error).__name__, message=str(error))
        return error.exit_code
    return 0


class Supervisor:
    """Forks observers until one ends by itself; kills them at random meanwhile. SIGUSR1: no more harm from now on.
    SIGTERM: end the observer, and then itself."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.child = 0
        self.harmless = False
        self.ending = False
        self.chance = random.Random(options.seed)

    def run(self) -> int:
        signal.signal(signal.SIGUSR1, self._make_harmless)
        signal.signal(signal.SIGTERM, self._end)
        deaths = 0
        while True:
            code = self._one(arm=not self.harmless and deaths < self.options.deaths)
            say(ended=self.child, code=code)
            if code != -signal.SIGKILL or self.ending:
                return code
            deaths += 1

    def _one(self, *, arm: bool) -> int:
        blocked = {signal.SIGUSR1, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        self.child = os.fork()
        if self.child == 0:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
            code = 70
            try:
                code = observe(self.options, arm=arm)
            finally:
                sys.stderr.flush()
                os._exit(code)
        say(started=self.child, armed=arm)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        every = self.options.kill_every
        at = time.monotonic() + self.chance.expovariate(1 / every) if every else float("inf")
        while True:
            pid, status = os.waitpid(self.child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= at and not self.harmless:
                os.kill(self.child, signal.SIGKILL)
                at = float("inf")
            time.sleep(0.005)

    def _make_harmless(self, *_: object) -> None:
        self.harmless = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)

    def _end(self, *_: object) -> None:
        self.ending = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGTERM)


def main() -> int:
    options = arguments(sys.argv[1:])
    if not options.respawn:
        return observe(options, arm=True)
    with contextlib.suppress(ImportError):
        import google.genai  # noqa: F401 - loaded once, so that a forked observer starts at once
    return Supervisor(options).run()


if __name__ == "__main__":
    sys.exit(main())
