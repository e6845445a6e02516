"""Questions of a study, and what may be refused."""

from typing import Any

import bayes_risk as br
from tests.soak.studies import Study

REFUSED = (br.InputError, br.ModelError)


def asked(study: Study, what: str, question: Any) -> Any:
    """The answer, or None where it was refused by name."""
    try:
        return question()
    except REFUSED as refusal:
        said = str(refusal)
        assert len(said) > 20 and "nan" not in said.lower().split(), said
        study.notes.append(f"{what}: {said}")
        return None
