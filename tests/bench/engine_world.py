"""What the rows of the engine's bench share: images and repositories, made once, and duels between programs."""

import contextlib
import dataclasses
import pathlib
import re
import shutil
import subprocess

import engine_images as images
import engine_lab as lab_module
import engine_tools as tools

# An other tool that is so much slower than the fastest of its family in the first round fights no further one.
FAMILY_FACTOR = 1.15
MAKERS = {"random": images.make_random, "words": images.make_words}


@dataclasses.dataclass
class Verdict:
    """A promise and what came of it. Without `must` it is only printed."""

    what: str
    value: float
    must: float | None
    at_most: bool = False
    unit: str = "x"

    @property
    def held(self):
        if self.must is None:
            return True
        return self.value <= self.must if self.at_most else self.value >= self.must

    def text(self):
        sign = "<=" if self.at_most else ">="
        shown = f"{self.what}: {self.value:.2f}{self.unit}"
        if self.must is None:
            return f"{shown} (printed)"
        return f"{shown} (must {sign} {self.must:g}{self.unit}) {'held' if self.held else 'MISSED'}"


@dataclasses.dataclass
class Outcome:
    """What one row found."""

    samples: dict = dataclasses.field(default_factory=dict)  # Name of a program to its samples.
    verdicts: list = dataclasses.field(default_factory=list)
    remarks: list = dataclasses.field(default_factory=list)
    raw: dict = dataclasses.field(default_factory=dict)

    def document(self):
        return {"samples": {name: [sample.raw() for sample in samples] for name, samples in self.samples.items()},
                "verdicts": [{**dataclasses.asdict(verdict), "held": verdict.held} for verdict in self.verdicts],
                "remarks": self.remarks, **self.raw}


def joined(parts):
    """{what: Outcome} as one."""
    whole = Outcome()
    for what, part in parts.items():
        whole.samples |= {f"{what}: {name}": samples for name, samples in part.samples.items()}
        whole.verdicts += [dataclasses.replace(verdict, what=f"{what}: {verdict.what}") for verdict in part.verdicts]
    return whole


@dataclasses.dataclass
class World:
    """Everything a row may use."""

    lab: lab_module.Lab
    ours: tools.CsiDelta
    restics: list  # Every version, with its defaults.
    kopia: tools.Kopia
    image_bytes: int
    runs: int

    def image(self, kind):
        """An image of the bench's size; made once. `kind` is a key of MAKERS."""
        path = self.lab.folder / f"image-{kind}-{self.image_bytes >> 20}" / "volume.img"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = path.with_suffix(".tmp")
            MAKERS[kind](scratch, self.image_bytes)
            lab_module.make_durable(scratch)
            scratch.rename(path)
        return path

    def _folder(self, tool, kind):
        name = re.sub(r"[^A-Za-z0-9.]+", "-", tool.name)
        return self.lab.folder / f"repo-{name}-{kind}-{self.image_bytes >> 20}"

    def full(self, tool, kind):
        """One full backup into a new repository, which becomes the base of later rows."""
        folder = self._folder(tool, kind)
        self.drop(tool, kind)
        folder.mkdir()
        place = tools.Place(folder)
        tool.init(self.lab, place)
        sample = tool.backup(self.lab, place, self.image(kind))
        folder.rename(f"{folder}.base")
        return sample

    def ensure_base(self, tool, kind):
        if not pathlib.Path(f"{self._folder(tool, kind)}.base").exists():
            self.full(tool, kind)

    def stored_bytes(self, tool, kind):
        """What the repository with the full backup occupies."""
        return lab_module.disk_bytes(f"{self._folder(tool, kind)}.base/repo")

    def drop(self, tool, kind):
        for folder in (self._folder(tool, kind), pathlib.Path(f"{self._folder(tool, kind)}.base")):
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def clone(self, tool, kind):
        """A repository that holds one full backup of the image, to be changed at will."""
        folder = self._folder(tool, kind)
        base = pathlib.Path(f"{folder}.base")
        self.ensure_base(tool, kind)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        subprocess.run(["cp", "-al", base / "repo", folder / "repo"], check=True)
        subprocess.run(["cp", "-a", base / "home", folder / "home"], check=True)
        try:
            yield tools.Place(folder)
        finally:
            shutil.rmtree(folder)


def duel(world, contestants, run, outcome=None, rounds=None, once=()):
    """Lets the contestants take turns; returns an Outcome with the samples.

    `run(tool)` gives a Sample. Of each family only those that are near its fastest go on after the first round, and
    none of the families in `once`, whose figures are only printed.
    """
    outcome = outcome or Outcome()
    samples = outcome.samples
    remaining = list(contestants)
    for number in range(rounds or world.runs):
        for tool in remaining:
            samples.setdefault(tool.name, []).append(run(tool))
        if number == 0:
            best = {}
            for tool in remaining:
                seconds = samples[tool.name][0].seconds
                best[tool.family] = min(seconds, best.get(tool.family, seconds))
            remaining = [tool for tool in remaining if tool.family not in once and
                         samples[tool.name][0].seconds <= FAMILY_FACTOR * best[tool.family]]
    return outcome


def fastest(outcome, contestants, families):
    """The contestant of these families with the smallest median, or None."""
    others = [tool for tool in contestants if tool.family in families and tool.name in outcome.samples]
    return min(others, key=lambda tool: lab_module.median(outcome.samples[tool.name]), default=None)


def judge(outcome, ours, other, must):
    """Adds the ratio of the medians as a verdict."""
    ratio = lab_module.median(outcome.samples[other.name]) / lab_module.median(outcome.samples[ours.name])
    outcome.verdicts.append(Verdict(f"faster than {other.name}", ratio, must))
