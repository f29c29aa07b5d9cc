"""From the keys of a config.json to parts: layer patterns, attention, experts, the decoder around them."""
