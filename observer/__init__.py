"""The write path: session transcripts become lines, batches and observations."""
