"""Hooks for the documentation site (`make docs`): the command reference, and files from outside `docs/`."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_BESIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "vulnerabilities.md",
    "README.md": "index.md",
}
"""Pages from the root of the repository, and their names on the site."""
_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from the root, the generated reference, and every file that a page links to."""
    for name, uri in _BESIDE.items():
        if name != "README.md":
            files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, "commands.md", content=commands()))
    linked = {
        target
        for file in files.documentation_pages()
        for link, _ in _LINK.findall(file.content_string)
        if (target := _target(link, file.src_uri)) is not None and _is_static(target)
    }
    for target in sorted(linked):
        files.append(File.generated(config, f"files/{target}", abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Convert links of the repository to links of the site."""
    own = page.file.src_uri

    def moved(found: re.Match[str]) -> str:
        target = _target(found[1], own)
        if target is None:
            return found[0]
        uri = _BESIDE.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else f"files/{target}")
        return f"]({posixpath.relpath(uri, posixpath.dirname(own) or '.')}{found[2] or ''})"

    return _LINK.sub(moved, markdown)


def commands() -> str:
    """Return every command with its arguments and options, as in `--help`."""
    import typer

    from tidegate.cli.app import app

    parts = ["# Commands", "", "Every command has `--help`. Those that print results have `--json`.", ""]

    def walk(command: Any, path: str) -> None:
        inner = getattr(command, "commands", {})
        if not inner or path.count(" "):
            parts.extend([f"## {path}" if path.count(" ") == 1 else f"### {path}", ""])
            parts.extend([*_help(command), ""])
        for word, one in sorted(inner.items()):
            if not one.hidden:
                walk(one, f"{path} {word}")

    walk(typer.main.get_command(app), "tidegate")
    return "\n".join(parts)


def _help(command: Any) -> list[str]:
    text = (command.help or "").strip()
    body, _, example = text.partition("Example: ")
    lines = [" ".join(part.split()) + "\n" for part in body.strip().split("\n\n")]
    if example:
        lines += ["```", example.strip(), "```", ""]
    rows = []
    for one in command.params:
        words = (
            ", ".join(f"`{option}`" for option in one.opts)
            if one.param_type_name == "option"
            else f"`{one.name.upper()}`"
        )
        default = "" if one.default in (None, False, ()) or callable(one.default) else f" Default: `{one.default}`."
        rows.append(f"| {words} | {(one.help or '').replace('|', '/')}{default} |")
    return [*lines, *(["| | |", "|---|---|", *rows] if rows else [])]


def _target(link: str, own: str) -> str | None:
    """Return the repository file that a link points to; None for URLs and for pages of the site."""
    if re.match(r"[a-z]+:", link):
        return None
    beside = {uri: name for name, uri in _BESIDE.items() if name != "README.md"}
    folder = "" if own in beside else posixpath.join("docs", posixpath.dirname(own))
    return posixpath.normpath(posixpath.join(folder, link))


def _is_static(target: str) -> bool:
    return not target.startswith("docs/") and target not in _BESIDE and (ROOT / target).is_file()
