"""Every link, anchor and file name in the documentation resolves."""

from __future__ import annotations

import re
from pathlib import Path

import doc_pages
import pytest
from doc_pages import Page, no_problems

from mvp_helpers.base.project import PROJECT

NAMED = re.compile(r"(?<![\w./~$}>-])(?:templates|lib|tests|scripts|benchmarks|docs)/[\w./{},*<>-]*[\w*/}>]")


def broken_links(page: Page, root: Path) -> list[str]:
    """Return every link of ``page`` to a file or heading that does not exist."""
    broken = []
    for line, target in page.links:
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        file = (root / page.name).parent / path if path else root / page.name
        anchors = Page(target, file.read_text()).anchors if anchor and file.is_file() else set()
        if not file.exists():
            broken.append(f"{page.name}:{line}: no file {target}")
        elif anchor and anchor not in anchors:
            broken.append(f"{page.name}:{line}: no heading for {target} (anchors: {', '.join(sorted(anchors))})")
    return broken


def patterns(path: str) -> list[str]:
    """Return the glob patterns that a path in the docs stands for: ``{a,b}`` is each of them, ``<name>`` is anything."""
    path = re.sub(r"<[^>]*>", "*", path).rstrip("/")
    if match := re.search(r"\{([^{}]*)\}", path):
        return [one for word in match[1].split(",") for one in patterns(path[: match.start()] + word + path[match.end() :])]
    return [path]


def missing_files(page: Page, root: Path) -> list[str]:
    """Return every file of the project that ``page`` names and that does not exist."""
    texts = [*page.commands, *((block.line, block.text) for block in page.blocks)]
    return [
        f"{page.name}:{line}: no file {path}"
        for line, text in texts
        for path in NAMED.findall(text)
        if not all(any(root.glob(pattern)) for pattern in patterns(path))
    ]


@pytest.mark.parametrize("page", doc_pages.pages(), ids=lambda page: page.name)
def test_every_link_and_every_named_file_exists(page: Page) -> None:
    no_problems(broken_links(page, PROJECT) + missing_files(page, PROJECT))


def test_every_page_is_linked_from_the_readme() -> None:
    readme = Page("README.md", (PROJECT / "README.md").read_text())
    unlinked = {page.name for page in doc_pages.pages()} - {target for _, target in readme.links} - {"README.md"}
    assert not unlinked, f"add to the table 'Where to look' of README.md: {', '.join(sorted(unlinked))}"


BAD = """# A title, `code`!
## Twice
## Twice
[good](#twice-1) [file](other.md#a-title-code) `[no link](x)`
[gone](gone.md) [anchor](#thrice) [anchor](other.md#b)
```sh
[in code](gone.md)   # templates/gone.yaml
```
`templates/ray/{local,gone}.yaml` `templates/ray/<name>.yaml` `jobs/templates/x` `lib/mvp_helpers/`
"""


def test_a_broken_link_anchor_or_file_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(BAD)
    (tmp_path / "other.md").write_text(BAD)
    page = doc_pages.pages(tmp_path)[0]
    assert page.anchors == {"a-title-code", "twice", "twice-1"}
    assert [message.partition(" (")[0] for message in broken_links(page, tmp_path)] == [
        "README.md:5: no file gone.md",
        "README.md:5: no heading for #thrice",
        "README.md:5: no heading for other.md#b",
    ]
    assert missing_files(page, PROJECT) == [
        "README.md:9: no file templates/ray/{local,gone}.yaml",
        "README.md:6: no file templates/gone.yaml",
    ]
