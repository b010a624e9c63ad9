"""The demo: sample sessions go in, memories come out. Runs the real program in a temporary home and leaves nothing behind:
`make demo`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUESTION = "which hash function do we use and why"
KINDS = ("preference", "decision", "deadend", "bugfix", "pattern", "context")


def main() -> int:
    """Run the demo; returns the exit code."""
    home = Path(tempfile.mkdtemp(prefix="cems-demo-"))
    # Nothing of the user's own settings: no key, no other database.
    keep = ("CEMS_EMBEDDING_MODEL_DIR",)
    environment = {
        k: v
        for k, v in os.environ.items()
        if k in keep or not (k.startswith("CEMS_") or k in ("GEMINI_API_KEY", "GOOGLE_API_KEY"))
    }
    environment |= {
        "CEMS_HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(HERE / "tests" / "samples" / "claude"),
        "CEMS_LOG_LEVEL": "warning",
    }

    def cems(*arguments: str) -> None:
        """Run the program as a user would."""
        subprocess.run([sys.executable, "-I", "-m", "cems", *arguments], env=environment, check=True)

    try:
        say("1. Reading sample sessions of four invented projects and writing down what is worth remembering")
        cems("observe", "--once")
        say("2. What came out, by kind (written by rules; with a Gemini key a model writes them better)")
        for kind in KINDS:
            cems("memory", "list", "--kind", kind, "--limit", "3")
        say(f"3. Asking: {QUESTION}")
        cems("search", QUESTION, "--limit", "3")
        say("4. Next")
        sys.stdout.write(
            "  make up                         the same on your own sessions, in the foreground\n"
            "  .venv/bin/cems search 'words'   ask your own memories\n"
            "  README.md                       installing it for good, and a Gemini key\n"
        )
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"error: the demo stopped at `{' '.join(error.cmd[4:])}`\n")
        return 1
    finally:
        subprocess.run(
            [sys.executable, "-I", "-m", "cems", "db", "stop"],
            env=environment,
            check=False,
            stdout=subprocess.DEVNULL,
        )
        shutil.rmtree(home, ignore_errors=True)
    return 0


def say(text: str) -> None:
    """A heading."""
    sys.stdout.write(f"\n{text}\n\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
