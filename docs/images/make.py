"""Make the pictures of this folder: the way of a JobSpec, and the page of a real job as Chromium shows it.

usage: make images [JOB=ID], or .venv/bin/python docs/images/make.py [PAGE], a page that 56_report.sh wrote
"""

from __future__ import annotations

import sys
import tempfile
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
WAY, SCREENSHOT = HERE / "jobspec.svg", HERE / "report.png"
WIDTH, HEIGHT = 1080, 400
STYLE = """
  .ground { fill: #ffffff } .lane { fill: #f6f8fa; stroke: #d0d7de } .box { fill: #ffffff; stroke: #59636e }
  text { font: 14px system-ui, "Segoe UI", "Liberation Sans", sans-serif; fill: #1f2328 }
  .title { font-weight: 600 } .soft { fill: #59636e; font-size: 12px }
  .code { font-family: ui-monospace, "Liberation Mono", monospace; font-size: 12px }
  .arrow { fill: none; stroke: #0757ba; stroke-width: 2 } .tip { fill: #0757ba }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } .lane { fill: #161b22; stroke: #3d444d } .box { fill: #0d1117; stroke: #9da7b3 }
    text { fill: #e6edf3 } .soft { fill: #9da7b3 } .arrow { stroke: #6cb6ff } .tip { fill: #6cb6ff }
  }
"""
LANES = {
    "Your machine": [("ppo.json", "the JobSpec: what to train"), ("43_submit_jobspec.sh", "reaches the head")],
    "Head: no CPU, no GPU": [
        ("JobSpec → plan", "inputs, memory, overrides"),
        ("job folder claimed", "never reused or overwritten"),
        ("Ray job accepted", "placement on a worker proven"),
    ],
    "Worker": [
        ("precheck", "what do all processes import?"),
        ("trainer", "verl, as a child process"),
        ("result.json", "state, exit code, last metrics"),
    ],
    "Job folder: the evidence": [
        ("config/ · precheck.json", "what was asked, from where"),
        ("driver.log · metrics.jsonl", "what happened, step by step"),
        ("checkpoints/ · debug/", "to resume, or to explain"),
        ("seal.intoto.jsonl", "a signature over every file"),
    ],
}
READERS = (
    "50 status · 51 logs · 54 verify · 55 explain · 56 report · 57 checkpoints · 58 samples: the job folder first, and Ray second"
)
ALT = (
    "A JobSpec's way from left to right: on your machine 43_submit_jobspec.sh sends ppo.json to the head; the head checks it, "
    "claims a job folder and submits a Ray job; on a worker the job runner makes its precheck, runs the trainer and writes "
    "result.json; all evidence is in the job folder, which is sealed and which the scripts 50 to 58 read."
)


def way() -> str:
    """Return the picture of a JobSpec's way as SVG, in the colours of the reader's theme."""
    gap, top, box = 28, 20, 58
    wide = (WIDTH - gap * (len(LANES) + 1)) / len(LANES)
    parts = [f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="8"/>']
    for at, (title, boxes) in enumerate(LANES.items()):
        left = gap + at * (wide + gap)
        parts.append(f'<rect class="lane" x="{left:g}" y="{top}" width="{wide:g}" height="310" rx="8"/>')
        parts.append(f'<text class="title" x="{left + 12:g}" y="{top + 25}">{escape(title)}</text>')
        for row, (name, about) in enumerate(boxes):
            y = top + 40 + row * (box + 8)
            parts.append(f'<rect class="box" x="{left + 8:g}" y="{y}" width="{wide - 16:g}" height="{box}" rx="6"/>')
            parts.append(f'<text class="code" x="{left + 18:g}" y="{y + 25}">{escape(name)}</text>')
            parts.append(f'<text class="soft" x="{left + 18:g}" y="{y + 44}">{escape(about)}</text>')
        if at:
            parts.append(f'<path class="arrow" d="M{left - gap + 3:g} {top + 20}H{left - 9:g}"/>')
            parts.append(f'<path class="tip" d="M{left - 3:g} {top + 20}l-8 -5v10z"/>')
    parts.append(f'<text class="soft" x="{gap + 2}" y="{HEIGHT - 32}">{escape(READERS)}</text>')
    body = "\n".join(parts)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title">'
    return f'{head}\n<title id="title">{escape(ALT)}</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n'


def screenshot(page: Path) -> None:
    """Write the upper part of a page as PNG, with few enough colours for a small file."""
    from PIL import Image

    sys.path.insert(0, str(PROJECT / "tests" / "unit"))
    from browser import Browser

    with tempfile.TemporaryDirectory() as home, Browser(Path(home)) as browser:
        browser.open(page, 1280)
        browser.screenshot(SCREENSHOT, whole=False)
    with Image.open(SCREENSHOT) as shot:
        few = shot.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(SCREENSHOT, optimize=True)


def main() -> None:
    WAY.write_text(way())
    for name in sys.argv[1:]:
        screenshot(Path(name).resolve())
    print(
        *(f"{file.relative_to(PROJECT)}: {file.stat().st_size / 1000:.0f} kB" for file in (WAY, SCREENSHOT) if file.is_file()),
        sep="\n",
    )


if __name__ == "__main__":
    main()
