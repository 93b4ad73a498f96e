#!/usr/bin/env python3
"""Writes the schema of the mover's settings into the schema of the chart's values, so that Helm refuses a typo.

Helm reads values.schema.json alone; deploy/chart/files/settings.schema.json is the source. A test compares both.
"""

import json
import pathlib

CHART = pathlib.Path(__file__).resolve().parents[1] / "deploy" / "chart"
SETTINGS, VALUES = CHART / "files" / "settings.schema.json", CHART / "values.schema.json"
OWN = ("namespaceName", "texts")  # Definitions that only the values use.
COLUMNS_MAX = 120


def embedded(values, settings):
    """The schema of the values with that of the settings in it."""
    assert not set(OWN) & set(settings["definitions"]), "two definitions of one name"
    definitions = {**{name: values["definitions"][name] for name in OWN}, **settings["definitions"]}
    inner = {key: part for key, part in settings.items() if key not in ("$schema", "definitions")}
    return {**values, "definitions": definitions, "properties": {**values["properties"], "settings": inner}}


def written(node, indent=0):
    """JSON in which an object or a list stands on one line where that is short enough."""
    line = json.dumps(node, ensure_ascii=False)
    if len(line) + indent <= COLUMNS_MAX or not isinstance(node, (dict, list)):
        return line
    inner = " " * (indent + 2)
    if isinstance(node, dict):
        parts = [f"{inner}{json.dumps(key)}: {written(part, indent + 2)}" for key, part in node.items()]
    else:
        parts = [f"{inner}{written(part, indent + 2)}" for part in node]
    ends = "{}" if isinstance(node, dict) else "[]"
    return f"{ends[0]}\n" + ",\n".join(parts) + f"\n{' ' * indent}{ends[1]}"


def current():
    """What values.schema.json has to be."""
    return embedded(json.loads(VALUES.read_text()), json.loads(SETTINGS.read_text()))


if __name__ == "__main__":
    VALUES.write_text(written(current()) + "\n")
