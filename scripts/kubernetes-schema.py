#!/usr/bin/env python3
"""Derives the JSON Schema of a Job of batch/v1 from the models of the package `kubernetes` (PyPI), which are generated from the
API's OpenAPI description:

    python3 -m pip install kubernetes==34.1.0
    python3 scripts/kubernetes-schema.py >crates/engine/tests/engine/testdata/kubernetes-job.json

Properties that a model does not have are rejected. Required properties are those that the models require.
"""

import inspect
import json
import re

import kubernetes
from kubernetes.client import models

PLAIN = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "object": {},
    "datetime": {"type": "string"},
}


def definition(name, found):
    """The schema of a type; those of models go to `found`."""
    if name in PLAIN:
        return PLAIN[name]
    listed = re.fullmatch(r"list\[(.+)\]", name)
    if listed:
        return {"type": "array", "items": definition(listed[1], found)}
    mapped = re.fullmatch(r"dict\(str, (.+)\)", name)
    if mapped:
        return {"type": "object", "additionalProperties": definition(mapped[1], found)}
    if name not in found:
        found[name] = {}
        model = getattr(models, name)
        properties = {model.attribute_map[key]: definition(of, found) for key, of in model.openapi_types.items()}
        required = []
        for key, shown in model.attribute_map.items():
            setter = inspect.getsource(getattr(model, key).fset)
            if "must not be `None`" in setter:
                required.append(shown)
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        found[name] = schema
    return {"$ref": f"#/definitions/{name}"}


found = {}
root = definition("V1Job", found)
print(
    json.dumps(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$comment": f"A Job of batch/v1, from the models of the Python package kubernetes {kubernetes.__version__}"
            " by scripts/kubernetes-schema.py.",
            **root,
            "definitions": found,
        },
        separators=(",", ":"),
        sort_keys=True,
    )
)
