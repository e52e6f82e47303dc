"""How far draws keep a rule."""
