"""The JSON routes as OpenAPI 3.1, with the schemas of the records that the command line prints."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import msgspec

from roofline.server.asked import Asked
from roofline.show.schema import SCHEMAS

_WRONG = {
    "400": "What came is wrong",
    "403": "Another site",
    "408": "It did not arrive in time",
    "413": "Too large",
    "500": "A fault of the server",
    "503": "Too much at once",
    "507": "The server's disk is full",
}
_PREFIX = "#/components/schemas/{name}"


def description() -> dict[str, Any]:
    """The description, as /api/openapi.json answers it."""
    names = ("ledger-1", "models-1", "devices-1", "diagnosis-1", "assessment-1")
    types = [Asked, *(SCHEMAS[name] for name in names)]
    found, components = msgspec.json.schema_components(types, ref_template=_PREFIX)
    question, ledger, models, devices, *diagnosed = found
    components["Error"] = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    wrong = {status: _answer(what, {"$ref": "#/components/schemas/Error"}) for status, what in _WRONG.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "roofline", "version": version("roofline")},
        "paths": {
            "/api/predict": {
                "post": {
                    "operationId": "predict",
                    "summary": "The most that a model can do on a device, kernel by kernel, and what limits it",
                    "requestBody": {"required": True, "content": {"application/json": {"schema": question}}},
                    "responses": {"200": _answer("The ledger", ledger), **wrong},
                }
            },
            "/api/diagnose": {
                "post": {
                    "operationId": "diagnose",
                    "summary": "Where a measured run lost its time: the body is the profile, packed or not",
                    "parameters": [
                        {
                            "name": "device",
                            "in": "query",
                            "description": "A device id, where the profile does not say what it ran on",
                            "schema": {"type": "string"},
                        }
                    ],
                    "requestBody": {"required": True, "content": {"application/octet-stream": {}}},
                    "responses": {"200": _answer("Of a trace, or of other evidence", {"anyOf": diagnosed}), **wrong},
                }
            },
            "/api/models": {"get": _listed("models", "The built-in models", models)},
            "/api/devices": {"get": _listed("devices", "The catalogue of devices", devices)},
        },
        "components": {"schemas": components},
    }


def _answer(what: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _listed(name: str, what: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"operationId": name, "summary": what, "responses": {"200": _answer(what, schema)}}
