"""Where a text may be cut, and how words become text again."""

from tokenizers import Regex, decoders, pre_tokenizers

# No piece has both letters and punctuation, so that `cat` is one word before a comma, a full stop and a question mark;
# an apostrophe stays with what it ends: l'|ami, don'|t.
BOUNDS = pre_tokenizers.Split(Regex(r"▁?[\p{L}\p{M}\p{N}]+['’]|▁?[^\p{L}\p{M}\p{N}▁]+"), "isolated")

# Words don't tell where spaces were. Punctuation is put where it nearly always stands: "a cat, a dog" comes back.
# A later word changes nothing of what stands before it, so a text can be shown as it grows.
JOIN = decoders.Sequence(
    [
        decoders.WordPiece(prefix="\0", cleanup=False),  # a space before each word but the first
        decoders.Fuse(),
        decoders.Replace(Regex(r" (?=[,.;:!?%…)\]}'’\-])"), ""),
        decoders.Replace(Regex(r"(?<=[(\[{'’\-]) "), ""),
    ]
)
