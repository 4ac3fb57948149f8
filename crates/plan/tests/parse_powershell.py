"""Parses PowerShell scripts (a JSON list on stdin): each is without errors, and what has EVIL in it is a string."""

import json
import sys

import tree_sitter
import tree_sitter_powershell

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))


def leaves(node):
    """Nodes without children, below a node."""
    if not node.children:
        yield node
    for child in node.children:
        yield from leaves(child)


scripts = [script.encode() for script in json.load(sys.stdin)]
strings = 0
for script in scripts:
    root = PARSER.parse(script).root_node
    if root.has_error:
        sys.exit(f"no PowerShell:\n{script.decode()}")
    named = [leaf for leaf in leaves(root) if b"EVIL" in leaf.text]
    strings += len(named)
    for leaf in named:
        if leaf.type != "verbatim_string_characters":
            sys.exit(f"{leaf.type} at {leaf.start_point}:\n{script.decode()}")
print(len(scripts), strings)
