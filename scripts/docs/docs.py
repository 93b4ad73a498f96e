"""./dev docs: where is the documentation site? One folder for each version.

    build/docs/<version>/      the site, of mkdocs.yml and docs/
    build/docs/versions.json   which versions there are, newest first: what the site's selector reads
    build/docs/index.html      leads to the newest

MkDocs and its theme come from PyPI into the cache, each in the version that scripts/docs/requirements.txt pins; so does
Playwright, by which the tests read the site in a browser. The site itself loads nothing from another host.
"""

import json
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "dev"))
import console  # noqa: E402  pylint: disable=wrong-import-position
import packages  # noqa: E402  pylint: disable=wrong-import-position
from console import ROOT, Failure, say  # noqa: E402  pylint: disable=wrong-import-position

REQUIREMENTS = ROOT / "scripts" / "docs" / "requirements.txt"
OUTPUT = ROOT / "build" / "docs"
BROWSER = "chromium-headless-shell"
BUILD_SECONDS_MAX = 300
START = """<!doctype html>
<meta charset="utf-8">
<title>{version}</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
<a href="{version}/index.html">Documentation of version {version}</a>
"""


def version():
    """The version of this checkout, as CMake has it."""
    return re.search(r"^project\(\w+ VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]


def ensure_mkdocs():
    """The folder of MkDocs' programs; installed once for each state of the requirements."""
    return packages.venv("docs", REQUIREMENTS) / "bin"


def write_versions(output):
    """What leads to the versions there are."""
    names = [path.name for path in output.iterdir() if re.fullmatch(r"\d+(\.\d+)*", path.name)]
    names.sort(key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    versions = [{"version": name, "title": name, "aliases": []} for name in names]
    (output / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")
    (output / "index.html").write_text(START.format(version=names[0]))


def build(output=OUTPUT):
    """Builds this version's folder; returns it. A broken link, or a page that the navigation omits, is a Failure."""
    programs, folder = ensure_mkdocs(), output / version()
    command = [programs / "mkdocs", "build", "--strict", "--config-file", ROOT / "mkdocs.yml", "--site-dir", folder]
    with console.stage("docs"):
        code, lines = console.execute(command, env={"NO_MKDOCS_2_WARNING": "1"}, limit_seconds=BUILD_SECONDS_MAX, keep=True,
                                      quiet=True)
        if code != 0:
            say("\n".join(line for line in lines if not line.startswith("INFO")))
            raise Failure("the documentation has the faults above: mkdocs.yml has the navigation, scripts/docs/hooks.py the links")
    write_versions(output)
    return folder


def serve():
    """Serves the site on this machine alone, until it is interrupted."""
    say("docs: until you press Ctrl-C:")
    console.run(["/usr/bin/python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", OUTPUT, "8000"])


if __name__ == "__main__":
    ensure_mkdocs()
    packages.ensure_debian([BROWSER])
