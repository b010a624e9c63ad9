"""Every error the product raises on purpose. A class's docstring is its message, unless the raiser gives a better
one; `hint` says what the user can do. Anything else that is raised is a bug and may end the process."""

from __future__ import annotations

import datetime as dt


class CemsError(Exception):
    """CEMS could not do what was asked."""

    hint: str = ""
    exit_code: int = 1

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        if hint is not None:
            self.hint = hint


class SettingsError(CemsError):
    """A setting has a value that cannot be used."""

    exit_code = 78  # EX_CONFIG of sysexits.h


class NotFound(CemsError):
    """There is no such thing."""


class UsageError(CemsError):
    """The request does not make sense as given."""

    exit_code = 2


class AlreadyRunning(CemsError):
    """Another process does this work already."""

    exit_code = 75  # EX_TEMPFAIL


# ---- Postgres


class DatabaseUnavailable(CemsError):
    """The database does not answer."""

    exit_code = 69  # EX_UNAVAILABLE
    hint = "start it with `cems db start`, or check CEMS_DATABASE_URL"


class SchemaOutdated(CemsError):
    """The database's schema is older than this program."""

    exit_code = 78
    hint = "bring it up to date with `cems db migrate`"


class SchemaTooNew(CemsError):
    """The database's schema is newer than this program."""

    exit_code = 78
    hint = "upgrade this program; an older one must not write to a newer schema"


class EmbeddedPostgresError(CemsError):
    """The embedded Postgres could not be started."""

    exit_code = 69


class LostRace(CemsError):
    """Another process moved this cursor or finished this batch first; nothing was written."""


# ---- Providers


class ProviderError(CemsError):
    """The provider gave no usable answer."""

    outcome = "failed"


class ProviderUnavailable(ProviderError):
    """The provider could not be reached, failed inside, or did not answer in time."""

    outcome = "unavailable"

    def __init__(self, message: str | None = None, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the provider asked to wait, or None."""


class RateLimited(ProviderUnavailable):
    """The provider asked to slow down; the quota of this minute is used."""

    outcome = "rate_limited"


class QuotaExhausted(ProviderUnavailable):
    """The provider's quota of the day is used."""

    outcome = "quota_exhausted"


class ProviderMisconfigured(ProviderError):
    """The provider refused the key, the model or the request itself; waiting does not help."""

    outcome = "misconfigured"


class BadAnswer(ProviderError):
    """The provider answered, but with nothing that can be used."""

    outcome = "malformed"


class BlockedAnswer(BadAnswer):
    """The provider refused to answer this content."""

    outcome = "blocked"


class EmptyAnswer(BadAnswer):
    """The provider answered with no text."""

    outcome = "empty"


class TruncatedAnswer(BadAnswer):
    """The answer stopped at the token limit; what came is not used."""

    outcome = "truncated"


class LlmPaused(CemsError):
    """LLM use for this purpose is paused or has reached its cap."""

    exit_code = 75

    def __init__(self, purpose: str, reason: str, until: dt.datetime) -> None:
        super().__init__(f"LLM use for {purpose} waits until {until:%Y-%m-%d %H:%M %Z}: {reason}")
        self.purpose, self.reason, self.until = purpose, reason, until


class EmbedderUnavailable(CemsError):
    """No embedder can be had; search uses keywords only."""
