"""Training an embedder on many retrieval tasks at once: mixture, Modality Pyramid, losses, hard negatives, trainer."""
