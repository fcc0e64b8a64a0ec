"""From a design to files that are ready to use. Pure: text in, text out."""
