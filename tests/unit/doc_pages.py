"""The documentation as data: pages, headings, links, code spans and console examples; and the names that the code has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mvp_helpers.base.project import PROJECT

PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "shared-layout.md", "benchmarks/README.md", "docs/*.md")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs (.+) -->\n+$")
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
VARIABLE = re.compile(r"\bMVP_[A-Z0-9_]*[A-Z0-9]\b")
COMMON_OPTIONS = {"--cluster", "--dry-run", "--help", "-h"}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page; ``needs`` is from the comment ``<!-- needs … -->`` above it."""

    page: str
    line: int
    language: str
    text: str
    needs: str

    @property
    def commands(self) -> list[str]:
        """The commands of a console example, continuation lines joined; of ``console`` blocks only the lines after ``$``."""
        if self.language not in ("sh", "console"):
            return []
        lines = self.text.replace("\\\n", " ").splitlines()
        prompted = any(re.match(r"\S*\$ ", line) for line in lines)
        typed = [match[1] for line in lines if (match := re.match(r"\S*\$ +(.*)", line))] if prompted else lines
        return [line for line in typed if line and not line.startswith("#")]


@dataclass(frozen=True)
class Page:
    """One Markdown page; ``name`` is its path in the project."""

    name: str
    text: str

    @property
    def blocks(self) -> list[Block]:
        """Every fenced block, in order."""
        return [
            Block(self.name, self.line_at(match.start()), match[1], match[2], self.need_above(match.start()))
            for match in FENCE.finditer(self.text)
        ]

    @property
    def prose(self) -> str:
        """The text without fenced blocks; line numbers stay as they are."""
        return FENCE.sub(lambda match: "\n" * match[0].count("\n"), self.text)

    @property
    def spans(self) -> Iterator[tuple[int, str]]:
        """Line and text of every inline code span."""
        for number, line in enumerate(self.prose.splitlines(), 1):
            for match in SPAN.finditer(line):
                yield number, match[1]

    @property
    def links(self) -> Iterator[tuple[int, str]]:
        """Line and target of every link."""
        for number, line in enumerate(self.prose.splitlines(), 1):
            for match in LINK.finditer(SPAN.sub("", line)):
                yield number, match[1]

    @property
    def commands(self) -> Iterator[tuple[int, str]]:
        """Line and text of everything that a reader may type: commands of console examples, and code spans."""
        yield from self.spans
        for block in self.blocks:
            for command in block.commands:
                yield block.line, command.partition(" # ")[0]

    @property
    def anchors(self) -> set[str]:
        """What links to a heading may name, by GitHub's rules."""
        seen: Counter[str] = Counter()
        anchors = set()
        for title in re.findall(r"^#{1,6} +(.+?)\s*$", self.prose, re.MULTILINE):
            text = LINK.sub(lambda match: match[0][1:].partition("]")[0], title)
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        return anchors

    def section(self, title: str) -> str:
        """The text below the heading ``title``, to the next heading of any level; empty when there is none."""
        match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", self.text, re.MULTILINE | re.DOTALL)
        return match[1] if match else ""

    def line_at(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def need_above(self, offset: int) -> str:
        match = NEEDS.search(self.text[:offset])
        return match[1] if match else ""


def pages(root: Path = PROJECT) -> list[Page]:
    """Return every page of the documentation below ``root``."""
    files = sorted(file for pattern in PAGES for file in root.glob(pattern))
    return [Page(str(file.relative_to(root)), file.read_text()) for file in files]


def first_column(table: str) -> list[str]:
    """Return every code span of the first column of a Markdown table."""
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [name for row in rows for name in SPAN.findall(row.split("|")[1])]


def scripts() -> list[str]:
    """Return the names of the scripts that people run."""
    return sorted(file.name for file in (PROJECT / "scripts").glob("*.sh"))


def no_problems(problems: list[str]) -> None:
    """Fail with all problems, one on each line."""
    assert not problems, "\n" + "\n".join(problems)


def script_text(script: str) -> str:
    """Return the text of a script that people run."""
    return (PROJECT / "scripts" / script).read_text()


def header(text: str) -> str:
    """Return the help of a script: its header comment."""
    lines = text.splitlines()
    return "\n".join(lines[: next(at for at, line in enumerate(lines) if not line.startswith("#"))])


def options_in(text: str) -> set[str]:
    """Return every word of ``text`` that is an option."""
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def accepted_options(text: str) -> set[str]:
    """Return the options that a script with this text accepts, without those that all scripts accept."""
    return options_in("\n".join(re.findall(r"^(?:parse_options|own=)(.*)$", text, re.MULTILINE)))


def targets(makefile: str) -> set[str]:
    """Return the targets of a Makefile that people may name."""
    return set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))


def code_variables() -> set[str]:
    """Return every ``MVP_`` variable of scripts, helper, templates, compose files and Makefile."""
    folders = [file for name in ("scripts", "lib", "templates") for file in (PROJECT / name).rglob("*") if file.is_file()]
    files = [*folders, *PROJECT.glob("docker-compose*.yaml"), PROJECT / "Makefile"]
    texts = (file.read_text() for file in files if file.suffix != ".pyc")
    return {name for text in texts for name in VARIABLE.findall(text)}
