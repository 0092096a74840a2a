"""Normalise the names of 399,203 legal entities and derive keys under which likely duplicates meet."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from prepare_entities import prepared

from onward import Job, parquet

LEGAL_FORMS = {
    "aktiengesellschaft": "ag",
    "aktiebolag": "ab",
    "aktiebolaget": "ab",
    "aktieselskab": "as",
    "anpartsselskab": "aps",
    "besloten vennootschap": "bv",
    "company": "co",
    "corporation": "corp",
    "gesellschaft mit beschrankter haftung": "gmbh",
    "incorporated": "inc",
    "limited": "ltd",
    "limited liability company": "llc",
    "limited liability partnership": "llp",
    "limited partnership": "lp",
    "naamloze vennootschap": "nv",
    "osakeyhtio": "oy",
    "private": "pvt",
    "proprietary": "pty",
    "public limited company": "plc",
    "societa a responsabilita limitata": "srl",
    "societa per azioni": "spa",
    "sociedad anonima": "sa",
    "sociedad limitada": "sl",
    "sociedad de responsabilidad limitada": "sl",
    "societe a responsabilite limitee": "sarl",
    "societe anonyme": "sa",
    "societe par actions simplifiee": "sas",
    "spolka akcyjna": "sa",
    "spolka z ograniczona odpowiedzialnoscia": "sp zoo",
    "unternehmergesellschaft": "ug",
}
_LONG_FORM = re.compile(rf"\b({'|'.join(sorted(LEGAL_FORMS, key=len, reverse=True))})\b")
_PLAIN_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe", "ß": "ss", "ı": "i"})
_INITIALS = re.compile(r"\b\w(?: \w)+\b")
_GAPS = re.compile(r"[\W_]+")
_SMALL_WORDS = frozenset({"and", "the", "of", "und", "et", "y", "e"})


@dataclass
class Entity:
    lei: str
    name: str
    country: str | None
    category: str | None


job = Job("entities", source=lambda: parquet(str(prepared()), key="lei"), record=Entity)


@job.step
async def normalise(entity: Entity) -> str:
    """The name in plain small letters, without punctuation, its legal form in short: `S.R.L.` and `Srl` are one."""
    name = entity.name.casefold().translate(_PLAIN_LETTERS).replace("&", " and ").replace("'", "").replace("’", "")
    letters = "".join(sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))
    words = _GAPS.sub(" ", letters).strip()
    words = _INITIALS.sub(lambda initials: initials[0].replace(" ", ""), words)
    return _LONG_FORM.sub(lambda form: LEGAL_FORMS[form[1]], words)


@job.step
async def match_key(entity: Entity, normalise: str) -> str:
    """The country and the words that tell, in alphabetical order: word order and small words do not matter."""
    words = sorted(word for word in normalise.split() if word not in _SMALL_WORDS)
    return f"{entity.country or '??'}:{' '.join(words) or entity.lei}"
