"""What a column of a first study is: a key, an amount, a survey weight; by its name or its values.

Names are read in several languages (English, French, German, Spanish, Italian, Portuguese, Dutch,
Polish, Japanese) and as variable codes of EU-SILC. Where no name is known, values decide.
"""

import re
import unicodedata
from collections.abc import Iterable

import numpy as np
import pandas as pd

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
    r"[hp]?inc|pincp|pay|tax|value|price|class|crime|alc|party|vote|loon|rente|"
    r"[ph]y\d{3}[gn]?"
)
SENSITIVE_STEMS = (
    r"incom|wage|salar|salair|earn|expend|debt|wealth|amount|health|disab|illness|disease|depress|drug|"
    r"religio|affairs|revenu|gain|depense|dette|patrimoine|montant|sante|maladie|einkommen|gehalt|"
    r"lohn|verdienst|ausgabe|schulden|vermogen|vermoegen|betrag|gesundheit|krank|ingreso|sueldo|gasto|"
    r"deuda|riqueza|salud|enferm|reddito|rendiment|stipend|spesa|debito|salute|malatt|renda|despesa|"
    r"saude|doenca|"
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
