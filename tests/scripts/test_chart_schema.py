"""The schema of the chart's values has that of the mover's settings in it."""

import json

import chart_schema
import pytest


def test_helm_knows_the_settings():
    assert chart_schema.current() == json.loads(chart_schema.VALUES.read_text()), "run scripts/chart_schema.py"


def test_definitions_are_those_of_both():
    own = {name: {"type": "string"} for name in chart_schema.OWN}
    values = {"definitions": {**own, "gone": {}}, "properties": {"settings": {}}}
    settings = {"$schema": "x", "type": "object", "definitions": {"count": {"type": "integer"}}}
    made = chart_schema.embedded(values, settings)
    assert made["definitions"] == {**own, "count": {"type": "integer"}}
    assert made["properties"]["settings"] == {"type": "object"}
    with pytest.raises(AssertionError, match="two definitions"):
        chart_schema.embedded(values, {"definitions": own})
