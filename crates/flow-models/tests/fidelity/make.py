"""Creates texts.jsonl and vectors.f32: texts that are hard to encode correctly, and their vectors from sentence-transformers.

    python make.py MODEL_FOLDER          writes both files beside this script

Needs sentence-transformers. The committed files come from sentence-transformers 6.2.0, transformers 5.23.0,
tokenizers 0.23.3 and torch 2.15.0 in fp32 on a CPU, with the model all-MiniLM-L6-v2. Each text is encoded on
its own, so that no vector depends on padding. The vectors are stored one after the other as little-endian fp32.
"""
import json
import pathlib
import random
import sys

import torch
from sentence_transformers import SentenceTransformer

HERE = pathlib.Path(__file__).parent
WORDS = """time year people way day man thing woman life child world school state family student group country
problem hand part place case week company system program question work government number night point home water
room mother area money story fact month lot right study book eye job word business issue side kind head house""".split()


def words(count: int, seed: int) -> str:
    """Returns `count` words of one token each."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(count))


def texts() -> list[str]:
    plain = [
        "", " ", "\n", "a", "A", "1", ".", "?!", "hello world", "Hello, World!", "HELLO WORLD",
        "Using a GPU allows you to significantly speed up encoding.",
        "The quick brown fox jumps over the lazy dog.",
        "it's don't won't o'clock rock'n'roll", "e-mail: someone@example.com, see https://example.com/a?b=c#d",
        "3.14159 1,000,000 1e-9 0x1F $19.99 50%", "a/b\\c|d_e~f^g`h", "((nested [brackets] {here}))",
        "def f(x):\n\treturn x ** 2  # a comment\n", "<p class=\"x\">&amp; html</p>", "{\"json\": [1, 2, null]}",
        "tabs\tand\nnewlines\r\nand  many   spaces", "   leading and trailing   ",
    ]
    scripts = [
        "안녕하세요 세계", "한국어 문장을 벡터로 바꾸는 것은 재미있습니다.", "مرحبا بالعالم",
        "تُسْتَخْدَمُ الحَرَكَاتُ فِي العَرَبِيَّةِ", "שלום עולם", "你好,世界", "向量检索系统可以处理大量的文本。",
        "こんにちは世界", "カタカナとひらがなと漢字", "Привет, мир", "Γειά σου Κόσμε", "สวัสดีชาวโลก", "नमस्ते दुनिया",
        "Xin chào thế giới", "Zażółć gęślą jaźń", "naïve café résumé Ångström", "STRASSE straße İstanbul ıI",
        "ﬁ ligature ½ ² ℃ Ⅷ", "Ｆｕｌｌｗｉｄｔｈ　ｔｅｘｔ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛", "cafe\u0301 e\u0301 decomposed", "mixed русский and 中文 text",
    ]
    odd = [
        "😀", "👩‍👩‍👧‍👦 family and 🏳️‍🌈 flag", "I ❤️ vectors 🚀🚀🚀", "zero\u200bwidth\u200cspace\u200djoiner",
        "\u200b", "\ufeffbyte order mark", "soft\u00adhyphen", "no\u00a0break\u2009thin\u3000wide",
        "control\u0000\u0001\u0007\u001b characters\u007f", "\u0000", "replacement \ufffd character", "\u202eright to left\u202c",
        "private \ue000 use", "[CLS]", "[CLS] inside [SEP] a text [PAD] [MASK] [UNK]", "[cls] in lower case [sep]",
        "##ing ##ed", "[unused1]", "a" * 99, "a" * 100, "a" * 101, "x" * 1000, "supercalifragilisticexpialidocious",
        "pneumonoultramicroscopicsilicovolcanoconiosis", "." * 300, "- " * 200, "💥" * 50, "ö" * 120, "ab " * 60,
    ]
    # Lengths in tokens, including the two special ones. The model reads 256.
    lengths = [words(tokens - 2, tokens) for tokens in (3, 8, 16, 64, 127, 128, 129, 254, 255, 256, 257, 258, 300, 512, 513)]
    return plain + scripts + odd + lengths + [words(2000, 1), "문장 " * 400, "mixed 中文 " * 150]


def main() -> None:
    model = SentenceTransformer(sys.argv[1], device="cpu")
    assert next(model.parameters()).dtype == torch.float32
    all_texts = texts()
    vectors = [model.encode(text, convert_to_numpy=True, normalize_embeddings=False) for text in all_texts]
    with open(HERE / "texts.jsonl", "w", encoding="utf-8") as lines:
        for text in all_texts:
            lines.write(json.dumps({"text": text}, ensure_ascii=True) + "\n")
    with open(HERE / "vectors.f32", "wb") as file:
        for vector in vectors:
            file.write(vector.astype("<f4").tobytes())
    print(len(all_texts), "texts of", len(set(all_texts)), "kinds")


main()
