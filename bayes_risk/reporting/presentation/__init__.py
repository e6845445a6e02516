"""How each kind of result reads: a module for each group of kinds registers its functions."""

from . import attribute as attribute
from . import files as files
from . import groups as groups
from . import households as households
from . import matching as matching
from . import records as records
from . import studies as studies
from . import utility as utility
from .attribute import claims_in_words as claims_in_words
from .attribute import history_in_words as history_in_words
from .faces import doubt_in_words as doubt_in_words
from .faces import line as line
from .faces import screen as screen
from .faces import sentence as sentence
from .faces import tables as tables
from .studies import verdicts_in_words as verdicts_in_words
