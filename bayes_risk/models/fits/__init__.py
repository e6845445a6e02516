"""What every fit shares: synthesis from draws, sampling in parallel, progress."""
