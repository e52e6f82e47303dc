"""The language of rules: expressions, grammar, and errors in words."""
