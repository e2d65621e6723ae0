"""The documentation: the site builds, links lead somewhere, code blocks are right, the reference is complete."""
