"""The JSON routes as OpenAPI 3.1, with the schemas of the records that the command line prints."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import msgspec

from roofline.server.asked import Asked
from roofline.show.schema import SCHEMAS

_PREFIX = "#/components/schemas/{name}"


def description() -> dict[str, Any]:
    """The description, as /api/openapi.json answers it."""
    types = [Asked, SCHEMAS["ledger-1"], SCHEMAS["models-1"], SCHEMAS["devices-1"]]
    (question, ledger, models, devices), components = msgspec.json.schema_components(types, ref_template=_PREFIX)
    components["Error"] = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    wrong = {
        status: _answer(what, {"$ref": "#/components/schemas/Error"})
        for status, what in (("400", "What came is wrong"), ("403", "Another site"), ("413", "Too large"))
    }
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
            "/api/models": {"get": _listed("models", "The built-in models", models)},
            "/api/devices": {"get": _listed("devices", "The catalogue of devices", devices)},
        },
        "components": {"schemas": components},
    }


def _answer(what: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _listed(name: str, what: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"operationId": name, "summary": what, "responses": {"200": _answer(what, schema)}}
