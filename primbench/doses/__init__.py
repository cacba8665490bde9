"""What would make a captured step slower, and by how much: doses of harm, and places predicted by them."""
