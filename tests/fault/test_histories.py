"""A file's identity is its content: random histories against a model lose nothing and land nothing twice."""

from __future__ import annotations

import os
import uuid

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from db.connect import Access
from db.embedded import ServerInfo
from tests.fault.histories import Histories

EXAMPLES = int(os.environ.get("CEMS_TEST_HISTORIES", "60"))
"""How many histories; a long run takes some thousands."""


def test_T1_random_histories(server: ServerInfo, dbname: str) -> None:
    class Here(Histories):
        open_database = staticmethod(
            lambda: Access(server.dsn("cems_writer", dbname), "cems_writer", uuid.uuid4())
        )

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            print_blob=True,
            derandomize=EXAMPLES == 60,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
