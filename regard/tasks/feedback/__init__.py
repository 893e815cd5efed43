"""What learning to please is made of: pairs of answers and their losses, answers drawn, and what they are worth."""
