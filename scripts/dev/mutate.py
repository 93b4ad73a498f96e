"""Finds where a C++ source can be broken by one small change, and writes sources that hold many such changes.

A changed source holds all its mutants at once. Each is off unless the environment variable CSI_DELTA_MUTANT has
its number, so that one build serves many mutants: `if (a < b)` becomes `if ((::CsiDeltaMutant(7)) ? (a <= b) : (a < b))`.
"""

import bisect
import dataclasses
import re

VARIABLE = "CSI_DELTA_MUTANT"
PRELUDE = (
    "#ifndef CSIDELTA_MUTANTS\n#define CSIDELTA_MUTANTS\n#include <cstdlib>\n"
    "inline bool CsiDeltaMutant(int number) {\n"
    f'  static const char* const text = std::getenv("{VARIABLE}");\n'
    "  static const int chosen = text == nullptr ? 0 : std::atoi(text);\n"
    "  return chosen == number;\n}\n#endif\n#line 1\n")
_NUMBER = "\0"  # Stands for the mutant's number; no source has that byte.
_ON = f"::CsiDeltaMutant({_NUMBER})"
_COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_LEFT_OUT = re.compile(r"\b(?:CSIDELTA_LOG|CSIDELTA_CHECK|static_assert)\(")
_CONTROL = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype", "noexcept", "alignas"}


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One change: `edits` are (begin, end, new text) in the source; what it does is told as old -> new."""

    file: str
    line: int
    lines: int  # That follow it and belong to the change, too.
    operator: str
    old: str
    new: str
    edits: tuple

    @property
    def span(self):
        return self.edits[0][0], self.edits[-1][1]


def mask(text):
    """The text with comments, literals of text, and lines of the preprocessor blanked, each byte in its place."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'(?!\w)'
                         r"|^[ ]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
    blank = lambda found: re.sub(r"[^\n]", "_" if found[0][0] in "\"'R" else " ", found[0])
    # A quote between digits parts them: 10'000.
    masked = pattern.sub(blank, re.sub(r"(?<=\d)'(?=\d)", "_", text))
    partners = _partners(masked)
    parts, at = [], 0
    for found in _LEFT_OUT.finditer(masked):
        end = partners.get(found.end() - 1, found.end() - 1) + 1
        parts += [masked[at:found.start()], re.sub(r"[^\n]", "_", masked[found.start():end])]
        at = end
    return "".join(parts) + masked[at:]


def _partners(masked):
    """The offset of each bracket's partner, both ways."""
    partners, open_ones = {}, []
    for found in re.finditer(r"[(\[{)\]}]", masked):
        if found[0] in "([{":
            open_ones.append(found.start())
        elif open_ones:
            start = open_ones.pop()
            partners[start], partners[found.start()] = found.start(), start
    return partners


class Finder:
    """All candidates of one source."""

    def __init__(self, file, text):
        self._file, self._text, self._masked = file, text, mask(text)
        self._starts = [0] + [found.end() for found in re.finditer("\n", text)]
        self._partners = _partners(self._masked)
        self._found = []

    def _behind(self, opening):
        """The offset behind the bracket that closes this one."""
        return self._partners.get(opening, len(self._masked)) + 1

    def _end_of_statement(self, start):
        """The offset of the `;` that ends the statement, or None where a block begins first."""
        at = start
        while found := re.compile(r"[(\[{};]").search(self._masked, at):
            at = found.start()
            if found[0] == ";":
                return at
            if found[0] == "}" or (found[0] == "{" and self._masked[at - 1] in " \n" and not re.search(
                    r"(?:=|return|,|\?|:|\))\s*$", self._masked[start:at])):
                return None
            at = self._behind(at)
        return None

    def _outermost(self, begin, end, pattern):
        """Matches of a pattern that stand in no bracket within the range."""
        step, at = re.compile(f"(?P<open>[(\\[{{])|{pattern}"), begin
        while found := step.search(self._masked, at, end):
            if found["open"]:
                at = self._behind(found.start())
            else:
                yield found
                at = found.end()

    def find(self):
        for finder in (self._conditions, self._returns, self._statements, self._functions, self._numbers, self._truths):
            finder()
        return self._found

    def _add(self, operator, begin, end, new, edits):
        line = bisect.bisect_right(self._starts, begin)
        short = lambda text: " ".join(text.split())
        self._found.append(Candidate(self._file, line, self._text.count("\n", begin, end), operator,
                                     short(self._text[begin:end]), short(new), tuple(edits)))

    def _instead(self, operator, begin, end, new):
        """An expression that is another one while the mutant is on."""
        old = self._text[begin:end]
        if "//" not in new:  # On one line, so that the compiler's line numbers stay those of the source.
            flat = new.replace("\n", " ")
            self._add(operator, begin, end, new, [(begin, end, f"({_ON} ? ({flat}) : ({old}))")])

    def _expression(self, begin, end):
        """What can be changed within one expression: `&&` and `||`, comparisons."""
        for found in self._outermost(begin, end, r"(?<=[ \n])(?:&&|\|\||[<>]=?|[=!]=)(?=[ \n])"):
            new = {"&&": "||", "||": "&&"}.get(found[0]) or _COMPARED[found[0]]
            operator = "and/or" if found[0] in ("&&", "||") else "comparison"
            self._instead(operator, begin, end, self._text[begin:found.start()] + new + self._text[found.end():end])

    def _conditions(self):
        for found in re.finditer(r"\b(if|while|for) \(", self._masked):
            begin, end = found.end(), self._behind(found.end() - 1) - 1
            parts = [begin] + [at.end() for at in self._outermost(begin, end, ";")]
            if found[1] == "for":
                if len(parts) == 3:
                    self._expression(parts[1] + 1, parts[2] - 1)
                continue
            begin = parts[-1] + (len(parts) > 1)
            condition = self._text[begin:end]
            if re.search(r"[^=!<>]=[^=]", self._masked[begin:end]):
                continue  # Declares a variable.
            if found[1] == "if":
                self._add("negated", begin, end, f"!({condition})",
                          [(begin, end, f"{_ON} != static_cast<bool>({condition})")])
            self._expression(begin, end)

    def _returns(self):
        kinds = [(found.end(), found[1]) for found in re.finditer(
            r"(?:->\s*|\n\s*(?:static |virtual )?)absl::Status(Or<)?(?:\s+[\w:~]+\(|\s*\{|[^\n]*>\s+[\w:~]+\()",
            self._masked)]
        for found in re.finditer(r"\breturn (?!\{)", self._masked):
            end = self._end_of_statement(found.end())
            if end is None:
                continue
            begin, text = found.end(), self._masked[found.end():end]
            if text in ("true", "false"):
                self._instead("flipped", begin, end, "false" if text == "true" else "true")
                continue
            self._expression(begin, end)
            at = bisect.bisect_right(kinds, (begin, "")) - 1
            if at >= 0 and not kinds[at][1] and re.search("Error|status|Refuse|Fail|Annotate", text):
                old = self._text[found.start():end + 1]
                self._add("status is OK", found.start(), end + 1, "return absl::OkStatus();",
                          [(found.start(), end + 1, f"{{ if ({_ON}) {{ return absl::OkStatus(); }} {old} }}")])

    def _statements(self):
        plain = re.compile(r"(?:\(void\))?\*?[\w:]+(?:(?:\.|->|::)\w+|\[[^\]\n]*\]|\(\))*(?:\(| [-+|&*]?= |\+\+;|--;)|\+\+|--"
                           r"|(?:break|continue);")
        for before in re.finditer(r"[;{}:]\s*\n\s*(?=\S)", self._masked):
            begin = before.end()
            word = plain.match(self._masked, begin)
            if not word or re.match(r"(?:return|if|for|while|switch|case|default|using|delete|throw|_|ASSIGN_OR_RETURN)\b|_",
                                    self._masked[begin:]):
                continue
            end = self._end_of_statement(begin)
            if end is not None and not re.search(r"= (?:delete|default)$", self._masked[begin:end]):
                old = self._text[begin:end + 1]
                self._add("dropped", begin, end + 1, "", [(begin, end + 1, f"if (!{_ON}) {{ {old} }}")])

    def _functions(self):
        for found in re.finditer(r"\)\s*(?:const\s*)?(?:override\s*)?\{\n", self._masked):
            opening = self._partners.get(found.start(), 0)
            # The result's type may stand on a line of its own.
            head = re.search(r"(?:^|[;{}\n])\s*((?:\w[^;{}=\n]*\n?[^;{}=\n]*?)?[\s*&>])([\w:~]+)$",
                             self._masked[max(0, opening - 200):opening])
            if not head or head[2] in _CONTROL or head[2].endswith("_") or not head[1].strip():
                continue
            if "StatusOr<" in head[1]:
                continue  # Has no default value.
            new = "return;" if re.search(r"\bvoid\s*$", head[1]) else "return {};"
            at = found.end() - 1
            self._add("returns early", at, at, f"{head[2]}() {{ {new}", [(at, at, f" if ({_ON}) {{ {new} }}")])

    def _numbers(self):
        for found in re.finditer(r"(?<![\w.'\[<])\d[\d_]*(?![\w.'>])", self._masked):
            line = self._masked[self._masked.rfind("\n", 0, found.start()) + 1:self._masked.find("\n", found.end())]
            if re.match(r"\s*(?:case|enum|template|using)\b", line):
                continue
            old = self._text[found.start():found.end()]
            edits = [(found.start(), found.end(), f"({_ON} ? {int(old.replace(chr(39), '')) + 1} : {old})")]
            fixed = re.match(r"\s*(?:inline |static )?constexpr\b", line)
            if fixed:
                at = self._masked.rfind("constexpr", 0, found.start())
                edits.insert(0, (at, at + len("constexpr"), "const"))
            self._add("off by one", found.start(), found.end(), str(int(old.replace("'", "")) + 1), edits)

    def _truths(self):
        for found in re.finditer(r"(?<=[(,=] )(?:true|false)(?=[,;)])|(?<=\()(?:true|false)(?=[,)])|(?<== )(?:true|false)(?=[,;}])",
                                 self._masked):
            new = "false" if found[0] == "true" else "true"
            self._instead("flipped", found.start(), found.end(), new)


def apply(text, numbered):
    """The source with some candidates that do not overlap, each under its number."""
    edits = sorted((edit, number) for number, one in numbered for edit in one.edits)
    for (begin, end, new), number in reversed(edits):
        text = text[:begin] + new.replace(_NUMBER, str(number)) + text[end:]
    return PRELUDE + text
