"""Whether an answer is as a document has it: opencode's, or the server's own."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

DOCUMENT = json.loads((Path(__file__).parents[1] / "data" / "opencode-document.json").read_text())
METHODS = ("get", "post", "put", "patch", "delete")

NAMED: Any = {
    "type": "object",
    "properties": {
        "name": {"const": "BadRequest"},
        "data": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "kind": {"enum": ["Params", "Headers", "Query", "Body", "Payload"]},
            },
            "required": ["message"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "data"],
    "additionalProperties": False,
}
"""How a real opencode 1.18.33 answers 400 to what its older routes cannot read, also where its document names only
tagged errors (``{"_tag": …}``); instar answers bad input in this form. Those below ``/api/`` do as documented.
"""

REFUSING = ("experimental.console.switchOrg", "pty.connect")
"""Operations that answer 400 to what cannot be read, as in a real opencode, though its document does not say so."""


class Described(NamedTuple):
    """An operation of a document: where it is asked for, and what the document says of it."""

    method: str
    path: str
    said: dict[str, Any]

    @property
    def success(self) -> int:
        """The status of a good answer."""
        return min(int(status) for status in self.said["responses"])

    @property
    def names(self) -> set[str]:
        """The names of its parameters; one with fields (``location[directory]``) counts once."""
        return {parameter["name"].partition("[")[0] for parameter in self.said.get("parameters", ())}

    def media(self, status: int) -> dict[str, Any]:
        """What its answers of a status may be, by type."""
        found: dict[str, Any] = self.said["responses"].get(str(status), {}).get("content", {})
        return found

    @property
    def body(self) -> dict[str, Any] | None:
        """The schema of its body."""
        content = self.said.get("requestBody", {}).get("content", {})
        return content["application/json"]["schema"] if content else None


class Document:
    """An OpenAPI document."""

    def __init__(self, plain: dict[str, Any]) -> None:
        self.plain = plain
        self._validators: dict[str, Draft202012Validator] = {}

    @cached_property
    def operations(self) -> dict[str, Described]:
        """Its operations by their ids."""
        return {
            said["operationId"]: Described(method.upper(), path, said)
            for path, methods in self.plain["paths"].items()
            for method, said in methods.items()
            if method in METHODS
        }

    def problems_of(self, method: str, path: str, status: int, body: Any = None) -> list[str]:
        """What is wrong with an answer to an operation, whose `path` is the document's (``/session/{sessionID}``)."""
        responses = self.plain["paths"].get(path, {}).get(method.lower(), {}).get("responses")
        if responses is None:
            return [f"{method} {path} is not in the document"]
        if str(status) not in responses:
            return [f"{method} {path} does not answer {status}; it may be {', '.join(responses)}"]
        content = responses[str(status)].get("content", {}).get("application/json")
        if content is None:
            return []
        if status == 400 and not path.startswith("/api/") and _NAMED.is_valid(body):
            return []
        return self.misfits(content["schema"], body)

    def misfits(self, schema: dict[str, Any], value: Any) -> list[str]:
        """What of a value does not fit a schema of the document."""
        key = json.dumps(schema)
        if key not in self._validators:
            components = self.plain["components"]
            self._validators[key] = Draft202012Validator({**schema, "components": components})
        found = self._validators[key].iter_errors(value)
        return [f"{error.json_path}: {error.message[:300]}" for error in found]

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema in place of its reference."""
        while "$ref" in schema:
            schema = self.plain["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema


_NAMED = Draft202012Validator(NAMED)
OPENCODE = Document(DOCUMENT)
problems_of = OPENCODE.problems_of
