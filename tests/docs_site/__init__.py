"""The documentation: the site builds, its links lead somewhere, its code blocks are right, its reference is complete."""
