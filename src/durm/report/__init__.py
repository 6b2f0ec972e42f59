"""What a study says, for people: sentences, tables, figures, the page."""
