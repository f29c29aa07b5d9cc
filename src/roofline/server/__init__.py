"""The live page over HTTP on this machine, and what needs Python: a config.json, a Hub id, an answer as JSON."""
