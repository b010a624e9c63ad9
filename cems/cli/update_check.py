"""`cems update-check`: whether the package index has a newer version. The only command that asks the network about itself, and
only when it is called."""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request

import click

from cems import __version__
from cems.cli import output
from cems.errors import CemsError

_SECONDS = 10
_LIMIT = 4 * 1024 * 1024


@click.command(name="update-check")
@click.option(
    "--index",
    default="https://pypi.org/pypi/cems/json",
    show_default=True,
    metavar="URL",
    help="Whom to ask.",
)
@output.json_option
def update_check(index: str, as_json: bool) -> int:
    """Ask the package index for the newest version, once. Nothing else ever does; nothing about you is sent.

    Exit code 0: this is the newest; 3: there is a newer one.
    """
    newest = _newest(index)
    newer = _parts(newest) > _parts(__version__)
    if as_json:
        output.document({"version": __version__, "newest": newest, "newer": newer})
    elif newer:
        click.echo(
            f"{newest} is there; this is {__version__}. Upgrade with `uv tool upgrade cems` or `pipx upgrade cems`,"
        )
        click.echo("then `cems install`, which changes what has to change.")
    else:
        click.echo(f"{__version__} is the newest.")
    return 3 if newer else 0


def _newest(index: str) -> str:
    if not index.startswith(("https://", "http://")):
        raise CemsError(f"{index} is not an address of a package index")
    try:
        with urllib.request.urlopen(index, timeout=_SECONDS) as answer:
            found = json.loads(answer.read(_LIMIT))["info"]["version"]
    except urllib.error.HTTPError as error:
        raise CemsError(
            f"the package index says {error.code}", hint="a version from a checkout is not there"
        ) from error
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise CemsError(
            f"the package index did not answer: {error}", hint="check the network or the proxy"
        ) from error
    if not isinstance(found, str) or not re.match(r"\d+(\.\d+)*", found):
        raise CemsError("the package index gave no version")
    return found


def _parts(version: str) -> tuple[int, ...]:
    """The release's numbers; what follows them, such as rc1, is left out."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
