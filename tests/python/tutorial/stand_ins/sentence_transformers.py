"""sentence-transformers' class on flow_serve's encoder, which takes the same arguments."""

from flow_serve import SentenceEncoder


class SentenceTransformer(SentenceEncoder):
    def __init__(self, name, device="cpu"):
        super().__init__(f"sentence-transformers/{name}", device=device)

    def to(self, device):
        return self
