"""With ``INSTAR_POSTGRESQL=1`` (`make test-cluster`) the sessions of these tests are on a PostgreSQL server."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.postgresql import database_variable


@pytest.fixture
def clean_environment(clean_environment: Mapping[str, str], tmp_path: Path) -> Mapping[str, str]:
    """The environment of a person who has a database and nothing else."""
    return {**clean_environment, **database_variable(tmp_path)}
