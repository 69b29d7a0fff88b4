"""Find effects of a policy that its text does not show, before it is applied."""
