"""What learning to please is made of: pairs of answers and their losses, answers that are drawn, what they are worth."""
