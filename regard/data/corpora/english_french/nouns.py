"""The nouns by what they are, so that people eat apples and nobody eats a table.

An entry is *English French gender*, with irregular plurals after a slash and, for people, the French feminine last. One
English noun has one French noun.
"""

from __future__ import annotations

NOUNS = {
    "person": """
        man/men homme m, woman/women femme f, boy garçon m, girl fille f, child/children enfant m, baby bébé m,
        friend ami m amie, neighbour voisin m voisine, teacher professeur m professeure, student étudiant m étudiante,
        pupil élève m élève, doctor médecin m médecin, nurse infirmière f, lawyer avocat m avocate, judge juge m juge,
        engineer ingénieur m ingénieure, baker boulanger m boulangère, farmer fermier m fermière,
        gardener jardinier m jardinière, singer chanteur m chanteuse, dancer danseur m danseuse, actor acteur m,
        actress actrice f, artist artiste m artiste, painter peintre m peintre, musician musicien m musicienne,
        writer écrivain m écrivaine, journalist journaliste m journaliste, waiter serveur m, waitress serveuse f,
        soldier soldat m soldate, thief/thieves voleur m voleuse, hero héros m, king roi m, queen reine f,
        prince prince m, princess princesse f, tourist touriste m touriste, guest invité m invitée,
        customer client m cliente, dentist dentiste m dentiste, butcher boucher m bouchère, sailor marin m,
        hunter chasseur m, secretary secrétaire m secrétaire, mayor maire m maire,
        librarian bibliothécaire m bibliothécaire, architect architecte m architecte, lady dame f,
        policeman/policemen policier m, fireman/firemen pompier m, inspector inspecteur m inspectrice
    """,
    "relative": """
        brother frère m, sister sœur f, mother mère f, father père m, uncle oncle m, aunt tante f,
        cousin cousin m cousine, son fils m, daughter fille f, husband mari m, wife/wives épouse f,
        grandfather grand-père/grands-pères m, grandmother grand-mère/grands-mères f, nephew neveu m, niece nièce f
    """,
    "animal": """
        cat chat m, dog chien m, horse cheval m, bird oiseau m, cow vache f, pig cochon m, rabbit lapin m,
        mouse/mice souris f, rat rat m, duck canard m, hen poule f, goat chèvre f, lion lion m, tiger tigre m,
        bear ours m, wolf/wolves loup m, fox renard m, monkey singe m, elephant éléphant m, owl hibou/hiboux m,
        hamster hamster m, turtle tortue f, frog grenouille f, snake serpent m, spider araignée f,
        squirrel écureuil m, donkey âne m, crocodile crocodile m, giraffe girafe f, eagle aigle m, swan cygne m,
        camel chameau m
    """,
    "dish": """
        apple pomme f, orange orange f, pear poire f, banana banane f, lemon citron m, cake gâteau m, egg œuf m,
        tomato tomate f, carrot carotte f, onion oignon m, sandwich sandwich m, biscuit biscuit m,
        strawberry fraise f, cherry cerise f, mushroom champignon m, bean haricot m, lobster homard m,
        oyster huître f, sausage saucisse f, yoghurt yaourt m, pizza pizza f, peach pêche f, pie tarte f,
        pancake crêpe f, melon melon m, apricot abricot m, salad salade f, omelette omelette f
    """,
    "staple": """
        bread pain m, cheese fromage m, meat viande f, rice riz m, butter beurre m, chocolate chocolat m,
        honey miel m, sugar sucre m, salt sel m, soup soupe f, ham jambon m, jam confiture f, garlic ail m,
        oil huile f, cream crème f
    """,
    "drink": """
        water eau f, milk lait m, coffee café m, tea thé m, wine vin m, beer bière f, juice jus m,
        lemonade limonade f, cider cidre m, alcohol alcool m
    """,
    "thing": """
        ball balle f, key clé f, bag sac m, box boîte f, knife/knives couteau m, fork fourchette f, spoon cuillère f,
        plate assiette f, lamp lampe f, clock horloge f, umbrella parapluie m, gift cadeau m, toy jouet m,
        doll poupée f, pencil crayon m, pen stylo m, mirror miroir m, vase vase m, basket panier m, candle bougie f,
        stamp timbre m, photo photo f, painting tableau m, flower fleur f, stone pierre f, rope corde f,
        hammer marteau m, axe hache f, ladder échelle f, broom balai m, comb peigne m, needle aiguille f,
        tool outil m, blanket couverture f, pillow oreiller m, towel serviette f, bucket seau m, flag drapeau m,
        wheel roue f, suitcase valise f, jewel bijou/bijoux m, wallet portefeuille m
    """,
    "text": """
        book livre m, letter lettre f, newspaper journal m, poem poème m, story histoire f, novel roman m,
        message message m, article article m, report rapport m, magazine magazine m
    """,
    "garment": """
        hat chapeau m, shirt chemise f, dress robe f, coat manteau m, skirt jupe f, shoe chaussure f, glove gant m,
        sweater pull m, jacket veste f, scarf/scarves écharpe f, boot botte f, sock chaussette f, tie cravate f,
        belt ceinture f, cap casquette f
    """,
    "vehicle": """
        car voiture f, bus bus m, train train m, truck camion m, tractor tracteur m, taxi taxi m,
        ambulance ambulance f
    """,
    "craft": """
        plane avion m, boat bateau m, bicycle vélo m, motorcycle moto f, rocket fusée f
    """,
    "furniture": """
        table table f, chair chaise f, bed lit m, sofa canapé m, desk bureau m, armchair fauteuil m,
        shelf/shelves étagère f
    """,
    "opening": """
        door porte f, window fenêtre f, drawer tiroir m, wardrobe armoire f, gate portail m
    """,
    "device": """
        computer ordinateur m, phone téléphone m, radio radio f, machine machine f, television télévision f,
        engine moteur m, oven four m
    """,
    "building": """
        house maison f, school école f, hotel hôtel m, hospital hôpital m, church église f, castle château m,
        shop magasin m, restaurant restaurant m, bank banque f, library bibliothèque f, museum musée m,
        factory usine f, theatre théâtre m, cinema cinéma m, station gare f, airport aéroport m, prison prison f,
        kitchen cuisine f, bedroom chambre f, garage garage m, garden jardin m, park parc m, village village m,
        city ville f, street rue f, university université f, bakery boulangerie f, forest forêt f, stadium stade m,
        valley vallée f, tent tente f
    """,
    "landmark": """
        bridge pont m, river rivière f, lake lac m, mountain montagne f, hill colline f, tree arbre m, wall mur m,
        fountain fontaine f, statue statue f, tower tour f, road route f, beach plage f, island île f, market marché m
    """,
    "instrument": """
        piano piano m, guitar guitare f, violin violon m, flute flûte f, harp harpe f, trumpet trompette f,
        accordion accordéon m
    """,
    "game": """
        football football m, tennis tennis m, rugby rugby m, golf golf m, hockey hockey m, basketball basket m,
        handball handball m
    """,
    "idea": """
        idea idée f, question question f, problem problème m, answer réponse f, plan projet m, mistake erreur f,
        lesson leçon f, word mot m, exercise exercice m, film film m, song chanson f, rule règle f, choice choix m,
        decision décision f
    """,
    "container": """
        glass verre m, cup tasse f, bottle bouteille f, bowl bol m, litre litre m
    """,
    "portion": """
        slice tranche f, piece morceau m, kilo kilo m
    """,
    "unit": """
        year an m, day jour m, week semaine f, month mois m, hour heure f, minute minute f
    """,
}
MASS = ("staple", "drink", "game")
