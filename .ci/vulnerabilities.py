"""Ask a package index which of the locked versions have known vulnerabilities.

``python .ci/vulnerabilities.py [--service ADDRESS] [LOCK ...]``: every name==version of the lock
files is looked up in the JSON pages that PyPI serves (``/pypi/NAME/VERSION/json``, the field
``vulnerabilities``). Exit code 1 where one is found that is not accepted below, with its reason.
Where no service answers, as inside an enclave, it says so and exits with 0.
"""

import argparse
import http.client
import json
import os
import re
import sys
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCKS = [ROOT / "requirements-lock.txt", ROOT / "requirements-docs-lock.txt"]
SERVICE = os.environ.get("BAYES_RISK_VULNERABILITIES", "https://pypi.org")
TIMEOUT = 3.0  # seconds that one answer may take
PROBE = 1.5  # and each of the first, while it is not known whether anybody answers
AT_ONCE = 8
LARGEST = 50_000_000  # bytes of an answer
ACCEPTED: Mapping[str, str] = {}  # identifier or alias: why it does not concern this package


def pins(text: str) -> list[tuple[str, str]]:
    """Name and version of everything that a lock file pins."""
    return re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE)


def asked(service: str, timeout: float, pin: tuple[str, str]) -> list[dict[str, Any]] | None:
    """What the service knows against one version; None if it gives no answer that can be read."""
    address = f"{service.rstrip('/')}/pypi/{pin[0]}/{pin[1]}/json"
    try:
        with urllib.request.urlopen(address, timeout=timeout) as page:
            found = json.loads(page.read(LARGEST))["vulnerabilities"]
        return [dict(one) for one in found if not one.get("withdrawn")]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return None


def names_of(vulnerability: Mapping[str, Any]) -> list[str]:
    """Its identifier and aliases."""
    return [str(x) for x in (vulnerability.get("id"), *(vulnerability.get("aliases") or ())) if x]


def told(pin: tuple[str, str], vulnerability: Mapping[str, Any]) -> str:
    """One line on a vulnerability."""
    fixed = ", ".join(map(str, vulnerability.get("fixed_in") or ())) or "no version yet"
    return f"{pin[0]} {pin[1]}: {' '.join(names_of(vulnerability))} (mended in {fixed})"


def checked(service: str, wanted: list[tuple[str, str]], timeout: float) -> int:
    """Look all up, print what was found, and give the exit code."""
    ask = partial(asked, service, timeout)
    try_out = partial(asked, service, min(timeout, PROBE))
    if all(try_out(pin) is None for pin in wanted[:3]):  # a few: where nobody answers this is all
        print("vulnerabilities: not checked: no registry answered")
        return 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(ask, wanted))
    found = [(pin, one) for pin, known in zip(wanted, answers, strict=True) for one in known or ()]
    bad = [told(pin, one) for pin, one in found if not ACCEPTED.keys() & set(names_of(one))]
    print(*bad, sep="\n", end="\n" if bad else "")
    silent = sum(known is None for known in answers)
    print(
        f"vulnerabilities: {len(bad)} found in {len(wanted) - silent} of {len(wanted)} locked "
        f"versions, {len(found) - len(bad)} accepted"
        + (f"; no answer on the other {silent}" if silent else "")
    )
    return int(bool(bad))


def main(arguments: list[str]) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Known vulnerabilities of the locked versions.")
    parser.add_argument("--service", default=SERVICE)
    parser.add_argument("--timeout", type=float, default=TIMEOUT)
    parser.add_argument("locks", nargs="*", type=Path, default=LOCKS)
    given = parser.parse_args(arguments)
    texts = [path.read_text(encoding="utf-8") for path in given.locks]
    wanted = sorted({pin for text in texts for pin in pins(text)})
    if not wanted:
        parser.error(f"no pins in {', '.join(map(str, given.locks))}")
    return checked(given.service, wanted, given.timeout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
