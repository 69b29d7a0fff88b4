"""Say who held which partition when, and what ended it: the rules of the accounting."""
