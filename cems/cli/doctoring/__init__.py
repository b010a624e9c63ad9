"""What `cems doctor` looks at: one file a subject, each check a function that gives findings. A check changes nothing; what
can be mended safely carries its remedy, which only `--fix` applies."""
