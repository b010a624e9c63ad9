"""Logging, set up once by each process: always on standard error, JSON unless that is a terminal, records of libraries
rendered alike. Logs carry ids, sizes and kinds, never text of a transcript; a traceback never shows local variables."""

from __future__ import annotations

import logging
import sys

import structlog

_QUIET = ("watchdog", "httpx2", "httpcore2", "google_genai", "apscheduler", "urllib3")


def configure(level: str = "info", style: str = "auto") -> None:
    """Set up structlog and the standard library's logging.

    Args:
        level: debug, info, warning or error.
        style: console, json, or auto.
    """
    as_json = style == "json" or (style == "auto" and not sys.stderr.isatty())
    renderer: structlog.types.Processor
    if as_json:
        renderer = structlog.processors.JSONRenderer()
        trace: structlog.types.Processor = structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        )
    else:
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        trace = structlog.processors.StackInfoRenderer()
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, trace, renderer],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
