"""Two traces → their `Difference` (`between`), many → a comparison (`compare`); reports of both."""
