"""What an intruder knows (A), knows of the synthesis (S), guesses (y*) and believes beforehand."""
