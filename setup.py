"""Adds the pages of ``docs`` to the wheel, as ``bayes_risk/docs``; see pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PAGES = ROOT / "docs"
WORDS = re.compile(
    r"```{include} \.\./README\.md\n:start-after: \"(.*)\"\n:end-before: \"(.*)\"\n```"
)


def included(found: re.Match[str]) -> str:
    """The part of the README that a page includes."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition(found[1])[2].partition(found[2])[0].strip()


class WithPages(build_py):
    """Copies the pages beside the modules; an editable installation reads them in the checkout."""

    def run(self) -> None:
        """Build as usual, then copy."""
        super().run()
        if self.editable_mode:
            return
        for page in sorted(PAGES.rglob("*.md")):
            place = page.relative_to(PAGES)
            if not {"_build", "generated"} & set(place.parts):
                target = Path(self.build_lib, "bayes_risk", "docs", place)
                target.parent.mkdir(parents=True, exist_ok=True)
                text = WORDS.sub(included, page.read_text(encoding="utf-8"))
                target.write_text(text, encoding="utf-8")


setup(cmdclass={"build_py": WithPages})
