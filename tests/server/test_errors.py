"""Errors as answers, in the forms of both kinds of routes."""

import json
import logging

import pytest
from tests.server.conformance import DOCUMENT

from instar.plugin import Busy, Invalid, NotFound
from instar.server.errors import BadRequest, Formed, Missing, answer_for
from instar.settings.config import ConfigError
from instar.store import StoreError

SCHEMAS = DOCUMENT["components"]["schemas"]


@pytest.mark.parametrize(
    ("error", "status", "tag"),
    [
        (BadRequest("no", "Query"), 400, "InvalidRequestError"),
        (BadRequest("much", "Body", 413), 413, "InvalidRequestError"),
        (Invalid("no"), 400, "InvalidRequestError"),
        (ConfigError("instar.json", (), "no"), 400, "InvalidRequestError"),
        (NotFound("no"), 404, "SessionNotFoundError"),
        (Missing("PermissionNotFoundError", "per_1", "no"), 404, "PermissionNotFoundError"),
        (Busy("ses_1", "runs"), 409, "SessionBusyError"),
        (Formed(503, {"_tag": "ServiceUnavailableError", "message": "m"}), 503, "ServiceUnavailableError"),
        (StoreError("the disk is full: free some space"), 503, "ServiceUnavailableError"),
        (RuntimeError("secret"), 500, "UnknownError"),
    ],
)
def test_the_newer_routes_have_tagged_errors(error, status, tag):
    answer = answer_for(error, "/api/session/ses_1/prompt")
    told = json.loads(answer.body)
    assert (answer.status_code, told["_tag"]) == (status, tag)
    schema = SCHEMAS["UnknownError1" if tag == "UnknownError" else tag]
    assert set(told) <= set(schema["properties"])
    assert set(schema["required"]) <= set(told)
    assert "secret" not in answer.body.decode()


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (BadRequest("no", "Query"), 400, "BadRequest"),
        (Invalid("no"), 400, "BadRequest"),
        (NotFound("no"), 404, "NotFoundError"),
        (StoreError("the disk is full: free some space"), 503, "ServiceUnavailableError"),
        (RuntimeError("secret"), 500, "UnknownError"),
    ],
)
def test_the_older_routes_have_named_errors(error, status, name):
    answer = answer_for(error, "/session/ses_1")
    told = json.loads(answer.body)
    assert (answer.status_code, told["name"]) == (status, name)
    assert told["data"]["message"]
    assert "secret" not in answer.body.decode()


@pytest.mark.parametrize("path", ["/session", "/api/session"])
def test_what_nobody_foresaw_stands_in_the_log_under_the_ref_of_the_answer(path, caplog):
    with caplog.at_level(logging.ERROR, "instar.server"):
        told = json.loads(answer_for(RuntimeError("secret"), path).body)
    (record,) = caplog.records
    assert told.get("ref", told.get("data", {}).get("ref")) in record.getMessage()
    assert str(record.exc_info[1]) == "secret"
