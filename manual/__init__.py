"""The manual: `python -m manual` builds it from the pages of docs/, and from the definitions themselves."""
