"""The built-in corpus `en-fr`: correct English–French sentences with word alignment and parts of speech.

A grammar of both languages over a small lexicon. Each sentence is built once, as a structure, and written twice; the
alignment falls out of the construction. An English sentence has exactly one translation: *you* is always *vous*, one
man addressed politely, and *they* are always *ils* unless the sentence says who they are.
"""

from regard.data.corpora.english_french.corpus import EnglishFrench
from regard.data.corpora.english_french.stream import Split, pairs, patterns
from regard.data.corpora.english_french.vocabulary import lemmas
from regard.data.corpora.english_french.word import BilingualPair, Word

__all__ = ["BilingualPair", "EnglishFrench", "Split", "Word", "lemmas", "pairs", "patterns"]
