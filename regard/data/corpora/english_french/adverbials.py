"""Adverbs, fixed expressions of time, names, languages and countries.

In a fixed expression each word is written *word/TAG*, with `/lemma` where it differs; equal digits after `=` mark the
words that stand for each other.
"""

from __future__ import annotations

# beside the verb: she often sings, elle chante souvent
MIDDLE = "often souvent, always toujours, also aussi, sometimes parfois, already déjà, rarely rarement, really vraiment"
AFTER_NOT = ("often", "always", "really")  # those that may follow not
MANNER = """
    slowly lentement, quickly rapidement, calmly calmement, patiently patiemment, politely poliment, carefully
    soigneusement, discreetly discrètement, nervously nerveusement, easily facilement, joyfully joyeusement
"""
SPOT = "here ici, outside dehors, inside dedans, everywhere partout"
DEGREE = "very très, too trop, quite assez"

TIMES = {
    "now/ADV=1 | maintenant/ADV=1": "present",
    "today/ADV=1 | aujourd'hui/ADV=1": "present future",
    "tomorrow/ADV=1 | demain/ADV=1": "future",
    "yesterday/ADV=1 | hier/ADV=1": "past",
    "every/DET=1 day/NOUN=2 | tous/DET/tout=1 les/DET/le=1 jours/NOUN/jour=2": "present future",
    "every/DET=1 morning/NOUN=2 | tous/DET/tout=1 les/DET/le=1 matins/NOUN/matin=2": "present future",
    "every/DET=1 evening/NOUN=2 | tous/DET/tout=1 les/DET/le=1 soirs/NOUN/soir=2": "present future",
    "every/DET=1 week/NOUN=2 | toutes/DET/tout=1 les/DET/le=1 semaines/NOUN/semaine=2": "present future",
    "in/ADP=1 the/DET=1 morning/NOUN=2 | le/DET=1 matin/NOUN=2": "present",
    "in/ADP=1 the/DET=1 evening/NOUN=2 | le/DET=1 soir/NOUN=2": "present",
    "tonight/ADV=1 | ce/DET=1 soir/NOUN=1": "future",
    "this/DET=1 morning/NOUN=2 | ce/DET=1 matin/NOUN=2": "past",
    "last/ADJ=1 week/NOUN=2 | la/DET/le semaine/NOUN=2 dernière/ADJ/dernier=1": "past",
    "last/ADJ=1 month/NOUN=2 | le/DET mois/NOUN=2 dernier/ADJ=1": "past",
    "last/ADJ=1 year/NOUN=2 | l'/DET/le année/NOUN=2 dernière/ADJ/dernier=1": "past",
    "next/ADJ=1 week/NOUN=2 | la/DET/le semaine/NOUN=2 prochaine/ADJ/prochain=1": "future",
    "next/ADJ=1 month/NOUN=2 | le/DET mois/NOUN=2 prochain/ADJ=1": "future",
    "next/ADJ=1 year/NOUN=2 | l'/DET/le année/NOUN=2 prochaine/ADJ/prochain=1": "future",
    "on/ADP=1 Mondays/PROPN/Monday=2 | le/DET=1 lundi/NOUN=2": "present",
    "on/ADP=1 Fridays/PROPN/Friday=2 | le/DET=1 vendredi/NOUN=2": "present",
    "on/ADP=1 Sundays/PROPN/Sunday=2 | le/DET=1 dimanche/NOUN=2": "present",
    "on/ADP=1 Saturday/PROPN=1 | samedi/NOUN=1": "future",
    "on/ADP=1 Tuesday/PROPN=1 | mardi/NOUN=1": "future",
}

NAMES = """
    Marie Marie f, Julie Julie f, Alice Alice f, Emma Emma f, Sophie Sophie f, Anne Anne f, Paul Paul m,
    Thomas Thomas m, Lucas Lucas m, Antoine Antoine m, Louis Louis m, Pierre Pierre m
"""
LANGUAGES = """
    English anglais, French français, Spanish espagnol, Italian italien, German allemand, Japanese japonais,
    Russian russe, Chinese chinois, Arabic arabe
"""
COUNTRIES = """
    France France f, Italy Italie f, Spain Espagne f, Germany Allemagne f, England Angleterre f, Belgium Belgique f,
    Canada Canada m, Japan Japon m, Portugal Portugal m, Brazil Brésil m, Morocco Maroc m, Mexico Mexique m
"""
CITIES = """
    Paris Paris, London Londres, Lyon Lyon, Brussels Bruxelles, Geneva Genève, Venice Venise, Berlin Berlin,
    Amsterdam Amsterdam
"""
# where something is, by what it is beside
INSIDE = "in dans"
AROUND = "behind derrière, in+front+of devant, near près+de, far+from loin+de, next+to à+côté+de, opposite en+face+de"
ONTO = "on sur, under sous"
COMPANY = "with avec, without sans, for pour"
