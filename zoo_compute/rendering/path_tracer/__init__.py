"""The renderer: a torch module like a submitter's own, loaded where a job is traced and never by what a client imports."""
