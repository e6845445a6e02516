"""The first study of a table: what its columns are taken for, and a study file that runs."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from scipy.stats import norm

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import toml_key, toml_value
from bayes_risk._core.shown import visible
from bayes_risk.data.base_result import Result
from bayes_risk.data.coarsening import coarser_keys, proposed, share_unique
from bayes_risk.data.columns import BY_NAME, BY_RUNS, kinds_of
from bayes_risk.data.delimited import SETTLED, WORDS_READ, Dialect, dialect_of, numbers_in
from bayes_risk.data.kinds import DELIMITED
from bayes_risk.data.microdata import checked_table
from bayes_risk.data.spelling import MISSING_WORDS
from bayes_risk.data.table import in_days, read_table
from bayes_risk.data.variables import FEW, are_whole, holds_text

from .column_roles import are_dense, is_design, is_key, is_sensitive, is_weight, like_ages

MOST_COLUMNS = 10  # of a first study: others are left for later
MOST_KEYS, MOST_SYNTHESIZED = 4, 3
TARGETS = 100
MANY = 20_000  # records, above which a mixture of numbers takes long
SPIKE = 0.2  # share of one value, such as 0, in a number that no smooth family has
WRITTEN = {"separator": ",", "decimal": ".", "encoding": Dialect(",").encoding}
HUGE = 1e150  # larger numbers have no square
STEPS = 15  # of a radius, over nearly all values
LEAST = 10  # records without which a radius is the same
MATCHED = 0.05  # expected share of correct matches that a first study accepts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FirstStudy(Result):
    """A study file proposed for a table; `save` writes it, ``bayes-risk audit`` runs it."""

    text: str  # the study file: TOML, with a comment on every choice
    # what each column is taken for ("label", "key", "synthesised", "kept", "left out"), and why
    columns: pd.DataFrame
    n: int  # records
    said: tuple[str, ...] = ()  # while the file was read
    notes: tuple[str, ...] = ()  # what to think of before the first run

    def summary(self) -> pd.DataFrame:
        """What each column is taken for, and why."""
        return self.columns

    def __repr__(self) -> str:
        rows = {str(c): (what, why) for c, what, why in self.columns.itertuples()}
        columns = (f"  {x}" for x in _aligned(rows))
        return "\n".join([*self.said, self.sentence(), *columns, *self.notes])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the study file; an existing file is an error."""
        try:
            with Path(path).open("x", encoding="utf-8") as file:
                file.write(self.text)
        except FileExistsError:
            raise InputError(f"{str(path)!r} exists; give another name") from None


def study_of(
    data: pd.DataFrame | str | PathLike[str], *, path: str | PathLike[str] | None = None
) -> FirstStudy:
    """Propose a study of a table: keys, model, what is synthesised and guessed, thresholds.

    It is a beginning that runs to a verdict in about a minute, not advice: columns are judged by
    their values, and by names in several languages; amounts, dates and survey weights are
    synthesised or left out, never kept; most columns of a wide table are left out, few targets
    audited.

    Parameters
    ----------
    data : DataFrame, or path of a file
        The confidential table, or its file (as `read_table` reads it).
    path : path, optional
        What ``[data] path`` says; by default the file, or ``data.csv`` for a DataFrame.

    Returns
    -------
    FirstStudy
        ``.text`` is the study file, ``.columns`` what each column was taken for and why.

    Raises
    ------
    InputError
        A file that cannot be read; a table without two columns that models can take.

    Examples
    --------
    >>> table = pd.DataFrame({"id": range(40), "sex": ["f", "m"] * 20, "job": ["a", "b"] * 20})
    >>> study_of(table).columns["taken for"].to_dict()
    {'id': 'label', 'sex': 'key', 'job': 'synthesised'}
    """
    said, na, dialect = list[str](), list[str](), Dialect(",")
    if isinstance(data, pd.DataFrame):
        df, file = checked_table(data), Path("data.csv" if path is None else path)
    else:
        file = Path(data)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            df = read_table(file)
            if file.name.lower().endswith(DELIMITED):
                dialect = dialect_of(file)
                if na := _words(df, dialect.decimal):
                    caught.clear()
                    df = read_table(file, na=na)
        said = [*dict.fromkeys(str(w.message).removesuffix(SETTLED) for w in caught)]
        file = file if path is None else Path(path)
    return _Draft(df, na, file, dialect).study(said)


def _words(df: pd.DataFrame, decimal: str) -> list[str]:
    """What fields of a CSV mean missing: words among numbers, negative codes among others.

    Any other word may be a value of one person, and stays.
    """
    found: dict[str, None] = dict.fromkeys(df.attrs.get(WORDS_READ, ()))
    for name in df:
        column = df[name]
        if holds_text(column):
            numbers, words = numbers_in(pd.Index(column.dropna().unique()), decimal)
            if len(words) == 1 and len(numbers) > FEW and _is_missing(words[0]):
                found[words[0]] = None
            if (column == "NA").any():
                found["NA"] = None
    codes = {k.code for k in kinds_of(df).values() if k.code is not None and k.missing}
    return [*found, *(f"{c:g}" for c in sorted(codes))]


# Answers that stand for no number, in some languages; other words may be values of persons
NO_ANSWER = frozenset(
    "refus|refused|refusal|refuse|dk|don't know|dont know|not applicable|not stated|"
    "inapplicable|nsp|ne sait pas|non réponse|sans objet|k.a.|keine angabe|weiss nicht|weiß nicht|"
    "verweigert|ns|nc|ns/nc|no sabe|no contesta|non so|rifiuta|não sabe|nao sabe|"
    "weet niet|geen antwoord|odmowa|nie wiem|brak danych".split("|")
)


def _is_missing(word: str) -> bool:
    return word.strip().lower() in MISSING_WORDS | NO_ANSWER


class _Draft:
    """The choices, and their text."""

    def __init__(self, df: pd.DataFrame, na: list[str], file: Path, dialect: Dialect) -> None:
        self.kinds, self.na, self.file, self.n = kinds_of(df), na, file, len(df)
        for c, k in self.kinds.items():
            if k.code is not None and k.missing:  # not in a CSV, whose `na` takes the code
                self.kinds[c] = k._replace(
                    taken="out", why=f"{k.why}, and empty ones: make them one"
                )
            elif k.taken in ("number", "codes") and is_weight(c, self.kinds):
                self.kinds[c] = k._replace(taken="out", why=f"{k.why}: {WEIGHT}")
            elif is_design(c):
                self.kinds[c] = k._replace(taken="out", why=f"{k.why}: {DESIGN}")
        kinds, found = self.kinds, dialect._asdict()
        self.written = {k: found[k] for k, usual in WRITTEN.items() if found[k] != usual}
        self.labels = [c for c, k in kinds.items() if k.taken == "label"]
        self.used = [c for c, k in kinds.items() if k.taken not in ("label", "out")]
        if len(self.used) < 2:
            raise InputError(
                f"the table has {len(self.used)} columns that a study can use: "
                + "; ".join(f"{c!r}: {k.why}" for c, k in kinds.items())
            )
        self.days = [c for c in self.used if kinds[c].taken == "days"]
        self.numbers = [c for c in self.used if kinds[c].taken in ("number", "days")]
        told = {c: in_days(df[c], c) if c in self.days else df[c] for c in self.numbers}
        self.told = {c: x[x.notna() & (x != kinds[c].code)].astype(float) for c, x in told.items()}
        self._choose()
        self.missing = any(kinds[c].missing for c in self.used)
        self.coarser = dict[str, str]()
        self.notes = [*self._uniques(df), *self._households()]
        for c in self.made:
            if c in self.told and (how := proposed(self.told[c], self._codes(c))):
                self.coarser[c] = toml_value(how)
        self.model = self._model()

    def _choose(self) -> None:
        """Keys, and what is synthesised: one amount or two, and categories of few levels.

        Only categories are kept beside them: amounts and dates that are not synthesised are left
        out, for as they are they identify records. No number is a key that is not one of few that
        are close together, whatever its name.
        """
        groups = [c for c in self.used if c not in self.numbers]
        amounts = [c for c in self.numbers if c not in self.days]
        years = {c: like_ages(self.told[c]) for c in amounts if not is_sensitive(c)}
        named = [c for c in self.used if is_key(c) and (c in groups or are_dense(self.told[c]))]
        named = [c for c in named if c not in self.days]
        named = named or [c for c in groups if not is_sensitive(c)][:2]
        known = [c for c in self.used if c in named or years.get(c)]
        keys = known[:MOST_KEYS] if len(known) < len(self.used) else known[: len(self.used) // 2]
        if set(keys) == set(self.used):
            keys = keys[:-1]
        rest = [c for c in self.used if c not in keys]
        rest.sort(key=lambda c: not is_sensitive(c))
        numbers = [c for c in rest if c in self.numbers and c not in known]
        numbers.sort(key=lambda c: c in self.days)  # amounts first
        others = [c for c in rest if c in groups and len(self.kinds[c].levels) <= FEW]
        few = numbers[: 1 if others and sum(map(is_sensitive, numbers)) < 2 else 2]
        made = [*few, *others[: MOST_SYNTHESIZED - len(few)]]
        self.made, self.keys = made or rest[:1], keys
        chosen = {*keys, *self.made}
        kept = [c for c in self.used if c not in chosen and c in groups]
        kept = kept[: max(MOST_COLUMNS - len(chosen), 0)]
        self.later = [c for c in self.used if c not in chosen and c not in kept]
        for c in keys:
            if years.get(c) and not is_key(c):
                self.kinds[c] = self.kinds[c]._replace(why=f"{self.kinds[c].why}: {years[c]}")
        for those in (self.used, self.numbers, self.days):
            those[:] = [c for c in those if c not in self.later]

    def _uniques(self, df: pd.DataFrame) -> Iterator[str]:
        """What the keys alone show, if it is more than is allowed, and what would do."""
        if not self.keys or (alone := share_unique(df[self.keys])) <= MATCHED:
            return
        yield (
            f"Keys: {alone:.1%} of the records are unique in {', '.join(self.keys)}, which are "
            f"released unchanged; a match of {MATCHED:.0%} is allowed. What would do, one after "
            "another:"
        )
        keys = df[self.keys].astype({c: "category" for c in self.keys if c not in self.told})
        for name, how, share in coarser_keys(keys, self.keys, MATCHED):
            if how:
                self.coarser[name] = toml_value(how)
                change = f"[data.coarsen] {toml_key(name)} = {self.coarser[name]}"
            else:
                change = f"leave {name} out of [data] columns, or synthesise it"
            yield f"{change}: {share:.1%} are unique."

    def _codes(self, name: str) -> list[float]:
        """The code of a number that means missing, if it has one."""
        code = self.kinds[name].code
        return [] if code is None else [code]

    def _households(self) -> Iterator[str]:
        for name, kind in self.kinds.items():
            if kind.taken == "out" and kind.why.startswith((BY_NAME, BY_RUNS)):
                yield (
                    f"Groups: {name} names groups of records. Members of a group are treated as "
                    "independent (docs/limits.md)."
                )

    def _model(self) -> str:
        if not self.numbers:
            return "DPMPM"
        made = [self.told[c] for c in self.made if c in self.told]
        spikes = any(x.value_counts(normalize=True).max() > SPIKE for x in made)
        known = len(self.used) > len(self.made)  # trees need a column that is not synthesised
        return "CART" if known and (self.n > MANY or spikes) else "Mixture"

    def study(self, said: Sequence[str]) -> FirstStudy:
        """The text, and what each column was taken for."""
        rows = {name: self._taken(name) for name in self.kinds}
        columns = pd.DataFrame.from_dict(rows, orient="index", columns=["taken for", "why"])
        columns.index.name = "column"
        trees, mixed = self.model == "CART", self.numbers if self.model == "Mixture" else []
        families = {c: _family(self.told[c]) for c in mixed}
        whole = [c for c in mixed if self.kinds[c].missing and are_whole(self.told[c])]
        steps = {c: _step(self.told[c]) for c in self.made if c in self.numbers}
        page = Environment(
            loader=PackageLoader("bayes_risk.studies", package_path="."),
            undefined=StrictUndefined,
            trim_blocks=True,
            keep_trailing_newline=True,
        )
        page.filters |= {"shown": visible, "key": toml_key, "value": toml_value}
        text = page.get_template("first_study.toml.j2").render(
            **vars(self),
            said=said,
            columns=_aligned(rows),
            left_out=set(self.used) | set(self.labels) != set(self.kinds),
            codes=[c for c in self.used if trees and self.kinds[c].taken == "codes"],
            why=WHY[self.model],
            families={c: f'"{family}"' for c, family in families.items()},
            rounded={c: 1 for c in whole if families[c] != "count"},
            missing_numbers={
                c: f"{code:g}" for c in self.numbers if (code := self.kinds[c].code) is not None
            },
            targets=TARGETS,
            grids=dict.fromkeys(self.made, '"levels"')
            if trees
            else dict.fromkeys(steps, '"predictive"'),
            radii={c: f"{{ absolute = {step:.12g} }}" for c, step in steps.items()},
        )
        notes = tuple(self.notes)
        return FirstStudy(text=text, columns=columns, n=self.n, said=tuple(said), notes=notes)

    def _taken(self, name: str) -> tuple[str, str]:
        kind = self.kinds[name]
        absent = f"; missing for {kind.missing:,}" if kind.missing else ""
        why = kind.why + absent
        if kind.taken == "label":
            return "label", kind.why
        if kind.taken == "out":
            return "left out", why
        if name in self.later:
            category = kind.taken in ("category", "codes")
            return "left out", f"{why}: {LATER if category else AS_IS}"
        if name in self.made:
            return "synthesised", why
        return "key" if name in self.keys else "kept", f"{why}; released unchanged"


WEIGHT = "a survey weight, by its name: it identifies records, and each counts once here"
LATER = "for later, so that the first run is short"
DESIGN = "a stratum or cluster of the sample, by its name"
AS_IS = "unchanged it identifies records; synthesise it too, or leave it out of the file"
WHY = {
    "DPMPM": "latent classes: all columns are categories",
    "Mixture": "latent classes of categories and numbers",
    "CART": "trees: many records, or numbers of which many are equal",
}


def _aligned(rows: Mapping[str, tuple[str, str]]) -> list[str]:
    wide = max(map(len, map(visible, rows)))
    return [f"{visible(c):<{wide}}  {what:<11}  {why}" for c, (what, why) in rows.items()]


def _family(x: pd.Series) -> str:
    if x.abs().max() > HUGE:
        x = x / x.abs().max()
    elif are_whole(x) and x.min() >= 0 and x.std() < 10:  # a step is wide beside a normal's spread
        return "count"
    skewed = x.to_numpy().std() > 0 and x.mean() - x.median() > 0.1 * x.std()
    return "lognormal" if x.min() > 0 and skewed else "normal"


def _step(x: pd.Series) -> float:
    """A round step, some fifteen of which cover nearly all values.

    No few records settle it: of fewer than 1,000 the `LEAST` at each end are left out, and the
    spread of the others is widened as that of a normal is.
    """
    if x.abs().max() > HUGE:
        return HUGE * _step(x / HUGE)
    share = min(max(0.01, LEAST / len(x)), 0.25)
    low, high = np.quantile(x, [share, 1 - share])
    if low == high:  # most are equal
        share, rare = 0.25, np.unique(x)
        if len(rare) <= FEW:
            return 1.0
        low, high = np.quantile(rare, [share, 1 - share])
    wide = (high - low) * norm.ppf(0.99) / norm.ppf(1 - share)
    step = 10.0 ** np.floor(np.log10(wide / STEPS))
    step *= next(k for k in (1, 2, 5, 10) if k * step * STEPS >= wide)
    return float(max(step, 1.0) if are_whole(x) else step)
