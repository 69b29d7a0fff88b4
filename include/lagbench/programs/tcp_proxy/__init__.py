"""The broker proxy: it carries the consumers' connections and disturbs them on request."""
