"""French verbs: present, future and past participle.

An irregular verb is found by the longest ending that has a line in `IRREGULAR`, so *prendre* serves *comprendre* and
*apprendre*. The rest follow the three regular groups, with the spelling changes of the first (*mangeons, achète*).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FUTURE = ("ai", "as", "a", "ons", "ez", "ont")

# ending: the present (je, tu, il, nous, vous, ils), the stem of the future, the participle
IRREGULAR = {
    "être": "suis es est sommes êtes sont ser été",
    "avoir": "ai as a avons avez ont aur eu",
    "aller": "vais vas va allons allez vont ir allé",
    "faire": "fais fais fait faisons faites font fer fait",
    "dire": "dis dis dit disons dites disent dir dit",
    "voir": "vois vois voit voyons voyez voient verr vu",
    "croire": "crois crois croit croyons croyez croient croir cru",
    "boire": "bois bois boit buvons buvez boivent boir bu",
    "lire": "lis lis lit lisons lisez lisent lir lu",
    "écrire": "écris écris écrit écrivons écrivez écrivent écrir écrit",
    "prendre": "prends prends prend prenons prenez prennent prendr pris",
    "mettre": "mets mets met mettons mettez mettent mettr mis",
    "venir": "viens viens vient venons venez viennent viendr venu",
    "tenir": "tiens tiens tient tenons tenez tiennent tiendr tenu",
    "tir": "s s t tons tez tent tir ti",
    "dormir": "dors dors dort dormons dormez dorment dormir dormi",
    "servir": "sers sers sert servons servez servent servir servi",
    "vrir": "vre vres vre vrons vrez vrent vrir vert",
    "ffrir": "ffre ffres ffre ffrons ffrez ffrent ffrir ffert",
    "courir": "cours cours court courons courez courent courr couru",
    "mourir": "meurs meurs meurt mourons mourez meurent mourr mort",
    "rire": "ris ris rit rions riez rient rir ri",
    "aître": "ais ais aît aissons aissez aissent aîtr u",
    "uire": "uis uis uit uisons uisez uisent uir uit",
    "indre": "ins ins int ignons ignez ignent indr int",
    "suivre": "suis suis suit suivons suivez suivent suivr suivi",
    "cevoir": "çois çois çoit cevons cevez çoivent cevr çu",
    "pouvoir": "peux peux peut pouvons pouvez peuvent pourr pu",
    "vouloir": "veux veux veut voulons voulez veulent voudr voulu",
    "devoir": "dois dois doit devons devez doivent devr dû",
    "savoir": "sais sais sait savons savez savent saur su",
    "pleuvoir": "pleus pleus pleut pleuvons pleuvez pleuvent pleuvr plu",
    "rompre": "romps romps rompt rompons rompez rompent rompr rompu",
}
OPEN = re.compile(r"e([bcdgmnprstv])$")  # achet-, lev-
ACUTE = re.compile(r"é([^aeiouéy]{1,2})$")  # préfér-, protég-
DOUBLING = ("jeter", "appeler", "rappeler")
ETRE = frozenset(["aller", "venir", "revenir", "arriver", "partir", "rester", "tomber", "mourir", "entrer", "devenir"])


@dataclass(frozen=True)
class Conjugation:
    infinitive: str
    present: tuple[str, ...]
    future: tuple[str, ...]
    participle: str
    auxiliary: str  # avoir or être


def conjugate(infinitive: str, reflexive: bool = False) -> Conjugation:
    auxiliary = "être" if reflexive or infinitive in ETRE else "avoir"
    present, stem, participle = irregular(infinitive) or regular(infinitive)
    return Conjugation(infinitive, present, tuple(stem + ending for ending in FUTURE), participle, auxiliary)


Parts = tuple[tuple[str, ...], str, str]  # present, stem of the future, participle


def irregular(infinitive: str) -> Parts | None:
    endings = [ending for ending in IRREGULAR if infinitive.endswith(ending)]
    if not endings or (infinitive.endswith("tir") and infinitive not in ("partir", "sortir", "mentir", "sentir")):
        return None
    ending = max(endings, key=len)
    start = infinitive.removesuffix(ending)
    *present, stem, participle = (start + part for part in IRREGULAR[ending].split())
    return tuple(present), stem, participle


def regular(infinitive: str) -> Parts:
    root = infinitive[:-2]
    if infinitive.endswith("er"):
        return first_group(infinitive)
    if infinitive.endswith("ir"):
        present = tuple(root + ending for ending in ("is", "is", "it", "issons", "issez", "issent"))
        return present, infinitive, root + "i"
    if infinitive.endswith("dre"):
        present = tuple(root + ending for ending in ("s", "s", "", "ons", "ez", "ent"))
        return present, infinitive[:-1], root + "u"
    raise ValueError(f"{infinitive} is neither in IRREGULAR nor regular; add a line for its ending")


def first_group(infinitive: str) -> Parts:
    root = infinitive[:-2]
    silent, stem = stress(infinitive)
    soft = root
    if root.endswith("g"):
        soft = root + "e"
    elif root.endswith("c"):
        soft = root[:-1] + "ç"
    present = (silent + "e", silent + "es", silent + "e", soft + "ons", root + "ez", silent + "ent")
    return present, stem, root + "é"


def stress(infinitive: str) -> tuple[str, str]:
    """The root before a silent ending, and the stem of the future: achète, achèter-; préfère, préférer-."""
    root = infinitive[:-2]
    if infinitive == "envoyer":
        return "envoi", "enverr"
    if infinitive in DOUBLING:
        return root + root[-1], root + root[-1] + "er"
    if root.endswith("y"):
        return root[:-1] + "i", root[:-1] + "ier"
    if OPEN.search(root):
        silent = OPEN.sub(r"è\1", root)
        return silent, silent + "er"
    return ACUTE.sub(r"è\1", root), infinitive
