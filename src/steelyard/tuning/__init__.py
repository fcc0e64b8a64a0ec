"""The tuning stack: facts of every layer, rules that judge them, plans and how they are applied."""
