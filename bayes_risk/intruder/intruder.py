"""What the intruder knows."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import in_range, is_number, is_sequence, one_of
from bayes_risk.data.microdata import by_label, rows_named

_COMPETITOR = ("largest", "knows_totals", "groups", "others")
# Each knowledge of records in words, what must be said beside it, and what may. "some" stands for a
# fraction, a mask or labels.
_KINDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "all-but-target": ("every record but the target's", (), ()),
    "none": ("no record", (), ()),
    "some": ("{some}, never the target's", (), ()),
    "second-largest": ("the record with the second largest {largest}", ("largest",), _COMPETITOR),
    "second-largest-value": ("the second largest value of {largest}", ("largest",), _COMPETITOR),
    "all-but-two": (
        "every record but the target's and that of {other}",
        ("other", "knows_totals"),
        ("largest", "other", "knows_totals"),
    ),
}
KNOWN = "all but the target"  # of the target's household
_UNSAID = {"largest": None, "other": None, "knows_totals": False, "groups": "known", "others": None}
_CURES = {
    "largest": 'the column of which the target holds the largest value: "skilled"',
    "other": "the label of the second record that is not known",
    "knows_totals": "`knows_totals=True`: the sum of the two is what this intruder knows",
}


@dataclass(frozen=True, slots=True)
class Intruder(Shown):
    """What the intruder knows of the records (A) and of the target.

    Parameters
    ----------
    knows_records : str, float, mask or list of labels
        ``"all-but-target"``: every record except the target's, the worst case ``A = y_-i``.
        ``"none"``: no record. A number above 0 and below 1: that fraction of the records, drawn at
        random by the audit's seed (with the same seed those of a smaller fraction are among those
        of a larger one). A mask (n,) or a list of labels: these; of a mask that is a Series, its
        labels count. The target's own record is never known.
        ``"second-largest"``: the record with the second largest value of the column ``largest``;
        ``"second-largest-value"``: only that value of it. ``"all-but-two"``: every record but the
        target's and that of ``other``, and the sum of these two. The last three are business
        competitors (Wei & Reiter 2016), for models that offer them: `models.PoissonMixture`.
    knows_columns : sequence of str
        Columns of the target that the intruder knows beyond the unsynthesised ones. Guesses leave
        them at their true values.
    largest : str, optional
        The column in which the target is known to have the largest value. Guesses below the known
        values are impossible. Only this column is guessed.
    other : hashable, optional
        Label of the second record that is not known (``"all-but-two"``).
    knows_totals : bool, or mapping of column to total
        Whether the confidential total of a guessed column is known; a mapping gives it, and is
        checked. Of ``"all-but-two"`` it must be True: the sum of the two then follows.
    groups : {"known", "inferred"}
        For releases that keep totals: whether the intruder knows which synthetic records share a
        total (the worst case), or infers it from the release.
    others : frozen distribution of SciPy, optional
        The intruder's belief about every other value above the threshold, if a release has
        collapsed a tail. The default is a power law of unknown exponent, from the threshold to the
        second largest value.
    in_file : float, array or Series
        Probability, before the release, that the target is among the records of the file: above
        0, at most 1 (certain, the worst case); or one a record, for when it is the target (a Series
        by its labels): ``1 / df["weight"]`` of sampling weights. Below 1 for models with which
        `membership` is offered.

    household : {"all but the target", "unknown", "composition"}
        What is known of the target's household: all other members; no value that is synthesised, of
        any member (a member's ``knows_columns`` are known); or the number of members and their
        relations to the head alone. With the last two all other households are known, and the
        values of other members are summed out.
    households : Series, optional
        The household of each record by its label, ``df["hid"]``: where members are not known,
        and the model has no households.

    Raises
    ------
    InputError
        Too few settings for the intruder, or settings that do not apply; a fraction outside
        (0, 1); no record known where some are to be; a probability outside (0, 1].

    Examples
    --------
    >>> Intruder().knows_records
    'all-but-target'
    >>> Intruder(knows_records=0.5).in_words()
    "The intruder knows half of the records, drawn at random, never the target's."
    >>> Intruder(knows_records="second-largest", largest="skilled").in_words()
    'The intruder knows the record with the second largest skilled and that the target has more.'
    """

    knows_records: str | float | Sequence[Any] | npt.NDArray[Any] = "all-but-target"
    knows_columns: Sequence[str] = ()
    largest: str | None = None
    other: Hashable = None
    knows_totals: bool | Mapping[str, float] = False
    groups: str = "known"
    others: Any = None
    in_file: float | Sequence[float] | pd.Series | npt.NDArray[Any] = 1.0
    household: str = "all but the target"
    households: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "knows_records", _checked(self.knows_records))
        if isinstance(self.knows_columns, str):
            raise InputError(
                "knows_columns",
                self.knows_columns,
                "is a single string; give a list of column names",
            )
        one_of("groups", self.groups)
        _, needs, allows = _KINDS[self.kind]
        for name, unsaid in _UNSAID.items():
            value = getattr(self, name)
            is_given = type(value) is not type(unsaid) or value != unsaid
            if name in needs and not is_given:
                raise InputError(
                    "knows_records", self.knows_records, f"needs {name}: give {_CURES[name]}"
                )
            if is_given and name not in allows:
                given = self.knows_records if self.kind != "some" else self._some()
                raise InputError(
                    name,
                    value,
                    f"has no effect for an intruder with `knows_records={given!r}`; leave it out, "
                    "or give another `knows_records`",
                )
        object.__setattr__(self, "in_file", _chances(self.in_file))
        one_of("household", self.household)
        if self.household != KNOWN and (self.knows_less or not self.knows_target_in_file):
            raise InputError(
                "household",
                self.household,
                "is about one who knows all other households, and that the target is in the file; "
                "leave out `knows_records` and `in_file`",
            )
        if self.households is not None:
            object.__setattr__(self, "households", _labelled(self.households, self.household))
        if self.is_competitor and not self.knows_target_in_file:
            raise InputError("in_file", "is not offered for a business competitor; leave it out")
        if self.largest is not None and self.largest in self.knows_columns:
            raise InputError(
                "knows_columns", f"names {self.largest!r}, which is to be guessed; leave it out"
            )
        if self.others is not None and not hasattr(self.others, "cdf"):
            raise InputError(
                "others",
                self.others,
                "has no cdf; give one of SciPy's frozen distributions: "
                "scipy.stats.loguniform(200, 900)",
            )

    @property
    def kind(self) -> str:
        """The knowledge of records in one word; "some" for a fraction, a mask or labels."""
        return self.knows_records if isinstance(self.knows_records, str) else "some"

    @property
    def knows_less(self) -> bool:
        """Whether records besides the target's are unknown."""
        return self.kind != "all-but-target"

    @property
    def is_competitor(self) -> bool:
        """Whether this is a business competitor, whom the model itself has to answer."""
        return self.kind not in ("all-but-target", "none", "some")

    @property
    def knows_target_in_file(self) -> bool:
        """Whether it is certain that the target is among the records of the file."""
        return isinstance(self.in_file, float) and self.in_file == 1.0

    def chance_in_file(self, index: pd.Index) -> Array | None:
        """Of each record (n,) with labels ``index`` as the target; None: certain for all."""
        if self.knows_target_in_file:
            return None
        if isinstance(self.in_file, float):
            return np.full(len(index), self.in_file)
        assert isinstance(self.in_file, ByRecord)
        labels, values = self.in_file.labels, np.array(self.in_file.values)
        if labels is not None:
            given = pd.Series(values, index=pd.Index(labels))
            values = by_label(given, index, "in_file").to_numpy()
        if len(values) != len(index):
            raise InputError(
                "in_file", f"has {len(values):,} entries; the table has {len(index):,} records"
            )
        return values

    def household_of(self, index: pd.Index) -> npt.NDArray[np.int64] | None:
        """Number of the household of each record (n,) with labels ``index``; None: not given."""
        if self.households is None:
            return None
        given = pd.Series(self.households.values, index=pd.Index(self.households.labels))
        return pd.factorize(by_label(given, index, "households"))[0].astype(np.int64)

    def known(self, index: pd.Index, rng: np.random.Generator) -> Flags:
        """Which records with labels ``index`` are known, shape (n,); not of a business competitor.

        A fraction takes the first records in the order of ``rng``. The target's own record may be
        among them; every audit leaves it out.
        """
        if self.is_competitor:
            raise InputError("knows_records", self.knows_records, "is not a set of records")
        n = len(index)
        if self.kind != "some":
            return np.full(n, self.kind == "all-but-target")
        given, mask = self.knows_records, np.zeros(n, dtype=bool)
        if isinstance(given, float):
            if not (count := round(given * n)):
                cure = '; give "none", or a larger share'
                raise InputError("knows_records", given, f"of {n:,} records is none{cure}")
            rows = rng.permutation(n)[:count]
        else:
            rows = rows_named(given, index, "knows_records")
        mask[rows] = True
        return mask

    def in_words(self) -> str:
        """What is known of records and target, in a sentence or two for reports."""
        how = {"largest": self.largest, "other": repr(self.other), "some": self._some()}
        whom = _KINDS[self.kind][0].format(**how)
        if self.household != KNOWN:
            whom = "every record but those of the target's household"
        parts = [f"The intruder knows {whom}"]
        if self.knows_columns:
            parts.append(f"the target's {', '.join(map(str, self.knows_columns))}")
        if self.kind == "all-but-two":
            parts.append("the sum of these two")
        elif self.knows_totals:
            parts.append("the total of the column")
        if self.largest is not None:
            more = "" if self.kind != "all-but-two" else f" {self.largest} than anybody"
            parts.append(f"that the target has more{more}")
        known = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        inferred = " The intruder infers which synthetic records share a total."
        tail = " The intruder has a separate belief about other values of a collapsed tail."
        further = inferred * (self.groups == "inferred") + tail * (self.others is not None)
        if self.household == "composition":
            further += " Of that household the size and the relations to the head are known."
        if not self.knows_target_in_file:
            further += f" {self._chance_in_words()}"
        return f"{known}.{further}"

    def _chance_in_words(self) -> str:
        if isinstance(self.in_file, float):
            return (
                "The intruder is not certain that the target is in the file: before the release "
                f"the probability is {self.in_file:g}."
            )
        assert isinstance(self.in_file, ByRecord)
        values = np.array(self.in_file.values)
        return (
            "The intruder is not certain that the target is in the file: before the release the "
            f"probability is {values.min():.3g} to {values.max():.3g} by record, "
            f"{values.mean():.3g} on average."
        )

    def _some(self) -> str:
        """How many records are known."""
        known = self.knows_records
        if isinstance(known, float):
            share = "half" if known == 0.5 else f"{100 * known:g} %"
            return f"{share} of the records, drawn at random"
        if isinstance(known, str):
            return ""
        count = sum(k is not False for k in known)
        return f"{count:,} record{'s' if count != 1 else ''}"


class ByRecord(NamedTuple):
    """``in_file`` or ``households`` record by record, with the labels of a Series."""

    labels: tuple[Any, ...] | None
    values: tuple[Any, ...]


def _labelled(given: Any, household: str) -> ByRecord:
    """``households`` in a form that compares and hashes."""
    if isinstance(given, ByRecord):
        return given
    if household == KNOWN:
        right = 'leave it out, or give `household="unknown"`'
        raise InputError(f"households has no effect where all other members are known; {right}")
    if not isinstance(given, pd.Series) or given.isna().any():
        raise InputError(
            "households must be a Series with a household for each record; give df['hid']"
        )
    return ByRecord(tuple(given.index), tuple(given.tolist()))


def _chances(given: Any) -> float | ByRecord:
    """``in_file`` in a form that compares and hashes."""
    if isinstance(given, ByRecord):
        return given
    if not is_sequence(given):
        return in_range("in_file", given)
    try:
        values = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise InputError("in_file", "holds what is not a number; give 1 / df['weight']") from None
    outside = int((~((values > 0) & (values <= 1))).sum())
    if values.ndim != 1 or not len(values) or outside:
        raise InputError(
            "in_file",
            f"has {outside:,} entries that are missing or outside (0, 1], or is not a list; give "
            "one probability a record: 1 / df['weight'] of weights from 1 on",
        )
    if (values == 1.0).all():
        return 1.0
    labels = tuple(given.index) if isinstance(given, pd.Series) else None
    return ByRecord(labels, tuple(values.tolist()))


def _checked(given: Any) -> str | float | tuple[Any, ...]:
    """``knows_records`` in a form that compares and hashes: a word, a fraction, a tuple."""
    if isinstance(given, str):
        if given in _KINDS and given != "some":
            return given
        raise InputError(
            "knows_records",
            given,
            f"is not available; give one of {[k for k in _KINDS if k != 'some']}, a fraction or "
            "a list of labels",
        )
    if isinstance(given, bool | np.bool_) or given is None:
        raise InputError(
            "knows_records", given, 'is not available; give "all-but-target" or "none"'
        )
    if not is_sequence(given):
        share = float(given) if is_number(given) else float("nan")
        if not 0 < share < 1:
            raise InputError(
                "knows_records",
                given,
                'is not a fraction above 0 and below 1; give 0.5 for half, "none" or '
                '"all-but-target"',
            )
        return share
    if isinstance(given, pd.Series) and pd.api.types.is_bool_dtype(given.dtype):
        given = given.index[given]
    known = tuple(given.tolist() if hasattr(given, "tolist") else given)
    if not known or not any(k is not False for k in known):
        raise InputError('knows_records names no record; give "none" for no record')
    if not all(isinstance(k, Hashable) for k in known):
        raise InputError("knows_records holds lists or tables; give a mask or a list of labels")
    return known
