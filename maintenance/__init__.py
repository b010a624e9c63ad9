"""The rewrite path: scheduled work that makes memories fewer, truer and better."""
