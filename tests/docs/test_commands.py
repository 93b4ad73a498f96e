"""The commands that the documents show: each can be read, its program has the verb and the flags, and a test runs it or its mark says why not."""

import importlib.util
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "docs"))

import commands  # noqa: E402  pylint: disable=wrong-import-position
import programs  # noqa: E402  pylint: disable=wrong-import-position

TAB = "\t"
BLOCKS = commands.blocks()
RUN = pathlib.Path(__file__).with_name("run.tsv")
NOT_RUN_SHARE_MAX = 0.10
# Words in capitals that are names, not placeholders.
NAMES = re.compile(r"^(?:[A-Z]{1,3}|GOVERNANCE|COMPLIANCE|TRUNCATE|CHECKPOINT|FLUSH|TABLES|LOCK|READ|WITH|INNER|JSON|HTTP|POST)$")
# Placeholders that their page does not explain yet: a page that is rewritten explains its own.
UNEXPLAINED = {"docs/longhorn.md": {"RESTORE"}, "docs/performance.md": {"FOLDER"}, "docs/upgrade.md": {"REGISTRY"}}
# Comments, quoted text, columns of kubectl, the ends of here-documents.
_NOT_TYPED = re.compile(r"(?:^|\s)#.*|'[^']*'|custom-columns=\S+|<<-?\s*\w+|^[A-Z]+$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"(?<![\w$%{./:@-])[A-Z][A-Z0-9]+(?:[-_][A-Z0-9]+)*(?![\w=*-]|:[.$])|<[a-z][a-z -]*>")


def known():
    """{program: {verb: flags}} of all programs. The flags of ./dev are those of the scripts that its verbs run."""
    spec = importlib.util.spec_from_file_location("dev_verbs", ROOT / "scripts" / "dev" / "__main__.py")
    dev = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dev)
    sources = "".join(path.read_text(encoding="utf-8") for folder in ("scripts", "tests/bench") for path in sorted((ROOT / folder).rglob("*.py")))
    flags = frozenset(re.findall(r"--[a-z][a-z-]+", sources)) | {"-k"}  # And pytest's.
    table = programs.read_table()
    table["csi-delta"] = programs.of_cli_document((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))
    table["./dev"] = {"": frozenset(), **{name: flags for name in dev.VERBS}}
    return table


def rows():
    """(page, how its commands begin, the test that runs them, "") of run.tsv; where no test does, "-" and the reason."""
    lines = [line.split(TAB) for line in RUN.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return [tuple([*line, ""][:4]) for line in lines]


def _is_run(line, page, table, elsewhere):
    return line in elsewhere or any(row[0] == page and row[2] != "-" and (row[1] == "*" or line.startswith(row[1])) for row in table)


def account():
    """(blocks that a test runs, those that say why none does, those of pages that run.tsv says so of, all others)."""
    table, runnable = rows(), [block for block in BLOCKS if block.is_run]
    elsewhere = {line for block in runnable if not block.reason for line in commands.lines_of_text(block.text) if _is_run(line, block.page, table, ())}
    run, marked, listed, others = [], [], [], []
    for block in runnable:
        explicit = [row for row in table if not block.reason or row[1] != "*"]  # A mark says of a page that is run: not this.
        if all(_is_run(line, block.page, explicit, elsewhere) for line in commands.lines_of_text(block.text)):
            run.append(block)
        elif block.reason:
            marked.append(block)
        else:
            (listed if any(row[0] == block.page and row[2] == "-" for row in table) else others).append(block)
    return run, marked, listed, others


def test_each_command_can_be_read_and_has_a_verb_and_flags_that_exist():
    table, found = known(), commands.calls([block.text for block in BLOCKS])
    wrong = [f"{block.where}: {why}" for block, calls in zip(BLOCKS, found, strict=True) for words in calls
             if words[0] in table and (why := programs.complaint(words, table))]
    assert not wrong, "\n".join(wrong)


def unexplained(block, page):
    """The words of a block in capitals that its page neither explains nor sets."""
    outside = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    prose = "\n".join(line for line in outside.splitlines() if not line.startswith("    "))
    script = _NOT_TYPED.sub("", block.text)
    is_set = set(re.findall(r"\b([A-Z][A-Z0-9_]*)=", page))
    return {word for word in _PLACEHOLDER.findall(script) if not NAMES.match(word) and word not in is_set and not re.search(rf"\b{word}\b", prose)}


def test_each_placeholder_is_explained_on_its_page():
    texts = {block.page: (ROOT / block.page).read_text(encoding="utf-8") for block in BLOCKS}
    wrong = [f"{block.where}: {word}" for block in BLOCKS if block.is_run
             for word in sorted(unexplained(block, texts[block.page]) - UNEXPLAINED.get(block.page, set()))]
    assert not wrong, "\n".join(wrong)


def test_tests_run_the_commands_or_a_mark_says_why_not():
    run, marked, listed, others = account()
    total = len(run) + len(marked) + len(listed) + len(others)
    print(f"{total} blocks of commands: tests run {len(run)}, {len(marked)} are marked, {len(listed)} are of pages that run.tsv names, {len(others)} neither")
    assert not others, "\n".join(f"{block.where}: no test of run.tsv runs it, and no <!-- not run: REASON --> is above it" for block in others)
    assert len(marked) + len(listed) <= NOT_RUN_SHARE_MAX * total, (len(marked), len(listed), total)


def test_the_tests_that_run_pages_name_them():
    for page, begin, test, reason in rows():
        assert (ROOT / page).is_file(), page
        if test == "-":
            assert reason, page
            continue
        text = (ROOT / test.partition("::")[0]).read_text(encoding="utf-8")
        name = pathlib.PurePath(page)
        assert name.name in text or (begin != "*" and begin in text) or f'"{name.stem}"' in text or "import runbook" in text, f"{test} does not run {page}"
