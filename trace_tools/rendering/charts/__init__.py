"""What a trace measured → figures as SVG: time, memory, rooflines, samples, storages."""
