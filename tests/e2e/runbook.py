"""The runbooks of docs/alerts.md: what the page says of an alert, and its commands."""

import json
import pathlib
import re
import subprocess
import sys

import components
import objects

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts" / "dev"))

import debian  # noqa: E402  pylint: disable=wrong-import-position

PAGE = ROOT / "docs" / "alerts.md"
RULES = ROOT / "deploy" / "chart" / "files" / "alerts.yaml"
EVERY_MINUTES, BEFORE = 5, 12  # Samples, and how many of the state before.
# When it is looked which alerts fire: the state is ten minutes, two hours, 26 hours or four days old.
SOON, IN_TWO_HOURS, IN_A_DAY, IN_FOUR_DAYS = "70m", "3h", "27h", "97h"
AFTER = 1200


def commands(alert):
    """(those that look, those that remediation) of an alert's section, in order."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    section, = (part for part in sections if re.search(rf"^Alerts? .*`{alert}`", part, re.MULTILINE))  # One may be of several.
    look, remediation = section.split("- **Do**")
    return [[line for fence in re.findall(r"```sh\n(.*?)```", part, re.DOTALL) for line in fence.replace("\\\n", " ").splitlines()]
            for part in (look, remediation)]


def run(bed, folder, command, *, check=True, **variables):
    """Runs a command of the page with the labels of the alert; returns what it writes."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    link = programs / "csi-delta"
    if not link.exists():
        link.symlink_to(components.program_path())
    values = {"NS": "", "PVC": "data", "LOCATION": "default", "VELERO": bed.namespace, **variables}
    script = "; ".join(f"export {name}={value}" for name, value in values.items())
    return bed.run(["bash", "-c", f"set -eu; cd {folder}; export PATH={programs}:$PATH; "
                    f"export AWS_ACCESS_KEY_ID={objects.ACCESS_KEY} AWS_SECRET_ACCESS_KEY={objects.SECRET_KEY}; {script}; {command}"],
                   check=check).stdout


def _case(before, after, alert, at, fires, labels):
    chosen = "".join(f', {name}="{value}"' for name, value in labels.items())
    series = [{"series": name, "values": f"{before.get(name, value)}+0x{BEFORE - 1} {value}+0x{AFTER}"} for name, value in after.items()]
    series += [{"series": name, "values": f"{value}+0x{BEFORE - 1} _x{AFTER}"} for name, value in before.items() if name not in after]
    sample = [{"labels": "{}", "value": 1}] if fires else []
    return {"interval": f"{EVERY_MINUTES}m", "input_series": series, "promql_expr_test": [{
        "expr": f'clamp_max(count(ALERTS{{alertname="{alert}", alertstate="firing"{chosen}}}), 1)', "eval_time": at, "exp_samples": sample}]}


def later(page, gauge, seconds):
    """A page of metrics as it is when so much time has passed, in which an age grew and nothing happened."""
    assert any(name.startswith(gauge) for name in page), gauge
    return {name: value + seconds if name.startswith(gauge) else value for name, value in page.items()}


def expect(folder, before, after, alert, at, *, fires, **labels):
    """Asks promtool whether an alert fires once the metrics `before` have become `after`; {} for no target."""
    file = folder / f"{alert}.json"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": f"{EVERY_MINUTES}m",
                                "tests": [_case(before, after, alert, at, fires, labels)]}))
    done = subprocess.run([debian.promtool(), "test", "rules", file], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{alert}: {done.stdout}{done.stderr}\n{json.dumps(after, indent=1)}"
