"""Finds phrases that hide the subject of a sentence, in comments, messages, pages and names of tests. For
scripts/check_docs.py."""

import re

from code_tables import read, tracked_files

# Each phrase, and what to write instead.
PHRASES = {
    ("of", "which"): "begin a second sentence",
    ("what", "there", "was"): "name it",
    ("who", "has", "it"): "name the owner",
    ("those", "that"): "repeat the noun",
}
# The phrases as they would be in names of tests, without underscores.
IN_NAMES = ("ofwhich", "whattherewas", "whohas", "thosethat")

# Path and phrase -> the reason why the phrase may stand there.
EXCEPTIONS = {}

# Texts of others, and lists made by programs.
SKIPPED = re.compile(r"^tests/(fuzz/corpus|data/text)/|^LICENSE$|\bpackage-lock\.json$|\.(png|bin|safetensors|pt)$")
# A phrase may run over the end of a line of a comment, or of a string.
BETWEEN = r"[\s/#*\"'>|]+"
PATTERN = re.compile("|".join(rf"\b{BETWEEN.join(words)}\b" for words in PHRASES), re.I)
TESTS = re.compile(r"^TEST(?:_[FP])?\(\s*\w+,\s*(\w+)|^ *(?:async )?def (test_\w+)", re.M)


def findings_in(path, text):
    for match in PATTERN.finditer(text):
        words = tuple(re.findall(r"\w+", match.group().lower()))
        if (path, " ".join(words)) not in EXCEPTIONS:
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: \"{' '.join(words)}\": {PHRASES[words]} (scripts/wording.py)"
    if re.match(r"tests/.*\.(cc|py)$", path):
        for match in TESTS.finditer(text):
            name = match.group(1) or match.group(2)
            if any(phrase in name.replace("_", "").lower() for phrase in IN_NAMES):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{line}: the test {name}: say who does what (scripts/wording.py)"


def findings():
    for path in tracked_files():
        if not SKIPPED.search(path):
            yield from findings_in(path, read(path))
    for path, phrase in EXCEPTIONS:
        if path not in tracked_files() or not re.search(BETWEEN.join(phrase.split()), read(path), re.I):
            yield f"scripts/wording.py: {path} needs no exception for \"{phrase}\" any more"
