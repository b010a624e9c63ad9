"""The command line. This file knows the commands by name only: a command's module is imported when it is called, so that
`cems --help` stays quick. Every error that is meant for people leaves here as `error:` and `hint:` lines and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from cems import __version__
from cems.errors import CemsError, DatabaseUnavailable

COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Start here": {
        "install": ("install:install", "Into Claude Code and as services; shows every step first."),
        "up": ("up:up", "Everything in the foreground; Ctrl-C ends it."),
        "backfill": ("backfill:backfill", "Learn from the sessions there are, with an estimate first."),
        "search": ("search:search", "Find memories by words and by meaning."),
        "status": ("status:status", "What runs, what waits, what is stored."),
        "doctor": ("doctor:doctor", "Tests each part end to end, and says what mends it."),
    },
    "Memories": {
        "memory": ("memory:memory", "Add, list, show, forget, restore or erase memories."),
        "context": ("context:context", "What a session would be given when it starts."),
        "set-aside": ("set_aside:set_aside", "What could not be handled: list, show, retry."),
    },
    "Operation": {
        "observe": ("observe:observe", "Turn session transcripts into memories."),
        "recall": ("recall:recall", "Answer the hooks of coding agents."),
        "maintain": ("maintain:maintain", "Run the maintenance jobs by their schedules."),
        "maintenance": ("maintenance:maintenance", "A job by hand; what runs changed; take a run back."),
        "hook": ("hook:hook", "What an agent's hook runs: a session's event in, memories out."),
        "mcp": ("mcp:mcp", "Let an agent search memories: an MCP server."),
        "db": ("db:db", "The database: start, stop, psql, backup, restore, migrate."),
        "uninstall": ("install:uninstall", "The inverse of install; memories stay."),
        "logs": ("logs_command:logs", "What the services have written down."),
        "completion": ("completion:completion", "Makes a shell complete commands and options."),
        "update-check": ("update_check:update_check", "Ask the package index for a newer version, once."),
        "config": ("config:config", "The effective settings and where each came from."),
    },
}
"""Section → command → (module:object below `cems.cli`, its line in the help)."""

_TARGETS = {name: target for section in COMMANDS.values() for name, (target, _) in section.items()}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the help."""
        return list(_TARGETS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in _TARGETS:
            return None
        module, _, name = _TARGETS[cmd_name].partition(":")
        command = getattr(importlib.import_module(f"cems.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help's list, from the table alone."""
        width = max(map(len, _TARGETS))
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in commands.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command has --help with examples, and --json for programs.",
)
@click.version_option(__version__, "-V", "--version", prog_name="cems", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """The memory of coding agents: session transcripts become searchable memories in Postgres.

    \b
    A first try:
      cems up                        everything at once; Ctrl-C ends it
      cems search "flaky upload"     what was learnt about it
      cems memory add "Always use uv" --everywhere
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    argv = list(sys.argv[1:] if args is None else args)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that cannot show a character still shows the rest
    try:
        code = cli.main(argv, prog_name="cems", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads what is still buffered
        return 1
    except click.ClickException as error:
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "cems"
        return _fail(argv, error.format_message(), f"`{command} --help` explains it", error.exit_code)
    except CemsError as error:
        return _fail(argv, str(error), error.hint, error.exit_code, getattr(error, "details", ()))
    except Exception as error:
        if (outage := _outage(error)) is None:
            _without_detail(error)
            raise
        return _fail(argv, str(outage), outage.hint, outage.exit_code)
    return code if isinstance(code, int) else 0


def _fail(argv: list[str], message: str, hint: str, code: int, details: Sequence[str] = ()) -> int:
    """Say what went wrong, for people on standard error and with --json for programs on standard output."""
    from cems.cli import output

    for detail in details:
        click.echo(output.clean(detail), err=True)
    output.error(message, hint)
    options = argv[: argv.index("--")] if "--" in argv else argv
    if "--json" in options:
        output.document({"error": message, "hint": hint} | ({"details": list(details)} if details else {}))
    return code


def _without_detail(error: Exception) -> None:
    """Postgres quotes whole rows in the detail of an error; a traceback, which may end in a log, must not."""
    if "psycopg" in sys.modules:
        import psycopg

        if isinstance(error, psycopg.Error) and error.diag.message_primary:
            error.args = (error.diag.message_primary,)


def _outage(error: Exception) -> DatabaseUnavailable | None:
    """What the database's driver raised, in our words; None for anything else, which is a bug and keeps its traceback."""
    if "psycopg" not in sys.modules:
        return None
    from db.connect import OUTAGES

    if not isinstance(error, OUTAGES):
        return None
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return DatabaseUnavailable(f"the database does not answer: {lines[0]}")
