"""Numbers in words, in both languages: twenty-one is *vingt et un*, eighty is *quatre-vingts*."""

from __future__ import annotations

ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
UNITS = (
    "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze", "treize",
    "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf",
)  # fmt: skip
DIZAINES = (
    "zéro", "dix", "vingt", "trente", "quarante", "cinquante", "soixante", "soixante", "quatre-vingt", "quatre-vingt",
)  # fmt: skip


def in_english(number: int) -> list[str]:
    """The words of a number from 1 to 999: ["two", "hundred", "and", "twenty-one"]."""
    if number >= 100:
        rest = ["and", *in_english(number % 100)] if number % 100 else []
        return [ONES[number // 100], "hundred", *rest]
    if number < 20:
        return [ONES[number]]
    return [TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")]


def in_french(number: int, feminine: bool = False) -> list[str]:
    """The words of a number from 1 to 999 before a noun: ["vingt", "et", "une"], ["deux", "cents"]."""
    if number >= 100:
        hundreds, rest = divmod(number, 100)
        start = [UNITS[hundreds]] if hundreds > 1 else []
        if not rest:
            return [*start, "cents" if hundreds > 1 else "cent"]
        return [*start, "cent", *in_french(rest, feminine)]
    one = "une" if feminine else "un"
    if number < 20:
        return [one if number == 1 else UNITS[number]]
    if number == 80:
        return ["quatre-vingts"]
    ten = DIZAINES[number // 10]
    rest = number % 10 if number // 10 not in (7, 9) else number % 10 + 10
    if rest in (1, 11) and number < 80:
        return [ten, "et", one if rest == 1 else "onze"]
    return [ten] if not rest else [f"{ten}-{one if rest == 1 else UNITS[rest]}"]
