"""The first study of a table: what its columns are taken for, and a study file that runs."""

import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from scipy.special import ndtri

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import percent, toml_key, toml_value
from bayes_risk._core.shown import visible
from bayes_risk.data.base_result import Result
from bayes_risk.data.coarsening import coarser_keys, proposed, share_unique
from bayes_risk.data.columns import (
    BY_NAME,
    BY_RUNS,
    OF_GROUPS,
    kinds_of,
    names_households,
    of_households,
)
from bayes_risk.data.delimited import SETTLED, WORDS_READ, Dialect, dialect_of, numbers_in
from bayes_risk.data.equality import last_decimal
from bayes_risk.data.kinds import DELIMITED
from bayes_risk.data.microdata import checked_table
from bayes_risk.data.spelling import MISSING_WORDS
from bayes_risk.data.table import in_days, read_table
from bayes_risk.data.variables import FEW, are_whole, holds_text
from bayes_risk.intruder.grids import JointGrid

# whole words of a name, accents taken off
KEY_WORDS = (
    r"sex|sexe|sexo|sesso|geslacht|plec|age|agep|alter|edad|eta|idade|leeftijd|wiek|birth|yob|race|"
    r"rac1p|hisp|regi(on|o|ao|one|oes|ones|onen)|land|"
    r"land?kreis|state|county|district|place|puma|urban|rural|pays|pais|"
    r"marst|msp|mar|educ?|job|npf|hhsize|children|kinder|enfants|hijos|figli|"
    r"rb090|pb150|r[bx]0[128]0|px020|pb140|db040|db100|pe04[01]|pe010|pb190|pb200|pl03[12]|pl051|"
    r"pb210|pb220[ab]?"
)
# parts of a word
KEY_STEMS = (
    r"gender|geschlecht|geburt|naissance|nacimiento|nascimento|nascita|geboorte|urodz|altersgr|"
    r"departement|provinc|bundesland|gemeinde|comune|municip|wojew|marit|matrimon|familienstand|"
    r"estado.?civil|stato.?civile|married|ethnic|hispanic|nation|citizen|staatsang|education|diplom|"
    r"schul|bildung|estudios|istruzione|opleiding|wyksztalc|occup|profes|beruf|beroep|zawod|household|"
    r"menage|haushaltsgr|hogar|famiglia|性別|年齢|年代|生年|地域|都道府県|市町村|学歴|婚姻|配偶|職業|国籍|世帯人員"
)
SENSITIVE_WORDS = (
    r"[hp]?inc|pincp|pay|tax|value|price|class|crime|alc|party|vote|loon|rente|[ph]y\d{3}[gn]?|"
    r"precio|preis|prix|prezzo|importe|pago|copago|icd"
)
SENSITIVE_STEMS = (
    r"incom|wage|salar|salair|earn|expend|debt|wealth|amount|health|disab|illness|disease|depress|drug|"
    r"religio|affairs|revenu|gain|depense|dette|patrimoine|montant|sante|maladie|einkommen|gehalt|"
    r"lohn|verdienst|ausgabe|schulden|vermogen|vermoegen|betrag|gesundheit|krank|ingreso|sueldo|gasto|"
    r"deuda|riqueza|salud|enferm|reddito|rendiment|stipend|spesa|debito|salute|malatt|renda|despesa|"
    r"saude|doenca|cost|kost|cout|diagn|umsatz|factur|"
    r"inkomen|uitgaven|schuld|gezondheid|ziekte|dochod|wynagr|zarobk|wydatk|zdrow|"
    r"所得|収入|年収|給与|賃金|資産|支出|負債|健康|病|宗教"
)
WEIGHT_WORDS = (
    r"weight|weights|wt|wgt|wgts|wgtp|pwgtp|pweight|hweight|fweight|poids|gewicht|peso|waga|factor|"
    r"facteur|fator|\w+wg?t|db090|rb050|rb06[0-4]|pb040|pb06[0-4]|hb040|ウェイト|ウエイト|乗率"
)
WEIGHT_STEMS = r"weighting|ponder|hochrechn|gewichtung|expansion"
DESIGN_WORDS = r"psu|ssu|cluster|strat|strata|stratum|strate|upm|ups|estrato|schicht|randgrp|repgrp"
BODY = (
    r"height|bmi|taille|grosse|koerpergr|korpergr|altura|estatura|altezza|statura|lengte|wzrost|"
    r"身長"
)


def parts_of_name(name: str) -> list[str]:
    """Words of a name in lower case without accents, and the whole name."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    plain = unicodedata.normalize("NFKD", split.replace("ß", "ss").replace("ł", "l"))
    plain = "".join(c for c in plain if not unicodedata.combining(c) or ord(c) > 0x3000).lower()
    plain = unicodedata.normalize("NFC", plain)
    whole = plain.replace(" ", "")
    return [*(p for p in re.split(r"[\W_]+", plain) if p), whole, re.sub(r"\d+$", "", whole)]


def _named(words: str, stems: str, name: str) -> bool:
    parts = parts_of_name(name)
    alone = [*parts, *(re.sub(r"\d+$", "", part) for part in parts)]
    return any(re.fullmatch(words, part) or re.search(stems, part) for part in alone)


def is_sensitive(name: str) -> bool:
    """Whether a name is that of an amount or of another sensitive value."""
    return _named(SENSITIVE_WORDS, SENSITIVE_STEMS, name)


def is_key(name: str) -> bool:
    """Whether a name is that of something an intruder may know."""
    return _named(KEY_WORDS, KEY_STEMS, name) and not is_sensitive(name)


def is_design(name: str) -> bool:
    """Whether a name is that of a stratum or a cluster of the sample."""
    return _named(DESIGN_WORDS, r"\bclustr", name)


def is_weight(name: str, others: Iterable[str] = ()) -> bool:
    """Whether a name is that of a survey weight; beside a height it is that of a body's weight."""
    body = any(_named(BODY, BODY, other) for other in others)
    return _named(WEIGHT_WORDS, WEIGHT_STEMS, name) and not is_sensitive(name) and not body


def are_dense(values: pd.Series) -> bool:
    """Whether numbers are whole, within a range of 150, and most of that range is there."""
    x = values.to_numpy(dtype=float)
    wide = x.max() - x.min() + 1
    return bool((x == np.floor(x)).all() and len(np.unique(x)) >= 0.7 * wide and wide <= 150)


def like_ages(values: pd.Series) -> str:
    """Why numbers are ages or years of birth, by their values; empty: they are not."""
    if not are_dense(values):
        return ""
    x = values.to_numpy(dtype=float)
    low, high, distinct = x.min(), x.max(), len(np.unique(x))
    if 1880 <= low and high <= 2100 and distinct > 30:
        return "years, by their values"
    if 0 <= low and 60 <= high <= 120 and distinct > 40 and 12 <= x.std() <= 30:
        return "ages, by their values"
    return ""


MOST_COLUMNS = 10  # of a first study: others are left for later
MOST_KEYS, MOST_SYNTHESIZED = 4, 3
TARGETS = 100
LEAVES = 20, 10, 5  # records in a leaf of trees
TWICE = 2.0  # pMSE over chance of a file with which to begin
COMPARED = 5_000  # records whose fit takes a second, above which models are not compared
OWN = 0.1  # share of records with a value of their own, above which trees would show persons
MANY = 2_000  # records, above which a mixture of numbers takes long
POINT_MASS = 0.05  # share of one value, such as 0, that no smooth family gives
MODE = 0.2  # and that no count of a few possible numbers has
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
        """The role of each column, and why."""
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
    data: pd.DataFrame | str | PathLike[str],
    *,
    path: str | PathLike[str] | None = None,
    command: Sequence[str] = (),
    chain: bool = False,
    utility_of: Callable[[str], float | None] | None = None,
) -> FirstStudy:
    """Propose a study of a table: keys, model, what is synthesised and guessed, thresholds.

    The study is a first draft, not advice; it usually runs to a verdict in about a minute. The role
    of a column follows from its values, and from its name in several languages. Amounts, dates,
    survey weights and what is sensitive by name are synthesised or left out, never released
    unchanged. Most columns of a wide table are left out, and few targets are audited.

    Parameters
    ----------
    data : DataFrame, or path of a file
        The confidential table, or its file (as `read_table` reads it).
    path : path, optional
        The value of ``[data] path``; by default the file, or ``data.csv`` for a DataFrame.
    command : sequence of str
        The command of any synthesiser, which is then the model (`Simulator`); empty: a model of
        this package.
    chain : bool
        Whether each synthesised column gets a model of its own, one after another (`Chain`): trees
        to begin with, to be exchanged.
    utility_of : function of the text of a study, optional
        Its file's pMSE over chance; None: unknown. Up to 5,000 records the model of a table with
        numbers is then the first whose file has at most twice chance, or else that with the least:
        latent classes (few records, of which many have a number of their own), trees with leaves of
        20, 10 and 5 records.

    Returns
    -------
    FirstStudy
        ``.text`` is the study file, ``.columns`` how each column is treated and why.

    Raises
    ------
    InputError
        A file that cannot be read; a table without two columns that models can take.

    Examples
    --------
    >>> table = pd.DataFrame({"id": range(40), "sex": ["f", "m"] * 20, "job": [*"aabb"] * 10})
    >>> study_of(table).columns["role"].to_dict()
    {'id': 'label', 'sex': 'key', 'job': 'synthesised'}
    """
    messages, na, dialect = list[str](), list[str](), Dialect(",")
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
        messages = [*dict.fromkeys(str(w.message).removesuffix(SETTLED) for w in caught)]
        file = file if path is None else Path(path)
    draft = _Draft(df, na, file, dialect, command, chain)
    if utility_of is not None and draft.model in ("CART", "Mixture") and draft.n <= COMPARED:
        draft.choose_model(lambda: utility_of(draft.study(messages).text))
    return draft.study(messages)


def _words(df: pd.DataFrame, decimal: str) -> list[str]:
    """What fields of a CSV mean missing: words among numbers, negative codes among others."""
    found: dict[str, None] = dict.fromkeys(df.attrs.get(WORDS_READ, ()))
    for name in df:
        column = df[name]
        if holds_text(column):
            numbers, words = numbers_in(pd.Index(column.dropna().unique()), decimal)
            word = words[0].strip().lower() if len(words) == 1 and len(numbers) > FEW else None
            if word in MISSING_WORDS | NO_ANSWER:
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


class _Draft:
    """The choices, and their text."""

    def __init__(
        self,
        df: pd.DataFrame,
        na: list[str],
        file: Path,
        dialect: Dialect,
        command: Sequence[str],
        chain: bool,
    ) -> None:
        self.command, self.chain = list(command), chain
        self.kinds, self.na, self.file, self.n = kinds_of(df), na, file, len(df)
        self.household = next((c for c in self.kinds if _names_households(df[c], c)), "")
        for c, k in self.kinds.items():
            if c == self.household:
                self.kinds[c] = k._replace(taken="out", why=HOUSEHOLD)
            elif k.code is not None and k.missing:  # not in a CSV, whose `na` takes the code
                self.kinds[c] = k._replace(
                    taken="out", why=f"{k.why}, and empty ones: make them one"
                )
            elif k.taken in ("number", "codes") and not k.missing and is_weight(c, self.kinds):
                self.kinds[c] = k._replace(taken="out", why=f"{k.why}; {WEIGHT}")
            elif is_design(c):
                self.kinds[c] = k._replace(taken="out", why=f"{k.why}; {DESIGN}")
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
        read = {c: in_days(df[c], c) if c in self.days else df[c] for c in self.numbers}
        self.known = {c: x[x.notna() & (x != kinds[c].code)].astype(float) for c, x in read.items()}
        self._choose()
        self.missing = any(kinds[c].missing for c in self.used)
        self.coarser = dict[str, str]()
        self.notes = [*self._uniques(df)]
        self.notes += ["Missing: [data] na names the fields that are read as missing."] * bool(na)
        self.notes += [
            f"Groups: {name} names groups of records. Members of a group are treated as "
            "independent (docs/limits.md)."
            for name, kind in self.kinds.items()
            if kind.taken == "out" and kind.why.startswith((BY_NAME, BY_RUNS, OF_GROUPS))
        ]
        for c in self.made:
            if c in self.known and (how := proposed(self.known[c], self._codes(c))):
                self.coarser[c] = toml_value(how)
        self.model = self._model()
        self.leaf, self.why = LEAVES[0], WHY[CHAIN if chain else self.model]

    def choose_model(self, ratio_of: Callable[[], float | None]) -> None:
        """The first model whose file is within twice chance, or that with the least pMSE."""
        trees = [("CART", leaf) for leaf in LEAVES if len(self.used) > len(self.made)]
        options = [(self.model, self.leaf), *trees] if self.model == "Mixture" else trees
        found = dict[tuple[str, int], float]()
        for self.model, self.leaf in options:
            if (ratio := ratio_of()) is None:
                break
            found[self.model, self.leaf] = round(ratio, 1)  # as it is shown
            if found[self.model, self.leaf] <= TWICE:
                break
        self.model, self.leaf = min(found, key=found.__getitem__, default=options[0])
        shown = [
            f"{ratio:.1f} with {'latent classes' if model == 'Mixture' else f'leaves of {leaf}'}"
            for (model, leaf), ratio in found.items()
        ]
        self.why = self.why if self.model == options[0][0] else "trees"
        self.why += f"; pMSE over chance: {', '.join(shown)}" if found else ""

    def _choose(self) -> None:
        """Keys, and what is synthesised: one amount or two, and categories of few levels."""
        groups = [c for c in self.used if c not in self.numbers]
        amounts = [c for c in self.numbers if c not in self.days]
        years = {c: like_ages(self.known[c]) for c in amounts if not is_sensitive(c)}
        named = [c for c in self.used if is_key(c) and (c in groups or are_dense(self.known[c]))]
        named = [c for c in named if c not in self.days]
        named = named or [c for c in groups if not is_sensitive(c)][:2]
        known = [c for c in self.used if c in named or years.get(c)]
        keys = known[:MOST_KEYS] if len(known) < len(self.used) else known[: len(self.used) // 2]
        if set(keys) == set(self.used):
            keys = keys[:-1]
        rest = [c for c in self.used if c not in keys]
        rest.sort(key=lambda c: (not is_sensitive(c), c in known))
        numbers = [c for c in rest if c in self.numbers and c not in known]
        numbers.sort(key=lambda c: c in self.days)  # amounts first
        others = [c for c in rest if c in groups and len(self.kinds[c].levels) <= FEW]
        few = numbers[: 1 if others and sum(map(is_sensitive, numbers)) < 2 else 2]
        made = [*few, *others[: MOST_SYNTHESIZED - len(few)]]
        self.made, self.keys = made or rest[:1], keys
        chosen = {*keys, *self.made}
        kept = [c for c in groups if c not in chosen and not is_sensitive(c)]
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
            f"Keys: {percent(alone)} of the records are unique in {', '.join(self.keys)}, which "
            f"are released unchanged; the threshold allows {percent(MATCHED)} matches. Apply "
            "these changes in order; together they suffice:"
        )
        keys = df[self.keys].astype({c: "category" for c in self.keys if c not in self.known})
        for name, how, share in coarser_keys(keys, self.keys, MATCHED):
            if how:
                self.coarser[name] = toml_value(how)
                change = f"[data.coarsen] {toml_key(name)} = {self.coarser[name]}"
            else:
                change = f"leave {name} out of [data] columns, or synthesise it"
            yield f"{change}: {percent(share)} are unique then."

    def _codes(self, name: str) -> list[float]:
        """The code of a number that means missing, if it has one."""
        code = self.kinds[name].code
        return [] if code is None else [code]

    def _model(self) -> str:
        if self.command and self.chain:
            raise InputError("a command makes all columns; leave out the command, or the chain")
        if self.command or self.chain:
            return "Simulator" if self.command else "CART"
        if not self.numbers:
            return "DPMPM"
        made = [self.known[c] for c in self.made if c in self.known]
        spikes = any(map(_has_point_mass, made))
        shared = bool(made) and all((~x.duplicated(keep=False)).mean() <= OWN for x in made)
        known = len(self.used) > len(self.made)  # trees need a column that is not synthesised
        return "CART" if known and (self.n > MANY or spikes or shared) else "Mixture"

    def study(self, messages: Sequence[str]) -> FirstStudy:
        """The text, and what each column was taken for."""
        rows = {name: self._taken(name) for name in self.kinds}
        columns = pd.DataFrame.from_dict(rows, orient="index", columns=["role", "why"])
        columns.index.name = "column"
        trees, mixed = self.model == "CART", self.numbers if self.model == "Mixture" else []
        coded = self.model in ("CART", "Simulator")  # which take numbers for numbers
        families = {c: _family(self.known[c]) for c in mixed}
        units = {
            c: last_decimal(np.asarray(self.known[c], np.float64))
            for c in mixed
            if families[c] != "count"
        }
        seen = {c for c in units if units[c] == 1 and not self.kinds[c].missing}  # by the model
        alone = self.made[: len(self.made) == len(self.used)]  # nothing stands before it
        steps = {c: _step(self.known[c]) for c in self.made if c in self.numbers}
        page = Environment(
            loader=PackageLoader("bayes_risk.studies", package_path="."),
            undefined=StrictUndefined,
            trim_blocks=True,
            keep_trailing_newline=True,
        )
        page.filters |= {"shown": visible, "key": toml_key, "value": toml_value}
        text = page.get_template("first_study.toml.j2").render(
            **vars(self),
            free={c: c in self.known and _family(self.known[c]) for c in alone},
            said=messages,
            columns=_aligned(rows),
            left_out=set(self.used) | set(self.labels) != set(self.kinds),
            codes=[c for c in self.used if coded and self.kinds[c].taken == "codes"],
            families={c: f'"{family}"' for c, family in families.items()},
            rounded={c: f"{unit:g}" for c, unit in units.items() if unit and c not in seen},
            missing_numbers={
                c: f"{code:g}" for c in self.numbers if (code := self.kinds[c].code) is not None
            },
            targets=TARGETS,
            grids=self._grids(steps, trees),
            radii={c: f"{{ absolute = {step:.12g} }}" for c, step in steps.items()},
        )
        notes = tuple(self.notes)
        return FirstStudy(text=text, columns=columns, n=self.n, said=tuple(messages), notes=notes)

    def _grids(self, numbers: Iterable[str], trees: bool) -> dict[str, str]:
        """Guesses by column; none: the neighbourhood, as more than can be listed would be."""
        if not trees:
            return dict.fromkeys(numbers, '"predictive"')
        values = [self.known[c] if c in self.known else self.kinds[c].levels for c in self.made]
        size = math.prod(len(set(of_column)) for of_column in values)
        return {} if size > JointGrid({}).budget else dict.fromkeys(self.made, '"levels"')

    def _taken(self, name: str) -> tuple[str, str]:
        kind = self.kinds[name]
        absent = f"; missing for {kind.missing:,}" if kind.missing else ""
        why = kind.why + absent
        if kind.taken == "label":
            return "label", kind.why
        if name == self.household:
            return "household", why
        if kind.taken == "out":
            return "left out", why
        if name in self.later:
            category = kind.taken in ("category", "codes")
            return "left out", f"{why}; {LATER if category else AS_IS}"
        if name in self.made:
            return "synthesised", why
        return "key" if name in self.keys else "kept", f"{why}; released unchanged"


HOUSEHOLD = "it names the household of each person: no model uses it"
WEIGHT = "a survey weight, by its name; it identifies records, and each record counts once here"
LATER = "not needed at first: fewer columns make the first run short"
DESIGN = "a stratum or cluster of the sample, by its name"
AS_IS = "to release it, synthesise it, because its values identify records"
CHAIN = "Chain"
WHY = {
    "DPMPM": "latent classes: all columns are categories",
    "Mixture": "latent classes of categories and numbers",
    "Simulator": "any synthesiser, which is run",
    CHAIN: "a model for each column, given those before it; kinds: docs/study-file.md",
    "CART": "trees: many records, or numbers of which many are equal",
}


def _names_households(column: pd.Series, name: str) -> bool:
    named = names_households(name) and column.notna().all()
    return bool(named) and of_households(len(column), column.nunique())


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


def _has_point_mass(x: pd.Series) -> bool:
    """Whether many records share one value, more than a family of `Mixture` would draw."""
    most = int(x.value_counts().max())
    return most >= LEAST and most > (MODE if _family(x) == "count" else POINT_MASS) * len(x)


def _step(x: pd.Series) -> float:
    """A round step, some fifteen of which cover nearly all values."""
    x = x[np.isfinite(x)]
    if x.empty:
        return 1.0
    if x.abs().max() > HUGE:
        return HUGE * _step(x / HUGE)
    share = min(max(0.01, LEAST / len(x)), 0.25)
    low, high = np.quantile(x, [share, 1 - share])
    if low == high:  # most are equal
        share, rare = 0.25, np.unique(x)
        if len(rare) <= FEW:
            return 1.0
        low, high = np.quantile(rare, [share, 1 - share])
    wide = (high - low) * ndtri(0.99) / ndtri(1 - share)
    step = 10.0 ** np.floor(np.log10(wide / STEPS))
    step *= next(k for k in (1, 2, 5, 10) if k * step * STEPS >= wide)
    return float(max(step, 1.0) if are_whole(x) else step)
