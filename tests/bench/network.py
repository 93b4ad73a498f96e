#!/usr/bin/python3
"""Azure and Google beside S3: one program that speaks the three dialects, and waits before it answers.

    network.py --store PROGRAM --program CSI-DELTA [--ms N]... [--mib N] [--runs N] [--keep FOLDER]

Each row is a verb at a latency: a full backup of random data, an increment of nothing, a restore, a check that reads
all. The buckets take turns, each run has new ones, and memory is limited as a worker's. Prints medians, ranges and the
ratio to S3 at the same latency, and for the increment the requests that the server saw beside those of the result.
Exits with 1 when a ratio is below 0.85, or when the requests differ.
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import engine_images  # noqa: E402
import engine_lab  # noqa: E402
import engine_tools  # noqa: E402

MIB = 1 << 20
RUNS = 3
LATENCIES = (0, 30, 100)
RATIO_MIN = 0.85
ROWS = ("full", "unchanged", "restore", "check")
# The keys that the fakes know.
ENVIRONMENT = (("AWS_ACCESS_KEY_ID", "AKIDTEST"), ("AWS_SECRET_ACCESS_KEY", "secret/key+of=test"),
               ("AWS_REGION", "us-east-1"), ("AZURE_ACCOUNT_NAME", "teststore"),
               ("AZURE_ACCOUNT_KEY", "c2VjcmV0L2tleStvZj10ZXN0"))


class Store:
    """The running program, and the address of each of its buckets."""

    def __init__(self, process):
        self._process = process
        self.addresses = json.loads(process.stdout.readline())

    def requests(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextlib.contextmanager
def store(program, milliseconds):
    with subprocess.Popen([program, str(milliseconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Store(process)
        finally:
            process.stdin.close()
            process.wait(60)


def contestant(program, name, addresses):
    """csi-delta with what leads it to one of the buckets, and the repository there."""
    url = {"s3": f"s3:{addresses['s3']}/bucket/repo", "azure": "azure:container:/repo", "google": "gs:bucket:/repo"}[name]
    flags = ("-o", f"azure.storage-account-uri={addresses['azure']}") if name == "azure" else ()
    extra = (("STORAGE_EMULATOR_HOST", addresses["google"]),) if name == "google" else ()
    return engine_tools.CsiDelta(program, flags=flags, environment=ENVIRONMENT + extra), url


def one_round(lab, options, milliseconds, image, samples, requests):
    """Each row once for each of the buckets."""
    with store(options.store, milliseconds) as buckets:
        for name in buckets.addresses:
            tool, url = contestant(options.program, name, buckets.addresses)
            folder = lab.folder / name
            folder.mkdir()
            place = engine_tools.Place(folder, url)
            lab.measure([options.program, "-r", url, "init", "-q", *tool.flags],
                        {"RESTIC_PASSWORD": engine_tools.PASSWORD, **dict(tool.environment)}, home=place.home, cold=False)
            taken = {"full": tool.backup(lab, place, image)}
            before = buckets.requests()[name]
            taken["unchanged"] = tool.backup(lab, place, image)
            seen = buckets.requests()[name] - before
            requests.setdefault(name, []).append((seen, engine_tools.result(taken["unchanged"])["requests"]))
            taken["restore"] = tool.restore(lab, place, folder / "restored")
            taken["check"] = tool.check(lab, place)
            for row, sample in taken.items():
                samples.setdefault((row, name), []).append(sample)
                print(f"  {milliseconds} ms, {name}, {row}: {sample.seconds:.2f} s", file=sys.stderr, flush=True)
            subprocess.run(["rm", "-rf", folder], check=True)


def judge(milliseconds, samples, requests):
    """Prints the rows of one latency; returns whether all hold."""
    held = True
    for row in ROWS:
        for name in requests:
            mine = samples[row, name]
            ratio = engine_lab.median(samples[row, "s3"]) / engine_lab.median(mine)
            held = held and ratio >= RATIO_MIN
            peak = max(sample.peak_bytes for sample in mine) / MIB
            print(f"{'PASS' if ratio >= RATIO_MIN else 'FAIL'} {milliseconds:>3} ms  {row:<9} {name:<6} {engine_lab.spread(mine)}  "
                  f"{ratio:.2f} x s3  peak {peak:.0f} MiB", flush=True)
    for name, counts in requests.items():
        same = all(seen == told for seen, told in counts)
        held = held and same
        print(f"{'PASS' if same else 'FAIL'} {milliseconds:>3} ms  requests of an unchanged increment, {name}: seen and told "
              f"{', '.join(f'{seen} {told}' for seen, told in counts)}", flush=True)
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--ms", type=int, action="append")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--keep")
    options = parser.parse_args()
    with engine_lab.Lab(options.keep) as lab:
        print(f"{engine_lab.machine()}; {options.mib} MiB of random data", flush=True)
        image = lab.folder / "volume.img"
        engine_images.make_random(image, options.mib * MIB)
        held = []
        for milliseconds in options.ms or LATENCIES:
            samples, requests = {}, {}
            for _ in range(options.runs):
                one_round(lab, options, milliseconds, image, samples, requests)
            held.append(judge(milliseconds, samples, requests))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
