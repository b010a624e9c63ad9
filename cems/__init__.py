"""The product's own words: command line, settings, models, errors, clock, redaction, providers."""

__version__ = "0.1.0"
