"""Figures: the plots and drawings of a lecture as SVG, what was measured as bars."""
