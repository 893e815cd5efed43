"""The built-in corpus `scenes`: drawn pictures with correct captions, and a gold box for every content word.

A scene is made once, as a structure, and then drawn and said, so where each word's thing stands falls out of the
construction. Its caption follows from the picture: which shape is named first, which relations are said and in which
order are rules (`scene.py`, `sketch.py`, `caption.py`), so that answers can be compared word for word.
"""

from regard.data.corpora.scenes.corpus import Scenes

__all__ = ["Scenes"]
