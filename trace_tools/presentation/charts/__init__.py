"""Draw measurements as SVG: time, memory, rooflines, samples, storages."""
