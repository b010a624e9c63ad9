"""Measurements anyone can run: `python bench/NAME.py [--quick] [--json]`."""
