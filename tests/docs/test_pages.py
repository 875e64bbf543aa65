"""The documentation is true where a machine can tell: links lead somewhere, code runs, commands and settings exist."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import tomllib
import typer
import yaml

from tests.docs.pages import PAGES, ROOT, Block, anchors, blocks, links, name
from tidegate import extensions
from tidegate.cli.app import app
from tidegate.domain.policy import Policy

SHELL = ("", "sh", "bash", "console")
RUN = ("CONTRIBUTING.md", "docs/extending.md")
"""Pages whose Python blocks are run, one after the other."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{name(page)} links to {link}, which does not exist"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{name(page)}: {name(path)} has no heading #{anchor}"


def test_every_page_can_be_reached() -> None:
    """From the site's menu, or from a page that can."""
    menu = (ROOT / "mkdocs.yml").read_text()
    listed = {path for path in PAGES if path.parent == ROOT or f" {name(path).removeprefix('docs/')}" in menu}
    listed |= {
        path for page in listed for link in links(page) if (path := (page.parent / link).resolve()).suffix == ".md"
    }
    missing = [name(path) for path in PAGES if (ROOT / "docs") in path.parents and path not in listed]
    assert not missing, f"add to the menu in mkdocs.yml: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_placeholder_is_left(page: Path) -> None:
    """A single word in capitals on a line of its own stands for figures that were never filled in."""
    assert not re.findall(r"^[A-Z]{3,}$", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_parses(block: Block) -> None:
    ast.parse(block.text)


PUBLIC = {"tidegate", "tidegate.extensions", "tidegate.testing"}


def _sources() -> Iterator[tuple[str, str]]:
    for block in blocks("python"):
        yield str(block), block.text
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield name(path), path.read_text(encoding="utf-8")


def test_users_need_only_what_the_package_exports() -> None:
    for where, text in _sources():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                used = {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                used = {str(node.module)}
            else:
                continue
            inside = {one for one in used if one.split(".")[0] == "tidegate"} - PUBLIC
            assert not inside, f"{where} imports from {inside}: export it from tidegate"


@pytest.fixture
def registered() -> Iterator[None]:
    """What a page plugs in is taken out again."""
    before = {kind: set(extensions._registered[kind]) for kind in extensions.KINDS}
    yield
    for kind, known in before.items():
        for part in set(extensions._registered[kind]) - known:
            extensions.forget(kind, part)


@pytest.mark.parametrize("page", RUN)
def test_python_runs(page: str, registered: None) -> None:
    namespace: dict[str, Any] = {"__name__": "docs"}
    for block in blocks("python"):
        if name(block.page) == page:
            exec(compile(block.text, str(block), "exec"), namespace)
    assert len(namespace) > 2, f"{page} has no Python to run"
    for word, test in list(namespace.items()):
        if word.startswith("test_"):
            test()


def test_the_recipe_for_a_proposer_is_short_and_has_a_test() -> None:
    (recipe,) = [block for block in blocks("python") if name(block.page) == "CONTRIBUTING.md"]
    lines = [line for line in recipe.text.splitlines() if line.strip()]
    assert len(lines) < 30
    assert "def test_" in recipe.text


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_parses_and_policies_are_valid(block: Block) -> None:
    found = yaml.safe_load(block.text)
    if isinstance(found, dict) and set(found) <= set(Policy.model_fields) and "…" not in block.text:
        Policy.model_validate(found)


@pytest.mark.parametrize("block", blocks("json", "toml"), ids=str)
def test_json_and_toml_parse(block: Block) -> None:
    (json.loads if block.language == "json" else tomllib.loads)(block.text)


def commands() -> list[tuple[str, list[str]]]:
    """Every command of ours in a shell block, with its line."""
    found = []
    for block in blocks(*SHELL):
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            words = _words(line)
            if words and words[0] in {"tidegate", "make", "python"}:
                found.append((str(block), words))
    return found


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line.strip().removeprefix("$ "), comments=True)
    except ValueError:
        return []


@lru_cache(maxsize=1)
def _options() -> dict[tuple[str, ...], set[str]]:
    """The options of every command and subcommand."""
    found: dict[tuple[str, ...], set[str]] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        found[path] = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        for word, inner in getattr(command, "commands", {}).items():
            walk(inner, (*path, word))

    walk(typer.main.get_command(app), ())
    return found


@pytest.mark.parametrize(("where", "words"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_commands_exist_with_their_options(where: str, words: list[str]) -> None:
    if words[0] == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert all(word in targets or "=" in word for word in words[1:]), f"{where}: {words}"
    elif words[0] == "python" and len(words) > 1 and words[1].endswith(".py"):
        assert (ROOT / words[1]).is_file() or "/" not in words[1], f"{where}: {words[1]} does not exist"
    elif words[0] == "tidegate" and len(words) > 1:
        _check_command(where, words[1:])


def _check_command(where: str, words: list[str]) -> None:
    known, path = _options(), ()
    while words and (*path, words[0]) in known:
        path, words = (*path, words[0]), words[1:]
    assert path, f"{where}: there is no command {words[0]!r}"
    for word in words:
        if word in {"|", ">", ">>", "&&", "&", "--"}:
            break
        option = word.partition("=")[0]
        if option.startswith("--") or re.fullmatch(r"-[a-z]", option):
            assert option in known[path] | {"--help"}, f"{where}: tidegate {' '.join(path)} has no {option}"
    if path == ("reproduce",) and words and words[0].islower():
        from tidegate_lab.commands.reproduce.command import EXPERIMENTS

        assert words[0] in EXPERIMENTS, f"{where}: there is no experiment {words[0]!r}"


def test_inline_commands_exist() -> None:
    """`tidegate NAME` in a sentence, too."""
    known = {path[0] for path in _options() if path}
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue  # it speaks of commands that were
        for word in re.findall(r"`tidegate ([a-z][a-z-]+)\b", page.read_text(encoding="utf-8")):
            assert word in known, f"{name(page)}: there is no command tidegate {word}"


def test_settings_that_pages_name_exist() -> None:
    """`executors.max`, `guards.disruptions_per_hour`: sections and settings of the policy."""
    sections = {
        section: set(field.annotation.model_fields)
        for section, field in Policy.model_fields.items()
        if hasattr(field.annotation, "model_fields")
    }
    for page in PAGES:
        if page.name in {"CHANGELOG.md", "policy.md"}:
            continue  # they also speak of settings that were
        for section, setting in re.findall(r"`([a-z_]+)\.([a-z_]+)(?::[^`]*)?`", page.read_text(encoding="utf-8")):
            if section in sections and setting != "py":
                assert setting in sections[section], f"{name(page)}: there is no setting {section}.{setting}"
