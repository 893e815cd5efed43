"""The adjectives, by the kinds of noun that they fit.

An entry is *English French*; `<` marks a French adjective that stands before its noun, and a second English word the
comparative: `+` for -er, `-` for none. The others are compared with *more*.
"""

from __future__ import annotations

LIVING = "person relative animal"
SOLID = "thing text garment vehicle craft furniture opening device instrument"
PLACES = "building landmark"

ADJECTIVES = {
    f"person animal {SOLID} {PLACES} dish container": "small + petit <, big + grand <, beautiful beau <",
    f"person {SOLID} {PLACES} container idea": "new - nouveau <",
    f"{LIVING} {SOLID} {PLACES} container": "old + vieux <",
    f"person {SOLID} dish staple drink idea {PLACES}": "good better bon <, bad worse mauvais <",
    f"{LIVING}": """
        young + jeune <, happy + heureux, sad + triste, intelligent intelligent, lazy + paresseux, strong + fort,
        weak + faible, sick - malade, tired fatigué, jealous jaloux, calm calme, curious curieux, nervous nerveux,
        dangerous dangereux, faithful fidèle, patient patient, cruel cruel, cautious prudent, blind - aveugle
    """,
    "person relative": """
        rich + riche, poor + pauvre, famous célèbre, polite poli, shy timide, proud + fier, serious sérieux,
        honest honnête, generous généreux, funny + drôle, kind + gentil, brave + courageux, active actif,
        modest modeste, elegant élégant, loyal loyal, sporty sportif, creative créatif
    """,
    "person": "French - français, Italian - italien, Spanish - espagnol, German - allemand, American - américain",
    "animal": "wild - sauvage, fat + gros <",
    "animal vehicle craft": "fast + rapide, slow + lent",
    "animal thing garment vehicle craft furniture opening device instrument": """
        green - vert, red - rouge, blue - bleu, black - noir, white - blanc, yellow - jaune, grey - gris, pink - rose,
        purple - violet
    """,
    "thing garment furniture container": "pretty + joli <, light + léger",
    f"{SOLID} container": "heavy + lourd, expensive cher, solid solide, fragile fragile",
    "thing garment vehicle craft furniture opening device instrument container": "clean + propre, dirty + sale",
    "vehicle craft furniture": "comfortable confortable",
    "device instrument craft vehicle": "broken - cassé, modern moderne",
    "thing furniture": "round - rond, hard + dur, wet - mouillé",
    "garment": "soft + doux, dry - sec",
    f"{PLACES}": "quiet + tranquille, noisy + bruyant, magnificent - magnifique, ancient - antique",
    "opening landmark": "high + haut <, narrow + étroit",
    "building": "dark + sombre, public - public, royal - royal",
    "dish staple": "delicious délicieux, fresh + frais, sweet + sucré, salty + salé, excellent - excellent",
    "staple drink": "hot + chaud, cold + froid",
    "dish": "ripe + mûr, enormous - énorme",
    "text idea": """
        long + long <, important important, difficult difficile, interesting intéressant, boring ennuyeux,
        strange étrange, useful utile, useless inutile, simple - simple, complicated compliqué, surprising surprenant,
        easy + facile, perfect - parfait, original original
    """,
}
SUPERLATIVES = {"good": "best", "bad": "worst"}
