"""Models as compositions of latents, their bound and their predictions."""
