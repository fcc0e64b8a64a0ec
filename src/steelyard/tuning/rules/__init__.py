"""The rules of the stack: what must hold within a layer and between layers."""
