#!/usr/bin/python3
"""Azure and Google beside S3, and beside stock restic: one store speaks the three dialects, and waits before it answers.

    network.py --store PROGRAM --program CSI-DELTA [--row NAME]... [--restic PROGRAM]... [--mib N] [--runs N]

Rows clouds-MS take a full backup of random data, a backup of the same data, a restore and a check that reads all, in each
dialect, where each answer comes MS milliseconds late. Rows restic-CLOUD take a full backup and a restore at 100 ms, beside
the newest restic that speaks the dialect, with its defaults and with its best flags; the faster one counts. Debian removed
Azure's dialect from restic after bookworm; --restic names a program that is tried first.

All programs speak TLS with the hosts that the clouds name, without a proxy, in namespaces that the bench makes. They take
turns, each run has a new bucket, and the memory of csi-delta is limited as a worker's. Exits with 1 when a promise is
missed. Raw figures go to build/bench/network.json, where those of other rows of the same programs stay.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import pathlib
import shutil
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "dev")]

import debian  # noqa: E402
import engine_lab  # noqa: E402
import engine_rows  # noqa: E402
import engine_run  # noqa: E402
import engine_tools  # noqa: E402
import engine_world  # noqa: E402

MIB = 1 << 20
RATIO_MIN = 0.85
RATIOS_TO_RESTIC = {"full": 2, "restore": 1.5}
# Repositories, where the store listens, and the keys that it knows.
URLS = {"s3": "s3:https://s3.test/bucket/repo", "azure": "azure:container:/repo", "google": "gs:bucket:/repo"}
HOSTS = "127.0.0.1 s3.test\n127.0.0.2 teststore.blob.core.windows.net\n127.0.0.3 storage.googleapis.com\n"
ENVIRONMENT = (("AWS_ACCESS_KEY_ID", "AKIDTEST"), ("AWS_SECRET_ACCESS_KEY", "secret/key+of=test"),
               ("AWS_REGION", "us-east-1"), ("AZURE_ACCOUNT_NAME", "teststore"),
               ("AZURE_ACCOUNT_KEY", "c2VjcmV0L2tleStvZj10ZXN0"), ("GOOGLE_PROJECT_ID", "project"),
               ("GOOGLE_ACCESS_TOKEN", "token"))


@contextlib.contextmanager
def bucket(world, milliseconds, cloud, tool):
    """A repository in a new bucket: (the tool with what leads it there, its place, what counts requests so far)."""
    place = engine_tools.Place(world.lab.folder / "place", URLS[cloud])
    place.folder.mkdir()
    authority = place.folder / "authority.pem"
    with subprocess.Popen([world.store, str(milliseconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as store:
        def answer():
            store.stdin.write("\n")
            store.stdin.flush()
            return json.loads(store.stdout.readline())[cloud]

        try:
            authority.write_text(json.loads(store.stdout.readline())[cloud], encoding="ascii")
            led = dataclasses.replace(tool, environment=(*ENVIRONMENT, ("SSL_CERT_FILE", str(authority))))
            led.init(world.lab, place)
            yield led, place, answer
        finally:
            store.stdin.close()
            store.wait(60)
            shutil.rmtree(place.folder)


def restore(world, tool, place):
    sample = tool.restore(world.lab, place, place.folder / "restored")
    engine_rows.compare(world.image("random"), next((place.folder / "restored").rglob("volume.img")))
    return sample


def clouds(milliseconds, world):
    """Every verb in every dialect."""
    parts, requests = {verb: engine_world.Outcome() for verb in ("full", "unchanged", "restore", "check")}, {}
    for _ in range(world.runs):
        for cloud in URLS:
            with bucket(world, milliseconds, cloud, world.ours) as (tool, place, count):
                taken = {"full": tool.backup(world.lab, place, world.image("random"))}
                before = count()
                taken["unchanged"] = tool.backup(world.lab, place, world.image("random"))
                requests.setdefault(cloud, []).append((count() - before, engine_tools.result(taken["unchanged"])["requests"]))
                taken |= {"restore": restore(world, tool, place), "check": tool.check(world.lab, place)}
            for verb, sample in taken.items():
                parts[verb].samples.setdefault(cloud, []).append(sample)
    for part in parts.values():
        for cloud in ("azure", "google"):
            ratio = engine_lab.median(part.samples["s3"]) / engine_lab.median(part.samples[cloud])
            part.verdicts.append(engine_world.Verdict(f"{cloud} beside s3", ratio, RATIO_MIN))
    outcome = engine_world.joined(parts)
    for cloud, pairs in requests.items():
        outcome.remarks.append(f"requests of the unchanged backup, {cloud}, seen and told: {pairs}")
        outcome.verdicts.append(engine_world.Verdict(f"requests of {cloud} that differ from the result",
                                                     max(abs(seen - told) for seen, told in pairs), 0, at_most=True, unit=""))
    return outcome


def beside_restic(cloud, world):
    """One dialect, 100 ms before each answer."""
    parts, contestants = {verb: engine_world.Outcome() for verb in RATIOS_TO_RESTIC}, [world.ours, *world.restics[cloud]]
    for _ in range(world.runs):
        for contestant in contestants:
            with bucket(world, 100, cloud, contestant) as (tool, place, _):
                taken = {"full": tool.backup(world.lab, place, world.image("random")), "restore": restore(world, tool, place)}
            for verb, sample in taken.items():
                parts[verb].samples.setdefault(tool.name, []).append(sample)
        others = {verb: engine_world.fastest(part, world.restics[cloud], ("restic",)) for verb, part in parts.items()}
        contestants = [world.ours, *dict.fromkeys(others.values())]  # One that is never the fastest runs no further.
    for verb, part in parts.items():
        engine_world.judge(part, world.ours, others[verb], RATIOS_TO_RESTIC[verb])
    return engine_world.joined(parts)


ROWS = {**{f"clouds-{milliseconds}": (clouds, milliseconds) for milliseconds in (0, 30, 100)},
        **{f"restic-{cloud}": (beside_restic, cloud) for cloud in ("azure", "google")}}


def restics(cloud, programs):
    """The first restic that speaks the dialect, with its defaults and with its best flags."""
    connections = f"{URLS[cloud].partition(':')[0]}.connections"
    program = next(program for program in programs if connections in subprocess.run(
        [program, "options"], capture_output=True, text=True, check=True).stdout)
    restic = engine_tools.Restic(program, engine_tools.first_line([program, "version"]).split()[1])
    return [restic, dataclasses.replace(restic, flags=("--compression=off", "--pack-size=32", "-o", f"{connections}=16"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True, type=pathlib.Path)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--row", action="append", choices=ROWS)
    parser.add_argument("--restic", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    programs = [*options.restic, *reversed(debian.restics().values())]
    engine_lab.enter_namespaces("--net", "--mount")
    start, ours, machine = time.monotonic(), engine_tools.CsiDelta(options.program.resolve()), engine_lab.machine()
    others = {cloud: restics(cloud, programs) for cloud in ("azure", "google")}
    versions = [tool.version() for tool in (ours, *(pair[0] for pair in others.values()))]
    print(machine, *versions, sep="\n", flush=True)
    record = engine_run.Record("network", {"machine": machine.rpartition(", load")[0], "versions": versions, "mib": options.mib,
                                           "runs": options.runs})
    with engine_lab.Lab() as lab:
        (lab.folder / "hosts").write_text(HOSTS, encoding="ascii")
        subprocess.run(["mount", "--bind", lab.folder / "hosts", "/etc/hosts"], check=True)
        world = engine_world.World(lab, ours, others, None, options.mib * MIB, options.runs)
        world.store = options.store.resolve()
        rows = {name: functools.update_wrapper(functools.partial(row, argument), row) for name, (row, argument) in ROWS.items()}
        missed = engine_run.run_rows(rows, world, options.row or ROWS, record)
    return engine_run.finish(lab, record, missed, start)


if __name__ == "__main__":
    sys.exit(main())
