"""The verbs, by what they ask for.

An entry is *English French*. After a slash stands the irregular past (`-` where the French past would be the imperfect,
which the corpus leaves out). `+` joins what belongs to the verb: *look+at regarder*, *obey obéir+à*, *rest se+reposer*.
One English verb has one French verb.
"""

from __future__ import annotations

PERSON = "person relative"
LIVING = "person relative animal"
PORTABLE = "thing text garment instrument"
SOLID = "thing text garment vehicle craft furniture opening device instrument"
VISIBLE = f"{LIVING} {SOLID} building landmark dish"

INTRANSITIVE = {
    LIVING: """
        sleep/slept dormir, swim/swam nager, run/ran courir, jump sauter, breathe respirer, arrive arriver, stay rester,
        fall/fell tomber, die mourir, disappear disparaître
    """,
    PERSON: """
        work travailler, sing/sang chanter, dance danser, walk marcher, cry pleurer, smile sourire, laugh rire,
        travel/travelled voyager, cough tousser, shout crier, dream rêver, leave/left partir, return revenir,
        succeed réussir, lie mentir, hesitate hésiter, study étudier, vote voter, whistle siffler, pray prier
    """,
}
REFLEXIVE = {
    LIVING: "rest se+reposer, wake/woke+up se+réveiller, stop s'+arrêter",
    PERSON: "hurry se+dépêcher, get/got+up se+lever, get/got+dressed s'+habiller, have/had+fun s'+amuser",
}
# who, what is done to whom or what
TRANSITIVE = (
    (LIVING, VISIBLE, "see/saw voir, find/found trouver, look+at regarder, look+for chercher, touch toucher"),
    (LIVING, LIVING, "hear/heard entendre, follow suivre, protect protéger, wait+for attendre"),
    (LIVING, f"{PORTABLE} dish", "take/took prendre, hide/hid cacher, push pousser"),
    (LIVING, "dish staple", "eat/ate manger"),
    (LIVING, "drink", "drink/drank boire"),
    (PERSON, VISIBLE, "like aimer, love/- adorer, hate/- détester, admire admirer, photograph photographier"),
    (PERSON, VISIBLE, "prefer/- préférer, choose/chose choisir, draw/drew dessiner, forget/forgot oublier"),
    (PERSON, PERSON, "help aider, call appeler, invite inviter, meet/met rencontrer, kiss embrasser, thank remercier"),
    (PERSON, PERSON, "know/- connaître, respect respecter, listen+to écouter, congratulate féliciter, scold gronder"),
    (PERSON, PERSON, "understand/understood comprendre, interrupt/interrupted interrompre, accuse accuser"),
    (PERSON, "animal", "feed/fed nourrir, hunt chasser, catch/caught attraper, tame/tamed apprivoiser"),
    (PERSON, f"{SOLID} dish", "buy/bought acheter, sell/sold vendre, order commander, want/- vouloir, have/- avoir"),
    (PERSON, PORTABLE, "carry porter, lose/lost perdre, throw/threw jeter, steal/stole voler, keep/kept garder"),
    (PERSON, PORTABLE, "bring/brought apporter, hold/held tenir, receive recevoir"),
    (PERSON, "text", "read/read lire, write/wrote écrire, translate traduire, finish finir, correct corriger"),
    (PERSON, "idea", "explain expliquer, describe décrire, accept accepter, discover découvrir, refuse refuser"),
    (PERSON, "garment", "wear/wore porter, wash laver, iron/ironed repasser"),
    (PERSON, "vehicle", "drive/drove conduire"),
    (PERSON, "vehicle craft device instrument", "repair réparer, use utiliser"),
    (PERSON, "opening", "open/opened ouvrir, close fermer"),
    (PERSON, "vehicle furniture opening building", "clean nettoyer, paint peindre"),
    (PERSON, "building", "build/built construire, visit/visited visiter"),
    (PERSON, "thing device", "break/broke casser"),
    (PERSON, "dish staple", "taste goûter, prepare préparer"),
)  # fmt: skip
# those that fit any object
GENERAL = (
    "see", "find", "look", "touch", "like", "love", "hate", "admire", "photograph", "prefer", "choose", "draw",
    "forget",
)  # fmt: skip
# French asks for a preposition: she obeys the king, elle obéit au roi
OBLIQUE = (
    (PERSON, PERSON, "obey/obeyed obéir+à, phone téléphoner+à, answer/answered répondre+à, speak/spoke+to parler+à"),
    (PERSON, LIVING, "resemble/- ressembler+à, smile+at sourire+à"),
    (PERSON, VISIBLE, "talk+about parler+de, remember/- se+souvenir+de, dream+of rêver+de"),
    (LIVING, "building", "enter/entered entrer+dans"),
)
# somebody gives something to somebody
GIVING = "give/gave donner, show/showed montrer, send/sent envoyer, lend/lent prêter, offer/offered offrir"
# with an infinitive; + is the French preposition before it
CONTROL = """
    want/- vouloir, hope/- espérer, decide décider+de, try essayer+de, forget/forgot oublier+de, refuse refuser+de,
    begin/began commencer+à, learn/learnt apprendre+à, continue continuer+à, hesitate hésiter+à, promise promettre+de
"""
SPEAKING = "think/- penser, believe/- croire, say/- dire, hope/- espérer"
MOTION = "go/went aller, come/came venir, return revenir"
DWELLING = "live/- habiter, work travailler, travel/travelled voyager, sleep/slept dormir"
SINGLE = """
    be/- être, be/- avoir, be/- faire, be/-+going aller, can/- pouvoir, must/- devoir, need/- avoir, play jouer,
    put/put mettre, speak/spoke parler, rain pleuvoir, snow neiger, come/came venir
"""
