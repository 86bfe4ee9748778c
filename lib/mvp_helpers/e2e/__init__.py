"""The end-to-end procedures: one engine, a description each in ``templates/e2e/``. Uses the core, which never imports it."""
