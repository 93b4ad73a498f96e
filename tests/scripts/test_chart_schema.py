"""The schema of the chart's values has that of the mover's settings in it."""

import json

import chart_schema
import pytest


def test_helm_knows_the_settings():
    assert chart_schema.current() == json.loads(chart_schema.VALUES.read_text()), "run scripts/chart_schema.py"


def test_a_name_has_one_definition():
    with pytest.raises(AssertionError, match="two definitions"):
        chart_schema.embedded({}, {"definitions": dict.fromkeys(chart_schema.OWN)})
