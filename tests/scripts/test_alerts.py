"""The alerts of the chart: what fires and what does not, and that each has its runbook."""

import re
import subprocess

import debian
import pytest
import yaml
from console import ROOT

RULES = ROOT / "deploy/chart/files/alerts.yaml"
ALL_RULES = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
CASES = ROOT / "tests/chart/alert_cases.yaml"
ALL_CASES = yaml.safe_load(CASES.read_text())
VOLUME = 'velero_namespace="velero",location="default",namespace="shop",claim="{}"'
RUNBOOK = ROOT / "docs" / "alerts.md"
METRICS = ROOT / "docs" / "data-mover-status.md"
SECONDS_MAX = 60
SEVERITIES = {"critical", "warning", "info"}
PARTS = ("It means", "Look", "Do", "It ends")
# increase() of a series that begins at 1 is 0, so a counter must be there before its first event. These are.
COUNTERS = {"uploads_total", "full_uploads_total", "audit_mismatches_total"}


def labels(*parts):
    """Of parts, which are labels or the PVC of a volume, as promtool reads them."""
    return ",".join(VOLUME.format(part) if part.isidentifier() else part for part in parts if part)


def series(name, values):
    metric, *subject = name.split(" ", 1)
    words = "".join(subject)
    replica = "b" if words.split(" ")[-1] == "b" else "a"
    own = labels(f'instance="{replica}",pod="{replica}"', words.removesuffix("b").strip() if replica == "b" else words)
    return {"series": f"csi_delta_mover_{metric}{{{own}}}", "values": str(values)}


def promtool_test(rule, case):
    """What promtool reads of a case of an alert."""
    alert, fired = f'alertname="{rule["alert"]}"', 'alertstate="firing"'
    severity = f'severity="{rule["labels"]["severity"]}"'
    of = case.get("of", [""]) if "fires" in case else []
    samples = [{"labels": f"ALERTS{{{labels(alert, fired, severity, one)}}}", "value": 1} for one in of]
    return {"interval": "5m" if "h" in case["at"] else "1m",
            "input_series": [series(*one) for one in case.get("series", {}).items()],
            "promql_expr_test": [{"expr": f"ALERTS{{{alert}, {fired}}}", "eval_time": case["at"], "exp_samples": samples}]}


each_alert = pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule["alert"])


# What takes hours is evaluated every 15 minutes, with samples every five: none is older than Prometheus looks back.
@pytest.mark.parametrize(("interval", "hours"), [("1m", False), ("15m", True)])
def test_alerts_fire_and_are_quiet_as_promised(tmp_path, interval, hours):
    tests = [promtool_test(rule, case) for rule in ALL_RULES for case in ALL_CASES[rule["alert"]] if ("h" in case["at"]) == hours]
    file = tmp_path / "alerts.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": interval, "tests": tests}))
    done = subprocess.run([debian.promtool(), "test", "rules", file], check=False, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


@each_alert
def test_an_alert_has_cases_of_both_kinds_and_says_what_is_wrong_by_labels_that_it_has(rule):
    cases = ALL_CASES[rule["alert"]]
    assert {"fires" in case for case in cases} == {True, False}, f"{CASES.name} lacks a firing or a quiet series"
    assert rule["labels"]["severity"] in SEVERITIES and set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    samples = [sample for case in cases for sample in promtool_test(rule, case)["promql_expr_test"][0]["exp_samples"]]
    assert [sample for sample in samples if not named <= set(re.findall(r"(\w+)=", sample["labels"]))] == []


@each_alert
def test_an_alert_is_made_of_metrics_that_exist_and_counts_those_that_are_there_from_the_start(rule):
    documented = set(re.findall(r"^\| `csi_delta_mover_(\w+)` \|", METRICS.read_text(), re.MULTILINE))
    assert set(re.findall(r"csi_delta_mover_(\w+)", rule["expr"])) <= documented
    assert set(re.findall(r"increase\(csi_delta_mover_(\w+)", rule["expr"])) <= COUNTERS


def test_an_alert_has_a_runbook():
    _, *parts = re.split(r"^#{2,4} (.+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    sections = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"): text for title, text in zip(parts[::2], parts[1::2])}
    for rule in ALL_RULES:
        page, _, fragment = rule["annotations"]["runbook_url"].partition("#")
        assert page == RUNBOOK.name and f"`{rule['alert']}`" in sections[fragment]
        assert [part for part in PARTS if f"**{part}" not in sections[fragment]] == []
    assert set(re.findall(r"`(CsiDelta\w+)`", RUNBOOK.read_text())) == {rule["alert"] for rule in ALL_RULES}


def test_each_alert_has_a_scenario_or_the_reason_why_not():
    named = set(re.findall(r'"(CsiDelta\w+)"', (ROOT / "tests" / "e2e" / "test_alerts.py").read_text()))
    assert named == {rule["alert"] for rule in ALL_RULES}
