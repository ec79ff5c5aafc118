"""What papers print, need and claim: tables, figures and published numbers as data."""
