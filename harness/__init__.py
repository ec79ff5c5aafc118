"""A harness to reproduce, compare and extend multimodal sentence embeddings."""

__version__ = "0.1.0"
