"""Finds where a C++ source can be broken by one small change, and writes sources that hold many such changes.

A changed source holds all its mutants at once. Each is off unless the environment variable CSI_DELTA_MUTANT has its
number, so that one build serves many mutants: `a < b` becomes `(::CsiDeltaMutant(7) ? ((a) <= (b)) : (a < b))`.
tree-sitter parses a source by itself, without a compile command. Code that it does not understand has no mutants.
"""

import collections
import functools
import re
import sys

import packages
from console import ROOT

VARIABLE = "CSI_DELTA_MUTANT"
PRELUDE = (
    "#ifndef CSIDELTA_MUTANTS\n#define CSIDELTA_MUTANTS\n#include <cstdlib>\ninline bool CsiDeltaMutant(int number) {\n"
    f'  static const int chosen = std::atoi(std::getenv("{VARIABLE}") ? std::getenv("{VARIABLE}") : "0");\n'
    "  return chosen == number;\n}\n#endif\n#line 1\n")
_NUMBER = "\0"  # Stands for the mutant's number; no source has that byte.
_ON = f"::CsiDeltaMutant({_NUMBER})"
_OTHER = {"&&": "||", "||": "&&", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
          "true": "false", "false": "true"}
_LEFT_OUT = re.compile("ERROR|alias_decl|array_decl|bitfield|enum_spec|preproc_def|preproc_func|sizeof|static_assert"
                       "|template_arg|template_param|CSIDELTA_(LOG|CHECK)")


class Candidate(collections.namedtuple("Candidate", "key file lines edits")):
    """One change: `edits` are (begin, end, new text) in bytes; it covers some lines."""

    def touches(self, other):
        begin, end = self.edits[0][0], self.edits[-1][1]
        return self.file == other.file and begin <= other.edits[-1][1] and other.edits[0][0] <= end


@functools.cache
def parser():
    venv = packages.venv("tree-sitter", ROOT / "scripts" / "mutants" / "requirements.txt")
    sys.path += map(str, venv.glob("lib/python3*/site-packages"))
    import tree_sitter
    import tree_sitter_cpp
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))


def _walk(node, text, result="", constant=None):
    """The changes of a node and of those in it: (operator, node, new text, edit or None, constant).

    No edit: the expression is another one while the mutant is on. `text` gives the source of a node. `result`: the type
    that the function around it returns. `constant`: the constexpr before it, which has to be const then.
    """
    kind, field, old = node.type, node.child_by_field_name, text(node)
    fixed = next((child for child in node.children if child.text == b"constexpr"), None)
    if _LEFT_OUT.match(kind) or _LEFT_OUT.match(old) or (fixed and kind in ("function_definition", "if_statement")):
        return
    if kind in ("function_definition", "lambda_expression"):
        head, body = field("declarator"), field("body")
        result = text(field("type") or head or node).split("->")[-1].strip()
    if kind == "function_definition" and field("type") and body and len(body.children) > 2 and not (
            "StatusOr<" in result or head.type == "reference_declarator"):  # They have no default.
        new = "return;" if result == "void" and head.type == "function_declarator" else "return {};"
        yield "returns early", body.children[0], f"{text(head)} {{ {new}", f"{{ if ({_ON}) {{ {new} }}", None
    elif kind == "condition_clause" and node.parent.type == "if_statement" and field("value").type != "declaration":
        yield "negated", (it := field("value")), f"!({text(it)})", f"{_ON} != static_cast<bool>({text(it)})", None
    elif kind == "binary_expression" and (operator := text(field("operator"))) in _OTHER:
        new = f"({text(field('left'))}) {_OTHER[operator]} ({text(field('right'))})"
        yield "and/or" if operator in ("&&", "||") else "comparison", node, new, None, constant
    elif kind == "number_literal" and re.fullmatch(r"-?(?:0|[1-9][\d']*)", old):
        yield "off by one", node, str(int(old.replace("'", "")) + 1), None, constant
    elif kind in ("true", "false"):
        yield "flipped", node, _OTHER[kind], None, constant
    elif kind == "return_statement" and result == "absl::Status" and old != (new := "return absl::OkStatus();"):
        yield "status is OK", node, new, f"{{ if ({_ON}) {{ {new} }} {old} }}", None
    elif kind in ("expression_statement", "break_statement", "continue_statement") and (
            node.parent.type in ("compound_statement", "case_statement") and node.text.decode() == old != ";"):
        yield "dropped", node, "", f"if (!{_ON}) {{ {old} }}", None
    for child in node.children[2 if kind == "case_statement" else 0:]:  # A case's value stays.
        yield from _walk(child, text, result, fixed or constant)


def find(file, data):
    """All candidates of one source. Macros become C++ of the same length: ASSIGN_OR_RETURN(T x, F()) is T x =(F())."""
    plain = re.sub(rb"ASSIGN_OR_RETURN\(((?:[^,<;]|<[^;]*?>(?=[\s&*]))*),(\n?) ", rb"                 \1=\2(", data)
    plain = re.sub(rb"\bABSL_[A-Z_]+\([^()]*\)", lambda found: re.sub(rb"\S", b" ", found[0]), plain)
    text = lambda node: data[node.start_byte:node.end_byte].decode()
    for operator, node, new, edit, constant in _walk(parser().parse(plain).root_node, text):
        if edit or "//" not in new:  # On one line, so that the compiler's line numbers stay those of the source.
            edit = edit or f"({_ON} ? ({' '.join(new.splitlines())}) : ({text(node)}))"
            edits = [(constant.start_byte, constant.end_byte, "const")] if constant else []
            lines = range(node.start_point[0] + 1, node.end_point[0] + 2)
            key = f"{file}:{lines[0]}:{node.start_byte}: {operator}: {' '.join(f'{text(node)} -> {new}'.split())}"
            yield Candidate(key, file, lines, [*edits, (node.start_byte, node.end_byte, edit)])


def apply(data, numbered):
    """The source with some candidates that do not overlap, each under its number."""
    edits = sorted((edit, number) for number, one in numbered for edit in one.edits)
    for (begin, end, new), number in reversed(edits):
        data = data[:begin] + new.replace(_NUMBER, str(number)).encode() + data[end:]
    return PRELUDE.encode() + data
