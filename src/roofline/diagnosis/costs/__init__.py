"""What a measured kernel demands, from the shapes that its operator recorded: one function an operator family."""
