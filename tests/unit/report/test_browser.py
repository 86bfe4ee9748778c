"""The page in a real browser, a headless Chromium: it draws, reads out values, asks for nothing, and runs nothing of a user's."""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import axe_core_python
import pytest
from browser import Browser, program
from truthful_job import change_result, good_job, write_metrics

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.report import page
from mvp_helpers.report.facts import Run

pytestmark = pytest.mark.skipif(not program(), reason="Chromium is not installed (tests/lab/install.sh installs it)")
EVIL = "<script>document.title='taken over'</script><img src=x onerror=\"document.title='taken over'\">"
Load = Callable[[JobFolder], Run]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def file(shared: SharedRoot, folder: JobFolder, load: Load, tmp_path: Path) -> Path:
    """The page of two jobs: one with a gap, and one that failed and wrote markup wherever a user can write."""
    scores: list[float | None] = [0.1, 0.25, None, 0.5, 0.125]
    write_metrics(folder, [{"critic/score/mean": score, "actor/pg_loss": -1e-4} for score in scores])
    other = good_job(shared, "ppo-b")
    write_metrics(other, [{"critic/score/mean": score, EVIL: 1.0} for score in (0.2, 0.3)])
    change_result(other, state="FAILED", exit_code=1, reason=EVIL)
    other.driver_log.write_text(f"{EVIL}\nTraceback (most recent call last):\nValueError: {EVIL}\n")
    made = tmp_path / "page.html"
    made.write_text(page.of_jobs([load(folder), load(other)]))
    return made


def test_no_error_no_request_no_broken_link_and_inert_text(browser: Browser, file: Path) -> None:
    for width in (1440, 390):
        for theme in ("light", "dark"):
            browser.open(file, width, theme)
            assert browser.problems() == []
            assert [url for url in browser.requests() if url != file.as_uri()] == []
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert "taken over" not in browser.run("document.title")
    broken = (
        "[...document.querySelectorAll('a')].map(a => a.getAttribute('href')).filter(h => !document.getElementById(h.slice(1)))"
    )
    assert browser.run(broken) == []
    assert browser.run("document.querySelectorAll('img, iframe, object, link').length") == 0


def test_every_chart_has_a_curve_a_name_and_a_key(browser: Browser, file: Path) -> None:
    browser.open(file, 1440)
    charts = "[...document.querySelectorAll('figure[data-metric]')]"
    assert browser.run(f"{charts}.every(f => f.querySelector('path.curve') && f.querySelector('svg').getAttribute('aria-label'))")
    assert browser.run("[...document.querySelectorAll('table')].every(t => t.caption && t.caption.textContent)")
    assert browser.run("[...document.querySelectorAll('select, input')].every(i => i.labels.length)")
    headings = browser.run("[...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1]))")
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))


def test_the_keyboard_reads_out_exactly_what_metrics_jsonl_has(browser: Browser, file: Path, folder: JobFolder) -> None:
    browser.open(file, 1440)
    chart = "document.querySelector('figure[data-metric=\"critic/score/mean\"]')"
    browser.run(f"{chart}.querySelector('svg').focus()")
    browser.press("Home")
    written = {row["step"]: row["data"]["critic/score/mean"] for row in map(json.loads, folder.metrics.read_text().splitlines())}
    read = {}
    for _ in range(len(written) - 1):
        first = browser.run(f"{chart}.querySelector('output span').textContent")
        step, value = first.removeprefix("ppo-a: step ").split(": ")
        read[int(step)] = float(value)
        browser.press("ArrowRight")
    assert read == {step: value for step, value in written.items() if value is not None}
    assert "NaN or infinite at step 3" in browser.run(f"{chart}.querySelector('.note').textContent")
    assert browser.run(f"{chart}.querySelectorAll('path.k0')[0].getAttribute('d').split('M').length - 1") == 2  # a gap


def test_hovering_shows_the_nearest_value(browser: Browser, file: Path) -> None:
    browser.open(file, 1440)
    browser.run("document.querySelector('figure svg').scrollIntoView({ block: 'center', behavior: 'instant' })")
    left, top, wide = browser.run("(b => [b.left, b.top, b.width])(document.querySelector('figure svg').getBoundingClientRect())")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + wide * 0.36, y=top + 60)
    assert browser.run("document.querySelector('figure output').textContent").startswith("ppo-a: step 2: 0.25")


def test_log_scale_smoothing_and_time_change_the_curves(browser: Browser, file: Path) -> None:
    browser.open(file, 1440)
    curve = "document.querySelector('figure path.curve:not(.faint)').getAttribute('d')"
    seen = [browser.run(curve)]
    browser.run("document.getElementById('log').click()")
    seen.append(browser.run(curve))
    browser.run(
        "(() => { const s = document.getElementById('smooth'); s.value = '0.9'; s.dispatchEvent(new Event('change')); })()"
    )
    seen.append(browser.run(curve))
    assert len(set(seen)) == 3
    assert browser.run("document.querySelectorAll('figure path.faint').length") > 0
    loss = "document.querySelector('figure[data-metric=\"actor/pg_loss\"]')"
    assert "not above 0" in browser.run(f"{loss}.querySelector('.note').textContent")
    assert browser.problems() == []


def test_text_has_the_contrast_of_wcag_aa_in_both_themes(browser: Browser, file: Path) -> None:
    measure = """(() => {
      const parse = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
      const ground = (element) => { for (let e = element; e; e = e.parentElement) {
        const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
      const bad = new Set();
      const hasText = (e) => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
      for (const e of document.querySelectorAll('body *')) {
        if (!hasText(e) || ['SCRIPT', 'OPTION'].includes(e.tagName)) continue;
        const ink = parse(getComputedStyle(e)[e instanceof SVGElement ? 'fill' : 'color']);
        const [a, b] = [light(ink), light(ground(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) bad.add(`${e.tagName}.${e.getAttribute('class')} ${ratio.toFixed(2)}`);
      }
      return [...bad];
    })()"""
    for theme in ("light", "dark"):
        browser.open(file, 1440, theme)
        assert browser.run(measure) == [], theme


def test_a_blocked_request_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    """The checks above can fail: a page that asks for a file, and whose script throws, is caught."""
    bad = tmp_path / "bad.html"
    bad.write_text('<img src="missing.png"><script>throw new Error("x")</script>')
    browser.open(bad, 400)
    assert browser.problems() and len(browser.requests()) == 2


def test_the_keyboard_reaches_the_content_first_and_every_control(browser: Browser, file: Path) -> None:
    browser.open(file, 1440)
    browser.press("Tab")
    assert browser.run("document.activeElement.textContent") == "Skip to the content"
    unreachable = (
        "[...document.querySelectorAll('a, select, input, summary, figure svg, .scroll, pre, .log')].filter(e => e.tabIndex < 0)"
    )
    assert browser.run(f"{unreachable}.length") == 0


def test_a_printed_page_has_the_content_without_the_controls(browser: Browser, file: Path) -> None:
    browser.open(file, 1440)
    closed = "document.querySelectorAll('details:not([open])').length"
    browser.run(f"addEventListener('beforeprint', () => {{ window.closed_on_paper = {closed}; }})")
    browser.call("Emulation.setEmulatedMedia", media="print")
    hidden = "[...document.querySelectorAll('nav, .controls')].every(e => getComputedStyle(e).display === 'none')"
    assert browser.run(hidden) and browser.run("document.querySelectorAll('figure path.curve').length") > 0
    printed = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
    assert printed.startswith(b"%PDF-") and len(re.findall(rb"/Type\s*/Page\b", printed)) >= 2
    assert browser.run("window.closed_on_paper") == 0 and browser.run(closed)
    browser.call("Emulation.setEmulatedMedia", media="")


def test_a_section_far_below_is_searched_linked_and_printed_although_its_layout_waits(browser: Browser, file: Path) -> None:
    browser.open(file, 390)
    sections = "[...document.querySelectorAll('section')]"
    assert browser.run(f"{sections}.every(s => getComputedStyle(s).contentVisibility === 'auto')")
    assert browser.run("window.find('Traceback (most recent')")
    assert browser.run("getSelection().getRangeAt(0).getBoundingClientRect().top < innerHeight && scrollY > innerHeight")
    for link in browser.run("[...document.querySelectorAll('main a, nav a')].map(a => a.getAttribute('href'))"):
        browser.run(f"scrollTo(0, 0); document.querySelector('a[href=\"{link}\"]').click()")
        top, bottom = browser.run(f"(b => [b.top, b.bottom])(document.getElementById('{link[1:]}').getBoundingClientRect())")
        assert top >= 0 and bottom <= 900, link
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.run(f"{sections}.every(s => getComputedStyle(s).contentVisibility === 'visible')")
    browser.call("Emulation.setEmulatedMedia", media="")


AXE = Path(axe_core_python.__file__).with_name("axe.min.js").read_text()


def violations(browser: Browser) -> list[str]:
    """Everything that axe-core finds: each rule, and the first element that breaks it."""
    browser.run(f"{AXE}; 1")
    found = (
        "axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => `${v.id}: ${v.nodes[0].html}`))"
    )
    return list(browser.run(found))


def test_axe_finds_nothing_against_the_accessibility_of_the_page(browser: Browser, file: Path) -> None:
    for width, theme in ((1440, "light"), (390, "dark")):
        browser.open(file, width, theme)
        browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert violations(browser) == [], (width, theme)


def test_axe_would_find_a_control_without_a_name(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<html lang=en><title>x</title><main><h1>x</h1><select><option>1</select></main>")
    browser.open(bad, 400)
    assert [text.partition(":")[0] for text in violations(browser)] == ["select-name"]
