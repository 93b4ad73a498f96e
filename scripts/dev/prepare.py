"""What the tiers need before they run: C++ from one tree, and Go programs that a cache outside the checkout holds."""

import build
import console
import debian
import docs
import packages
import progress
import results
import tiers
from console import ROOT, Failure, say

GO_BUILD_SECONDS_MAX = 3600
OLD_VELERO = "velero113"  # A seventh of the bed's Go, for the scenarios of one lane.
STORE_MODULES = ("s3", "helm", "kube")  # What tests/s3 and tests/chart run; neither has a bed.
SANITY, SANITY_MODULE = "csi_sanity", "csi"  # The one test whose program is Go's.
PROGRAMS = [build.PLUGIN, build.PROGRAM]
UNIT, REAL, RESTIC, ROOT_TESTS, TSAN = (f"csidelta_{kind}_tests" for kind in ("unit", "real", "restic", "root", "tsan"))


def programs():
    """What is shipped."""
    build.build("release", PROGRAMS)


def real_tests():
    """The programs beside the shipped ones that the real tiers run: the CSI driver, the scripted plugin, restic's tests."""
    build.build("release", [REAL, RESTIC])


def unit_tests():
    build.build("release", [UNIT])


def root_tests():
    build.build("release", [ROOT_TESTS])
    bed([SANITY_MODULE])


def named(names):
    """Some test programs and commands, each with what it runs."""
    build.build("release", names)
    if SANITY in names:
        bed([SANITY_MODULE])


def _go(name, command):
    part, said = progress.part(), []

    def watch(line):
        said.append(line)
        if line.startswith(("bed: ", "pluginmanager: ")):  # Else it is where a product lies.
            part.note = line.split(": ", 1)[1][:40]
    log = results.log_file(f"go {name}")
    code, _ = console.execute(command, quiet=part.name != "", watch=watch, log=log, limit_seconds=GO_BUILD_SECONDS_MAX)
    part.note = ""
    if code != 0:
        say("\n".join(said[-60:]))
        raise Failure(f"`{console.shorten(command)}` failed with code {code}")


def bed(modules=()):
    """The programs of the test bed; built once per state of their sources."""
    with console.stage("bed programs"):
        _go("bed", [tiers.PYTHON, ROOT / "tests" / "e2e" / "build.py", *modules])


def bed_without_old_velero():
    bed(["--but", OLD_VELERO])


def old_velero():
    bed([OLD_VELERO])


def hosts(versions=tiers.VELERO_VERSIONS):
    """Velero's plugin managers, likewise."""
    with console.stage("plugin manager programs"):
        for prefix, command in tiers.host_commands(versions):
            if prefix == "pluginmanager":
                _go(prefix, [*command, "--build-only"])


def site():
    """What builds the documentation site, and the browser that reads it."""
    docs.ensure_mkdocs()
    docs.ensure_browser()


def later_restics():
    """The restics of Debian's later releases; says which they are."""
    debian.ensure_restics(newest=True)
    for line in debian.describe_restics():
        say(f"restic: {line}")


def for_scenarios():
    """All that a scenario runs, one after the other: for verbs that run nothing else."""
    packages.require_root()
    programs()
    real_tests()
    bed()
